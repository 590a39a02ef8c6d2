"""A control plane, a model hub and a public registry, all on loopback, and variables that lead to nothing else."""

import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stacks.settings import load_settings, read_context
from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.identity import LocalIdentity
from voice_local.interfaces import ContainerSpec
from voice_local.isolation import IsolatedClients, connection_variables, leading_elsewhere
from voice_ops.doctor.subject import Limits, Places, Subject
from voice_ops.session import AwsSession

ClientFactory = Callable[[str], Any]

PROJECT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_somebody_who_was_let_in"
DOCKER_INFO = {"ServerVersion": "stand-in", "OSType": "linux", "Architecture": "x86_64"}
"""Of the local cloud's stand-in, whose room need not be tens of gigabytes."""


class StartingContainer:
    """Loads its weights for ever: what these tests create need not serve."""

    port = 9
    bidirectional = True

    def __init__(self, log_file: Path) -> None:
        self.log_file = log_file
        log_file.touch()

    def ping(self) -> bool:
        return False

    def exit_code(self) -> int | None:
        return None

    def output_tail(self, lines: int = 20) -> str:
        return ""

    def stop(self) -> None:
        """Nothing runs."""


class StartingHost:
    """Starts such containers."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs

    def start(self, spec: ContainerSpec) -> StartingContainer:
        return StartingContainer(self._logs / spec.name)


@dataclass
class PublicServices:
    """What the hub and the registry on loopback know; each test may change it."""

    url: str = ""
    gated: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    down: bool = False
    token_sent_to: list[str] = field(default_factory=list)

    def reset(self) -> None:
        self.gated, self.private = set(), set()
        self.models = {"mistralai/Voxtral-Mini-4B-Realtime-2602", "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"}
        self.tags = {"deep-learning-containers/vllm:server-sagemaker-cuda-v2.3"}
        self.down = False
        self.token_sent_to = []


def _handler(services: PublicServices) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """The hub's API (`/api/models`, `/{id}/resolve`) and the registry's (`/token/`, `/v2`)."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if services.down:
                self.answer(503)
            elif path.startswith("/elsewhere"):
                services.token_sent_to += [path] if bearer else []
                self.answer(200, {})
            elif path.startswith("/api/models/"):
                model, _, revision = path.removeprefix("/api/models/").partition("/revision/")
                self.hub(model, revision, bearer)
            elif path.startswith("/token/"):
                self.answer(200, {"token": "anybody"})
            elif path.startswith("/v2/"):
                repository, _, tag = path.removeprefix("/v2/").partition("/manifests/")
                known = bearer == "anybody" and f"{repository}:{tag}" in services.tags
                self.answer(200 if known else 404)
            else:
                model = path.strip("/").partition("/resolve/")[0]
                let_in = model not in services.gated | services.private or bearer == TOKEN
                # The hub sends whoever may have a file to its storage, on another host.
                self.answer(302 if let_in else 403, location=f"{services.url}/elsewhere/{model}")

        do_HEAD = do_GET  # noqa: N815 - the name http.server looks for

        def hub(self, model: str, revision: str, bearer: str) -> None:
            if model not in services.models or (model in services.private and bearer != TOKEN):
                self.answer(401, code="RepoNotFound")
            elif revision not in {"main", COMMIT}:
                self.answer(404, code="RevisionNotFound")
            else:
                told = {
                    "sha": COMMIT,
                    "gated": "auto" if model in services.gated else False,
                    "private": model in services.private,
                    "siblings": [{"rfilename": "config.json"}],
                }
                self.answer(200, told)

        def answer(
            self, status: int, told: Any = None, *, code: str | None = None, location: str | None = None
        ) -> None:
            body = b"" if told is None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if code is not None:
                self.send_header("X-Error-Code", code)
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture(scope="module")
def _services() -> Iterator[PublicServices]:
    services = PublicServices()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(services))
    services.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield services
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def services(_services: PublicServices) -> PublicServices:
    """Hub and registry, knowing what a good stage needs."""
    _services.reset()
    return _services


@pytest.fixture(scope="module")
def identity() -> LocalIdentity:
    return LocalIdentity()


@pytest.fixture(scope="module")
def plane(identity: LocalIdentity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    settings = ControlPlaneSettings(stop_seconds=5)
    host = StartingHost(tmp_path_factory.mktemp("logs"))
    with ControlPlane(host, identity, images_dir=tmp_path_factory.mktemp("images"), settings=settings) as plane:
        yield plane


@pytest.fixture(scope="module")
def client(plane: ControlPlane, identity: LocalIdentity) -> ClientFactory:
    return IsolatedClients(identity, plane.url).of


@pytest.fixture
def cloud(
    plane: ControlPlane,
    identity: LocalIdentity,
    services: PublicServices,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ControlPlane:
    """The control plane, with this process's variables leading to it and to nothing else."""
    for name in leading_elsewhere(os.environ):
        monkeypatch.delenv(name)
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\nprintf '%s' '{json.dumps({**DOCKER_INFO, 'DockerRootDir': str(tmp_path)})}'\n")
    docker.chmod(0o755)
    variables = connection_variables(identity=identity, control_plane_url=plane.url, docker=docker)
    for name, value in {
        **variables,
        "HF_ENDPOINT": services.url,
        "VOICE_PUBLIC_REGISTRY_URL": services.url,
    }.items():
        monkeypatch.setenv(name, value)
    return plane


@pytest.fixture
def subject(cloud: ControlPlane) -> Subject:
    """Stage dev, as it could be deployed to the control plane."""
    settings = load_settings(read_context(PROJECT / "cdk.json"), "dev")
    return Subject(settings, AwsSession(), Places.of(PROJECT, os.environ), Limits())
