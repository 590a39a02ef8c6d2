"""`voice transcribe`: audio in, its text out. The options; the work is done in `transcribing`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from voice_client.cli import options
from voice_client.cli.failure import run

_RAW = "Audio without a header"


def transcribe(
    audio: Annotated[
        list[str] | None,
        typer.Argument(metavar="AUDIO", help="Files with sound in them; - is standard input.", show_default=False),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="File to write; for several inputs, a folder."),
    ] = None,
    output_format: Annotated[
        Literal["txt", "json", "srt", "vtt"] | None,
        typer.Option("--format", "-f", help="Text, JSON, or subtitles (which imply --turns). (default: txt)"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    turns: Annotated[
        bool, typer.Option("--turns", help="Hear each turn as an utterance of its own and leave out the pauses.")
    ] = False,
    pause: Annotated[
        float, typer.Option("--pause", metavar="SECONDS", help="A pause of this length ends a turn.")
    ] = 0.7,
    mic: Annotated[
        bool, typer.Option("--mic", help="Hear the microphone until Ctrl-C, turn by turn (extra `mic`).")
    ] = False,
    device: Annotated[
        str | None, typer.Option("--device", help="Name or number of the recording device. (default: the system's)")
    ] = None,
    chunk_bytes: Annotated[
        int, typer.Option("--chunk-bytes", help="PCM16 in one message; 4096 bytes are 128 ms.")
    ] = 4096,
    no_pace: Annotated[
        bool, typer.Option("--no-pace", help="Send as fast as the endpoint takes it, not in real time.")
    ] = False,
    no_retry: options.NoRetryOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every message on standard error, spoken words redacted.")
    ] = False,
    show_words: Annotated[bool, typer.Option("--show-words", help="With --verbose: do not redact.")] = False,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            help="Encoding of headerless PCM: u8 s16le s16be s24le s32le f32le alaw mulaw.",
            rich_help_panel=_RAW,
        ),
    ] = None,
    rate: Annotated[int, typer.Option("--rate", help="With --raw: samples per second.", rich_help_panel=_RAW)] = 16_000,
    channels: Annotated[int, typer.Option("--channels", help="With --raw: channels.", rich_help_panel=_RAW)] = 1,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """Turn speech into text, live.

    The text goes to standard output or into a file, which is written whole or not at all; what is heard meanwhile and
    the measures go to standard error.

    Examples:

        voice transcribe call.m4a

        voice transcribe interview.wav --stage prod --json > interview.json

        voice transcribe meeting.mp4 --format srt -o meeting.srt --no-pace

        voice transcribe calls/*.wav --turns -o texts/

        ffmpeg -i talk.mkv -f wav - | voice transcribe -

        voice transcribe line.raw --raw mulaw --rate 8000

        voice transcribe --mic
    """

    async def hear() -> None:
        # Decoders and sessions take most of a second to load, which `--help` shall not.
        from voice_client.cli.transcribing import Job, transcribe_all  # noqa: PLC0415

        place = options.where(
            stage=stage, endpoint=endpoint, region=region, endpoint_url=endpoint_url, ca_bundle=ca_bundle, model=model
        )
        job = Job.checked(
            audio or [],
            mic=mic,
            device=device,
            raw=(raw, rate, channels),
            output=output,
            output_format=output_format,
            as_json=as_json,
            turns=turns,
            pause=pause,
            chunk_bytes=chunk_bytes,
            paced=not no_pace,
            retry=not no_retry,
            verbose=verbose,
            show_words=show_words,
        )
        await transcribe_all(job, place)

    run(hear())
