"""What Triton's public example clients do, over both protocols: the same calls on models of the same names."""

import queue

import grpc as grpc_library
import numpy
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from triton_wire import WAIT_SECONDS, check_sums, inputs, outputs, summands
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor

# ---------------------------------------------------------------- what there is


def test_health_and_metadata(wire):
    """With headers that mean nothing to the server."""
    client = wire.client
    extra = {"headers": {"test": "1", "dummy": "2"}}
    assert client.is_server_live(**extra)
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert wire.plain(client.get_server_metadata())["name"]
    assert wire.plain(client.get_model_metadata("simple", **extra))["name"] == "simple"
    config = wire.plain(client.get_model_config("simple"))
    assert config.get("config", config)["name"] == "simple"


def test_query_parameters_change_nothing(http_address):
    with triton_http.InferenceServerClient(http_address) as client:
        assert client.is_server_live(query_params={"test_1": 1, "test_2": 2})
        assert client.get_model_metadata("simple", query_params={"test_1": 1})["name"] == "simple"


def test_an_unknown_model_is_named_as_such(wire):
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
        wire.client.get_model_metadata("wrong_model_name")


def test_the_index_lists_every_model(wire):
    index = wire.plain(wire.client.get_model_repository_index())
    rows = index["models"] if wire.name == "grpc" else index
    assert {"simple", "simple_string", "simple_int8", "simple_identity"} <= {row["name"] for row in rows}


# ---------------------------------------------------------------- inference


def compression(wire):
    if wire.name == "grpc":
        return {"compression_algorithm": "gzip"}
    return {"request_compression_algorithm": "gzip", "response_compression_algorithm": "deflate"}


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_infer(wire, compressed):
    """With the outputs named and unnamed, a header of its own, and the statistics afterwards."""
    options = compression(wire) if compressed else {}
    arrays = summands()
    named = outputs(wire.module, "OUTPUT0", "OUTPUT1")
    result = wire.client.infer("simple", inputs(wire.module, arrays), outputs=named, headers={"test": "1"}, **options)
    check_sums(result, arrays)
    check_sums(wire.client.infer("simple", inputs(wire.module, arrays), outputs=None, **options), arrays)
    statistics = wire.plain(wire.client.get_inference_statistics(model_name="simple"))
    assert len(statistics["model_stats"]) == 1


def test_async_infer(wire):
    arrays = [summands(rows) for rows in (1, 2, 3, 4)]
    waits = [wire.async_infer("simple", inputs(wire.module, each), request_id=str(i)) for i, each in enumerate(arrays)]
    for index, wait in enumerate(waits):
        result = wait()
        check_sums(result, arrays[index])
        answer = result.get_response()
        assert (answer["id"] if wire.name == "http" else answer.id) == str(index)


def decimals(array):
    return numpy.array([str(number).encode() for number in array.reshape(-1)], object).reshape(array.shape)


def test_strings(wire):
    """Decimal numbers as texts: their sums and differences."""
    numbers = summands()
    result = wire.client.infer("simple_string", inputs(wire.module, {k: decimals(v) for k, v in numbers.items()}))
    a, b = numbers["INPUT0"], numbers["INPUT1"]
    for name, wanted in (("OUTPUT0", a + b), ("OUTPUT1", a - b)):
        assert [int(text) for text in result.as_numpy(name).reshape(-1)] == wanted.reshape(-1).tolist()


def test_strings_with_a_nul_byte(wire):
    texts = numpy.array([[b"he\x00llo", b"\x00", b"", b"\xff\xfe", "Mühle".encode()]], object)
    result = wire.client.infer("simple_identity", inputs(wire.module, {"INPUT0": texts}))
    assert list(result.as_numpy("OUTPUT0")[0]) == list(texts[0])


# ---------------------------------------------------------------- gRPC by hand


@pytest.fixture
def stub(grpc_address):
    with grpc_library.insecure_channel(grpc_address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def explicit_request(model, datatype, field, values):
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, numbers in values.items():
        tensor = request.inputs.add(name=name, datatype=datatype, shape=[1, 16])
        getattr(tensor.contents, field).extend(numbers)
    request.outputs.add(name="OUTPUT0")
    request.outputs.add(name="OUTPUT1")
    return request


@pytest.mark.parametrize("model, datatype, dtype", [("simple", "INT32", "<i4"), ("simple_int8", "INT8", "<i1")])
def test_explicit_numbers(stub, model, datatype, dtype):
    """Numbers in the message itself rather than as raw bytes; the answer is raw."""
    request = explicit_request(model, datatype, "int_contents", {"INPUT0": range(16), "INPUT1": [1] * 16})
    answer = stub.ModelInfer(request)
    sums, differences = (numpy.frombuffer(raw, dtype) for raw in answer.raw_output_contents)
    assert sums.tolist() == [i + 1 for i in range(16)]
    assert differences.tolist() == [i - 1 for i in range(16)]


def test_explicit_texts(stub):
    texts = {"INPUT0": [str(i).encode() for i in range(16)], "INPUT1": [b"1"] * 16}
    answer = stub.ModelInfer(explicit_request("simple_string", "BYTES", "bytes_contents", texts))
    sums, differences = (deserialize_bytes_tensor(raw) for raw in answer.raw_output_contents)
    assert [int(text) for text in sums] == [i + 1 for i in range(16)]
    assert [int(text) for text in differences] == [i - 1 for i in range(16)]


def test_every_call_by_hand(stub):
    assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
    assert stub.ModelReady(service_pb2.ModelReadyRequest(name="simple", version="")).ready
    assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).extensions
    about = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="simple"))
    assert [tensor.name for tensor in about.inputs] == ["INPUT0", "INPUT1"]
    assert stub.ModelConfig(service_pb2.ModelConfigRequest(name="simple")).config.max_batch_size == 8
    request = service_pb2.ModelInferRequest(model_name="numbers", id="my request id")
    request.inputs.add(name="INPUT0", datatype="FP32", shape=[4])
    request.raw_input_contents.append(numpy.arange(4, dtype="<f4").tobytes())
    answer = stub.ModelInfer(request)
    assert (answer.id, answer.model_name, answer.model_version) == ("my request id", "numbers", "1")
    assert answer.raw_output_contents[0] == request.raw_input_contents[0]


KEEPALIVE = triton_grpc.KeepAliveOptions(
    keepalive_time_ms=2**31 - 1,
    keepalive_timeout_ms=20000,
    keepalive_permit_without_calls=False,
    http2_max_pings_without_data=2,
)
CHANNEL_ARGUMENTS = [
    ("grpc.max_send_message_length", 1024 * 1024),
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.keepalive_time_ms", 2**31 - 1),
    ("grpc.keepalive_timeout_ms", 20000),
    ("grpc.keepalive_permit_without_calls", False),
    ("grpc.http2.max_pings_without_data", 2),
]


@pytest.mark.parametrize(
    "options",
    [{"keepalive_options": KEEPALIVE}, {"channel_args": CHANNEL_ARGUMENTS}],
    ids=["keepalive", "channel arguments"],
)
def test_options_of_the_channel(grpc_address, options):
    arrays = summands()
    with triton_grpc.InferenceServerClient(grpc_address, **options) as client:
        check_sums(client.infer("simple", inputs(triton_grpc, arrays), headers={"test": "1"}), arrays)


# ---------------------------------------------------------------- streams


def test_a_stream_answers_in_order(grpc):
    answers = queue.Queue()
    grpc.start_stream(callback=lambda result, error: answers.put((result, error)))
    arrays = [summands(1 + i % 8) for i in range(24)]
    for index, each in enumerate(arrays):
        grpc.async_stream_infer("simple", inputs(triton_grpc, each), request_id=str(index))
    for index, each in enumerate(arrays):
        result, error = answers.get(timeout=WAIT_SECONDS)
        assert error is None
        assert result.get_response().id == str(index)
        check_sums(result, each)
    grpc.stop_stream()


def test_a_stream_goes_on_after_an_error(grpc):
    answers = queue.Queue()
    grpc.start_stream(callback=lambda result, error: answers.put((result, error)))
    arrays = summands()
    grpc.async_stream_infer("simple", inputs(triton_grpc, arrays))
    grpc.async_stream_infer("wrong_model_name", inputs(triton_grpc, arrays))
    grpc.async_stream_infer("simple", inputs(triton_grpc, arrays))
    first, second, third = (answers.get(timeout=WAIT_SECONDS) for _ in range(3))
    check_sums(first[0], arrays)
    assert "wrong_model_name" in second[1].message()
    check_sums(third[0], arrays)
    grpc.stop_stream()


def test_classes_through_a_stream(grpc):
    """As the image client asks for them: batch, labels, streaming."""
    answers = queue.Queue()
    grpc.start_stream(callback=lambda result, error: answers.put((result, error)))
    wanted = outputs(triton_grpc, "OUTPUT0", class_count=2)
    grpc.async_stream_infer("simple", inputs(triton_grpc, summands(2)), outputs=wanted)
    result, error = answers.get(timeout=WAIT_SECONDS)
    assert error is None
    best = [entry.decode() for entry in result.as_numpy("OUTPUT0")[1]]
    assert [entry.split(":")[1:] for entry in best] == [["15", "label15"], ["14", "label14"]]
    grpc.stop_stream()


# ---------------------------------------------------------------- asyncio


@pytest.mark.asyncio
async def test_asyncio_over_http(http_address):
    arrays = summands()
    async with triton_http_aio.InferenceServerClient(http_address) as client:
        assert await client.is_model_ready("simple")
        named = outputs(triton_http_aio, "OUTPUT0", "OUTPUT1", binary_data=True)
        for algorithm in (None, "gzip", "deflate"):
            options = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
            result = await client.infer("simple", inputs(triton_http_aio, arrays), outputs=named, **options)
            check_sums(result, arrays)
        assert len((await client.get_inference_statistics("simple"))["model_stats"]) == 1


@pytest.mark.asyncio
async def test_asyncio_over_grpc(grpc_address):
    arrays = summands()
    async with triton_grpc_aio.InferenceServerClient(grpc_address) as client:
        assert await client.is_model_ready("simple")
        named = outputs(triton_grpc_aio, "OUTPUT0", "OUTPUT1")
        check_sums(await client.infer("simple", inputs(triton_grpc_aio, arrays), outputs=named), arrays)
        assert len((await client.get_inference_statistics("simple")).model_stats) == 1


@pytest.mark.asyncio
async def test_an_asyncio_stream(grpc_address):
    async def requests():
        for rows in range(1, 9):
            yield {"model_name": "simple", "inputs": inputs(triton_grpc_aio, summands(rows)), "request_id": str(rows)}

    async with triton_grpc_aio.InferenceServerClient(grpc_address) as client:
        rows = 0
        async for result, error in client.stream_infer(inputs_iterator=requests()):
            assert error is None
            rows += 1
            assert result.get_response().id == str(rows)
            check_sums(result, summands(rows))
        assert rows == 8
