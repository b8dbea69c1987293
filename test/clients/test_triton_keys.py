"""tritonclient with the key of a tenant, as users of other services send it."""

import os

import numpy
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

KEY = os.environ["MILLRACE_TEST_KEY"]


@pytest.fixture
def headers(request):
    """A copy: the HTTP client adds to what it is given."""
    return request.param and dict(request.param)


@pytest.fixture(params=["http", "grpc"])
def protocol(request, http_address, grpc_address):
    module = getattr(tritonclient, request.param)
    client = module.InferenceServerClient(http_address if request.param == "http" else grpc_address)
    yield module, client
    client.close()


def infer(protocol, headers):
    module, client = protocol
    pixels = module.InferInput("pixels", [1, 64], "FP32")
    pixels.set_data_from_numpy(numpy.zeros((1, 64), dtype=numpy.float32))
    return client.infer("digits_mlp", [pixels], headers=headers).as_numpy("probabilities")


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}], indirect=True)
def test_a_key_opens_what_its_tenant_may_use(protocol, headers):
    _, client = protocol
    assert infer(protocol, headers).shape == (1, 10)
    assert client.get_model_metadata("digits_mlp", headers=headers)
    with pytest.raises(InferenceServerException, match="does not open model 'minilm'"):
        client.get_model_metadata("minilm", headers=headers)


@pytest.mark.parametrize("headers", [None, {"authorization": "Bearer wrong"}, {"authorization": KEY}], indirect=True)
def test_without_it_nothing_is_answered_but_health(protocol, headers):
    _, client = protocol
    assert client.is_server_live(headers=headers)
    with pytest.raises(InferenceServerException, match="API key"):
        infer(protocol, headers)
