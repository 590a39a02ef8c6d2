"""How a voice is asked to speak: checked together, before anything is connected."""

import base64
import io
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from voice_client.audio.decode import decode
from voice_client.audio.pcm import to_pcm16
from voice_client.audio.resample import resample
from voice_client.audio.tempo import FASTEST, SLOWEST
from voice_client.errors import BadInputError
from voice_client.protocol import speech
from voice_client.session.voices import ModelKind, chosen_voice, kind_of, language_name

LONGEST_INSTRUCTIONS = 500
"""Characters; the server refuses more."""

SHORTEST_REFERENCE, LONGEST_REFERENCE = 1.0, 30.0
"""Seconds of a reference recording that vLLM-Omni takes."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What a `session.config` says, and the pace that the client adds."""

    model: str | None
    voice: str | None
    language: str | None
    instructions: str | None
    speed: float
    task_type: str | None
    ref_audio: str | None = field(repr=False)
    """`data:` address of a WAV."""
    ref_text: str | None = field(repr=False)

    @classmethod
    def checked(
        cls,
        *,
        model: str | None = None,
        voice: str | None = None,
        language: str | None = None,
        instructions: str | None = None,
        speed: float | None = None,
        ref_audio: str | Path | None = None,
        ref_text: str | None = None,
    ) -> Self:
        """Check what a caller asks for. The arguments are those of `Synthesizer.connect`.

        Raises:
            BadInputError: what the model or the server does not take; all problems together.
        """
        problems: list[BadInputError] = []
        kind = kind_of(model)

        def collected[T](check: Callable[[], T], otherwise: T) -> T:
            try:
                return check()
            except BadInputError as problem:
                problems.append(problem)
                return otherwise

        clones = ref_audio is not None
        asked_voice = collected(lambda: None if clones else chosen_voice(voice, model=model), None)
        asked_language = collected(lambda: language_name(language), None)
        reference = collected(lambda: _reference(ref_audio) if ref_audio is not None else None, None)
        problems += map(BadInputError, _conflicts(kind, model, voice, instructions, clones=clones, ref_text=ref_text))
        if instructions is not None and len(instructions) > LONGEST_INSTRUCTIONS:
            problems.append(
                BadInputError(f"the instructions have {len(instructions)} characters, at most {LONGEST_INSTRUCTIONS}")
            )
        problems += [
            BadInputError(f"the {name} holds bytes that are no UTF-8 text")
            for name, value in {"model": model, "instructions": instructions, "ref_text": ref_text}.items()
            if value is not None and any("\ud800" <= character <= "\udfff" for character in value)
        ]
        if speed is not None and not SLOWEST <= speed <= FASTEST:
            problems.append(BadInputError(f"a speed of {speed:g} is not within {SLOWEST:g} to {FASTEST:g}"))
        _raise_all(problems)
        return cls(
            model=model,
            voice=asked_voice,
            language=asked_language,
            instructions=instructions,
            speed=speed if speed is not None else 1.0,
            task_type="Base" if clones else "VoiceDesign" if kind is ModelKind.VOICE_DESIGN else None,
            ref_audio=reference,
            ref_text=ref_text,
        )

    def config(self) -> str:
        """Return the `session.config`."""
        return speech.session_config(
            model=self.model,
            voice=self.voice,
            language=self.language,
            task_type=self.task_type,
            instructions=self.instructions,
            ref_audio=self.ref_audio,
            ref_text=self.ref_text,
        )


def _conflicts(
    kind: ModelKind,
    model: str | None,
    voice: str | None,
    instructions: str | None,
    *,
    clones: bool,
    ref_text: str | None,
) -> list[str]:
    """Return what the kind of the model does not allow."""
    problems = []
    if clones and voice is not None:
        problems.append("voice and ref_audio exclude each other: the recording is the voice")
    if clones and kind not in {ModelKind.BASE, ModelKind.UNKNOWN}:
        problems.append(f"{model} has voices of its own and clones none; a Base model does")
    if kind is ModelKind.BASE and not clones:
        problems.append(f"{model} speaks with the voice of a recording: give ref_audio")
    if kind is ModelKind.VOICE_DESIGN and not instructions:
        problems.append(f"{model} makes a voice from a description: give instructions")
    if ref_text is not None and not clones:
        problems.append("ref_text is the text of ref_audio, which is missing")
    return problems


def _reference(path: str | Path) -> str:
    """Return a recording as a `data:` address.

    Raises:
        BadInputError: no audio, too short or too long.
    """
    try:
        with Path(path).open("rb") as file:
            pcm = b"".join(map(to_pcm16, resample(decode(file, str(path)), speech.SAMPLE_RATE_HZ)))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    seconds = len(pcm) / speech.BYTES_PER_SECOND
    if not SHORTEST_REFERENCE <= seconds <= LONGEST_REFERENCE:
        raise BadInputError(
            f"the reference {path} is {seconds:.1f} s long, not {SHORTEST_REFERENCE:g} to {LONGEST_REFERENCE:g} s"
        )
    file_bytes = io.BytesIO()
    with wave.open(file_bytes, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(speech.SAMPLE_RATE_HZ)
        wav.writeframes(pcm)
    return "data:audio/wav;base64," + base64.b64encode(file_bytes.getvalue()).decode()


def _raise_all(problems: list[BadInputError]) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        advice = ". ".join(dict.fromkeys(problem.advice for problem in problems if problem.advice))
        raise BadInputError("; ".join(problem.message for problem in problems), advice=advice)
