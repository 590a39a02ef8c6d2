"""What `voice talk` does once its options are known."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from voice_client.audio import AudioFile, AudioSource, Microphone, WavFile
from voice_client.audio.playback import Loudspeaker
from voice_client.cli.dialog import Dialog
from voice_client.cli.failure import say
from voice_client.cli.live_text import LiveText
from voice_client.cli.options import Where
from voice_client.cli.reply_audio import FileVoice, LoudspeakerVoice, VoiceSink
from voice_client.errors import BadInputError
from voice_client.protocol.speech import SAMPLE_RATE_HZ
from voice_client.replies import Reply, chosen_reply
from voice_client.session.conversation import Conversation
from voice_client.session.conversation_events import (
    ConversationEvent,
    Interrupted,
    ReplyText,
    TurnFailed,
    UserTurn,
)
from voice_client.session.conversation_metrics import TurnMetrics
from voice_client.session.conversation_settings import BargeIn, ConversationSettings
from voice_client.session.events import Notice, Partial, Restarted, SpeechChunk
from voice_client.session.settings import Turns
from voice_client.session.synthesizer import Synthesizer
from voice_client.session.transcriber import Transcriber
from voice_client.whole_file import check_writable


@dataclass(frozen=True, slots=True)
class Talk:
    """What is heard, who answers, and where the voice goes."""

    file: AudioFile | None
    """Heard instead of the microphone."""
    output: Path | None
    """Written instead of being played."""
    reply_shown: str
    reply: Reply
    voice: str | None
    language: str | None
    settings: ConversationSettings
    device: str | int | None
    speaker: str | int | None
    as_json: bool

    @classmethod
    def checked(
        cls,
        *,
        audio: str | None,
        output: Path | None,
        reply: str | None,
        voice: str | None,
        language: str | None,
        pause: float,
        barge_in: bool | None,
        barge_in_after: float,
        barge_in_level: float,
        device: str | None,
        speaker: str | None,
        as_json: bool,
    ) -> Self:
        """Check all options and inputs before anything is connected.

        Raises:
            BadInputError: what cannot be; all problems together.
        """
        problems: list[BadInputError] = []
        file = AudioFile(audio) if audio is not None else None
        interruptible = file is None if barge_in is None else barge_in
        settings, plug = ConversationSettings(), chosen_reply("echo")
        if device is not None and file is not None:
            problems.append(BadInputError("--device is for the microphone; with --input none is used"))
        if speaker is not None and output is not None:
            problems.append(BadInputError("--speaker is for the loudspeaker; with --output none is used"))
        if output is not None and output.suffix.lower() not in {".wav", ".wave"}:
            problems.append(BadInputError(f"{output} is written as WAV: give it a name that ends in .wav"))
        with _collected(problems):
            settings = ConversationSettings(
                turns=Turns(pause=pause),
                barge_in=BargeIn(barge_in_after, barge_in_level) if interruptible else None,
            )
        with _collected(problems):
            plug = chosen_reply(reply)
        with _collected(problems):
            if file is not None:
                file.check()
        with _collected(problems):
            if output is not None:
                check_writable(output)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise BadInputError("; ".join(problem.message for problem in problems))
        shown, function = plug
        return cls(file, output, shown, function, voice, language, settings, _device(device), _device(speaker), as_json)


def _device(name: str | None) -> str | int | None:
    return int(name) if name is not None and name.isdigit() else name


@contextlib.contextmanager
def _collected(problems: list[BadInputError]) -> Iterator[None]:
    try:
        yield
    except BadInputError as error:
        problems.append(error)


async def hold_talk(talk: Talk, ear_place: Where, voice_place: Where) -> None:
    """Hold a conversation to the end of the file, or until Ctrl-C.

    Raises:
        VoiceError: what went wrong; with an input file also the first reply that failed. No half file stays.
    """
    dialog = Dialog(talk.output)
    listening = Transcriber.connect(**ear_place, settings=talk.settings.hearing())
    speaking = Synthesizer.connect(**voice_place, voice=talk.voice, language=talk.language)
    with ExitStack() as stack:
        source: AudioSource = talk.file or Microphone(talk.device)
        sink = _sink(talk, stack)
        async with listening as ear, speaking as voice:
            conversation = Conversation(ear, voice, talk.reply, settings=talk.settings)
            if talk.file is None:
                say(f"listening; replies come from {talk.reply_shown}; Ctrl-C ends it")
            async with _ended_by_ctrl_c(only_if=talk.file is None):
                await _follow(conversation, source, sink, dialog, show=not talk.as_json)
        if talk.file is not None:
            if dialog.failure is not None:
                raise dialog.failure
            if not dialog.turns:
                raise BadInputError(f"nobody speaks in {talk.file.name}: there is nothing to answer")
        sink.finish()
    if talk.as_json:
        print(json.dumps(dialog.fields(), ensure_ascii=False))  # noqa: T201
    elif talk.output is not None:
        print(talk.output)  # noqa: T201


def _sink(talk: Talk, stack: ExitStack) -> VoiceSink:
    if talk.output is not None:
        return FileVoice(stack.enter_context(WavFile(talk.output, rate=SAMPLE_RATE_HZ)))
    return LoudspeakerVoice(stack.enter_context(Loudspeaker(rate=SAMPLE_RATE_HZ, device=talk.speaker)))


async def _follow(
    conversation: Conversation, source: AudioSource, sink: VoiceSink, dialog: Dialog, *, show: bool
) -> None:
    with LiveText() as live:
        async for event in conversation.converse(source):
            match event:
                case Partial(text=text):
                    live.show(text)
                case SpeechChunk():
                    sink.play(event)
                case Restarted():
                    sink.restart(event)
                case Interrupted(played=played):
                    sink.stop(played)
                case Notice(message=message):
                    say(message)
                case _:
                    pass
            dialog.take(event)
            if show:
                _show(event, dialog, live)


def _show(event: ConversationEvent, dialog: Dialog, live: LiveText) -> None:
    match event:
        case UserTurn(text=text):
            live.show("")
            print(f"You: {text}", flush=True)  # noqa: T201
        case ReplyText():
            live.show(dialog.turns[-1].reply)
        case Interrupted(heard=heard):
            live.show("")
            print(f"Voice: {heard} (interrupted)" if heard else "Voice: (interrupted)", flush=True)  # noqa: T201
        case TurnMetrics():
            say(_waits(event))
        case TurnFailed(error=error):
            say(str(error))
        case _ if (said := dialog.said_by(event)) is not None:
            live.show("")
            print(f"Voice: {said}", flush=True)  # noqa: T201


def _waits(metrics: TurnMetrics) -> str:
    waits = [
        f"{name} {wait:.0f} ms"
        for name, wait in (
            ("final text", metrics.final_text_ms),
            ("first token", metrics.first_token_ms),
            ("first sound", metrics.first_sound_ms),
            ("in all", metrics.total_ms),
        )
        if wait is not None
    ]
    return f"turn {metrics.turn + 1}: {', '.join(waits)}"


@asynccontextmanager
async def _ended_by_ctrl_c(*, only_if: bool) -> AsyncGenerator[None]:
    """Let Ctrl-C end the block and nothing more: it is how a conversation with a microphone ends."""
    task = asyncio.current_task()
    if not only_if or task is None:
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    asked = False

    def end() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    loop.add_signal_handler(signal.SIGINT, end)
    try:
        yield
    except asyncio.CancelledError:
        if not asked:
            raise
        task.uncancel()
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
