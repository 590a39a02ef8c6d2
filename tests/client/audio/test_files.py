"""Every kind of file a user has becomes 16 kHz PCM16 of the right length, pitch and level."""

import contextlib
import os
import struct
import sys
import threading
import wave
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from voice_client.audio import AudioFile, RawFormat
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
    ("s16be.caf", "pcm_s16be", 22_050, 1, 2),
    ("f32.aiff", "pcm_f32be", 44_100, 2, 2),
    ("mulaw.au", "pcm_mulaw", 8_000, 1, 2),
    ("adpcm.wav", "adpcm_ima_wav", 22_050, 1, 2200),
    ("alac.m4a", "alac", 44_100, 2, 4200),
    ("ac3.mkv", "ac3", 48_000, 2, 1600),
    ("high.wav", "pcm_s24le", 96_000, 2, 2),
]


QUIETEST = {"pcm_u8": -45, "pcm_alaw": -30, "pcm_mulaw": -30, "adpcm_ima_wav": -40}
"""How far below the tone everything else must be, in dB, where the samples themselves are coarse."""


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
    # Nothing but the tone: no alias of it, no click at a block's border. Codecs with few bits add noise of their own.
    tone = round(1000 * len(middle) / 16_000)
    beside = np.concatenate([spectrum[: tone - 40], spectrum[tone + 40 :]])
    below = 20 * np.log10(beside.max() / spectrum.max())
    assert below < QUIETEST.get(codec, -80 if tolerance <= 2 else -40)


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


def test_sixty_four_bit_wav_is_read(make_tone: Callable[..., Path], read_samples: Callable[..., np.ndarray]) -> None:
    path = make_tone("big.wav", codec="pcm_s16le", rate=16_000, channels=1)
    data = path.read_bytes()
    samples = data[data.index(b"data") + 8 :]
    header = struct.pack("<4sI4s", b"RF64", 0xFFFFFFFF, b"WAVE")
    header += struct.pack("<4sIQQQI", b"ds64", 28, 72 + len(samples), len(samples), len(samples) // 2, 0)
    header += struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    path.write_bytes(header + struct.pack("<4sI", b"data", 0xFFFFFFFF) + samples)
    assert len(read_samples(path)) == 32_000


def test_an_extensible_header_is_read(tmp_path: Path, read_samples: Callable[..., np.ndarray]) -> None:
    path = tmp_path / "extensible.wav"
    values = np.array([0, 1, -1, 4_194_304, -8_388_608] * 1000, dtype="<i4")
    pcm = b"".join(int(value).to_bytes(3, "little", signed=True) for value in values)
    subformat = struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")
    fmt = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 16_000, 48_000, 3, 24, 22, 24, 4) + subformat
    body = struct.pack("<4sI", b"fmt ", len(fmt)) + fmt + struct.pack("<4sI", b"data", len(pcm)) + pcm
    path.write_bytes(struct.pack("<4sI4s", b"RIFF", 4 + len(body), b"WAVE") + body)
    assert read_samples(path)[:5].tolist() == [0.0, 0.0, 0.0, 0.5, -1.0]


def test_the_sound_track_of_a_film_is_heard(tmp_path: Path, read_samples: Callable[..., np.ndarray]) -> None:
    path = tmp_path / "film.mkv"
    with av.open(str(path), "w") as output:
        picture = output.add_stream("mpeg4", rate=10)
        picture.width, picture.height, picture.pix_fmt = 64, 64, "yuv420p"
        sound = output.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for number in range(10):
            for packet in picture.encode(av.VideoFrame(64, 64, "yuv420p")):
                output.mux(packet)
            frame = av.AudioFrame.from_ndarray(np.full((1, 1600), 1000 + number, "<i2"), format="s16", layout="mono")
            frame.sample_rate = 16_000
            frame.pts = number * 1600
            for packet in sound.encode(frame):
                output.mux(packet)
        for stream in (picture, sound):
            output.mux(stream.encode(None))
    samples = np.rint(read_samples(path) * 32768)
    assert len(samples) == 16_000
    assert samples[::1600].tolist() == list(range(1000, 1010))


@pytest.mark.parametrize(
    ("encoding", "dtype", "scale"),
    [
        ("u8", "u1", 127),
        ("s16le", "<i2", 32767),
        ("s16be", ">i2", 32767),
        ("s32le", "<i4", 2**31 - 1),
        ("f32le", "<f4", 1),
    ],
)
def test_raw_audio_with_a_given_rate(
    encoding: str, dtype: str, scale: float, tmp_path: Path, read_samples: Callable[..., np.ndarray]
) -> None:
    path = tmp_path / "line.raw"
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 8_000)
    path.write_bytes(np.repeat(tone * scale + (128 if dtype == "u1" else 0), 2).astype(dtype).tobytes())
    samples = read_samples(path, raw=RawFormat(encoding, rate=8_000, channels=2))
    assert abs(len(samples) - 32_000) <= 2
    assert np.sqrt(2 * np.mean(samples[4_000:-4_000] ** 2)) == pytest.approx(0.5, rel=0.02)


def test_raw_formats_that_cannot_be_are_named_together() -> None:
    with pytest.raises(BadInputError, match=r"'s8'.*1 Hz.*99 channels"):
        RawFormat("s8", 1, 99)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_every_rate_keeps_pitch_and_level_over_all_blocks(
    rate: int, make_tone: Callable[..., Path], read_samples: Callable[..., np.ndarray]
) -> None:
    """Resampled in one stream and not block by block: no click, no alias, at any of a 16 kHz file's frequencies."""
    for hertz in (200.0, 3_000.0) if rate <= 8_000 else (200.0, 3_000.0, 0.44 * min(rate, 16_000)):
        path = make_tone(f"{rate}-{hertz}.wav", codec="pcm_f32le", rate=rate, channels=1, hertz=hertz)
        middle = read_samples(path)[4_000:28_000]
        spectrum = np.abs(np.fft.rfft(middle * np.blackman(len(middle))))
        peak = int(np.argmax(spectrum))
        assert abs(peak * 16_000 / len(middle) - hertz) <= 1
        assert 20 * np.log10(np.sqrt(2 * np.mean(middle**2)) / 0.5) == pytest.approx(0, abs=0.1)
        beside = np.concatenate([spectrum[: max(0, peak - 20)], spectrum[peak + 20 :]])
        assert 20 * np.log10(beside.max() / spectrum[peak]) < -90


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


class TestPipes:
    """What can be read once is read once: a named pipe, a shell's `<(...)`, standard input."""

    def test_a_named_pipe_is_read_from_its_first_byte(
        self, make_tone: Callable[..., Path], tmp_path: Path, read_samples: Callable[..., np.ndarray]
    ) -> None:
        sound, pipe = make_tone("sound.flac", codec="flac"), tmp_path / "pipe"
        os.mkfifo(pipe)
        file = AudioFile(pipe)
        file.check()  # neither of the two may take the beginning away, nor wait for a writer
        assert file.seconds() is None
        writer = threading.Thread(target=lambda: pipe.write_bytes(sound.read_bytes()))
        writer.start()
        assert (read_samples(pipe) == read_samples(sound)).all()
        writer.join(10)

    def test_an_index_at_the_end_is_out_of_reach_and_is_told(
        self, make_tone: Callable[..., Path], tmp_path: Path, read_samples: Callable[..., np.ndarray]
    ) -> None:
        sound, pipe = make_tone("sound.m4a", codec="aac"), tmp_path / "pipe"
        os.mkfifo(pipe)

        def write() -> None:
            with contextlib.suppress(BrokenPipeError):  # its reader may have seen enough
                pipe.write_bytes(sound.read_bytes())

        writer = threading.Thread(target=write)
        writer.start()
        with pytest.raises(BadInputError, match=r"index at the end.*faststart"):
            read_samples(pipe)
        writer.join(10)

    @pytest.mark.parametrize("skipped", [0, 7])
    def test_a_file_as_standard_input(
        self,
        skipped: int,
        make_tone: Callable[..., Path],
        tmp_path: Path,
        read_samples: Callable[..., np.ndarray],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An M4A, which wants to be read from its end; and a file that somebody has read the beginning of."""
        sound = make_tone("sound.m4a", codec="aac") if not skipped else make_tone("sound.flac", codec="flac")
        path = tmp_path / "input"
        path.write_bytes(b"x" * skipped + sound.read_bytes())
        with path.open("rb", buffering=0) as file:
            file.seek(skipped)
            monkeypatch.setattr(sys, "stdin", file)
            assert (read_samples("-") == read_samples(sound)).all()
            assert not file.closed

    def test_an_empty_pipe_is_told_as_one(self, tmp_path: Path, read_samples: Callable[..., np.ndarray]) -> None:
        with Path(os.devnull).open("rb") as nothing, pytest.raises(BadInputError, match="is empty"):
            read_samples(f"/dev/fd/{nothing.fileno()}")

    def test_no_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(BadInputError, match="no standard input"):
            AudioFile("-").check()


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

    def test_a_rate_that_only_damage_explains(self, tmp_path: Path) -> None:
        path = tmp_path / "slow.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(1)
            file.writeframes(bytes(64_000))  # nine hours of it
        self.check(path, "claims 1 samples a second")

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
