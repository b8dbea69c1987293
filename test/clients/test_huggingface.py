"""huggingface_hub.InferenceClient against Millrace: the model is named by its address, nothing else changes."""

import numpy
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError


@pytest.fixture
def images(url):
    return InferenceClient(model=f"{url}/models/efficientnet_lite0_int8")


@pytest.fixture
def texts(url):
    return InferenceClient(model=f"{url}/models/minilm")


def test_a_photo_by_its_path(images, photos):
    answer = images.image_classification(str(photos / "coffee.png"))
    assert answer[0].label == "espresso"
    assert answer[0].score == pytest.approx(0.951, abs=0.01)
    assert len(answer) == 5
    assert [entry.score for entry in answer] == sorted((entry.score for entry in answer), reverse=True)


def test_a_photo_as_bytes(images, photos):
    answer = images.image_classification((photos / "camera.png").read_bytes())
    assert answer[0].label == "tripod"


def test_top_k(images, photos):
    answer = images.image_classification(str(photos / "rocket.jpg"), top_k=2)
    assert [entry.label.split(",")[0] for entry in answer] == ["missile", "projectile"]


def test_a_text_becomes_a_vector(texts):
    vector = texts.feature_extraction("The millrace brings the stream to the wheel.")
    assert isinstance(vector, numpy.ndarray)
    assert vector.shape[-1] == 384
    assert numpy.linalg.norm(vector) == pytest.approx(1, abs=1e-3)


def test_near_texts_have_near_vectors(texts):
    cat, kitten, engine = (
        texts.feature_extraction(text).reshape(-1) for text in ("a cat", "a kitten", "a diesel engine")
    )
    assert cat @ kitten > cat @ engine + 0.2


def test_what_is_no_photo_is_refused_with_its_reason(images):
    with pytest.raises(HfHubHTTPError) as refusal:
        images.image_classification(b"this is no photo")
    assert refusal.value.response.status_code == 415
    assert "error" in refusal.value.response.json()


def test_an_unknown_model(url, photos):
    with pytest.raises(HfHubHTTPError) as refusal:
        InferenceClient(model=f"{url}/models/nothing").image_classification(str(photos / "coffee.png"))
    assert refusal.value.response.status_code == 404
