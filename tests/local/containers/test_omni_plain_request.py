"""What a plain InvokeEndpoint gets from the speech server: a whole recording, or the reason why not."""

import io
import wave
from typing import Any

import httpx
import pytest

ROUTE = {"x-amzn-sagemaker-custom-attributes": "trace=7;route=/v1/audio/speech"}


def post(omni: Any, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
    return httpx.post(omni.url("/invocations", "http"), json=body, headers=headers, timeout=30, trust_env=False)


def test_a_text_comes_back_as_a_wav_file(omni: Any) -> None:
    answer = post(omni, {"input": "Hello there.", "voice": "Ryan", "language": "English"}, ROUTE)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/wav")
    with wave.open(io.BytesIO(answer.content)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
        assert wav.getnframes() > 0


def test_the_containers_own_route_does_the_same(omni: Any) -> None:
    body = {"input": "Hello there.", "response_format": "pcm"}
    own = httpx.post(omni.url("/v1/audio/speech", "http"), json=body, timeout=30, trust_env=False)

    assert own.headers["content-type"] == "audio/pcm"
    assert own.content == post(omni, body, ROUTE).content


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        ({"input": "Hello."}, {}, 404, "route=/v1/audio/speech"),
        ({"input": "Hello."}, {"x-amzn-sagemaker-custom-attributes": "route=/v1/images"}, 404, "/v1/images"),
        ({}, ROUTE, 400, "input"),
        ({"input": "  "}, ROUTE, 400, "empty"),
        ({"input": "Hello.", "voice": "Nobody", "language": "en"}, ROUTE, 400, "Nobody"),
        ({"input": "Hello.", "model": "somebody/else"}, ROUTE, 404, "somebody/else"),
        ({"input": "Secret words.", "speed": 9}, ROUTE, 400, "speed"),
    ],
)
def test_what_cannot_be_spoken_is_refused_with_the_reason(
    omni: Any, body: dict[str, Any], headers: dict[str, str], status: int, said: str
) -> None:
    answer = post(omni, body, headers)

    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]
    assert "Secret" not in answer.text
