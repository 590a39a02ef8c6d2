"""The control plane's WSGI application: moto, with its state locked, and those that answer without it."""

import functools
import io
import logging
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from moto.moto_server import werkzeug_app

from voice_local.control_plane.image_registry import ImageRegistry
from voice_local.control_plane.unlocked_requests import UnlockedPart, UnlockedRequest

_log = logging.getLogger(__name__)

_ECR_TARGET = "AmazonEC2ContainerRegistry"


@functools.cache
def _moto() -> Any:
    """Return moto's application; it holds no state, and makes its parts when a service is first asked for."""
    return werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app)


class Application:
    """The WSGI application: moto's state is not made for threads, so requests are answered one at a time."""

    def __init__(self, state_lock: threading.RLock, images: ImageRegistry) -> None:
        self._moto = _moto()
        self._state_lock = state_lock
        self._images = images
        self.unlocked: tuple[UnlockedPart, ...] = ()
        """Those that answer requests without the lock, asked first."""
        self.touched: Callable[[], None] | None = None
        """Called after each request that may have changed something."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # The body is read before the lock is taken: a slow client holds up nobody else.
        length = environ.get("CONTENT_LENGTH")
        body = environ["wsgi.input"].read(int(length)) if length else b""
        request = _unlocked_request(environ, body)
        for part in self.unlocked:
            if (answer := part.answer(request)) is not None:
                headers = {**answer.headers, "Content-Length": str(len(answer.body))}
                start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", list(headers.items()))
                return [answer.body]
        if length:
            environ["wsgi.input"] = io.BytesIO(body)
        try:
            with self._state_lock:
                if str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith(_ECR_TARGET):
                    return self._images.around(lambda: self._answer(environ, start_response))
                return self._answer(environ, start_response)
        finally:
            if self.touched is not None and request.method not in {"GET", "HEAD"}:
                self.touched()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        body = self._moto(environ, start_response)
        try:
            return list(body)
        finally:
            if (close := getattr(body, "close", None)) is not None:
                close()


def _unlocked_request(environ: dict[str, Any], body: bytes) -> UnlockedRequest:
    # Some clients send the whole URL, as to a proxy.
    target = urlsplit(str(environ.get("RAW_URI", "")))
    return UnlockedRequest(
        method=str(environ["REQUEST_METHOD"]),
        path=target.path,
        query=target.query,
        headers={name.removeprefix("HTTP_"): str(value) for name, value in environ.items() if name.isupper()},
        body=body,
    )


class RequestHandler(werkzeug_app.MotoRequestHandler):
    """Writes to this package's logger instead of stderr, without query strings."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 (werkzeug's own name)
        """Log what the server reports; its errors are warnings here, its requests are for debugging."""
        level = logging.WARNING if type == "error" else logging.DEBUG
        _log.log(level, message.rstrip(), *args)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log method, path and status."""
        self.log("info", "%s %s %s %s", self.command, self.path.partition("?")[0], code, size)
