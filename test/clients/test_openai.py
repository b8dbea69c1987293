"""The official openai client against Millrace: only the base URL changes."""

import base64

import numpy
import openai
import pytest

TEXTS = ["The water turns the wheel.", "The wheel is turned by water.", "My bicycle is blue."]


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="not needed", max_retries=0)


def test_one_text(client):
    answer = client.embeddings.create(model="minilm", input=TEXTS[0])
    assert answer.object == "list"
    assert answer.model == "minilm"
    assert len(answer.data) == 1
    assert len(answer.data[0].embedding) == 384
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_the_default_form_and_floats_are_the_same_vectors(client):
    by_default = client.embeddings.create(model="minilm", input=TEXTS)
    as_floats = client.embeddings.create(model="minilm", input=TEXTS, encoding_format="float")
    assert [entry.index for entry in by_default.data] == [0, 1, 2]
    for one, other in zip(by_default.data, as_floats.data):
        numpy.testing.assert_allclose(one.embedding, other.embedding, atol=1e-6)
    first, second, third = (numpy.array(entry.embedding) for entry in by_default.data)
    assert first @ second > first @ third + 0.3


def test_base64_on_demand(client):
    text = client.embeddings.create(model="minilm", input="x", encoding_format="base64").data[0].embedding
    assert numpy.frombuffer(base64.b64decode(text), numpy.float32).shape == (384,)


def test_the_list_of_models(client):
    names = [model.id for model in client.models.list()]
    assert "minilm" in names
    assert names == sorted(names)
    assert client.models.retrieve("minilm").id == "minilm"


def test_token_arrays_are_refused_with_a_reason(client):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.embeddings.create(model="minilm", input=[[101, 102]])
    assert "token" in refusal.value.message


def test_an_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as refusal:
        client.embeddings.create(model="text-embedding-3-small", input="x")
    assert refusal.value.code == "model_not_found"


def test_a_model_that_does_something_else(client):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.embeddings.create(model="efficientnet_lite0_int8", input="x")
    assert refusal.value.param == "model"


def test_dimensions_that_the_model_does_not_have(client):
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="minilm", input="x", dimensions=100)


@pytest.mark.asyncio
async def test_the_asynchronous_client(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="not needed", max_retries=0) as client:
        answer = await client.embeddings.create(model="minilm", input=TEXTS)
    assert len(answer.data) == len(TEXTS)
