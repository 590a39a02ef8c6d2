"""What a page's tabs promise the browser, over real WebSockets and stand-in servers, without a browser."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from voice_client.replies import echo
from voice_client.session.endpoint import Endpoint
from voice_client.ui.application import PageOptions, application
from voice_client.ui.endpoints import SharedEndpoints
from voice_client.ui.settings import PageSettings

HERE = "http://127.0.0.1:6006"
STT_MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"


class Summarizer:
    """A chat endpoint that says how much it was given; or fails as nobody foresaw, or never ends."""

    manner = "good"

    async def summary(self, transcript: str) -> AsyncIterator[str]:
        if self.manner == "faulty":
            raise ZeroDivisionError("what was said: " + transcript)
        while self.manner == "endless":
            await asyncio.sleep(0.01)
            yield "on "
        yield "Words: "
        yield str(len(transcript.split()))


class StandIns(SharedEndpoints):
    """The stand-in servers, without SageMaker in between."""

    def __init__(self, stt_server: Any, tts_server: Any) -> None:
        self._voice = tts_server
        self.ear_opener = stt_server.endpoint()

    async def ear(self) -> Endpoint:
        return Endpoint("ear", STT_MODEL, self.ear_opener)

    async def voice(self) -> Endpoint:
        return Endpoint("voice", None, self._voice.endpoint())

    def ear_model(self, endpoint: Endpoint) -> str:
        return STT_MODEL

    def voice_model(self, endpoint: Endpoint) -> str | None:
        return None


@pytest.fixture(scope="module")
def browser(stt_server: Any, tts_server: Any) -> Iterator[TestClient]:
    settings = PageSettings(summary=0.3)
    options = PageOptions("stand-ins", echo, "echo", Summarizer(), settings)  # type: ignore[arg-type]
    with TestClient(application(options, StandIns(stt_server, tts_server)), base_url=HERE) as client:
        yield client


@pytest.fixture
def tab(browser: TestClient) -> Callable[[str], Any]:
    return lambda name: browser.websocket_connect(f"ws{HERE[4:]}/voice/live/{name}", headers={"origin": HERE})


def until(socket: Any, *kinds: str) -> tuple[dict[str, Any], list[dict[str, Any]], bytes]:
    """Receive to a message of one of some kinds; return it, all before it, and the audio."""
    audio = b""
    messages: list[dict[str, Any]] = []
    while True:
        message = socket.receive()
        if message.get("bytes"):
            audio += message["bytes"][8:]
            continue
        told = json.loads(message["text"])
        if told["type"] in kinds:
            return told, messages, audio
        messages.append(told)


def stereo(seconds: float, rate: int, *, loud: bool) -> bytes:
    frames = int(seconds * rate)
    noise = np.random.default_rng(3).uniform(-0.3, 0.3, (frames, 2)) if loud else np.zeros((frames, 2))
    return noise.astype("<f4").tobytes()


def test_speak_sends_all_audio_and_what_it_measured(tab: Callable[[str], Any]) -> None:
    with tab("speak") as socket:
        socket.send_json({"type": "warm", "voice": "Vivian", "language": "Auto"})
        socket.send_json({"type": "speak", "utterance": 7, "text": "One two. Three four five.", "voice": "Vivian"})
        told, before, audio = until(socket, "spoken", "error")

    assert told["type"] == "spoken", told
    assert told["utterance"] == 7
    assert before[0] == {"type": "speaking", "utterance": 7, "sentences": 2}
    assert len(audio) == told["metrics"]["bytes"] == 5 * 12_000


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"utterance": 1, "text": "  "}, "no text to speak"),
        ({"utterance": 1, "text": 5}, "a text that is no text"),
        ({"utterance": "x", "text": "Hello."}, "an utterance that is no whole number"),
        ({"utterance": 1, "text": "Hello.", "language": "Klingon"}, "Klingon"),
    ],
)
def test_a_wrong_request_is_answered_and_the_tab_goes_on(
    tab: Callable[[str], Any], request_: dict[str, Any], said: str
) -> None:
    with tab("speak") as socket:
        socket.send_json({"type": "speak", **request_})
        assert said.removeprefix("an ") in until(socket, "error")[0]["message"]
        socket.send_json({"type": "speak", "utterance": 2, "text": "Hello."})
        assert until(socket, "spoken")[0]["utterance"] == 2


def test_what_is_no_message_closes_the_socket(tab: Callable[[str], Any]) -> None:
    with tab("talk") as socket:
        socket.send_text("{nonsense")
        assert socket.receive()["type"] == "websocket.close"


def test_transcribe_hears_stereo_at_the_browser_s_rate_and_summarizes(
    tab: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = 44_100
    with tab("transcribe") as socket:
        socket.send_json({"type": "summarize"})
        assert "no text to summarize" in until(socket, "error")[0]["message"]
        socket.send_json({"type": "listen", "rate": rate, "channels": 2})
        for _ in range(2):
            socket.send_bytes(stereo(0.6, rate, loud=True))
            socket.send_bytes(stereo(0.9, rate, loud=False))
        socket.send_json({"type": "listened"})
        done, before, _ = until(socket, "transcribed", "error")
        assert done["type"] == "transcribed", done
        finals = [message for message in before if message["type"] == "final"]
        assert len(finals) == 2
        assert finals[0]["start"] < 0.1
        assert finals[1]["start"] == pytest.approx(1.5, abs=0.4)
        assert done["txt"] == "".join(f"{final['text']}\n" for final in finals)
        assert [turn["text"] for turn in json.loads(done["json"])["turns"]] == [final["text"] for final in finals]

        socket.send_json({"type": "summarize"})
        _, pieces, _ = until(socket, "summarized")
        assert "".join(piece["delta"] for piece in pieces) == f"Words: {len(done['txt'].split())}"

        monkeypatch.setattr(Summarizer, "manner", "faulty")
        socket.send_json({"type": "summarize"})
        said = until(socket, "error")[0]["message"]
        assert said == "Unexpected ZeroDivisionError: a fault of the program; VOICE_DEBUG=1 shows where."
        monkeypatch.setattr(Summarizer, "manner", "endless")
        socket.send_json({"type": "summarize"})
        assert "not complete after 0.3 s" in until(socket, "error")[0]["message"]


def test_what_was_heard_until_it_is_stopped_can_be_saved(tab: Callable[[str], Any]) -> None:
    rate = 16_000
    with tab("transcribe") as socket:
        socket.send_json({"type": "listen", "rate": rate, "channels": 2})
        socket.send_bytes(stereo(0.6, rate, loud=True))
        socket.send_bytes(stereo(1.5, rate, loud=False))
        final = until(socket, "final", "error")[0]
        socket.send_json({"type": "stop"})
        forms = until(socket, "forms", "error")[0]

    assert forms["txt"] == f"{final['text']}\n"
    assert forms["srt"].startswith("1\n00:00:0")
    assert [turn["text"] for turn in json.loads(forms["json"])["turns"]] == [final["text"]]


@pytest.mark.parametrize("name", ["transcribe", "talk"])
def test_an_endpoint_that_cannot_be_reached_is_named(tts_server: Any, stt_server: Any, name: str) -> None:
    nobody = StandIns(stt_server, tts_server)
    nobody.ear_opener = stt_server.endpoint(9)
    options = PageOptions("nobody", echo, "echo", settings=PageSettings(retry_every=0.01))
    with (
        TestClient(application(options, nobody), base_url=HERE) as client,
        client.websocket_connect(f"ws{HERE[4:]}/voice/live/{name}", headers={"origin": HERE}) as socket,
    ):
        socket.send_json({"type": {"transcribe": "listen"}.get(name, name), "rate": 48_000, "channels": 1})
        said = until(socket, "lost", "error")[0]["message"]

    assert said.startswith("Endpoint ear: nothing listens"), said
    assert "replay" not in said, "what a program would have to do"


def test_a_file_that_is_no_audio_is_named(tab: Callable[[str], Any]) -> None:
    with tab("transcribe") as socket:
        socket.send_json({"type": "file", "name": "note.txt", "size": 11})
        socket.send_bytes(b"no audio at")
        message = until(socket, "error", "transcribed")[0]["message"]

    assert message.startswith("Note.txt") or "note.txt" in message
    assert "voice-ui-" not in message, "the name of the temporary folder"


def test_talk_answers_and_a_closed_tab_leaves_nothing(tab: Callable[[str], Any]) -> None:
    rate = 48_000
    with tab("talk") as socket:
        socket.send_json({"type": "talk", "rate": rate, "channels": 2, "barge_in": True})
        assert until(socket, "listening", "error")[0]["type"] == "listening"
        socket.send_bytes(stereo(0.6, rate, loud=True))
        socket.send_bytes(stereo(1.0, rate, loud=False))
        turn = until(socket, "turn", "error")[0]
        assert turn["text"].startswith("w0 w1")
        measured, before, audio = until(socket, "replied", "error")
        assert measured["type"] == "replied", measured
        assert len(audio) == len(turn["text"].split()) * 12_000
        assert "measured" in [message["type"] for message in before]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("voice-reply")]
