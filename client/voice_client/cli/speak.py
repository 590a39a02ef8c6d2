"""`voice speak`: a text in, speech out. The options; the work is done in `speaking`."""

import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Literal

import typer

from voice_client.cli import options
from voice_client.cli.failure import report, run
from voice_client.errors import BadInputError

DEFAULT_FILE = Path("speech.wav")

_VOICE = "Voice"
_OUT = "Where the audio goes"


def speak(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say; - reads it from standard input as it comes."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Text file (UTF-8) to read aloud.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write: .wav, .flac or .mp3; - is standard output. (default: speech.wav, or none with --play)",
            rich_help_panel=_OUT,
        ),
    ] = None,
    pipe_format: Annotated[
        Literal["wav", "raw"],
        typer.Option("--format", help="With -o -: a WAV stream, or PCM16 without a header.", rich_help_panel=_OUT),
    ] = "wav",
    play: Annotated[
        bool, typer.Option("--play", help="Play it as it comes (extra `mic`).", rich_help_panel=_OUT)
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", help="Name or number of the playback device. (default: the system's)", rich_help_panel=_OUT
        ),
    ] = None,
    voice: Annotated[
        str | None,
        typer.Option(
            "--voice",
            help="Voice of the model, such as Vivian, Ryan, Serena: see `voice voices`.",
            rich_help_panel=_VOICE,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language", help="Name or code, such as English or en. (default: found out)", rich_help_panel=_VOICE
        ),
    ] = None,
    instructions: Annotated[
        str | None,
        typer.Option(
            "--instructions",
            help='How to speak, such as "slowly and sadly"; at most 500 characters.',
            rich_help_panel=_VOICE,
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", help="0.25 (slow) to 4 (fast), at the same pitch.", rich_help_panel=_VOICE),
    ] = None,
    ref_audio: Annotated[
        Path | None,
        typer.Option("--ref-audio", help="1 to 30 s of a voice to speak with (Base models).", rich_help_panel=_VOICE),
    ] = None,
    ref_text: Annotated[
        str | None, typer.Option("--ref-text", help="What is said in --ref-audio.", rich_help_panel=_VOICE)
    ] = None,
    as_json: options.JsonOption = False,
    no_retry: options.NoRetryOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every message on standard error, the text redacted.")
    ] = False,
    show_words: Annotated[bool, typer.Option("--show-words", help="With --verbose: do not redact.")] = False,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """Turn text into speech, 24 kHz mono: into a file (written whole or not at all), a pipe or the loudspeaker.

    Each sentence is spoken while the next one waits, or is yet to be written.
    The file's name goes to standard output, the measures to standard error.

    Examples:

        voice speak "Good morning."

        voice speak "Bom dia." -o bom-dia.mp3 --voice Serena --language pt

        voice speak -f chapter.txt -o chapter.flac --speed 1.2

        my-llm "Tell me a story" | voice speak - --play

        voice speak "How are you today?" -o - | ffplay -nodisp -autoexit -

        voice speak "How are you today?" --stage prod --json
    """

    # Decoders and sessions take most of a second to load, which `--help` shall not.
    from voice_client.cli.speaking import SpeakJob, speak_it  # noqa: PLC0415
    from voice_client.cli.spoken_text import text_of  # noqa: PLC0415

    try:
        known = text_of(text, file)  # outside the event loop: in it, Ctrl-C would not end the wait for a named pipe
    except BadInputError as error:
        raise typer.Exit(report(error)) from error

    async def say_it() -> None:
        place = options.where(
            stage=stage, endpoint=endpoint, region=region, endpoint_url=endpoint_url, ca_bundle=ca_bundle, model=model
        )
        job = SpeakJob(
            text=known,
            output=output or (None if play else DEFAULT_FILE),
            pipe_format=pipe_format,
            play=play,
            device=int(device) if device is not None and device.isdigit() else device,
            as_json=as_json,
            manner={
                "voice": voice,
                "language": language,
                "instructions": instructions,
                "speed": speed,
                "ref_audio": ref_audio,
                "ref_text": ref_text,
            },
            retry=not no_retry,
            verbose=verbose,
            show_words=show_words,
        )
        await speak_it(job, place)

    if run(_reader_stayed(say_it())):
        return
    # Nobody is left who could read what Python still holds for standard output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(128 + signal.SIGPIPE)


async def _reader_stayed(work: Coroutine[object, object, None]) -> bool:
    """Do the work; return whether standard output was read to its end, which is no fault of ours."""
    from voice_client.cli.speech_sinks import PipeClosedError  # noqa: PLC0415

    try:
        await work
    except PipeClosedError:
        return False
    return True
