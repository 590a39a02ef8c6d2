"""What `voice transcribe` does once its options are known."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from voice_client.audio import AudioFile, AudioSource, Microphone, RawFormat
from voice_client.audio.source import STDIN
from voice_client.cli.failure import say
from voice_client.cli.live_text import LiveText
from voice_client.cli.options import Where
from voice_client.cli.progress import FilesProgress, WatchedSource
from voice_client.cli.transcript import Transcript
from voice_client.cli.wire_log import WireLog
from voice_client.errors import BadInputError
from voice_client.session import (
    Final,
    HearingMetrics,
    Notice,
    Partial,
    Retry,
    Transcriber,
    TranscriberSettings,
    TranscriptionInterruptedError,
    Turns,
)
from voice_client.whole_file import check_writable, is_stream, write_whole


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be heard, and where it goes."""

    files: tuple[AudioFile, ...]
    microphone: Microphone | None
    output: Path | None
    output_format: str
    settings: TranscriberSettings
    retry: bool
    verbose: bool
    show_words: bool

    @property
    def several(self) -> bool:
        """Whether there is more than one input."""
        return len(self.files) > 1

    @classmethod
    def checked(
        cls,
        audio: Sequence[str],
        *,
        mic: bool,
        device: str | None,
        raw: tuple[str | None, int, int],
        output: Path | None,
        output_format: str | None,
        as_json: bool,
        turns: bool,
        pause: float,
        chunk_bytes: int,
        paced: bool,
        retry: bool,
        verbose: bool,
        show_words: bool,
    ) -> Self:
        """Check all options and inputs before anything is connected.

        Raises:
            BadInputError: what cannot be; all problems together.
        """
        problems: list[BadInputError] = []
        kind = output_format or ("json" if as_json else "txt")
        if as_json and output_format not in {None, "json"}:
            problems.append(BadInputError("--json and --format exclude each other"))
        if mic == bool(audio):
            problems.append(BadInputError("give files, or --mic" if not mic else "--mic and files exclude each other"))
        if device is not None and not mic:
            problems.append(BadInputError("--device is for --mic"))
        if show_words and not verbose:
            problems.append(BadInputError("--show-words is for --verbose"))
        if audio.count(STDIN) > 1:
            problems.append(BadInputError("standard input can be read once"))
        if output is None and sys.stdout is None:
            problems.append(BadInputError("there is no standard output to write to; name a file with -o"))
        if len(audio) > 1 and output is None and kind in {"srt", "vtt"}:
            problems.append(BadInputError("subtitles of several files need -o FOLDER"))
        with _collected(problems):
            raw_format = _raw_format(*raw)
        with _collected(problems):
            in_turns = turns or mic or kind in {"srt", "vtt"}
            how = Turns(pause=pause) if in_turns else None
            if how is None and pause != Turns().pause:
                problems.append(BadInputError("--pause is for --turns"))
            settings = TranscriberSettings(paced=paced, turns=how, chunk_bytes=chunk_bytes)
        _raise_all(problems)
        files = tuple(AudioFile(name, raw_format) for name in audio)
        microphone = Microphone(int(device) if device is not None and device.isdigit() else device) if mic else None
        job = cls(files, microphone, output, kind, settings, retry, verbose, show_words)
        job.check_paths()
        return job

    def check_paths(self) -> None:
        """See that every input is there and audio, and every output can be written.

        Raises:
            BadInputError: those that are not; all of them are named.
        """
        problems: list[BadInputError] = []
        sources: list[AudioFile | Microphone] = [*self.files, *([self.microphone] if self.microphone else [])]
        for source in sources:
            with _collected(problems):
                source.check()
        if self.output is not None and self.several and not self.output.is_dir():
            problems.append(BadInputError(f"{self.output} is no folder; the texts of several files go into one"))
        elif self.output is not None:
            names = [name for file in self.files if (name := self.output_of(file)) is not None] or [self.output]
            twice = sorted({str(name) for name in names if names.count(name) > 1})
            if twice:
                problems.append(BadInputError(f"several inputs would be written to {', '.join(twice)}"))
            for name in names:
                with _collected(problems):
                    check_writable(name)
                if any(file.is_file_of(name) for file in self.files):
                    problems.append(BadInputError(f"{name} is an input; the text would take the place of the audio"))
        _raise_all(problems)

    def output_of(self, file: AudioFile) -> Path | None:
        """Return where the text of an input goes; None is standard output."""
        if self.output is None or not self.several:
            return self.output
        stem = "stdin" if str(file.path) == STDIN else Path(file.path).stem
        return self.output / f"{stem}.{self.output_format}"


def _raw_format(encoding: str | None, rate: int, channels: int) -> RawFormat | None:
    if encoding is not None:
        return RawFormat(encoding, rate, channels)
    if (rate, channels) != (RawFormat().rate, RawFormat().channels):
        raise BadInputError("--rate and --channels are for --raw; a file with a header says its own")
    return None


@contextlib.contextmanager
def _collected(problems: list[BadInputError]) -> Iterator[None]:
    try:
        yield
    except BadInputError as error:
        problems.append(error)


def _raise_all(problems: list[BadInputError]) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise BadInputError("; ".join(problem.message for problem in problems))


async def transcribe_all(job: Job, place: Where) -> None:
    """Hear every input of a job in turn, and write what was heard.

    Raises:
        VoiceError: what went wrong; what was complete before is written.
    """
    connecting = Transcriber.connect(
        **place,
        retry=Retry() if job.retry else None,
        settings=job.settings,
        observer=WireLog(show_words=job.show_words) if job.verbose else None,
    )
    async with connecting as ear:
        if job.microphone is not None:
            await _hear_microphone(job, job.microphone, ear)
        elif job.several:
            await _hear_files(job, ear)
        else:
            await _hear_file(job, job.files[0], ear)


async def _hear_file(job: Job, file: AudioFile, ear: Transcriber) -> None:
    with LiveText(shown=not job.verbose) as live:
        transcript = await _hear(job, file, ear, on_text=live.show)
    _write(transcript.formatted(job.output_format), job.output)
    if job.output_format != "json":
        say(_measures(transcript.metrics()))


async def _hear_files(job: Job, ear: Transcriber) -> None:
    told = []
    try:
        with FilesProgress(len(job.files)) as progress:
            for file in job.files:
                passed = progress.begin(file.name, file.seconds())
                transcript = await _hear(job, WatchedSource(file, passed), ear)
                progress.end()
                target = job.output_of(file)
                if target is None and job.output_format == "json":
                    told.append({"file": file.name, **transcript.fields()})
                else:
                    heading = f"==> {file.name} <==\n" if target is None else ""
                    _write(heading + transcript.formatted(job.output_format), target)
    finally:  # what was heard before a failure is not lost with it
        if told:
            print(json.dumps({"files": told}, ensure_ascii=False))  # noqa: T201


async def _hear_microphone(job: Job, microphone: Microphone, ear: Transcriber) -> None:
    direct = job.output is None and job.output_format == "txt"

    def show(final: Final) -> None:
        if direct and final.text.strip():
            print(final.text.strip(), flush=True)  # noqa: T201

    say("listening; Ctrl-C ends it")
    async with _ended_by_ctrl_c(microphone):
        with LiveText(shown=not job.verbose) as live:
            transcript = await _hear(job, microphone, ear, on_text=live.show, on_final=show)
    if not direct:
        _write(transcript.formatted(job.output_format), job.output)
    if microphone.overflows:
        say(f"sound was lost {microphone.overflows} times: the machine was too busy to fetch it")


async def _hear(
    job: Job,
    source: AudioSource,
    ear: Transcriber,
    *,
    on_text: Callable[[str], None] = lambda _: None,
    on_final: Callable[[Final], None] = lambda _: None,
) -> Transcript:
    transcript = Transcript(turns=job.settings.turns is not None)
    try:
        async for event in ear.transcribe(source):
            match event:
                case Partial(text=text):
                    on_text(text)
                case Notice(message=message):
                    say(message)
                case Final():
                    transcript.finals.append(event)
                    on_final(event)
    except TranscriptionInterruptedError as error:
        heard = "\n".join(part for part in (transcript.text, error.text_so_far) if part)
        if heard and sys.stderr.isatty():
            say(f"heard until then: {heard}")
        raise
    return transcript


def _write(text: str, target: Path | None) -> None:
    if target is not None:
        try:
            write_whole(target, text)
        except BadInputError:
            if sys.stdout is not None and sys.stdout.isatty():  # what was heard is not lost to a full disk
                sys.stdout.write(text)
            raise
        if not is_stream(target):
            print(target)  # noqa: T201
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


@asynccontextmanager
async def _ended_by_ctrl_c(microphone: Microphone) -> AsyncIterator[None]:
    """Let the first Ctrl-C end the recording, so that its last words are still heard, and a second one everything."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def end() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
        microphone.stop()

    loop.add_signal_handler(signal.SIGINT, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def _measures(metrics: HearingMetrics | None) -> str:
    if metrics is None:
        return "nobody spoke"
    partial = f"first words after {metrics.first_partial_ms:.0f} ms, " if metrics.first_partial_ms is not None else ""
    again = f", {metrics.retries} reconnects" if metrics.retries else ""
    return (
        f"{metrics.audio_seconds:.1f} s of audio, {partial}final text {metrics.finalization_ms:.0f} ms after its end, "
        f"real-time factor {metrics.rtf:.2f}{again}"
    )
