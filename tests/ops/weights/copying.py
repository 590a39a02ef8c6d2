"""What the tests of the copier copy, and how they run it: as the build does, in a process of its own."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ops.weights.hub_server import HubServer

JOB = Path(__file__).parents[3] / "constructs" / "voice_constructs" / "model_weights_job"
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
WEIGHTS = "consolidated.safetensors"
NEEDED = f"{WEIGHTS},params.json,tekken.json"
TOKEN = "hf_" + "secret" * 5

_random = random.Random(7)  # noqa: S311 (content, no secret)
FILES = {
    # More than a part of a multipart upload (16 MiB).
    WEIGHTS: _random.randbytes(1 << 20) * 17 + b"the end",
    "params.json": b'{"dim": 3072}',
    "tekken.json": _random.randbytes(1_200_000),
    # Not needed by vLLM when it has the others.
    "model.safetensors": _random.randbytes(2_000_000),
    "README.md": b"# Voxtral",
}

Copy = Callable[..., tuple[int, str]]
"""Runs the copier in the test's own process: `copy(files, **variables)` returns exit code and output."""


def stage(hub: HubServer, bucket: str, environment: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    told = {"WEIGHTS_BUCKET": bucket, "MODEL": MODEL, "REVISION": hub.commit, "FILES": NEEDED, "HUB_URL": hub.url}
    return subprocess.run(
        [sys.executable, "-m", "weights_staging"],
        cwd=JOB,
        env={**environment, **told, **more},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def keys(s3: Any, bucket: str) -> set[str]:
    return {item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", ())}


def manifest(s3: Any, bucket: str, hub: HubServer) -> dict[str, Any]:
    body = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}.manifest.json")["Body"].read()
    return dict(json.loads(body))
