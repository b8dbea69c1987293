"""The same calls over HTTP and over gRPC, for tests that must hold for both."""

import queue

import numpy
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import np_to_triton_dtype

WAIT_SECONDS = 60


class Http:
    name = "http"
    module = triton_http

    def __init__(self, address):
        self.client = triton_http.InferenceServerClient(address, concurrency=8)

    def async_infer(self, *args, **options):
        """A function that waits for the result."""
        return self.client.async_infer(*args, **options).get_result

    def plain(self, message):
        return message


class Grpc:
    name = "grpc"
    module = triton_grpc

    def __init__(self, address):
        self.client = triton_grpc.InferenceServerClient(address)

    def async_infer(self, *args, **options):
        """A function that waits for the result."""
        done = queue.Queue()
        self.client.async_infer(*args, callback=lambda result, error: done.put((result, error)), **options)

        def result():
            answer, error = done.get(timeout=WAIT_SECONDS)
            if error is not None:
                raise error
            return answer

        return result

    def plain(self, message):
        """A message as HTTP would answer it."""
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(message, preserving_proto_field_name=True)


def inputs(module, arrays):
    """InferInputs of any of the client modules."""
    tensors = []
    for name, array in arrays.items():
        tensor = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


def outputs(module, *names, **options):
    return [module.InferRequestedOutput(name, **options) for name in names]


def summands(rows=1, dtype=numpy.int32):
    """0 to 15 and ones, as Triton's examples have them."""
    return {
        "INPUT0": numpy.tile(numpy.arange(16), (rows, 1)).astype(dtype),
        "INPUT1": numpy.ones((rows, 16), dtype),
    }


def check_sums(result, arrays):
    """The outputs are the sum and the difference of the inputs."""
    a, b = arrays["INPUT0"], arrays["INPUT1"]
    numpy.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    numpy.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
