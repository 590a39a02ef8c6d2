"""Learns the voices of a model from the model itself."""

import asyncio
import re

from voice_client.errors import DeadlineError, ModelError
from voice_client.protocol import speech
from voice_client.session.connection import Connection, StreamOpener
from voice_client.session.voices import VOICES

_NOBODY = "tell-me-your-voices"
"""No model has a voice of this name."""

_SUPPORTED = re.compile(r"\b(?:supported|available)(?: voices)?: *(.+)", re.IGNORECASE)


async def ask_for_voices(opener: StreamOpener, *, model: str | None, seconds: float) -> tuple[str, ...]:
    """Ask for a voice that there is not, and read in the refusal which there are. No sound is made.

    Args:
        opener: opens a stream to the model's `/v1/audio/speech/stream`.
        model: name the server knows it by; None leaves it to the server.
        seconds: longest wait for the answer.

    Returns:
        The names in the order of the answer, in the model's own spelling where it is known (vLLM-Omni answers in small
        letters).

    Raises:
        ModelError: the answer holds no names.
        DeadlineError: no answer came.
        VoiceError: the stream failed.
    """
    connection = await Connection.open(opener, speech.parse)
    try:
        await connection.send(speech.session_config(model=model, voice=_NOBODY, language=None))
        await connection.send(speech.input_text("Hello."))
        await connection.send(speech.input_done())
        async with asyncio.timeout(seconds):
            answer = await _refusal(connection)
    except TimeoutError as error:
        raise DeadlineError(f"the model named no voices within {seconds:g} s") from error
    finally:
        await connection.close()
    known = {name.lower(): name for name in VOICES}
    if (named := _SUPPORTED.search(answer)) is None:
        raise ModelError(
            f"the model did not name its voices: {answer}",
            advice="A model that clones a recording, or makes a voice from a description, has none",
        )
    names = (name.strip(" .'\"[]") for name in named.group(1).split(","))
    return tuple(known.get(name.lower(), name) for name in names if name)


async def _refusal(connection: Connection[speech.ServerEvent]) -> str:
    while True:
        match (await connection.receive()).event:
            case speech.ErrorEvent(message):
                return message
            case speech.Audio() | speech.SessionDone():
                return "it spoke with a voice nobody has heard of"
            case _:
                continue
