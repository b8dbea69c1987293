"""What Triton's public sequence examples do, over HTTP, gRPC and a gRPC stream, and models that keep a sum for each sequence."""

import itertools
import queue

import numpy
import pytest
import tritonclient.grpc as triton_grpc
from triton_wire import WAIT_SECONDS, inputs
from tritonclient.utils import InferenceServerException

VALUES = [11, 7, 5, 3, 2, 0, 1]
FRESH = itertools.count(1000)


@pytest.fixture
def fresh():
    """A sequence id that no other test has."""
    return lambda: next(FRESH)


def number(value, dtype=numpy.int32):
    return numpy.full((1, 1), value, dtype)


def step(wire, model, sequence, value, start=False, end=False, tensors=("INPUT", "OUTPUT"), dtype=numpy.int32):
    given = inputs(wire.module, {tensors[0]: number(value, dtype)})
    options = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
    return wire.client.infer(model, given, **options).as_numpy(tensors[1])[0][0]


def add(wire, sequence, value, **flags):
    return step(wire, "sequence_sum", sequence, value, tensors=("x", "y"), dtype=numpy.float32, **flags)


def send_all(wire, model, sequence, values):
    """One whole sequence, as the examples send it: the first value of all is the START's own."""
    last = len(values) - 1
    return [step(wire, model, sequence, v, start=i == 0, end=i == last) for i, v in enumerate(values)]


def test_the_simple_example(wire, fresh):
    assert send_all(wire, "simple_sequence", fresh(), [0, *VALUES]) == [1, *VALUES]
    assert send_all(wire, "simple_sequence", fresh(), [100, *(-v for v in VALUES)]) == [101, *(-v for v in VALUES)]


def test_the_example_that_is_told_its_id(wire, fresh):
    sequence = fresh()
    assert send_all(wire, "simple_dyna_sequence", sequence, [0, *VALUES]) == [1, *VALUES[:-1], 1 + sequence]
    assert send_all(wire, "simple_string_dyna_sequence", str(sequence), [0, 5]) == [1, 5 + sequence]


def test_a_stream_of_two_sequences_by_turns(grpc, fresh):
    """Sent without waiting for answers; each sequence is answered in its order."""
    answers = queue.Queue()
    grpc.start_stream(callback=lambda result, error: answers.put((result, error)))
    sequences = {fresh(): [0, *VALUES], fresh(): [100, *(-v for v in VALUES)]}
    count = len(VALUES) + 1
    for i in range(count):
        for sequence, values in sequences.items():
            grpc.async_stream_infer(
                "simple_sequence",
                inputs(triton_grpc, {"INPUT": number(values[i])}),
                request_id=f"{sequence}_{i}",
                sequence_id=sequence,
                sequence_start=i == 0,
                sequence_end=i == count - 1,
            )
    got = {}
    for _ in range(count * len(sequences)):
        result, error = answers.get(timeout=WAIT_SECONDS)
        assert error is None
        sequence, i = result.get_response().id.split("_")
        got.setdefault(int(sequence), []).append((int(i), result.as_numpy("OUTPUT")[0][0]))
    grpc.stop_stream()
    for sequence, values in sequences.items():
        assert got[sequence] == [(i, v + (i == 0)) for i, v in enumerate(values)]


def test_a_long_stream_keeps_its_sum(grpc, fresh):
    answers = queue.Queue()
    grpc.start_stream(callback=lambda result, error: answers.put((result, error)))
    sequence, count = fresh(), 60
    for i in range(count):
        x = inputs(triton_grpc, {"x": number(i + 1, numpy.float32)})
        flags = {"sequence_start": i == 0, "sequence_end": i == count - 1}
        grpc.async_stream_infer("sequence_sum", x, sequence_id=sequence, **flags)
    for i in range(count):
        result, error = answers.get(timeout=WAIT_SECONDS)
        assert error is None
        assert result.as_numpy("y")[0][0] == (i + 1) * (i + 2) / 2
    grpc.stop_stream()


@pytest.mark.parametrize("kind", [int, str], ids=["numbers", "texts"])
def test_each_sequence_has_its_own_sum(wire, fresh, kind):
    sequences = [kind(fresh()) for _ in range(4)]
    for factor, sequence in enumerate(sequences, 1):
        assert add(wire, sequence, factor, start=True) == factor
    for factor, sequence in enumerate(sequences, 1):
        assert add(wire, sequence, factor) == 2 * factor
    for factor, sequence in enumerate(sequences, 1):
        assert add(wire, sequence, factor, end=True) == 3 * factor


def test_a_number_and_a_text_are_two_sequences(wire, fresh):
    sequence = fresh()
    add(wire, sequence, 1, start=True)
    add(wire, str(sequence), 100, start=True)
    assert add(wire, sequence, 1, end=True) == 2
    assert add(wire, str(sequence), 1, end=True) == 101


def test_ids_that_differ_in_the_last_of_63_bits(wire):
    low, high = 2**63 - 2, 2**63 - 1
    add(wire, low, 1, start=True)
    add(wire, high, 10, start=True)
    assert add(wire, low, 1, end=True) == 2
    assert add(wire, high, 1, end=True) == 11


def test_another_start_begins_anew(wire, fresh):
    sequence = fresh()
    add(wire, sequence, 1, start=True)
    add(wire, sequence, 1)
    assert add(wire, sequence, 5, start=True) == 5
    assert add(wire, sequence, 1, end=True) == 6


def test_what_is_refused(wire, fresh):
    sequence = fresh()
    with pytest.raises(InferenceServerException, match="must specify the START flag on the first request of the sequence"):
        add(wire, sequence, 1)
    with pytest.raises(InferenceServerException, match="must specify a non-zero or non-empty correlation ID"):
        wire.client.infer("sequence_sum", inputs(wire.module, {"x": number(1, numpy.float32)}))
    two_rows = inputs(wire.module, {"x": numpy.ones((2, 1), numpy.float32)})
    with pytest.raises(InferenceServerException, match="batch-size must be <= 1"):
        wire.client.infer("sequence_sum", two_rows, sequence_id=sequence, sequence_start=True)
    add(wire, sequence, 1, start=True, end=True)
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        add(wire, sequence, 1)


def test_what_clients_see_of_the_model(wire):
    about = wire.plain(wire.client.get_model_metadata("simple_dyna_sequence"))
    assert [tensor["name"] for tensor in about["inputs"]] == ["INPUT"]
    config = wire.plain(wire.client.get_model_config("simple_dyna_sequence"))
    batching = config.get("config", config)["sequence_batching"]
    assert int(batching["oldest"]["max_candidate_sequences"]) == 4
    assert int(batching["max_sequence_idle_microseconds"]) == 5000000
    assert "sequence" in wire.plain(wire.client.get_server_metadata())["extensions"]
