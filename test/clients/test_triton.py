"""tritonclient.http against Millrace, on the example models and on the test's own."""

import json
import math
from pathlib import Path

import numpy
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"


@pytest.fixture
def client(url):
    client = triton.InferenceServerClient(url.removeprefix("http://"), concurrency=8)
    yield client
    client.close()


def infer(client, model, arrays, outputs=None, binary=True, **options):
    inputs = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        inputs.append(tensor)
    wanted = outputs and [triton.InferRequestedOutput(name, binary_data=binary) for name in outputs]
    return client.infer(model, inputs, outputs=wanted, **options)


# ---------------------------------------------------------------- what there is


def test_health(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("minilm")
    assert client.is_model_ready("simple", "1")
    assert not client.is_model_ready("simple", "2")
    assert not client.is_model_ready("nothing")


def test_server_metadata(client):
    about = client.get_server_metadata()
    assert about["name"] == "millrace"
    assert "binary_tensor_data" in about["extensions"]


def test_the_index_lists_every_model(client):
    index = {row["name"]: row for row in client.get_model_repository_index()}
    assert {key: index["minilm"][key] for key in ("name", "version", "state")} == {
        "name": "minilm",
        "version": "1",
        "state": "READY",
    }
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} <= set(index)


def test_model_metadata(client):
    about = client.get_model_metadata("digits_mlp")
    assert about["versions"] == ["1"]
    assert about["platform"] == "onnxruntime_onnx"
    assert about["inputs"] == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}]
    assert {tensor["name"] for tensor in about["outputs"]} == {"label", "probabilities"}


def test_model_configuration(client):
    config = client.get_model_config("simple")
    assert config["max_batch_size"] == 8
    assert config["dynamic_batching"]["preferred_batch_size"] == [8]
    assert [tensor["data_type"] for tensor in config["input"]] == ["TYPE_INT32", "TYPE_INT32"]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_classic_example(client, binary, rows):
    a = numpy.arange(rows * 16, dtype=numpy.int32).reshape(rows, 16)
    b = numpy.full_like(a, 7)
    result = infer(client, "simple", {"INPUT0": a, "INPUT1": b}, binary=binary, request_id="some id")
    numpy.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    numpy.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
    answer = result.get_response()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("simple", "1", "some id")


NUMBERS = {
    "id_bool": numpy.array([[True, False, True]]),
    "id_i8": numpy.array([[-128, 0, 127]], numpy.int8),
    "id_i16": numpy.array([[-32768, 0, 32767]], numpy.int16),
    "id_i32": numpy.array([[-(2**31), 0, 2**31 - 1]], numpy.int32),
    "id_i64": numpy.array([[-(2**63), 2**53 + 1, 2**63 - 1]], numpy.int64),
    "id_u8": numpy.array([[0, 1, 255]], numpy.uint8),
    "id_u16": numpy.array([[0, 1, 65535]], numpy.uint16),
    "id_u32": numpy.array([[0, 1, 2**32 - 1]], numpy.uint32),
    "id_u64": numpy.array([[0, 2**53 + 1, 2**64 - 1]], numpy.uint64),
    "id_f32": numpy.array([[1 / 3, -0.0, 3.4e38]], numpy.float32),
    "id_f64": numpy.array([[1 / 3, 1e-300, -1.7e308]], numpy.float64),
}


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
@pytest.mark.parametrize("model", list(NUMBERS))
def test_every_bit_comes_back(client, model, binary):
    values = NUMBERS[model]
    answer = infer(client, model, {"x": values}, outputs=["y"], binary=binary).as_numpy("y")
    assert answer.dtype == values.dtype
    assert answer.tobytes() == values.tobytes()


def test_half_floats_in_the_binary_form(client):
    values = numpy.array([[1, 0.333, -65504, math.inf]], numpy.float16)
    answer = infer(client, "id_f16", {"x": values}, outputs=["y"]).as_numpy("y")
    assert answer.tobytes() == values.tobytes()


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
def test_texts(client, binary):
    values = numpy.array([["water", "", "Mühle", "水車 🎡"]], object)
    answer = infer(client, "id_str", {"x": values}, outputs=["y"], binary=binary).as_numpy("y")
    assert [text.decode() if isinstance(text, bytes) else text for text in answer[0]] == list(values[0])


def test_bytes_that_are_no_text(client):
    values = numpy.array([[b"\xff\x00\xfe", b"\x80" * 300]], object)
    answer = infer(client, "id_str", {"x": values}, outputs=["y"]).as_numpy("y")
    assert list(answer[0]) == list(values[0])


def test_nothing_at_all(client):
    values = numpy.zeros((0, 3), numpy.float32)
    assert infer(client, "id_nobatch", {"x": values}, outputs=["y"]).as_numpy("y").shape == (0, 3)


def test_one_output_of_two(client):
    a = numpy.ones((1, 16), numpy.int32)
    result = infer(client, "simple", {"INPUT0": a, "INPUT1": a}, outputs=["OUTPUT1"])
    assert result.as_numpy("OUTPUT0") is None
    assert not result.as_numpy("OUTPUT1").any()


def test_many_requests_under_way_get_their_own_answers(client):
    pending = []
    for number in range(64):
        tensor = triton.InferInput("x", [1, 3], "FP32")
        tensor.set_data_from_numpy(numpy.full((1, 3), number, numpy.float32))
        pending.append(client.async_infer("rowsum", [tensor]))
    assert [float(request.get_result().as_numpy("y")[0, 0]) for request in pending] == [3.0 * n for n in range(64)]


# ---------------------------------------------------------------- the example models


def test_a_handwritten_digit(client):
    samples = json.loads((Path(__file__).parents[3] / "shared/models/digits_mlp/expected.json").read_text())
    pixels = numpy.array([sample["pixels"] for sample in samples["samples"]], numpy.float32)
    result = infer(client, "digits_mlp", {"pixels": pixels})
    wanted = [sample["predicted_label"] for sample in samples["samples"]]
    assert result.as_numpy("label").reshape(-1).tolist() == wanted
    probabilities = numpy.array([sample["probabilities"] for sample in samples["samples"]])
    tolerance = samples["tolerance"]["probabilities"]
    numpy.testing.assert_allclose(result.as_numpy("probabilities"), probabilities, atol=tolerance)


def test_the_classes_of_a_digit_by_name(client):
    pixels = triton.InferInput("pixels", [1, 64], "FP32")
    pixels.set_data_from_numpy(numpy.zeros((1, 64), numpy.float32))
    wanted = triton.InferRequestedOutput("probabilities", class_count=3)
    classes = client.infer("digits_mlp", [pixels], outputs=[wanted]).as_numpy("probabilities")
    assert classes.shape == (1, 3)
    scores = [float(entry.decode().split(":")[0]) for entry in classes[0]]
    assert scores == sorted(scores, reverse=True)
    labels = (EXAMPLES / "digits_mlp" / "labels.txt").read_text().split("\n")
    for entry in classes[0]:
        _, index, label = entry.decode().split(":")
        assert label == labels[int(index)]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "model, arrays, status, text",
    [
        ("nothing", {"x": numpy.zeros((1, 1), numpy.float32)}, "404", "nothing"),
        ("simple", {"INPUT0": numpy.zeros((1, 16), numpy.int32)}, "400", "INPUT1"),
        ("rowsum", {"z": numpy.zeros((1, 1), numpy.float32)}, "400", "z"),
        ("rowsum", {"x": numpy.zeros((1, 1), numpy.float64)}, "400", "FP64"),
        ("rowsum", {"x": numpy.zeros((9, 1), numpy.float32)}, "400", "8"),
        ("simple", dict.fromkeys(["INPUT0", "INPUT1"], numpy.zeros((1, 15), numpy.int32)), "400", "15"),
    ],
    ids=["unknown model", "missing input", "unknown input", "datatype", "too many rows", "shape"],
)
def test_a_mistake_is_named(client, model, arrays, status, text):
    with pytest.raises(InferenceServerException) as refusal:
        infer(client, model, arrays)
    assert refusal.value.status() == status
    assert text in refusal.value.message()


def test_a_failing_row_fails_alone(client):
    pending = []
    for value in [1, 2, 99, 3]:
        tensor = triton.InferInput("x", [1, 1], "INT64")
        tensor.set_data_from_numpy(numpy.array([[value]], numpy.int64))
        pending.append(client.async_infer("div_int", [tensor]))
    results = []
    for request in pending:
        try:
            results.append(int(request.get_result().as_numpy("y")[0, 0]))
        except InferenceServerException:
            results.append(None)
    assert results == [101, 102, None, 103]
