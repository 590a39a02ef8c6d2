"""A WAV file is written whole or not at all."""

import stat
import wave
from pathlib import Path

import pytest

from voice_client.audio import WavFile
from voice_client.errors import BadInputError


def test_the_header_is_right(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    pcm = bytes(range(256)) * 300
    with WavFile(path, rate=24_000) as file:
        file.write(pcm[:1000])
        assert not path.exists()
        file.write(pcm[1000:])
    with wave.open(str(path)) as result:
        assert (result.getnchannels(), result.getsampwidth(), result.getframerate()) == (1, 2, 24_000)
        assert result.getnframes() == len(pcm) // 2
        assert result.readframes(len(pcm)) == pcm
    assert path.stat().st_size == 44 + len(pcm)
    data = path.read_bytes()
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    path.write_bytes(b"old")

    def fail() -> None:
        with WavFile(path, rate=24_000) as file:
            file.write(bytes(1000))
            raise RuntimeError("the voice broke off")

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("name", "reason"), [("no/such/folder/out.wav", "cannot be written"), (".", "is a folder")])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason), WavFile(tmp_path / name, rate=24_000):
        pass
