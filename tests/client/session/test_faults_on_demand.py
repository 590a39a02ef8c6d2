"""Hearing over the real transport and the local data plane, which breaks streams in every way that networks do."""

import asyncio
import gc
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from voice_client.errors import (
    ConnectionLostError,
    DeadlineError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    ThrottledError,
    VoiceError,
)
from voice_client.session import Final, Notice, Retry, Transcriber, TranscriberSettings, TranscriptionInterruptedError
from voice_client.transport import BidiStream, TransportSettings

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
RETRY = Retry(attempts=3, first_wait=0.02, longest_wait=0.05)
DEADLINES = TransportSettings(open_seconds=4.0, send_seconds=2.0, close_seconds=0.5)
SETTINGS = TranscriberSettings(paced=False, stall_speech=1.0, stall=2.0, done_silence=2.0)
SECONDS = 6.0


def words(seconds: float) -> list[str]:
    """What the deterministic engine hears: a word for 240 ms."""
    return [f"w{number}" for number in range(int(seconds / 0.24))]


@pytest.fixture(scope="module")
def plane(stt_server: Any, plane_before: Any) -> Iterator[Any]:
    with plane_before(stt_server, "ear") as plane:
        yield plane


@pytest.fixture(autouse=True)
async def nothing_of_the_transport_left(plane: Any) -> Any:
    """After each test there is no task, thread or descriptor more than before."""
    tasks, threads, descriptors = asyncio.all_tasks(), _threads(), _descriptors()
    gc.freeze()
    yield
    plane.clear()
    gc.collect()
    gc.unfreeze()
    for _ in range(200):  # a thread of `call_blocking` may be on its way out
        if _threads() <= threads and not _descriptors() - descriptors:
            break
        await asyncio.sleep(0.02)
    assert {task for task in asyncio.all_tasks() - tasks if task is not asyncio.current_task()} == set()
    assert sorted(_descriptors() - descriptors) == []
    assert _threads() <= threads, [thread.name for thread in threading.enumerate()]


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir())) if Path("/proc/self/task").exists() else 0


def _descriptors() -> set[str]:
    found = set()
    for entry in Path("/dev/fd").iterdir():
        try:
            what = str(entry.readlink())
        except OSError:
            continue  # the listing's own
        if what != "/dev/urandom":  # botocore loads the CRT where it is installed; that opens it once a process
            found.add(f"{entry.name} {what}")
    return found


@pytest.fixture(scope="module", autouse=True)
def everything_is_loaded(plane: Any) -> None:
    """Let libraries open what they keep open for the whole process."""

    async def open_once() -> None:
        async with plane.transport(DEADLINES) as transport:
            await (await transport.open_stream("v1/realtime")).close()

    asyncio.run(open_once())


async def hear(plane: Any, source: Any, fault: str | None, retry: Retry | None = RETRY) -> list[Any]:
    """Hear a source; the fault is armed when the first stream has opened, or before it when it says so."""
    async with plane.transport(DEADLINES) as transport:

        async def opener() -> BidiStream:
            stream: BidiStream = await transport.open_stream("v1/realtime")
            return stream

        async with Transcriber(opener, model=MODEL, settings=SETTINGS, retry=retry, endpoint_name="ear") as ear:
            if fault is not None:
                plane.arm(fault)  # milliseconds, and a thread of the executor would look like one of ours
            async with asyncio.timeout(60):
                return [event async for event in ear.transcribe(source)]


class TestALostStreamIsReplayed:
    @pytest.mark.parametrize(
        "fault",
        [
            "kill-connection,after=5",
            "close-connection,after=5",
            "reset-stream,after=5",
            "reset-stream,after=5,code=CANCEL",
            "go-away-now,after=5",
            "internal-stream-failure,after=5",
            "stop-writing,after=5",
            "stop-reading,after=5",
            "stop-writing,after=5,scope=connection",
            "model-stream-error,after=5,error-code=STREAM_BROKEN",
        ],
    )
    async def test_one_notice_and_every_word(self, fault: str, plane: Any, sound: Callable[..., Any]) -> None:
        fired = plane.fired()
        events = await hear(plane, sound(SECONDS), fault)
        assert plane.fired() == fired + 1
        (final,) = [event for event in events if isinstance(event, Final)]
        assert final.text.split() == words(SECONDS)
        assert len([event for event in events if isinstance(event, Notice)]) == 1

    async def test_an_endpoint_that_has_no_room_for_a_while(self, plane: Any, sound: Callable[..., Any]) -> None:
        async with plane.transport(DEADLINES) as transport:
            streams = 0

            async def opener() -> BidiStream:
                nonlocal streams
                streams += 1
                if streams == 2:
                    plane.arm("refuse,status=429,times=2")
                stream: BidiStream = await transport.open_stream("v1/realtime")
                return stream

            async with Transcriber(opener, model=MODEL, settings=SETTINGS, retry=RETRY) as ear:
                plane.arm("kill-connection,after=5")
                async with asyncio.timeout(60):
                    events: list[Any] = [event async for event in ear.transcribe(sound(SECONDS))]
        assert streams == 4
        assert events[-1].text.split() == words(SECONDS)
        assert len([event for event in events if isinstance(event, Notice)]) == 3


class TestWhatIsNoLoss:
    @pytest.mark.parametrize(
        "fault", ["go-away,after=2", "unknown-event,after=3", "delay,seconds=0.02", "stall,after=4,seconds=0.5"]
    )
    async def test_no_notice(self, fault: str, plane: Any, sound: Callable[..., Any]) -> None:
        events = await hear(plane, sound(SECONDS), fault)
        assert events[-1].text.split() == words(SECONDS)
        assert not [event for event in events if isinstance(event, Notice)]


class TestWithoutRetry:
    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("kill-connection,after=5", ConnectionLostError),
            ("close-connection,after=5", ConnectionLostError),
            ("reset-stream,after=5", ConnectionLostError),
            ("go-away-now,after=5", ConnectionLostError),
            ("internal-stream-failure,after=5", InternalFailureError),
            ("model-stream-error,after=5,message=out of memory", ModelError),
            ("corrupt-frame,after=5", ProtocolError),
            ("stop-writing,after=5", DeadlineError),
        ],
    )
    async def test_the_error_says_what_and_where(
        self, fault: str, kind: type[VoiceError], plane: Any, sound: Callable[..., Any]
    ) -> None:
        began = time.monotonic()
        with pytest.raises(TranscriptionInterruptedError) as error:
            await hear(plane, sound(SECONDS), fault, retry=None)
        assert time.monotonic() - began < 20
        assert isinstance(error.value.__cause__, kind), repr(error.value.__cause__)
        assert error.value.endpoint == "ear"
        assert not re.search(r"\bw\d+\b", str(error.value))

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("kill-connection,before-headers", ConnectionLostError),
            ("reset-stream,before-headers", ConnectionLostError),
            ("slow-headers,seconds=30", DeadlineError),
            ("refuse,status=429", ThrottledError),
            ("refuse,status=500", InternalFailureError),
        ],
    )
    async def test_an_endpoint_that_cannot_be_opened(
        self, fault: str, kind: type[VoiceError], plane: Any, sound: Callable[..., Any]
    ) -> None:
        plane.arm(fault)
        with pytest.raises(kind) as error:
            await hear(plane, sound(1.0), None)
        assert error.value.endpoint == "ear"
