"""Who may come in: pages of this machine only, and over a tunnel those who know the password.

A page on the internet can make a browser send requests to 127.0.0.1, under a name of its own (DNS rebinding) or as a
cross-site WebSocket. So every request must name a host that is this page's; what comes from another page is refused.
"""

import asyncio
import hmac
import html
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
COOKIE = "voice_session"
LOGIN_PATH = "/login"
WRONG_PASSWORD_SECONDS = 1.0
"""Wait after a wrong password, one at a time for all who try: guessing takes years."""
_LONGEST_FORM = 4096
"""Bytes of a login form."""
_POLICY_VIOLATION = 1008

SECURITY_HEADERS = {
    # What the page may load: its own files. Gradio's start-up scripts and styles stand in the page itself, and its HTML
    # component makes its template with Function(): hence unsafe-inline and unsafe-eval.
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self' blob:; font-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Not no-referrer: with it a browser sends the page's own forms with the origin "null".
    "referrer-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
}


class Door:
    """ASGI middleware in front of the whole page, its WebSockets included.

    Args:
        app: what is behind it.
        password: asked of everybody; None asks nobody.
    """

    def __init__(self, app: ASGIApp, *, password: str | None = None) -> None:
        self._app = app
        self._password = password
        self._session = secrets.token_urlsafe(32)
        self._hosts = set(LOOPBACK_HOSTS)
        self._wrong = asyncio.Lock()

    def admit(self, host: str) -> None:
        """Answer to one more name: that of a tunnel."""
        self._hosts.add(host.lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (reason := self._unwanted(scope, headers)) is not None:
            await _refuse(scope, receive, send, reason)
        elif scope["type"] == "http" and self._password is not None and scope["path"] == LOGIN_PATH:
            await (await self._login(Request(scope, receive)))(scope, receive, send)
        elif not self._knows(headers):
            if scope["type"] == "http" and scope["path"] == "/":
                await RedirectResponse(LOGIN_PATH, status_code=303)(scope, receive, send)
            else:
                await _refuse(scope, receive, send, "log in first")
        else:
            await self._app(scope, receive, _with_security_headers(send) if scope["type"] == "http" else send)

    def _unwanted(self, scope: Scope, headers: Headers) -> str | None:
        """Return why a request is refused, None when it is not."""
        host = headers.get("host", "")
        if _without_port(host) not in self._hosts:
            return "this page does not answer to that name"
        origin = headers.get("origin")
        if origin is None:
            # Browsers send it with every WebSocket; a program that is no browser is not what this is about.
            return None
        safe = scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}
        if not safe and urlsplit(origin).netloc.lower() != host.lower():
            return "that comes from another page"
        return None

    def _knows(self, headers: Headers) -> bool:
        if self._password is None:
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session.encode())

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return _form("")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LONGEST_FORM:
                return _form("That is too long.", status=413)
        given = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        if not hmac.compare_digest(given.encode(), (self._password or "").encode()):
            async with self._wrong:
                await asyncio.sleep(WRONG_PASSWORD_SECONDS)
            return _form("That is not the password.", status=401)
        answer = RedirectResponse("/", status_code=303)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", secure=secure)
        return answer


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (name if separator and port.isdigit() else host).lower()


def _with_security_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers


async def _refuse(scope: Scope, receive: Receive, send: Send, reason: str) -> None:
    if scope["type"] == "http":
        await PlainTextResponse(f"Refused: {reason}.\n", status_code=403)(scope, receive, send)
    else:  # before it is accepted: the browser sees a refused handshake
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": reason})


def _form(problem: str, *, status: int = 200) -> Response:
    said = f'<p role="alert">{html.escape(problem)}</p>' if problem else ""
    return HTMLResponse(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Voice: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ display: grid; place-items: center; min-height: 90vh; margin: 1rem; }}
main {{ width: min(22rem, 100%); }}
form {{ display: grid; gap: 0.8rem; }}
input, button {{ padding: 0.7rem; font: inherit; border-radius: 0.4rem; border: 1px solid #888; }}
button {{ background: #0f766e; color: #fff; font-weight: 600; cursor: pointer; }}
</style></head><body><main><form method="post" action="{LOGIN_PATH}"><h1>Voice</h1>{said}
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button></form></main></body></html>""",
        status_code=status,
        headers={**SECURITY_HEADERS, "cache-control": "no-store"},
    )
