"""Faults from another process: the admin route, and the command that prints where it is."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from voice_local.cli import app

from .bare_client import DEADLINE, Signer, bare_connection
from .conftest import Site
from .waiting import until

STARTING = 60.0
"""Seconds for a whole local cloud to start or end on a busy machine."""


@pytest.fixture
async def admin(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {site.plane.admin_token}"}
    async with httpx.AsyncClient(base_url=site.plane.plain_url, headers=headers, trust_env=False) as client:
        yield client


async def test_arm_look_and_disarm(site: Site, admin: httpx.AsyncClient) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        assert await stream.response() == 200

        answer = await admin.post("/faults", json={"kind": "unknown-event", "random": [0, 0], "seed": 5})
        assert (answer.status_code, answer.json()["number"], answer.json()["seed"]) == (201, 1, 5)
        assert (await stream.next_event()).headers[":event-type"] == "SomethingNewEvent"

        answer = await admin.post("/faults", content="reset-stream,after=1,endpoint=other,times=every")
        assert answer.status_code == 201
        state = (await admin.get("/faults")).json()
        spec = {"kind": "reset-stream", "after": 1, "endpoint": "other", "times": None}
        assert [(each["number"], each["fired"], each["fault"]) for each in state["armed"]] == [(2, 0, spec)]
        assert [(each["number"], each["request_id"]) for each in state["fired"]] == [
            (1, stream.headers["x-amzn-requestid"])
        ]

        assert (await admin.delete("/faults/2")).status_code == 200
        assert (await admin.delete("/faults/2")).status_code == 404
        await admin.post("/faults", json=spec)
        assert (await admin.delete("/faults")).status_code == 200
        assert (await admin.get("/faults")).json()["armed"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"reset-strm", "kind must be one of"),
        (b'{"kind": "refuse", "state": 400}', "there is no field state"),
        (b"{", "Invalid JSON"),
        (b"\xff", "UTF-8"),
        (b"", "kind must be one of"),
    ],
)
async def test_a_fault_that_makes_no_sense_is_explained(admin: httpx.AsyncClient, body: bytes, words: str) -> None:
    answer = await admin.post("/faults", content=body)
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (400, "FaultSpecError")
    assert words in answer.json()["Message"]


async def test_without_the_token_nothing_is_told(site: Site, admin: httpx.AsyncClient) -> None:
    for headers in ({"authorization": ""}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer \xe9"}):
        answer = await admin.get("/faults", headers=httpx.Headers(headers, encoding="latin-1"))
        assert (answer.status_code, list(answer.json())) == (401, ["Message"])
        answer = await admin.post("/faults", content="refuse", headers=httpx.Headers(headers, encoding="latin-1"))
        assert answer.status_code == 401
    assert site.plane.faults.armed == ()


async def test_other_methods_and_paths(admin: httpx.AsyncClient) -> None:
    assert (await admin.put("/faults", content="refuse")).status_code == 405
    assert (await admin.post("/faults/1", content="refuse")).status_code == 405
    assert (await admin.get("/faults/one")).status_code == 404


async def test_the_http2_port_has_no_admin_route(site: Site) -> None:
    async with site.connect() as connection:
        headers = {"authorization": f"Bearer {site.plane.admin_token}"}
        stream = connection.request("GET", "/faults", headers, site.signer(), end=True)
        assert (await stream.error())[:2] == (404, "UnknownOperationException")


async def test_the_command_serves_a_running_container_and_its_faults(site: Site) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voice_local.data_plane", "--container-port", str(site.container.port)),
        *("--endpoint-name", "dev-x", "--accept-seconds", "5", "--fault", "unknown-event,after=1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), DEADLINE))
        await _talk_to(ready)
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), DEADLINE) == 0


async def _talk_to(ready: dict[str, Any]) -> None:
    signer = Signer(ready["access_key"], ready["secret_key"], ready["region"])
    async with bare_connection(ready["url"], Path(ready["ca_bundle"]), signer) as connection:
        stream = await connection.open("dev-x")
        assert await stream.response() == 200
        await stream.send(b"hello")
        assert (await stream.next_event()).payload == b"hello"
        assert (await stream.next_event()).headers[":event-type"] == "SomethingNewEvent"
        headers = {"authorization": f"Bearer {ready['admin_token']}"}
        async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
            answer = await client.post(ready["faults_url"], content="reset-stream,code=CANCEL")
            assert answer.status_code == 201
        await until(lambda: stream.reset == 8)


async def test_the_command_explains_a_fault_that_makes_no_sense() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voice_local.data_plane", "--container-port", "1", "--endpoint-name", "x"),
        *("--fault", "delay,status=9"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 1
    assert "status means nothing for delay" in errors.decode()
    assert "delay needs seconds" in errors.decode()


async def voice_local(*arguments: str) -> tuple[int, str]:
    """Run the command in this process: starting a Python for each call takes longer than what it does."""
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    return result.exit_code, result.output


async def test_the_local_cloud_takes_faults_on_its_command_line_and_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from voice_local.cli import app; app()", "up", "--data-port", "0"),
        *("--until-stdin-closes", "--fault", "refuse,status=429", "--fault", "delay,seconds=1"),
        cwd=tmp_path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), STARTING))
        which = ("--process", str(process.pid))  # the cloud of a test is nobody's own
        headers = {"authorization": f"Bearer {ready['admin_token']}"}
        async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
            code, said = await voice_local("fault", *which, "go-away", "stall,seconds=2")
            assert (code, said.count("armed")) == (0, 4)
            code, said = await voice_local("fault", *which, "go-far-away")
            assert (code, "kind must be one of" in said) == (1, True)
            armed = (await client.get(ready["faults"])).json()["armed"]
            assert [each["fault"]["kind"] for each in armed] == ["refuse", "delay", "go-away", "stall"]
            code, said = await voice_local("fault", *which, "--clear")
            assert (code, said) == (0, "")
    finally:
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), STARTING) == 0
