"""What a client may ask for: the fields the front-end checks, and the checks the model's own code makes later."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

VOICES = ("Vivian", "Serena", "Uncle_Fu", "Dylan", "Eric", "Ryan", "Aiden", "Ono_Anna", "Sohee")
"""The voices of Qwen3-TTS CustomVoice."""

LANGUAGES = (
    "Auto",
    "Chinese",
    "English",
    "Japanese",
    "Korean",
    "German",
    "French",
    "Russian",
    "Portuguese",
    "Spanish",
    "Italian",
)
"""Names, not codes: `en` is refused."""

TASK_TYPES = ("CustomVoice", "VoiceDesign", "Base")

MAX_INSTRUCTIONS_CHARACTERS = 500
MAX_NEW_TOKENS = 4096


class StreamingSpeechSessionConfig(BaseModel):
    """`session.config`. The class name is vLLM-Omni's: it is part of the error text for a bad field.

    Unknown fields are dropped without a word, so a typo gives the default. Voice, language, task type and
    instructions are not checked here but when the first sentence is about to be spoken.
    """

    model: str | None = None
    voice: str | None = None
    task_type: str | None = None
    language: str | None = None
    instructions: str | None = None
    response_format: Literal["wav", "pcm", "flac", "mp3", "opus"] = "wav"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    max_new_tokens: int | None = None
    initial_codec_chunk_frames: int | None = None
    ref_audio: str | None = None
    ref_text: str | None = None
    stream_audio: bool = False
    word_timestamps: bool = False

    def model_post_init(self, context: object, /) -> None:
        """Refuse streaming of anything but PCM, and at any speed but 1.

        The second is in vLLM-Omni's `StreamingSpeechSessionConfig` (protocol/audio.py) since its `stream_audio` is.
        """
        del context
        if self.stream_audio and self.response_format != "pcm":
            raise ValueError("stream_audio=true requires response_format='pcm'")
        if self.stream_audio and self.speed != 1.0:
            raise ValueError("stream_audio=true takes no speed but 1.0")


def problems_of(config: StreamingSpeechSessionConfig) -> list[str]:
    """Return what the model's code would refuse, all of it; empty for a good request."""
    problems = []
    if config.voice is not None and config.voice.lower() not in {voice.lower() for voice in VOICES}:
        problems.append(f"Invalid voice '{config.voice}'. Supported: {', '.join(VOICES)}")
    if config.language is not None and config.language not in LANGUAGES:
        problems.append(f"Invalid language '{config.language}'. Supported: {', '.join(LANGUAGES)}")
    if config.task_type is not None and config.task_type not in TASK_TYPES:
        problems.append(f"Invalid task_type '{config.task_type}'. Supported: {', '.join(TASK_TYPES)}")
    if config.task_type == "Base" and not config.ref_audio:
        problems.append("Task type 'Base' requires 'ref_audio'")
    if config.task_type == "VoiceDesign" and not config.instructions:
        problems.append("Task type 'VoiceDesign' requires 'instructions'")
    if len(config.instructions or "") > MAX_INSTRUCTIONS_CHARACTERS:
        problems.append(f"Instructions too long (max {MAX_INSTRUCTIONS_CHARACTERS} characters)")
    if config.max_new_tokens is not None and not 1 <= config.max_new_tokens <= MAX_NEW_TOKENS:
        problems.append(f"max_new_tokens must be between 1 and {MAX_NEW_TOKENS}")
    return problems
