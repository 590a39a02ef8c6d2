"""`voice talk`: a conversation, with microphone and loudspeaker or over files. The work is done in `talking`."""

from pathlib import Path
from typing import Annotated

import typer

from voice_client.cli import both_endpoints, options
from voice_client.cli.failure import run

app = typer.Typer(add_completion=False, rich_markup_mode="rich")

_TURNS = "Taking turns"


@app.command()
def talk(
    *,
    audio: Annotated[
        str | None, typer.Option("--input", "-i", metavar="AUDIO", help="File to hear instead of the microphone.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.wav", help="File for the voice, not the loudspeaker.")
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option(
            "--reply",
            metavar="echo|chat|MODULE:FUNCTION",
            help="What answers. (default: the chat endpoint of VOICE_CHAT_URL, else echo)",
        ),
    ] = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Voice of the model, such as Vivian, Ryan.")] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Name or code, such as English or en. (default: found out)")
    ] = None,
    pause: Annotated[
        float,
        typer.Option(
            "--pause", metavar="SECONDS", help="A pause of this length ends your turn.", rich_help_panel=_TURNS
        ),
    ] = 0.7,
    barge_in: Annotated[
        bool | None,
        typer.Option(
            "--barge-in/--no-barge-in",
            help="Speech interrupts the voice. (default: yes, and no with --input, which then waits for the answer)",
            rich_help_panel=_TURNS,
        ),
    ] = None,
    barge_in_after: Annotated[
        float,
        typer.Option(
            "--barge-in-after",
            metavar="SECONDS",
            help="Speech of this length interrupts; more of it where the microphone hears the loudspeaker.",
            rich_help_panel=_TURNS,
        ),
    ] = 0.12,
    barge_in_level: Annotated[
        float,
        typer.Option(
            "--barge-in-level", metavar="DBFS", help="Softer sound does not interrupt.", rich_help_panel=_TURNS
        ),
    ] = -45.0,
    device: Annotated[
        str | None, typer.Option("--device", help="Name or number of the recording device. (default: the system's)")
    ] = None,
    speaker: Annotated[
        str | None, typer.Option("--speaker", help="Name or number of the playback device. (default: the system's)")
    ] = None,
    stage: options.StageOption = None,
    stt_endpoint: both_endpoints.SttEndpointOption = None,
    tts_endpoint: both_endpoints.TtsEndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    stt_model: both_endpoints.SttModelOption = None,
    tts_model: both_endpoints.TtsModelOption = None,
    as_json: options.JsonOption = False,
    _debug: options.DebugOption = False,
) -> None:
    """Talk: it hears you, a reply is made, and it speaks; speak over it to interrupt it. Ctrl-C ends it.

    The dialog goes to standard output, the waits of each turn to standard error. Without a headset the microphone
    hears the loudspeaker: then use --no-barge-in, or `voice ui`, whose browser takes the echo out.

    Examples:

        voice talk

        voice talk --reply my_agent:answer --voice Ryan --language en

        VOICE_CHAT_URL=http://127.0.0.1:11434/v1 VOICE_CHAT_MODEL=llama3.2 voice talk

        voice talk --input question.wav --output answer.wav --json
    """

    async def hold() -> None:
        # Sessions take most of a second to load, which `--help` shall not.
        from voice_client.cli.talking import Talk, hold_talk  # noqa: PLC0415

        ear_place, voice_place = both_endpoints.both_places(
            stage=stage,
            stt_endpoint=stt_endpoint,
            tts_endpoint=tts_endpoint,
            region=region,
            endpoint_url=endpoint_url,
            ca_bundle=ca_bundle,
            stt_model=stt_model,
            tts_model=tts_model,
        )
        plan = Talk.checked(
            audio=audio,
            output=output,
            reply=reply,
            voice=voice,
            language=language,
            pause=pause,
            barge_in=barge_in,
            barge_in_after=barge_in_after,
            barge_in_level=barge_in_level,
            device=device,
            speaker=speaker,
            as_json=as_json,
        )
        await hold_talk(plan, ear_place, voice_place)

    run(hold())
