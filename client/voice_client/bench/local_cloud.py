"""A local cloud for one run: `voice local up --deploy` in a process of its own, ended with the run.

The client knows the local cloud only by its command and by the JSON line that it prints.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from voice_client.errors import BadInputError, VoiceError
from voice_client.session.ending import end_tasks

START_SECONDS = 600.0
"""Until both voices are in service: a minute on two idle cores, several on a busy machine."""

STOP_SECONDS = 30.0
"""For the cloud to end with its containers (it gives itself 20 s); after that it is killed."""

_DROPPED_PREFIXES = ("AWS_", "BOTO")
_DROPPED_NAMES = {
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ssl_cert_file",
    "ssl_cert_dir",
    "sslkeylogfile",
}


class LocalCloudError(VoiceError):
    """The local cloud did not come up."""

    exit_code = 3
    default_advice = "`voice local up --deploy` in the project's folder shows why"


@asynccontextmanager
async def local_cloud(stage: str, *, on_line: Callable[[str], None]) -> AsyncGenerator[dict[str, str]]:
    """Run a local cloud with both voices of a stage; yields the environment that leads to it and to nothing else.

    Args:
        stage: stage of the project in this folder.
        on_line: is told what the cloud says while it comes up.

    Raises:
        BadInputError: this folder holds no project.
        LocalCloudError: it ended before it was up, or took too long.
    """
    if not await asyncio.to_thread(Path("cdk.json").is_file):
        raise BadInputError(
            "--local deploys the project of this folder, and there is no cdk.json",
            advice="Run it in the project's folder",
        )
    program = "from voice_client.cli import main; main()"
    options = ("--deploy", "--stage", stage, "--control-port", "0", "--data-port", "0", "--until-stdin-closes")
    # The pipe to its input closes when this process ends, however it ends: then the cloud ends too.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, "local", "up", *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the cloud in order
    )
    said: deque[str] = deque(maxlen=10)
    assert process.stdout is not None  # noqa: S101 - pipes were asked for
    assert process.stderr is not None  # noqa: S101
    listening = asyncio.create_task(_listen(process.stderr, said, on_line), name="voice-bench-cloud-log")
    try:
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError as error:
            raise LocalCloudError(f"the local cloud was not up after {START_SECONDS:.0f} s") from error
        if not line.strip():
            await asyncio.wait({listening}, timeout=1.0)
            reason = " ".join(said) or "it said nothing"
            raise LocalCloudError(f"the local cloud ended before it was up: {reason}")
        yield environment(json.loads(line), os.environ)
    finally:
        await _end(process)
        await end_tasks(listening)


def environment(cloud: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` without what could lead to another account, endpoint or proxy, and with what leads to a cloud."""
    kept = {
        name: value
        for name, value in base.items()
        if not name.upper().startswith(_DROPPED_PREFIXES) and name.lower() not in _DROPPED_NAMES
    }
    return kept | {
        "AWS_ACCESS_KEY_ID": cloud["access_key"],
        "AWS_SECRET_ACCESS_KEY": cloud["secret_key"],
        "AWS_REGION": cloud["region"],
        "AWS_DEFAULT_REGION": cloud["region"],
        "AWS_ENDPOINT_URL": cloud["control_plane"],
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2": cloud["data_plane"],
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "SSL_CERT_FILE": cloud["ca_bundle"],
        "NO_PROXY": "127.0.0.1,localhost",
    }


async def _listen(stderr: asyncio.StreamReader, said: deque[str], on_line: Callable[[str], None]) -> None:
    while line := await stderr.readline():
        text = line.decode(errors="replace").strip()
        if text:
            said.append(text)
            on_line(text)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError) as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
