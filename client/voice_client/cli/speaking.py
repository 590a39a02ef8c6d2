"""What `voice speak` does once its options are known."""

import asyncio
import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voice_client.audio.encoded import ENDINGS
from voice_client.cli.failure import say
from voice_client.cli.live_text import LiveText
from voice_client.cli.options import Where
from voice_client.cli.speech_sinks import Sink, file_sink, loudspeaker_sink, pipe_sink
from voice_client.cli.spoken_text import push_stdin
from voice_client.cli.wire_log import WireLog
from voice_client.errors import BadInputError
from voice_client.protocol.speech import BYTES_PER_SECOND
from voice_client.session import Notice, Retry, SpeakingMetrics, Speech, SpeechChunk, Synthesizer, SynthesizerSettings
from voice_client.session.ending import end_tasks
from voice_client.session.manner import Manner
from voice_client.whole_file import check_writable

STDOUT = "-"

LONGEST_STREAM = 20_000_000
"""Characters of a text that comes through standard input: a stream may go on for days, but not for ever."""


@dataclass(frozen=True, slots=True)
class SpeakJob:
    """What is to be said, how, and where it goes."""

    text: str | None
    """None: it comes through standard input."""
    output: Path | None
    """None: no file; `-` is standard output."""
    pipe_format: Literal["wav", "raw"]
    play: bool
    device: str | int | None
    as_json: bool
    manner: dict[str, Any]
    """Arguments of `Synthesizer.connect`."""
    retry: bool
    verbose: bool
    show_words: bool

    def check(self, model: str | None) -> None:
        """See before anything is connected that all of it can be done.

        Raises:
            BadInputError: what cannot; all problems together.
        """
        problems: list[BadInputError] = []
        to_pipe = str(self.output) == STDOUT
        if to_pipe and self.as_json:
            problems.append(BadInputError("--json and -o - exclude each other: both write to standard output"))
        if to_pipe and sys.stdout is not None and sys.stdout.isatty():
            problems.append(
                BadInputError("audio is not written to a terminal", advice="Pipe it into a player, or name a file")
            )
        if self.pipe_format == "raw" and not to_pipe:
            problems.append(BadInputError("--format is for -o -"))
        if self.device is not None and not self.play:
            problems.append(BadInputError("--device is for --play"))
        if self.show_words and not self.verbose:
            problems.append(BadInputError("--show-words is for --verbose"))
        if self.text is not None and not any(map(str.isalnum, self.text)):
            problems.append(BadInputError("there is no text to speak"))
        try:
            Manner.checked(model=model, **self.manner)
        except BadInputError as problem:
            problems.append(problem)
        if self.output is not None and not to_pipe:
            try:
                check_writable(self.output)
            except BadInputError as problem:
                problems.append(problem)
            if self.output.suffix.lower() not in ENDINGS:
                problems.append(
                    BadInputError(
                        f"{self.output}: speech is written as WAV, FLAC or MP3",
                        advice="End the name in .wav, .flac or .mp3",
                    )
                )
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise BadInputError("; ".join(problem.message for problem in problems))

    @asynccontextmanager
    async def sinks(self) -> AsyncIterator[list[Sink]]:
        """Open where the audio goes.

        Raises:
            VoiceError: one cannot be opened, or did not take all of it.
        """
        async with AsyncExitStack() as opened:
            sinks: list[Sink] = []
            if str(self.output) == STDOUT:
                sinks.append(await opened.enter_async_context(pipe_sink(self.pipe_format)))
            elif self.output is not None:
                sinks.append(await opened.enter_async_context(file_sink(self.output)))
            if self.play:
                sinks.append(await opened.enter_async_context(loudspeaker_sink(self.device)))
            yield sinks


async def speak_it(job: SpeakJob, place: Where) -> None:
    """Speak a job's text, and say what came of it.

    Raises:
        VoiceError: what went wrong; no half file is left.
        PipeClosedError: whoever read standard output has gone.
    """
    job.check(place["model"])
    connecting = Synthesizer.connect(
        **place,
        **job.manner,
        retry=Retry() if job.retry else None,
        settings=SynthesizerSettings() if job.text is not None else SynthesizerSettings(longest_text=LONGEST_STREAM),
        observer=WireLog(show_words=job.show_words) if job.verbose else None,
    )
    with LiveText(shown=not job.verbose) as live:
        async with job.sinks() as sinks, connecting as voice:
            speech = _speech(job, voice)
            async with _growing(speech, job):
                await _hand_on(job, speech, sinks, live)
    _tell(job, voice, speech.metrics)


def _speech(job: SpeakJob, voice: Synthesizer) -> Speech:
    def tell(notice: Notice) -> None:
        say(notice.message)

    return voice.open_speech(on_notice=tell) if job.text is None else voice.speak(job.text, on_notice=tell)


@asynccontextmanager
async def _growing(speech: Speech, job: SpeakJob) -> AsyncIterator[None]:
    """Feed standard input to a speech while its audio is taken."""
    if job.text is not None:
        yield
        return
    feeding = asyncio.create_task(push_stdin(speech), name="voice-stdin")
    try:
        yield
        await feeding
    finally:
        await end_tasks(feeding)


async def _hand_on(job: SpeakJob, speech: Speech, sinks: list[Sink], live: LiveText) -> None:
    complete = current = 0
    sentence, place = -1, ""
    async for event in speech:
        for sink in sinks:
            await sink.take(event)
        if event.sentence != sentence:
            sentence, complete, current = event.sentence, complete + current, 0
            place = f"sentence {sentence + 1}{_of_all(speech, sentence, job)}"
        current = current + len(event.pcm) if isinstance(event, SpeechChunk) else 0
        seconds = (complete + current) / BYTES_PER_SECOND
        live.show(f"{seconds:.1f} s, {place}")


def _of_all(speech: Speech, sentence: int, job: SpeakJob) -> str:
    """Return how far a sentence is in the whole text, as far as that is known."""
    if speech.total_sentences is not None:
        return f"/{speech.total_sentences}"
    if job.text is None:
        return ""
    return f" ({sum(map(len, speech.sentences[:sentence])) / len(job.text):.0%} of the text)"


def _tell(job: SpeakJob, voice: Synthesizer, metrics: SpeakingMetrics) -> None:
    if job.as_json:
        manner = voice.manner
        result = {
            "file": str(job.output) if job.output is not None else None,
            "voice": manner.voice,
            "language": manner.language,
            "metrics": _rounded(dataclasses.asdict(metrics)),
        }
        print(json.dumps(result, ensure_ascii=False))  # noqa: T201
        return
    if job.output is not None and str(job.output) != STDOUT:
        print(job.output)  # noqa: T201
    say(_measures(metrics))


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case dict():
            return {name: _rounded(part) for name, part in value.items()}
        case list() | tuple():
            return [_rounded(part) for part in value]
        case _:
            return value


def _measures(metrics: SpeakingMetrics) -> str:
    first = f"first sound after {metrics.ttfa_ms:.0f} ms, " if metrics.ttfa_ms is not None else "silence only, "
    dry = f", {_count(metrics.underruns, 'gap')} ({metrics.underrun_ms:.0f} ms) when played live"
    gaps = dry if metrics.underruns else ""
    again = f", {metrics.retries} asked for again" if metrics.retries else ""
    return (
        f"{metrics.seconds:.1f} s of speech in {_count(metrics.chunks, 'chunk')} ({metrics.bytes} bytes), {first}"
        f"real-time factor {metrics.rtf:.2f}{gaps}{again}"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
