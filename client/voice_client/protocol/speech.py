"""vLLM-Omni's `/v1/audio/speech/stream`, the text-to-speech protocol (vLLM-Omni 0.26, the container v1.5).

Order on the wire: `session.config` (within 10 s), then for each utterance `input.text`, `input.done`, `audio.start`,
binary audio, `audio.done`, `session.done`; the connection stays open for the next utterance for 30 s. A failed
utterance ends with `session.done` too, so that event alone is no success.
"""

import json
from dataclasses import dataclass, field

from voice_client.errors import ProtocolError
from voice_client.protocol.json_message import Unknown, read_message

INVOCATION_PATH = "v1/audio/speech/stream"
"""Path on the container, slashless: SageMaker answers HTTP 400 to a leading slash."""

SAMPLE_RATE_HZ = 24_000
"""Audio comes down as PCM16 little-endian, mono, at this rate."""

BYTES_PER_SECOND = 2 * SAMPLE_RATE_HZ

LONGEST_MESSAGE_BYTES = 128 * 1024
"""The server refuses longer messages (the config alone may have 4 MiB)."""


@dataclass(frozen=True, slots=True)
class AudioStart:
    """The server starts to speak one utterance."""

    utterance_index: int
    """Counts from 0 on each connection."""
    sentence_index: int
    sample_rate: int | None
    """In Hz; given only for streamed PCM."""


@dataclass(frozen=True, slots=True)
class Audio:
    """One binary frame. PCM16, but a frame can end in the middle of a sample."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AudioDone:
    """The audio of one utterance has been sent, or failed."""

    utterance_index: int
    total_bytes: int
    error: bool


@dataclass(frozen=True, slots=True)
class SessionDone:
    """An utterance is over, well or not."""

    utterance_index: int
    total_sentences: int


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The server could not do what was asked."""

    message: str


type ServerEvent = AudioStart | Audio | AudioDone | SessionDone | ErrorEvent | Unknown


def parse(message: str | bytes) -> ServerEvent:
    """Turn one message of the server into an event.

    Raises:
        ProtocolError: a text message that is no JSON, or a known event without its fields.
    """
    if isinstance(message, bytes):
        return Audio(message)
    event = read_message(message)
    match event.type:
        case "audio.start":
            rate = event.integer("sample_rate") if event.fields.get("sample_rate") is not None else None
            return AudioStart(event.integer("utterance_index", 0), event.integer("sentence_index", 0), rate)
        case "audio.done":
            return AudioDone(
                event.integer("utterance_index", 0), event.integer("total_bytes"), event.flag("error", default=False)
            )
        case "session.done":
            return SessionDone(event.integer("utterance_index", 0), event.integer("total_sentences"))
        case "error":
            return ErrorEvent(event.text("message", "the server gave no reason"))
        case _:
            return Unknown(event.type, event.fields)


def session_config(
    *,
    model: str | None,
    voice: str | None,
    language: str | None,
    task_type: str | None = None,
    instructions: str | None = None,
    ref_audio: str | None = None,
    ref_text: str | None = None,
) -> str:
    """Encode the session's configuration; what is None is left to the server.

    `stream_audio` and `pcm` are always asked for: without both, an utterance arrives as one WAV at its end. `speed` is
    never: the server refuses it together with `stream_audio`.
    The server ignores fields it does not know, so a misspelt one would silently give its default.

    Args:
        model: name the server knows it by.
        voice: one of the model's voices.
        language: its English name, or "Auto".
        task_type: "CustomVoice", "VoiceDesign" or "Base".
        instructions: how to speak, at most 500 characters.
        ref_audio: `data:` address of a recording whose voice is cloned.
        ref_text: what is said in the recording.
    """
    fields = {
        "model": model,
        "voice": voice,
        "task_type": task_type,
        "language": language,
        "instructions": instructions,
        "ref_audio": ref_audio,
        "ref_text": ref_text,
    }
    chosen = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({"type": "session.config", **chosen, "response_format": "pcm", "stream_audio": True})


def input_text(text: str) -> str:
    """Encode text to be spoken; nothing is spoken before `input.done`.

    Raises:
        ProtocolError: longer than a message may be; the server would answer with an error and speak nothing.
    """
    message = json.dumps({"type": "input.text", "text": text}, ensure_ascii=False)
    if (size := len(message.encode())) > LONGEST_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {size} bytes is longer than {LONGEST_MESSAGE_BYTES} bytes")
    return message


def input_done() -> str:
    """Encode the end of an utterance's text."""
    return json.dumps({"type": "input.done"})
