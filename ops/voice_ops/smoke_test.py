"""One sentence through both endpoints of a stage, by the `voice` command, as a user would: spoken, then heard."""

import json
import os
import re
import subprocess
import sys
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voice_ops.errors import OpsError

SENTENCE = "Good morning. This is a short test of the voice, and of the ear that listens to it."
"""Said to every fresh deployment; written by us, so nobody's words are in a log."""

COMMAND_SECONDS = 180.0
"""For each of the two: a fresh endpoint compiles for about 67 s at its first request."""

LEAST_HEARD = 0.5
"""Share of the sentence's words that must come back: the two models are real, and neither is perfect."""

LEAST_SECONDS = 2.0
"""Of audio: the sentence takes about five."""


class SmokeTestFailedError(OpsError):
    """The endpoints are there, and do not do what they are for."""


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """What came of it.

    Attributes:
        spoken: WAV file with the sentence.
        audio_seconds: its length.
        first_audio_ms: from the request to the first audio; None when the command does not tell.
        first_words_ms: from the first audio sent to the first words; None when the command does not tell.
        heard: share of the sentence's words that came back, 0 to 1.
    """

    spoken: Path
    audio_seconds: float
    first_audio_ms: float | None
    first_words_ms: float | None
    heard: float


def speak(stage: str, region: str, target: Path) -> tuple[float, dict[str, Any]]:
    """Have the sentence spoken into a WAV file; return its length in seconds and what the command told.

    Raises:
        SmokeTestFailedError: it failed, or there is no speech in the file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    told = _voice("speak", SENTENCE, "-o", str(target), "--stage", stage, "--region", region)
    try:
        with wave.open(str(target)) as audio:
            seconds = audio.getnframes() / audio.getframerate()
    except (OSError, EOFError, wave.Error) as error:
        raise SmokeTestFailedError(f"`voice speak` left no WAV file in {target}: {error}") from error
    if seconds < LEAST_SECONDS:
        raise SmokeTestFailedError(f"the voice answered with {seconds:.1f} s of audio for a sentence of about 5 s")
    return seconds, told


def hear(stage: str, region: str, recording: Path) -> tuple[float, dict[str, Any]]:
    """Have a recording of the sentence transcribed; return the share of its words that came back, and what was told.

    Raises:
        SmokeTestFailedError: it failed, or too little came back.
    """
    told = _voice("transcribe", str(recording), "--stage", stage, "--region", region)
    share = heard_share(SENTENCE, str(told.get("text", "")))
    if share < LEAST_HEARD:
        raise SmokeTestFailedError(
            f"the ear gave {share:.0%} of the words back that the voice spoke into {recording}; listen to it, and look "
            f"at the container's log: voice logs stt --stage {stage}"
        )
    return share, told


def smoke_test(stage: str, region: str, target: Path) -> SmokeTest:
    """Speak and hear.

    Raises:
        SmokeTestFailedError: see `speak` and `hear`.
    """
    seconds, spoken = speak(stage, region, target)
    share, heard = hear(stage, region, target)
    return SmokeTest(
        spoken=target,
        audio_seconds=seconds,
        first_audio_ms=spoken.get("metrics", {}).get("ttfa_ms"),
        first_words_ms=heard.get("metrics", {}).get("first_partial_ms"),
        heard=share,
    )


def heard_share(sentence: str, text: str) -> float:
    """Return the share of a sentence's words that are in a text, 0 to 1."""
    words = re.findall(r"[a-z']+", sentence.lower())
    found = set(re.findall(r"[a-z']+", text.lower()))
    return sum(word in found for word in words) / len(words)


def _voice(*words: str) -> dict[str, Any]:
    name = f"voice {words[0]}"
    command = Path(sys.executable).parent / "voice"
    if not command.exists():
        raise SmokeTestFailedError(f"there is no {command}: run make setup")
    try:
        done = subprocess.run(
            [str(command), *words, "--json"],
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SmokeTestFailedError(f"`{name}` did not end within {COMMAND_SECONDS:.0f} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise SmokeTestFailedError(f"`{name}` ended with {done.returncode}: {said[-1] if said else 'no word'}")
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SmokeTestFailedError(f"`{name}` printed no JSON") from None
    return told
