"""Credentials: boto3's chain with a deadline, one identity a stream, and an environment that stays as it is."""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from voice_client.errors import CredentialsError, DeadlineError
from voice_client.transport import BotocoreIdentity, Identity, VoiceTransport


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Write one profile and select it."""

    def write(**lines: str) -> None:
        text = "".join(f"{name} = {value}\n" for name, value in lines.items())
        (tmp_path / "config").write_text(f"[profile voices]\n{text}")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        monkeypatch.setenv("AWS_PROFILE", "voices")

    return write


async def test_a_stream_with_credentials_from_a_process(platform: Any, profile: Any, tmp_path: Path) -> None:
    """`credential_process` stands for every source outside of the environment; the environment gets none of it."""
    fixed = platform.identity.fixed
    document = tmp_path / "credentials.json"
    said = {"Version": 1, "AccessKeyId": fixed.access_key_id, "SecretAccessKey": fixed.secret_access_key}
    document.write_text(json.dumps(said))
    profile(credential_process=f"cat {document}")
    before = dict(os.environ)
    async with VoiceTransport(platform.target()) as transport, await transport.open_stream("echo") as stream:
        await stream.send_text("hello")
        assert await anext(stream) == "hello"
    assert dict(os.environ) == before


async def test_a_key_that_rotates_between_streams(platform: Any) -> None:
    """A stream keeps the identity it was opened with; the next one takes the new."""
    right: Identity = platform.identity.fixed
    given = [right, Identity(right.access_key_id, "rotated")]

    class Rotating:
        async def identity(self, *, deadline_seconds: float) -> Identity:
            del deadline_seconds
            return given[0]

    async with VoiceTransport(platform.target(), identity=Rotating()) as transport:
        stream = await transport.open_stream("echo")
        given.pop(0)
        for number in range(3):
            await stream.send_text(str(number))
            assert await anext(stream) == str(number)
        with pytest.raises(CredentialsError, match="signature"):
            await transport.open_stream("echo")
        await stream.send_text("still signed with the first")
        assert await anext(stream) == "still signed with the first"


async def test_temporary_credentials_that_are_about_to_expire_are_refreshed(profile: Any, tmp_path: Path) -> None:
    counter = tmp_path / "calls"
    script = tmp_path / "issue.py"
    script.write_text(
        "import datetime, json, pathlib\n"
        f"calls = pathlib.Path({str(counter)!r})\n"
        "number = int(calls.read_text()) + 1 if calls.exists() else 1\n"
        "calls.write_text(str(number))\n"
        "until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'AKIA{number}', 'SecretAccessKey': 's',"
        " 'SessionToken': f'token{number}', 'Expiration': until.isoformat()}))\n"
    )
    profile(credential_process=f"{sys.executable} {script}")
    provider = BotocoreIdentity()
    first = await provider.identity(deadline_seconds=10)
    second = await provider.identity(deadline_seconds=10)
    assert int(second.access_key_id.removeprefix("AKIA")) > int(first.access_key_id.removeprefix("AKIA"))
    assert second.session_token != first.session_token


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            {
                "sso_start_url": "https://127.0.0.1:1/start",
                "sso_region": "us-east-1",
                "sso_account_id": "123456789012",
                "sso_role_name": "Speaker",
            },
            "SSO",
        ),
        ({"credential_process": "false"}, "credential"),
        ({"role_arn": "arn:aws:iam::123456789012:role/Speaker", "source_profile": "nobody"}, "nobody"),
    ],
    ids=["an SSO session nobody logged in to", "a failing process", "a role whose source is missing"],
)
async def test_a_source_that_fails(platform: Any, profile: Any, lines: dict[str, str], said: str) -> None:
    """The SDK's own chain never returns for the first and the last of these."""
    profile(region="us-east-1", **lines)
    async with VoiceTransport(platform.target()) as transport:
        with pytest.raises(CredentialsError, match=said) as told:  # and not the DeadlineError of a source that hangs
            await transport.open_stream("echo")
    assert told.value.endpoint == "ear"
    assert told.value.exit_code == 3


async def test_no_credentials_at_all(platform: Any) -> None:
    async with VoiceTransport(platform.target()) as transport:
        with pytest.raises(CredentialsError, match="no AWS credentials") as told:
            await transport.open_stream("echo")
    assert "AWS_PROFILE" in told.value.advice


async def test_a_profile_that_does_not_exist(platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    async with VoiceTransport(platform.target()) as transport:
        with pytest.raises(CredentialsError, match="nobody"):
            await transport.open_stream("echo")


async def test_a_source_that_does_not_answer(profile: Any, tmp_path: Path) -> None:
    never = tmp_path / "never"
    os.mkfifo(never)
    profile(credential_process=f"cat {never}")  # it waits until somebody writes
    threads = threading.active_count()
    with pytest.raises(DeadlineError, match="reading the AWS credentials"):
        await BotocoreIdentity().identity(deadline_seconds=0.3)
    never.write_bytes(b"")
    async with asyncio.timeout(20):  # its thread ends when the process does
        while threading.active_count() > threads:  # noqa: ASYNC110 - a thread sets no event
            await asyncio.sleep(0.02)


async def test_secrets_are_not_shown() -> None:
    shown = repr(Identity("AKIAEXAMPLE", "the-secret", "the-token"))
    assert "AKIAEXAMPLE" in shown
    assert "the-" not in shown
