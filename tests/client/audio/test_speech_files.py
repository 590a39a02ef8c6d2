"""Speech as a file, at another pace, and on a loudspeaker."""

import asyncio
import resource
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from voice_client.audio.encoded import speech_file
from voice_client.audio.playback import Loudspeaker
from voice_client.audio.tempo import Tempo
from voice_client.errors import BadInputError, DeadlineError

RATE = 24_000


def tone(seconds: float, hz: float = 220.0) -> bytes:
    return (9000 * np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE)) / RATE)).astype("<i2").tobytes()


class TestFiles:
    @pytest.mark.parametrize("ending", [".wav", ".flac", ".mp3", ".MP3"])
    def test_the_header_tells_the_truth(self, ending: str, tmp_path: Path) -> None:
        path, pcm = tmp_path / f"speech{ending}", tone(1.5)
        with speech_file(path, rate=RATE) as file:
            for at in range(0, len(pcm), 3842):
                file.write(pcm[at : at + 3842])
            assert not path.exists()
        with av.open(str(path)) as container:
            (stream,) = container.streams.audio
            assert (stream.rate, stream.channels) == (RATE, 1)
            assert container.duration is not None
            assert container.duration / 1e6 == pytest.approx(1.5, abs=0.08)
            samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(stream)])
        assert len(samples) / RATE == pytest.approx(1.5, abs=0.08)
        if ending in {".wav", ".flac"}:
            assert samples.astype("<i2").tobytes() == pcm
        assert [each.name for each in tmp_path.iterdir()] == [path.name]

    @pytest.mark.parametrize("ending", [".wav", ".flac", ".mp3"])
    def test_a_failure_leaves_the_old_file_and_no_half_one(self, ending: str, tmp_path: Path) -> None:
        path = tmp_path / f"speech{ending}"
        path.write_text("old")

        def write() -> None:
            with speech_file(path, rate=RATE) as file:
                file.write(tone(0.5))
                raise KeyError

        with pytest.raises(KeyError):
            write()
        assert path.read_text() == "old"
        assert [each.name for each in tmp_path.iterdir()] == [path.name]

    @pytest.mark.parametrize("ending", [".wav", ".flac", ".mp3"])
    def test_a_full_disk_is_told_once_and_leaves_no_half_file(self, ending: str, tmp_path: Path) -> None:
        noise = np.random.default_rng(1).integers(-9000, 9000, 10 * RATE).astype("<i2").tobytes()

        def write() -> None:
            with speech_file(tmp_path / f"speech{ending}", rate=RATE) as file:
                for _ in range(10):
                    file.write(noise)

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list(tmp_path.iterdir()) == []

    def test_another_ending_is_bad_input(self) -> None:
        with pytest.raises(BadInputError, match="WAV, FLAC or MP3"):
            speech_file("speech.ogg", rate=RATE)


@pytest.mark.parametrize("speed", [0.25, 0.7, 1.5, 4.0])
def test_the_pace_changes_and_the_pitch_does_not(speed: float) -> None:
    tempo, pcm, out = Tempo(speed, rate=RATE), tone(2.0), b""
    for at in range(0, len(pcm), 3840):
        out += tempo.change(pcm[at : at + 3840])
    out += tempo.finish()
    assert len(out) / 2 / RATE == pytest.approx(2.0 / speed, rel=0.03)
    middle = np.frombuffer(out, "<i2")[len(out) // 8 : len(out) // 8 + RATE // 4].astype(float)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * RATE / len(middle) == pytest.approx(220, abs=8)


class Device(types.ModuleType):
    """What `sounddevice` is to us, on a machine without sound: it takes blocks at 48 kHz only, as fast as it can."""

    class PortAudioError(Exception):
        pass

    def __init__(self, *, stuck: bool = False) -> None:
        super().__init__("sounddevice")
        self.played = bytearray()
        self.stuck = stuck
        self.closes = threading.Event()
        self.closes.set()
        self.vanish: Callable[[], None] = lambda: None
        self.started = threading.Event()
        self.asked = threading.Event()

    def check_output_settings(self, *, samplerate: int, **_: Any) -> None:
        if samplerate != 48_000:
            raise self.PortAudioError("Invalid sample rate")

    def query_devices(self, device: Any, kind: str) -> dict[str, float]:
        assert kind == "output"
        return {"default_samplerate": 48_000.0}

    def RawOutputStream(  # noqa: N802 - theirs
        self, *, callback: Any, finished_callback: Any, blocksize: int, samplerate: int, **_: Any
    ) -> Any:
        assert samplerate == 48_000
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(0.001):
                if self.started.is_set() and not self.stuck:
                    block = bytearray(2 * blocksize)
                    callback(memoryview(block), blocksize, None, None)
                    self.played += block
                    self.asked.set()

        thread = threading.Thread(target=run)

        gone = False

        def end() -> None:
            self.closes.wait()
            ended.set()
            thread.join()
            if gone:
                raise self.PortAudioError("Unanticipated host error")

        def vanish() -> None:
            nonlocal gone
            self.stuck = gone = True
            finished_callback()

        self.vanish = vanish
        return types.SimpleNamespace(start=thread.start, stop=end, abort=end, close=end)


class TestLoudspeaker:
    async def test_plays_everything_at_the_rate_of_the_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = Device()
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        with Loudspeaker(rate=RATE) as speaker:
            speaker.play(tone(0.2), 0)
            device.started.set()
            await speaker.played()
        heard = np.frombuffer(bytes(device.played), "<i2")
        assert np.count_nonzero(np.abs(heard) > 100) == pytest.approx(0.2 * 48_000, rel=0.05)

    async def test_what_was_dropped_is_not_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = Device()
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        with Loudspeaker(rate=RATE) as speaker:
            speaker.play(tone(0.2), 0)
            speaker.play(tone(0.5), 1)
            speaker.drop(1)
            assert speaker.held_seconds < 0.25
            device.started.set()
            await speaker.played()
        assert np.count_nonzero(np.abs(np.frombuffer(bytes(device.played), "<i2")) > 100) < 0.3 * 48_000

    async def test_a_device_that_takes_nothing_does_not_hang_us(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sounddevice", Device(stuck=True))
        monkeypatch.setattr("voice_client.audio.playback.GONE_SECONDS", 0.05)
        async with asyncio.timeout(10):
            with Loudspeaker(rate=RATE) as speaker:
                speaker.play(tone(0.1), 0)
                with pytest.raises(DeadlineError, match="taken no sound"):
                    await speaker.played()
                with pytest.raises(DeadlineError, match="taken no sound"):
                    await speaker.has_at_most(0.05)
                with pytest.raises(DeadlineError, match="write a file with -o"):
                    speaker.play(tone(0.1), 1)

    async def test_a_device_that_vanishes_is_told_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = Device()
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        device.started.set()
        async with asyncio.timeout(10):
            with Loudspeaker(rate=RATE) as speaker:
                speaker.play(tone(60), 0)
                asyncio.get_running_loop().call_later(0.05, device.vanish)
                with pytest.raises(DeadlineError, match="has stopped"):
                    await speaker.has_at_most(0.1)

    async def test_a_device_that_does_not_even_close_does_not_hang_us(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = Device()
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        monkeypatch.setattr("voice_client.audio.playback.CLOSE_SECONDS", 0.05)
        with Loudspeaker(rate=RATE):
            device.closes.clear()
        device.closes.set()

    async def test_a_pause_in_the_text_is_no_device_that_has_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = Device()
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        monkeypatch.setattr("voice_client.audio.playback.GONE_SECONDS", 0.05)
        device.started.set()
        with Loudspeaker(rate=RATE) as speaker:
            for part in range(3):
                device.asked.clear()
                await asyncio.sleep(0.1)
                assert await asyncio.to_thread(device.asked.wait, 10)
                speaker.play(tone(0.01), part)

    async def test_without_the_extra_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sounddevice", None)
        with pytest.raises(BadInputError, match="sounddevice") as error, Loudspeaker(rate=RATE):
            pass
        assert "sagemaker-voice[mic]" in str(error.value)
