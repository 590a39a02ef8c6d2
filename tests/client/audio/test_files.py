"""Every kind of file a user has becomes 16 kHz PCM16 of the right length, pitch and level."""

import struct
import wave
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from voice_client.audio import AudioFile
from voice_client.errors import BadInputError

KINDS = [
    # name, codec, rate, channels, tolerance in samples at 16 kHz
    ("u8.wav", "pcm_u8", 44_100, 2, 2),
    ("s16.wav", "pcm_s16le", 44_100, 2, 2),
    ("s24.wav", "pcm_s24le", 48_000, 2, 2),
    ("s32.wav", "pcm_s32le", 48_000, 1, 2),
    ("f32.wav", "pcm_f32le", 22_050, 2, 2),
    ("f64.wav", "pcm_f64le", 44_100, 1, 2),
    ("alaw.wav", "pcm_alaw", 8_000, 1, 2),
    ("mulaw.wav", "pcm_mulaw", 8_000, 1, 2),
    ("surround.wav", "pcm_s16le", 48_000, 6, 2),
    ("plain.wav", "pcm_s16le", 16_000, 1, 0),
    ("a.flac", "flac", 44_100, 2, 2),
    ("a.aiff", "pcm_s16be", 44_100, 2, 2),
    ("a.au", "pcm_s16be", 44_100, 2, 2),
    ("a.caf", "pcm_s16le", 44_100, 2, 2),
    ("a.w64", "pcm_s16le", 44_100, 2, 2),
    ("a.mp3", "libmp3lame", 44_100, 2, 1600),
    ("a.m4a", "aac", 44_100, 2, 1600),
    ("a.mp4", "aac", 48_000, 6, 1600),
    ("a.ogg", "libopus", 48_000, 2, 1600),
    ("a.opus", "libopus", 48_000, 2, 1600),
    ("a.webm", "libopus", 48_000, 1, 1600),
    ("a.mka", "aac", 44_100, 2, 1600),
]


@pytest.mark.parametrize("kind", KINDS, ids=[kind[0] for kind in KINDS])
def test_length_pitch_and_level_survive(
    kind: tuple[str, str, int, int, int],
    make_tone: Callable[..., Path],
    read_samples: Callable[..., np.ndarray],
) -> None:
    name, codec, rate, channels, tolerance = kind
    container = {"a.mka": "matroska"}.get(name)
    samples = read_samples(make_tone(name, codec=codec, rate=rate, channels=channels, container=container))
    assert abs(len(samples) - 32_000) <= tolerance
    middle = samples[8_000:24_000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(float(np.argmax(spectrum)) * 16_000 / len(middle) - 1000) <= 2
    level = 20 * np.log10(np.sqrt(2 * np.mean(middle**2)) / 0.5)
    assert abs(level) < 0.5


def test_samples_at_the_wanted_rate_pass_unchanged(tmp_path: Path, read_samples: Callable[..., np.ndarray]) -> None:
    pcm = np.random.default_rng(1).integers(-32768, 32768, 50_001).astype("<i2")
    path = tmp_path / "noise.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(pcm.tobytes())
    assert np.array_equal(np.rint(read_samples(path) * 32768).astype(np.int16), pcm)


def test_what_the_new_rate_cannot_hold_does_not_come_back_as_another_tone(
    make_tone: Callable[..., Path], read_samples: Callable[..., np.ndarray]
) -> None:
    samples = read_samples(make_tone("high.wav", codec="pcm_f32le", rate=48_000, hertz=12_000.0, amplitude=0.9))
    assert 20 * np.log10(np.sqrt(np.mean(samples[1_000:-1_000] ** 2)) + 1e-12) < -80


def test_the_same_on_both_sides_keeps_its_level_and_opposite_sides_cancel(
    tmp_path: Path, read_samples: Callable[..., np.ndarray]
) -> None:
    tone = (0.9 * 32767 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)).astype("<i2")
    for right, expected in ((tone, 0.9), (-tone, 0.0)):
        path = tmp_path / "stereo.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(np.stack([tone, right], axis=1).tobytes())
        assert np.max(np.abs(read_samples(path))) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_wav_of_unknown_length_is_read_to_its_end(
    size: int, make_tone: Callable[..., Path], read_samples: Callable[..., np.ndarray]
) -> None:
    path = make_tone("live.wav", codec="pcm_s16le", rate=16_000, channels=1)
    data = bytearray(path.read_bytes())
    place = data.index(b"data") + 4
    data[place : place + 4] = struct.pack("<I", size)
    data[4:8] = struct.pack("<I", size)
    path.write_bytes(data)
    assert abs(len(read_samples(path)) - 32_000) <= 2


def test_a_truncated_file_gives_what_it_has(
    make_tone: Callable[..., Path], read_samples: Callable[..., np.ndarray]
) -> None:
    path = make_tone("cut.wav", codec="pcm_s16le", rate=16_000, channels=1)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"data") + 8 + 32_001])
    assert 15_999 <= len(read_samples(path)) <= 16_001


def test_not_a_number_is_silence_and_too_loud_is_clipped(
    tmp_path: Path, read_samples: Callable[..., np.ndarray]
) -> None:
    path = tmp_path / "odd.wav"
    values = np.array([0.25, np.nan, 3.0, -3.0, np.inf, -np.inf, 0.5] * 100, dtype=np.float32)
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", 36 + values.nbytes, b"WAVE", b"fmt ", 16, 3, 1, 16_000, 64_000, 4, 32, b"data", values.nbytes,
    )  # fmt: skip
    path.write_bytes(header + values.tobytes())
    top = 32767 / 32768
    assert read_samples(path)[:7].tolist() == [0.25, 0.0, top, -1.0, top, -1.0, 0.5]


class TestWhatIsNoAudio:
    """One sentence says why, before anything is connected."""

    def check(self, path: Path | str, reason: str) -> None:
        with pytest.raises(BadInputError, match=reason) as error:
            AudioFile(path).check()
        assert error.value.exit_code == 2
        assert "\n" not in str(error.value)

    def test_text_with_the_name_of_a_wav(self, tmp_path: Path) -> None:
        path = tmp_path / "note.wav"
        path.write_text("This is no sound.\n" * 50)
        self.check(path, r"note\.wav is not audio")

    def test_a_playlist_does_not_open_other_files(self, tmp_path: Path, make_tone: Callable[..., Path]) -> None:
        sound = make_tone("sound.aac", codec="aac", container="adts")
        path = tmp_path / "list.m3u8"
        path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:2,\nfile://{sound}\n#EXT-X-ENDLIST\n")
        self.check(path, r"list\.m3u8 is not audio")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        self.check(tmp_path / "gone.wav", "cannot be read: No such file")

    def test_a_folder(self, tmp_path: Path) -> None:
        self.check(tmp_path, "cannot be read: Is a directory")

    def test_an_empty_file(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.wav"
        path.touch()
        self.check(path, "is empty")

    def test_a_header_without_samples(self, tmp_path: Path) -> None:
        path = tmp_path / "header.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
        self.check(path, "without a single sample")

    def test_a_film_without_sound(self, tmp_path: Path) -> None:
        path = tmp_path / "silent.mp4"
        with av.open(str(path), "w") as output:
            stream = output.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            for _ in range(5):
                for packet in stream.encode(av.VideoFrame(64, 64, "yuv420p")):
                    output.mux(packet)
            output.mux(stream.encode(None))
        self.check(path, "without a sound track")

    def test_random_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "random.wav"
        path.write_bytes(np.random.default_rng(7).bytes(100_000))
        self.check(path, r"random\.wav")
