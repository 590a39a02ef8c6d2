"""Speaking over the real transport and the local data plane, which breaks streams in every way that networks do."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from voice_client.errors import (
    BadInputError,
    ConnectionLostError,
    CredentialsError,
    DeadlineError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    RefusedError,
    ThrottledError,
    VoiceError,
)
from voice_client.session import (
    Restarted,
    Retry,
    SpeakingInterruptedError,
    SpeechEvent,
    Synthesizer,
    SynthesizerSettings,
)
from voice_client.transport import BidiStream, TransportSettings

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
WORD_BYTES = 12_000
RETRY = Retry(attempts=3, first_wait=0.02, longest_wait=0.05)
DEADLINES = TransportSettings(open_seconds=20.0, send_seconds=1.0, close_seconds=0.3)
IMPATIENT = SynthesizerSettings(first_audio=2.0, next_audio=2.0)
"""For what only a deadline ends; all else takes as long as it takes on a busy machine."""
TEXT = "One two three four. Five six seven eight nine ten. Eleven twelve."
WORDS = {0: 4 * WORD_BYTES, 1: 6 * WORD_BYTES, 2: 2 * WORD_BYTES}


@pytest.fixture(scope="module")
def running_plane(tts_server: Any, plane_before: Any) -> Iterator[Any]:
    with plane_before(tts_server, "mouth") as plane:
        yield plane


@pytest.fixture
def plane(running_plane: Any) -> Iterator[Any]:
    yield running_plane
    running_plane.clear()


@contextlib.asynccontextmanager
async def voice_on(
    plane: Any,
    *,
    retry: Retry | None = RETRY,
    settings: SynthesizerSettings = SynthesizerSettings(),  # noqa: B008 - frozen
    deadlines: TransportSettings = DEADLINES,
) -> AsyncIterator[Synthesizer]:
    """A voice over the plane, its first stream open."""
    async with plane.transport(deadlines) as transport:

        async def opener() -> BidiStream:
            stream: BidiStream = await transport.open_stream("v1/audio/speech/stream")
            return stream

        async with Synthesizer(opener, model=MODEL, settings=settings, retry=retry, endpoint_name="mouth") as voice:
            yield voice


def patience(fault: str) -> SynthesizerSettings:
    return IMPATIENT if "stop" in fault else SynthesizerSettings()


async def listen(voice: Synthesizer, text: str = TEXT) -> list[SpeechEvent]:
    async with asyncio.timeout(30):
        return [event async for event in voice.speak(text)]


def played(events: list[SpeechEvent]) -> dict[int, int]:
    """Bytes by sentence, what a restart made void left out."""
    sizes: dict[int, int] = {}
    for event in events:
        sizes[event.sentence] = 0 if isinstance(event, Restarted) else sizes.get(event.sentence, 0) + len(event.pcm)
    return sizes


class TestALostStreamIsSpokenAgain:
    @pytest.mark.parametrize(
        "fault",
        [
            "kill-connection,after=3",
            "close-connection,after=7",
            "reset-stream,after=9",
            "reset-stream,after=5,code=CANCEL",
            "go-away-now,after=10",
            "internal-stream-failure,after=4",
            "stop-writing,after=8",
            "model-stream-error,after=6,error-code=STREAM_BROKEN",
        ],
    )
    async def test_every_sentence_whole_and_one_notice(self, fault: str, plane: Any) -> None:
        async with voice_on(plane, settings=patience(fault)) as voice:
            fired = plane.fired()
            plane.arm(fault)
            events = await listen(voice)
            assert plane.fired() == fired + 1
            assert played(events) == WORDS
            assert len([event for event in events if isinstance(event, Restarted)]) <= 1
            assert played(await listen(voice, "Well.")) == {0: WORD_BYTES}

    async def test_a_stream_that_takes_nothing_is_left(self, plane: Any) -> None:
        async with voice_on(plane, settings=IMPATIENT) as voice:
            plane.arm("stop-reading,after=0")
            text = " ".join(f"Sentence number {n} {'word ' * 60}." for n in range(20))
            events = await listen(voice, text)
            assert len(played(events)) == 20

    async def test_an_endpoint_that_has_no_room_for_a_while(self, plane: Any) -> None:
        async with voice_on(plane) as voice:
            plane.arm("kill-connection,after=3")
            plane.arm("refuse,status=429,times=2")
            speech = voice.speak(TEXT)
            async with asyncio.timeout(30):
                events = [event async for event in speech]
        assert played(events) == WORDS
        assert [notice.kind for notice in speech.notices] == ["reconnecting"] * 3

    async def test_a_container_that_starts_again(self, plane: Any) -> None:
        async with voice_on(plane) as voice:
            plane.arm("kill-connection,after=3")
            plane.arm("refuse,status=424,times=1")
            assert played(await listen(voice)) == WORDS


class TestWhatIsNoLoss:
    @pytest.mark.parametrize(
        "fault", ["go-away,after=2", "unknown-event,after=3", "delay,seconds=0.02", "stall,after=4,seconds=0.5"]
    )
    async def test_nothing_is_said_and_nothing_is_spoken_twice(self, fault: str, plane: Any) -> None:
        async with voice_on(plane) as voice:
            plane.arm(fault)
            speech = voice.speak(TEXT)
            async with asyncio.timeout(30):
                events = [event async for event in speech]
            assert played(events) == WORDS
            assert speech.notices == []
            assert not any(isinstance(event, Restarted) for event in events)
            assert played(await listen(voice, "Well.")) == {0: WORD_BYTES}


class TestWithoutRetry:
    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("kill-connection,after=5", ConnectionLostError),
            ("close-connection,after=5", ConnectionLostError),
            ("reset-stream,after=5", ConnectionLostError),
            ("go-away-now,after=5", ConnectionLostError),
            ("model-stream-error,after=5", ModelError),
            ("internal-stream-failure,after=5", InternalFailureError),
            ("unknown-exception,after=5", InternalFailureError),
            ("corrupt-frame,after=5", ProtocolError),
            ("stop-writing,after=5", DeadlineError),
        ],
    )
    async def test_the_error_says_what_and_where(self, fault: str, kind: type[VoiceError], plane: Any) -> None:
        async with voice_on(plane, retry=None, settings=patience(fault)) as voice:
            plane.arm(fault)
            with pytest.raises(SpeakingInterruptedError) as error:
                await listen(voice)
        assert isinstance(error.value.__cause__, kind), repr(error.value.__cause__)
        assert error.value.endpoint == "mouth"
        assert "Five" not in str(error.value)
        assert error.value.exit_code == 4

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("kill-connection,before-headers", ConnectionLostError),
            ("slow-headers,seconds=30", DeadlineError),
            ("refuse,status=400", BadInputError),
            ("refuse,status=403", CredentialsError),
            ("refuse,status=424", RefusedError),
            ("refuse,status=429", ThrottledError),
            ("refuse,status=500", InternalFailureError),
            ("refuse,status=503", InternalFailureError),
        ],
    )
    async def test_an_endpoint_that_cannot_be_opened(self, fault: str, kind: type[VoiceError], plane: Any) -> None:
        plane.arm(fault)
        hasty = dataclasses.replace(DEADLINES, open_seconds=0.5)
        with pytest.raises(kind) as error:
            async with voice_on(plane, deadlines=hasty if "slow" in fault else DEADLINES):
                pass
        assert error.value.endpoint == "mouth"


async def test_barge_in_keeps_the_http2_connection(plane: Any, tts_wire: Any) -> None:
    port = int(plane.ready["url"].rsplit(":", 1)[1])
    async with type(tts_wire)(port).running() as wire:
        relayed = type(plane)(plane.ready | {"url": f"https://127.0.0.1:{wire.port}"})
        async with voice_on(relayed) as voice:
            for _ in range(3):
                async for _ in voice.speak("One two three four five six seven eight. " * 30):
                    await voice.cancel()
                assert played(await listen(voice, "Next.")) == {0: WORD_BYTES}
                await asyncio.sleep(0.1)
        assert wire.connections == 1
