"""Where the server under test is, and where the sample photos are."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def url():
    return os.environ["MILLRACE_TEST_URL"]


@pytest.fixture(scope="session")
def photos():
    return Path(__file__).resolve().parents[2] / "examples" / "photos"
