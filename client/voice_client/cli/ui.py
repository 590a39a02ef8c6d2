"""`voice ui`: the web page."""

import asyncio
import gc
import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from voice_client.cli import both_endpoints, options
from voice_client.cli.failure import run, say
from voice_client.errors import BadInputError

DEFAULT_PORT = 6006
SHORTEST_PASSWORD = 8

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def ui(
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = DEFAULT_PORT,
    reply: Annotated[
        str | None,
        typer.Option(
            "--reply",
            metavar="echo|chat|MODULE:FUNCTION",
            help="What answers in a conversation. (default: the chat endpoint of VOICE_CHAT_URL, else echo)",
        ),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Also open a public address through Gradio's tunnel; asks for a password.")
    ] = False,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="File whose first line everybody has to know."),
    ] = None,
    stage: options.StageOption = None,
    stt_endpoint: both_endpoints.SttEndpointOption = None,
    tts_endpoint: both_endpoints.TtsEndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    stt_model: both_endpoints.SttModelOption = None,
    tts_model: both_endpoints.TtsModelOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
    _debug: options.DebugOption = False,
) -> None:
    """Serve the web page: speak, transcribe, and talk, in a browser on this machine. Ctrl-C ends it.

    Only this machine reaches it, at 127.0.0.1; no request of it leaves the machine but those to your endpoints.

    Examples:

        voice ui

        voice ui --stage prod --port 7000

        VOICE_CHAT_URL=http://127.0.0.1:11434/v1 VOICE_CHAT_MODEL=llama3.2 voice ui

        voice ui --reply my_agent:answer

        voice ui --share --password-file ~/.voice-password
    """

    async def serve() -> None:
        ear, voice = both_endpoints.both_places(
            stage=stage,
            stt_endpoint=stt_endpoint,
            tts_endpoint=tts_endpoint,
            region=region,
            endpoint_url=endpoint_url,
            ca_bundle=ca_bundle,
            stt_model=stt_model,
            tts_model=tts_model,
        )
        password = _password(password_file, share=share)
        await _serve(ear, voice, port=port, reply_name=reply, share=share, password=password, as_json=as_json)

    run(serve())


async def _serve(
    ear: options.Where,
    voice: options.Where,
    *,
    port: int,
    reply_name: str | None,
    share: bool,
    password: str | None,
    as_json: bool,
) -> None:
    ended = asyncio.Event()
    # The only way to end a page is no failure. It takes seconds at most, so a second Ctrl-C changes nothing.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)
    from voice_client.replies import chosen_reply  # noqa: PLC0415
    from voice_client.replies.chat import ChatEndpoint  # noqa: PLC0415

    reply_shown, reply = chosen_reply(reply_name)
    chat = ChatEndpoint.from_environment()
    if sys.stderr.isatty():
        say("loading the page ...")
    try:  # it takes seconds to load
        from voice_client.session.ending import end_tasks  # noqa: PLC0415
        from voice_client.ui.application import PageOptions, application  # noqa: PLC0415
        from voice_client.ui.endpoints import SharedEndpoints  # noqa: PLC0415
        from voice_client.ui.serving import HOST, listening_socket, serving  # noqa: PLC0415
        from voice_client.ui.tunnel import close_tunnels, open_tunnel  # noqa: PLC0415
    except ImportError as error:
        raise BadInputError(
            f"the page needs the Python package {error.name}", advice="Install it: pip install 'sagemaker-voice[ui]'"
        ) from error

    listener = listening_socket(port)
    page = PageOptions(both_endpoints.places_shown(ear, voice), reply, reply_shown, chat)
    async with SharedEndpoints(ear, voice) as endpoints:
        door = application(page, endpoints, password=password)
        async with serving(door, listener, page.settings) as server:
            # What is loaded now stays: a million objects that no collection, the last one included, need look at again.
            # It would hold up sound for a second, and the end.
            gc.freeze()
            here = listener.getsockname()[1]

            async def show() -> None:
                addresses = {"url": f"http://{HOST}:{here}/"}
                if share:
                    say("WARNING: --share lets everybody on the internet who has the address and the password in, and")
                    say("WARNING: what they say and hear passes through Gradio's servers. They use your endpoints.")
                    addresses["public_url"] = await open_tunnel(door, HOST, here)
                _announce(addresses, as_json=as_json)
                await asyncio.wait({server})
                server.result()
                raise BadInputError("the page's server ended by itself")

            showing, waiting = asyncio.create_task(show()), asyncio.create_task(ended.wait())
            try:
                await asyncio.wait({showing, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if showing.done():
                    showing.result()
            finally:
                await end_tasks(showing, waiting)
                if share:
                    await close_tunnels()
    say("ended")


def _announce(addresses: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(addresses), flush=True)  # noqa: T201
        return
    print(addresses["url"], flush=True)  # noqa: T201
    if "public_url" in addresses:
        print(addresses["public_url"], flush=True)  # noqa: T201
    say("the page is ready: open the address in a browser; Ctrl-C ends it")


def _password(file: Path | None, *, share: bool) -> str | None:
    """Return the password that the page asks for, None for none.

    Raises:
        BadInputError: a password is needed and there is none, or it is too short.
    """
    if file is not None:
        try:
            password = (file.read_text(encoding="utf-8").splitlines() or [""])[0].strip()
        except (OSError, UnicodeError) as error:
            raise BadInputError(f"--password-file {file} cannot be read: {error}") from error
    elif not share:
        return None
    elif sys.stdin.isatty():
        password = str(typer.prompt("Password for the public address", hide_input=True, confirmation_prompt=True))
    else:
        raise BadInputError("--share needs a password", advice="Give --password-file FILE")
    if len(password) < SHORTEST_PASSWORD:
        raise BadInputError(f"the password has fewer than {SHORTEST_PASSWORD} characters")
    return password
