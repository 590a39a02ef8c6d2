"""The control plane as one object: start it, hand its URL to the CDK CLI and boto3, look endpoints up, stop it."""

import errno
import io
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server import werkzeug_app
from werkzeug.serving import BaseWSGIServer, make_server

from voice_local.control_plane import s3_api, unknown_operations
from voice_local.control_plane.endpoint_hosting import EndpointHosting
from voice_local.control_plane.errors import ControlPlaneStartError, PortTakenError
from voice_local.control_plane.image_registry import ImageRegistry
from voice_local.control_plane.patches import Patches
from voice_local.control_plane.resource_types import providers
from voice_local.control_plane.resources import MotoResources
from voice_local.control_plane.sagemaker_api import SageMakerApi
from voice_local.control_plane.service_clients import ServiceClients
from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.control_plane.stack_api import StackApi
from voice_local.control_plane.stack_operations import StackOperations
from voice_local.identity import LocalIdentity
from voice_local.image_store import ImageStore
from voice_local.interfaces import ContainerHost, EndpointView

_log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_ECR_TARGET = "AmazonEC2ContainerRegistry"

_one_a_process = threading.Lock()
"""moto keeps its state in its modules, so a process holds one control plane at a time."""


class ControlPlane:
    """AWS's APIs on loopback, and the endpoints that stacks create through them.

    Use as a context manager, or call `start` and `stop`. Implements `EndpointDirectory` for the data plane.
    """

    def __init__(
        self,
        host: ContainerHost,
        identity: LocalIdentity,
        *,
        port: int = 0,
        images_dir: Path,
        settings: ControlPlaneSettings | None = None,
    ) -> None:
        """Prepare a control plane; nothing runs before `start`.

        Args:
            host: runs the containers that endpoints ask for.
            identity: account and region that the APIs answer as. The keys are for the clients in here: like the
                account id, the control plane checks no signature.
            port: TCP port on 127.0.0.1; 0 takes a free one.
            images_dir: directory of the image store that the Docker stand-in pushes into.
            settings: time-outs.
        """
        self._identity = identity
        self._wanted_port = port
        self._settings = settings or ControlPlaneSettings()
        self._state_lock = threading.RLock()
        self._sagemaker = SageMakerApi(identity, self._state_lock)
        self._hosting = EndpointHosting(host, self._settings, self._sagemaker.report)
        self._images = ImageRegistry(ImageStore(images_dir), identity)
        self._patches = Patches()
        self._operations: StackOperations | None = None
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; for `AWS_ENDPOINT_URL` and boto3's `endpoint_url`."""
        if self._server is None:
            raise ControlPlaneStartError("The control plane has no URL before start() and after stop().")
        return f"http://{_LOOPBACK}:{self._server.port}"

    def find(self, endpoint_name: str) -> EndpointView | None:
        """Return the endpoint of that name as it is now, or None; from any thread, never blocks."""
        return self._hosting.view(endpoint_name)

    def start(self) -> None:
        """Start to serve; returns when the first request was answered.

        Raises:
            PortTakenError: something else listens on the port.
            ControlPlaneStartError: another control plane runs in this process, or this one does not answer.
        """
        if self._identity.account_id != DEFAULT_ACCOUNT_ID:
            raise ControlPlaneStartError(
                f"moto answers as account {DEFAULT_ACCOUNT_ID}, not as {self._identity.account_id}; "
                "use the identity's default, and unset MOTO_ACCOUNT_ID."
            )
        listener = _listen(self._wanted_port)
        if not _one_a_process.acquire(blocking=False):
            listener.close()
            raise ControlPlaneStartError("A process can hold one control plane at a time; stop the other first.")
        try:
            self._serve(listener)
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop serving, end every operation and every container, forget all state. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._operations is not None:
            self._operations.close(self._settings.stop_seconds)
        self._hosting.close()
        server.shutdown()
        server.server_close()
        if self._thread is not None:
            self._thread.join(self._settings.stop_seconds)
        with self._state_lock:
            self._patches.undo()
            _forget_everything()
        _one_a_process.release()

    def __enter__(self) -> "ControlPlane":
        """Start and return the control plane."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _serve(self, listener: socket.socket) -> None:
        _forget_everything()
        # Pages in a browser have no business with a developer's local cloud.
        self._patches.replace(werkzeug_app, "DISABLE_GLOBAL_CORS", True)
        application = _OneAtATime(self._state_lock, self._images)
        handler = type("Handler", (_RequestHandler,), {"timeout": self._settings.request_body_seconds})
        with listener:
            # The server copies the descriptor. Given a port, it would end the process when the port is taken.
            self._server = make_server(
                _LOOPBACK,
                listener.getsockname()[1],
                application,
                threaded=True,
                request_handler=handler,
                fd=listener.fileno(),
            )
        # socketserver would print a traceback for every connection that a client breaks or leaves hanging.
        self._patches.replace(self._server, "handle_error", _log_broken_connection)
        clients = ServiceClients(self._identity, self.url)
        self._operations = StackOperations(
            MotoResources(self._identity, self._state_lock), providers(clients, self._settings), self._state_lock
        )
        self._sagemaker.install(self._patches, self._hosting)
        s3_api.install(self._patches)
        unknown_operations.install(self._patches)
        StackApi(self._operations, self._state_lock).install(self._patches)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="control-plane", daemon=True
        )
        self._thread.start()

    def _await_answer(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + self._settings.start_seconds
        try:
            opener.open(f"{self.url}/moto-api/data.json", timeout=max(0.1, deadline - time.monotonic())).close()
        except (OSError, urllib.error.URLError) as error:
            raise ControlPlaneStartError(
                f"The control plane does not answer on {self.url} within {self._settings.start_seconds:g} s: {error}"
            ) from error


class _OneAtATime:
    """The WSGI application: moto's state is not made for threads, so requests are answered one at a time."""

    def __init__(self, state_lock: threading.RLock, images: ImageRegistry) -> None:
        self._moto = werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app)
        self._state_lock = state_lock
        self._images = images

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # The body is read before the lock is taken: a slow client holds up nobody else.
        length = environ.get("CONTENT_LENGTH")
        if length:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
        with self._state_lock:
            if str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith(_ECR_TARGET):
                return self._images.around(lambda: self._answer(environ, start_response))
            return self._answer(environ, start_response)

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        body = self._moto(environ, start_response)
        try:
            return list(body)
        finally:
            if (close := getattr(body, "close", None)) is not None:
                close()


class _RequestHandler(werkzeug_app.MotoRequestHandler):
    """Writes to this package's logger instead of stderr, without query strings."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 (werkzeug's own name)
        """Log what the server reports; its errors are warnings here, its requests are for debugging."""
        level = logging.WARNING if type == "error" else logging.DEBUG
        _log.log(level, message.rstrip(), *args)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log method, path and status."""
        self.log("info", "%s %s %s %s", self.command, self.path.partition("?")[0], code, size)


def _log_broken_connection(_request: object, client_address: object) -> None:
    _log.debug("A connection from %s ended early", client_address, exc_info=True)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A port that a stopped cloud has just left is free again.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOOPBACK, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(port) from error
        raise ControlPlaneStartError(f"The control plane cannot listen on {_LOOPBACK}:{port}: {error}") from error
    return listener


def _forget_everything() -> None:
    BackendDict.reset()
    reset_model_data()
