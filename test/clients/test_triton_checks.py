"""What Triton's public checks of HTTP, gRPC and inference (L0_http, L0_grpc, L0_infer and others) ask of an ONNX server on a
CPU, written anew. Where Triton calls a client's mistake an internal error, the status here is 400."""

import json
import queue
import socket

import numpy
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from triton_wire import WAIT_SECONDS, check_sums, inputs, outputs, summands
from tritonclient.utils import InferenceServerException

HEADER_LENGTH = "Inference-Header-Content-Length"


def post(url, model, body, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    data = json.dumps(body) if isinstance(body, dict) else body
    return requests.post(f"{url}/v2/models/{model}/infer", data=data, headers=headers, timeout=WAIT_SECONDS)


def raw(url, model, body, **headers):
    return post(url, model, body, **{HEADER_LENGTH: "0"}, **headers)


# ---------------------------------------------------------------- raw requests


@pytest.mark.parametrize("count", [8, 32])
def test_a_raw_request(url, count):
    content = numpy.arange(count, dtype="<f4").tobytes()
    answer = raw(url, "numbers", content)
    assert answer.status_code == 200
    assert answer.content[int(answer.headers[HEADER_LENGTH]) :] == content


def test_a_raw_request_in_chunks(url):
    content = numpy.arange(8, dtype="<f4").tobytes()
    answer = raw(url, "numbers", iter([content[:5], content[5:]]))
    assert answer.content[int(answer.headers[HEADER_LENGTH]) :] == content


def test_a_raw_request_in_a_great_many_chunks(url):
    content = numpy.arange(4096, dtype="<f4").tobytes()
    answer = raw(url, "numbers", (bytes([byte]) for byte in content))
    assert answer.content[int(answer.headers[HEADER_LENGTH]) :] == content


def test_a_raw_text(url):
    answer = raw(url, "one_text", b"427")
    assert answer.content[int(answer.headers[HEADER_LENGTH]) :] == b"\x03\x00\x00\x00427"


@pytest.mark.parametrize("model", ["table", "three"], ids=["two free dimensions", "three inputs"])
def test_a_raw_request_that_says_too_little(url, model):
    answer = raw(url, model, b"\x00" * 96)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


# ---------------------------------------------------------------- JSON and its outputs

ARRAYS = {name: array.reshape(-1).tolist() for name, array in summands().items()}


def simple_body(**more):
    tensors = [{"name": k, "datatype": "INT32", "shape": [1, 16], "data": v} for k, v in ARRAYS.items()]
    return {"inputs": tensors, **more}


@pytest.mark.parametrize(
    "more, in_json",
    [
        ({}, ["OUTPUT0", "OUTPUT1"]),
        ({"outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]}, ["OUTPUT1"]),
        ({"parameters": {"binary_data_output": True}}, []),
        (
            {
                "parameters": {"binary_data_output": True},
                "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": False}}, {"name": "OUTPUT1"}],
            },
            ["OUTPUT0"],
        ),
    ],
    ids=["nothing said", "one binary", "all binary", "all binary but one"],
)
def test_which_outputs_are_binary(url, more, in_json):
    answer = post(url, "simple", simple_body(**more))
    assert answer.status_code == 200
    size = int(answer.headers.get(HEADER_LENGTH, len(answer.content)))
    rows = {row["name"]: row for row in json.loads(answer.content[:size])["outputs"]}
    shown = {name for name, row in rows.items() if "data" in row}
    assert set(in_json) <= shown
    if "OUTPUT0" in shown:
        assert rows["OUTPUT0"]["data"] == [i + 1 for i in range(16)]
    if more.get("outputs") is None:
        assert shown == set(in_json)


@pytest.mark.parametrize("count", [15, 18], ids=["too few", "too many"])
def test_data_that_does_not_fit_its_shape(url, count):
    body = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": list(range(count))}]}
    answer = post(url, "simple", body)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(
    "shape",
    [[2**4, 2**60 + 2], [2**2, 2**60 + 2], [2, -5], [2**62, 2**62], [1, 2**63]],
    ids=["count overflows", "bytes overflow", "negative", "huge", "beyond 63 bits"],
)
def test_shapes_that_cannot_be(url, shape):
    answer = post(url, "numbers", {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": shape, "data": [1.0]}]})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert requests.get(f"{url}/v2/health/ready", timeout=WAIT_SECONDS).status_code == 200


# ---------------------------------------------------------------- sums in every type

MODELS = {
    "simple": numpy.int32,
    "simple_int8": numpy.int8,
    "sums_int16": numpy.int16,
    "sums_int64": numpy.int64,
    "sums_fp16": numpy.float16,
    "sums_fp32": numpy.float32,
    "sums_fp64": numpy.float64,
}


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("model", list(MODELS))
def test_sums(wire, model, rows):
    arrays = summands(rows, MODELS[model])
    check_sums(wire.client.infer(model, inputs(wire.module, arrays)), arrays)
    one = wire.client.infer(model, inputs(wire.module, arrays), outputs=outputs(wire.module, "OUTPUT1"))
    assert one.as_numpy("OUTPUT0") is None
    numpy.testing.assert_array_equal(one.as_numpy("OUTPUT1"), arrays["INPUT0"] - arrays["INPUT1"])


@pytest.mark.parametrize("model", [name for name in MODELS if name != "sums_fp16"])
def test_sums_in_json(http_address, model):
    arrays = summands(3, MODELS[model])
    with triton_http.InferenceServerClient(http_address) as client:
        tensors = inputs(triton_http, arrays)
        for tensor, array in zip(tensors, arrays.values()):
            tensor.set_data_from_numpy(array, binary_data=False)
        wanted = outputs(triton_http, "OUTPUT0", "OUTPUT1", binary_data=False)
        check_sums(client.infer(model, tensors, outputs=wanted), arrays)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "sums_fp16"])
def test_classes_with_labels(wire, model):
    arrays = summands(2, MODELS[model])
    wanted = outputs(wire.module, "OUTPUT0", "OUTPUT1", class_count=3)
    result = wire.client.infer(model, inputs(wire.module, arrays), outputs=wanted)
    for name, add in (("OUTPUT0", 1), ("OUTPUT1", -1)):
        classes = result.as_numpy(name)
        assert classes.shape == (2, 3)
        for row in classes:
            parts = [entry.decode().split(":") for entry in row]
            assert [float(score) for score, _, _ in parts] == [15 + add, 14 + add, 13 + add]
            assert [part[1:] for part in parts] == [["15", "label15"], ["14", "label14"], ["13", "label13"]]


def test_one_output_as_classes_and_one_as_numbers(wire):
    wanted = outputs(wire.module, "OUTPUT0", class_count=2) + outputs(wire.module, "OUTPUT1")
    result = wire.client.infer("simple", inputs(wire.module, summands()), outputs=wanted)
    assert result.as_numpy("OUTPUT0").shape == (1, 2)
    assert result.as_numpy("OUTPUT1").tolist() == [[i - 1 for i in range(16)]]


def test_classes_of_texts_are_refused(wire):
    texts = {"INPUT0": numpy.array([[b"a", b"b"]], object)}
    wanted = outputs(wire.module, "OUTPUT0", class_count=1)
    with pytest.raises(InferenceServerException, match="BYTES"):
        wire.client.infer("simple_identity", inputs(wire.module, texts), outputs=wanted)


def test_the_same_output_twice_is_refused(wire):
    wanted = outputs(wire.module, "OUTPUT0", "OUTPUT0")
    with pytest.raises(InferenceServerException, match="OUTPUT0"):
        wire.client.infer("simple", inputs(wire.module, summands()), outputs=wanted)
    assert wire.client.is_server_live()


@pytest.mark.parametrize("name", ["OUTPUT2", "OUTPUT00", "OUTPUT", "", "output0"])
def test_an_output_that_is_not_there_is_named(wire, name):
    with pytest.raises(InferenceServerException):
        wire.client.infer("simple", inputs(wire.module, summands()), outputs=outputs(wire.module, name))


# ---------------------------------------------------------------- texts

PROTOBUF = b"\nF\n'\n\x01a\x12\"\x1a \n\x1e\xfa\x03\x94\x01\x0f\xd7\x02\xf1\x05\xdf\x01\x82\x03L\x00\x00\xcb\xbf"


@pytest.mark.parametrize("dtype", [numpy.object_, "|S78"], ids=["objects", "fixed width"])
def test_bytes_that_are_no_text(wire, dtype):
    values = numpy.array([[PROTOBUF, b"plain"]], dtype)
    result = wire.client.infer("simple_identity", inputs(wire.module, {"INPUT0": values}))
    assert list(result.as_numpy("OUTPUT0")[0]) == list(values[0])


@pytest.mark.parametrize("binary_in", [True, False], ids=["binary in", "JSON in"])
@pytest.mark.parametrize("binary_out", [True, False], ids=["binary out", "JSON out"])
def test_numbers_as_texts(http_address, binary_in, binary_out):
    values = numpy.array([[str(number) for number in range(10000, 10008)]], object)
    with triton_http.InferenceServerClient(http_address) as client:
        tensor = triton_http.InferInput("INPUT0", [1, 8], "BYTES")
        tensor.set_data_from_numpy(values, binary_data=binary_in)
        wanted = outputs(triton_http, "OUTPUT0", binary_data=binary_out)
        answer = client.infer("simple_identity", [tensor], outputs=wanted).as_numpy("OUTPUT0")
        assert answer.astype(numpy.bytes_).tolist() == values.astype(numpy.bytes_).tolist()


# ---------------------------------------------------------------- deadlines


def slow(module, units):
    """Units of some 50 ms, one batch at a time."""
    return inputs(module, {"x": numpy.array([[units]], numpy.int64)})


def test_a_deadline_over_grpc(grpc):
    with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
        grpc.infer("slow", slow(triton_grpc, 20), client_timeout=0.2)
    assert grpc.infer("slow", slow(triton_grpc, 1), client_timeout=WAIT_SECONDS).as_numpy("y").tolist() == [[1]]


def test_a_deadline_of_an_asynchronous_request(grpc):
    answers = queue.Queue()
    for units, seconds in ((20, 0.2), (1, WAIT_SECONDS)):
        callback = lambda result, error: answers.put((result, error))
        grpc.async_infer("slow", slow(triton_grpc, units), callback=callback, client_timeout=seconds)
    outcomes = [answers.get(timeout=WAIT_SECONDS) for _ in range(2)]
    assert [error.status() for _, error in outcomes if error] == ["StatusCode.DEADLINE_EXCEEDED"]
    assert [result.as_numpy("y").tolist() for result, _ in outcomes if result] == [[[1]]]


def test_a_deadline_of_a_stream(grpc):
    answers = queue.Queue()
    callback = lambda result, error: answers.put((result, error))
    grpc.start_stream(callback=callback, stream_timeout=0.3)
    grpc.async_stream_infer("slow", slow(triton_grpc, 40))
    _, error = answers.get(timeout=WAIT_SECONDS)
    assert error.status() == "StatusCode.DEADLINE_EXCEEDED"
    grpc.stop_stream()
    grpc.start_stream(callback=callback, stream_timeout=WAIT_SECONDS)
    grpc.async_stream_infer("slow", slow(triton_grpc, 1))
    assert answers.get(timeout=WAIT_SECONDS)[0].as_numpy("y").tolist() == [[1]]
    grpc.stop_stream()


def test_a_client_over_http_that_does_not_wait(http_address):
    with triton_http.InferenceServerClient(http_address, network_timeout=0.2) as client:
        with pytest.raises((socket.timeout, TimeoutError)):
            client.infer("slow", slow(triton_http, 20))
    with triton_http.InferenceServerClient(http_address, network_timeout=WAIT_SECONDS) as client:
        assert client.infer("slow", slow(triton_http, 1)).as_numpy("y").tolist() == [[1]]


# ---------------------------------------------------------------- every call of the clients


def parameters(**values):
    return {"parameters": values}


@pytest.mark.parametrize("values", [{"a": "text", "b": 2}, {"a": 123.123}, {"a": True, "b": "text"}])
def test_parameters_of_a_client_are_accepted(wire, values):
    arrays = summands()
    check_sums(wire.client.infer("simple", inputs(wire.module, arrays), **parameters(**values)), arrays)


def test_loading_is_refused_where_models_are_loaded_at_start(wire):
    for call in (wire.client.load_model, wire.client.unload_model):
        with pytest.raises(InferenceServerException) as refusal:
            call("simple")
        assert str(refusal.value.status()) in ("503", "StatusCode.UNAVAILABLE")
        assert "explicit model load / unload is not allowed" in refusal.value.message()


@pytest.fixture(params=["http", "grpc"])
def asyncio_client(request, http_address, grpc_address):
    """Makes the client inside of the test's loop."""
    if request.param == "http":
        return lambda: triton_http_aio.InferenceServerClient(http_address)
    return lambda: triton_grpc_aio.InferenceServerClient(grpc_address)


@pytest.mark.asyncio
async def test_every_question_of_an_asyncio_client(asyncio_client):
    async with asyncio_client() as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("simple")
        assert await client.get_server_metadata()
        assert await client.get_model_metadata("simple")
        assert await client.get_model_config("simple")
        assert await client.get_model_repository_index()
        assert await client.get_inference_statistics()
        assert await client.get_trace_settings()
        assert await client.update_trace_settings() is not None
        await client.get_system_shared_memory_status()
        await client.unregister_system_shared_memory()
        with pytest.raises(InferenceServerException):
            await client.register_system_shared_memory("", "", 0)
        with pytest.raises(InferenceServerException):
            await client.register_cuda_shared_memory("", b"", 0, 0)
