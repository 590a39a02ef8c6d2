"""The control plane as one object: start it, hand its URL to the CDK CLI and boto3, look endpoints up, stop it."""

import errno
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server import werkzeug_app
from werkzeug.serving import BaseWSGIServer, make_server

from voice_local.control_plane import (
    function_api,
    permission_api,
    published_images,
    quota_api,
    s3_api,
    unknown_operations,
)
from voice_local.control_plane.alarm_evaluation import AlarmEvaluation
from voice_local.control_plane.build_api import BuildApi, build_ended
from voice_local.control_plane.build_runtime import BuildRuntime
from voice_local.control_plane.change_set_api import ChangeSetApi
from voice_local.control_plane.custom_resource import CustomResource, ResponseDesk
from voice_local.control_plane.endpoint_hosting import EndpointHosting
from voice_local.control_plane.endpoint_logs import EndpointLogs
from voice_local.control_plane.errors import ControlPlaneStartError, PortTakenError
from voice_local.control_plane.event_delivery import EventDelivery
from voice_local.control_plane.expired_credentials import ExpiredCredentials
from voice_local.control_plane.function_api import FunctionInvocations
from voice_local.control_plane.function_runtime import FunctionRuntime
from voice_local.control_plane.image_registry import ImageRegistry
from voice_local.control_plane.metric_filters import MetricFilters
from voice_local.control_plane.patches import Patches
from voice_local.control_plane.request_guard import SIGNED, RequestGuard
from voice_local.control_plane.resource_types import providers
from voice_local.control_plane.resources import MotoResources
from voice_local.control_plane.sagemaker_api import SageMakerApi
from voice_local.control_plane.saved_state import SavedState, StateSaver
from voice_local.control_plane.service_clients import ServiceClients
from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.control_plane.stack_api import StackApi
from voice_local.control_plane.stack_operations import StackOperations
from voice_local.control_plane.wsgi_application import Application, RequestHandler
from voice_local.identity import LocalIdentity
from voice_local.image_store import ImageStore
from voice_local.interfaces import ContainerHost, EndpointStatus, EndpointView

_log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"

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
        state_dir: Path | None = None,
        settings: ControlPlaneSettings | None = None,
    ) -> None:
        """Prepare a control plane; nothing runs before `start`.

        Args:
            host: runs the containers that endpoints ask for.
            identity: account and region that the APIs answer as. The keys are for the clients in here: like the
                account id, the control plane checks no signature.
            port: TCP port on 127.0.0.1; 0 takes a free one.
            images_dir: directory of the image store that the Docker stand-in pushes into.
            state_dir: keep stacks, endpoints and everything else in this folder over restarts; None forgets them.
            settings: time-outs.
        """
        self._identity = identity
        self._wanted_port = port
        self._settings = settings or ControlPlaneSettings()
        self._state_lock = threading.RLock()
        store = ImageStore(images_dir)
        self._sagemaker = SageMakerApi(identity, self._state_lock, store, self._settings)
        logs = EndpointLogs(identity, self._state_lock)
        self._hosting = EndpointHosting(host, self._settings, logs, self._sagemaker.report)
        self._images = ImageRegistry(store, identity)
        self._patches = Patches()
        self._operations: StackOperations | None = None
        self._functions: FunctionRuntime | None = None
        self._builds: BuildRuntime | None = None
        self._state = SavedState(state_dir, identity) if state_dir is not None else None
        self._saver: StateSaver | None = None
        self._alarms: AlarmEvaluation | None = None
        self._resumed: list[str] = []
        self._running = False
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
            StateError: the saved state cannot be used.
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
        self._running = True
        try:
            if self._state is not None:
                self._state.open()
            self._serve(listener)
            self._await_answer()
        except BaseException:
            listener.close()
            self.stop()
            raise

    def await_resumed(self) -> None:
        """Wait until the endpoints of the saved state serve or have failed, as long as their containers may take."""
        deadline = time.monotonic() + self._settings.container_startup_seconds
        for name in self._resumed:
            while (view := self.find(name)) is not None and view.status is EndpointStatus.CREATING:
                if time.monotonic() >= deadline:
                    return
                time.sleep(self._settings.stabilization_poll_seconds)

    def stop(self) -> None:
        """Stop serving, end every operation and every container, forget all state. Idempotent."""
        if not self._running:
            return
        self._running = False
        if self._alarms is not None:
            self._alarms.stop()
            self._alarms = None
        if self._saver is not None:
            self._saver.stop()
            self._saver = None
        if self._state is not None:
            self._state.close()
        server, self._server = self._server, None
        if self._builds is not None:
            self._builds.close()
        if self._functions is not None:
            self._functions.close()
        if self._operations is not None:
            self._operations.close(self._settings.stop_seconds)
        self._hosting.close()
        if self._thread is not None and server is not None:
            server.shutdown()
            self._thread.join(self._settings.stop_seconds)
        if server is not None:
            server.server_close()
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
        restored = self._state is not None and self._state.load()
        # Pages in a browser have no business with a developer's local cloud.
        self._patches.replace(werkzeug_app, "DISABLE_GLOBAL_CORS", True)
        application = Application(self._state_lock, self._images)
        handler = type("Handler", (RequestHandler,), {"timeout": self._settings.request_body_seconds})
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
        self._functions = FunctionRuntime(self._identity, self._settings, self._state_lock, self.url)
        delivery = EventDelivery(self._identity, self._state_lock, self._functions)
        self._builds = BuildRuntime(self._identity, self._state_lock, clients, self.url, build_ended(delivery))
        builds = BuildApi(self._identity, self._builds)
        desk = ResponseDesk(self._identity, self.url)
        guard = RequestGuard(self._identity.access_key_id, desk.root)
        application.unlocked = (guard, ExpiredCredentials(), desk, FunctionInvocations(self._functions))
        custom = CustomResource(self._functions, desk, self._settings, self._builds.is_busy)
        stopping = threading.Event()
        self._operations = StackOperations(
            MotoResources(self._identity, self._state_lock),
            providers(clients, custom, self._settings, stopping),
            self._state_lock,
            stopping,
        )
        function_api.install(self._patches)
        self._sagemaker.install(self._patches, self._hosting)
        s3_api.install(self._patches)
        builds.install(self._patches)
        quota_api.install(self._patches)
        published_images.install(self._patches)
        permission_api.install(self._patches)
        MetricFilters().install(self._patches)
        unknown_operations.install(self._patches)
        stacks = StackApi(self._operations, self._state_lock)
        stacks.install(self._patches)
        ChangeSetApi(stacks, self._operations).install(self._patches)
        if self._state is not None:
            with self._state_lock:
                self._resumed = self._sagemaker.resume() if restored else []
                if restored:
                    builds.resume()
            self._saver = StateSaver(
                self._state, self._state_lock, self._operations.is_quiet, self._settings.save_interval_seconds
            )
            application.touched = self._saver.touch
        self._alarms = AlarmEvaluation(self._identity, self._state_lock, self._settings.alarm_interval_seconds)
        self._alarms.start()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="control-plane", daemon=True
        )
        self._thread.start()

    def _await_answer(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + self._settings.start_seconds
        try:
            opener.addheaders = [("Authorization", SIGNED)]
            opener.open(f"{self.url}/moto-api/data.json", timeout=max(0.1, deadline - time.monotonic())).close()
        except (OSError, urllib.error.URLError) as error:
            raise ControlPlaneStartError(
                f"The control plane does not answer on {self.url} within {self._settings.start_seconds:g} s: {error}"
            ) from error


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
