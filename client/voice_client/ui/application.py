"""Puts the page together: Gradio's frame, our files, and a WebSocket for each tab, behind one door."""

from dataclasses import dataclass
from pathlib import Path

import fastapi
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from voice_client.replies import Reply
from voice_client.replies.chat import ChatEndpoint
from voice_client.ui.door import Door
from voice_client.ui.endpoints import SharedEndpoints
from voice_client.ui.page import ASSETS_PATH, CSS, HEAD, load_gradio, page, theme
from voice_client.ui.page_socket import PageSocket
from voice_client.ui.settings import PageSettings
from voice_client.ui.speaking import SpeakingTab
from voice_client.ui.talking import TalkingTab
from voice_client.ui.transcribing import TranscribingTab

ASSETS = Path(__file__).with_name("assets")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What a page is made for."""

    endpoints_shown: str
    """Which endpoints it uses, as the user is told."""
    reply: Reply
    reply_shown: str
    """What makes the replies, as the user is told."""
    chat: ChatEndpoint | None = None
    """Makes summaries; None where no endpoint is configured."""
    settings: PageSettings = PageSettings()  # noqa: RUF009 - frozen


def application(options: PageOptions, endpoints: SharedEndpoints, *, password: str | None = None) -> Door:
    """Return the whole page as an ASGI application.

    Args:
        options: what it is made for.
        endpoints: shared by all tabs; open for as long as the page is.
        password: asked of everybody; None asks nobody.
    """
    settings = options.settings

    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.mount(ASSETS_PATH, StaticFiles(directory=ASSETS), name="assets")

    @app.websocket("/voice/live/speak")
    async def speak(socket: WebSocket) -> None:
        await socket.accept()
        await SpeakingTab(PageSocket(socket), endpoints).run()

    @app.websocket("/voice/live/transcribe")
    async def transcribe(socket: WebSocket) -> None:
        await socket.accept()
        await TranscribingTab(PageSocket(socket), endpoints, options.chat, settings).run()

    @app.websocket("/voice/live/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await TalkingTab(PageSocket(socket), endpoints, options.reply, settings).run()

    frame = page(endpoints=options.endpoints_shown, reply=options.reply_shown, summary=options.chat is not None)
    load_gradio().mount_gradio_app(
        app,
        frame,
        path="/",
        theme=theme(),
        css=CSS,
        head=HEAD,
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
    )
    return Door(app, password=password)
