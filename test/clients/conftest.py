"""Where the server under test is, and where the sample photos are."""

import os
from pathlib import Path

import pytest
from triton_wire import Grpc, Http


@pytest.fixture(scope="session")
def url():
    return os.environ["MILLRACE_TEST_URL"]


@pytest.fixture(scope="session")
def http_address(url):
    return url.removeprefix("http://")


@pytest.fixture(scope="session")
def grpc_address():
    return os.environ["MILLRACE_TEST_GRPC"]


@pytest.fixture(params=[Http, Grpc], ids=["http", "grpc"])
def wire(request):
    """The test runs once over HTTP and once over gRPC."""
    wire = request.param(request.getfixturevalue(f"{request.param.name}_address"))
    yield wire
    wire.client.close()


@pytest.fixture
def grpc(grpc_address):
    wire = Grpc(grpc_address)
    yield wire.client
    wire.client.close()


@pytest.fixture(scope="session")
def photos():
    return Path(__file__).resolve().parents[2] / "examples" / "photos"
