"""What a hub, S3, an operator or a second build can do to the copier, and what it does then."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.ops.weights.copying import FILES, JOB, MODEL, TOKEN, WEIGHTS, Copy, keys, manifest
from tests.ops.weights.hub_server import HubServer
from tests.ops.weights.s3_front import Refusal, S3Front
from voice_constructs.model_weights_job.weights_staging.copier import Copier
from voice_constructs.model_weights_job.weights_staging.hub import Hub, HubSettings
from voice_constructs.model_weights_job.weights_staging.manifest import Manifest, StagedFile
from voice_constructs.model_weights_job.weights_staging.store import WeightsStore


def last(said: str) -> str:
    return said.splitlines()[-1]


def shorter(hub: HubServer) -> None:
    hub.faults.shorter["tekken.json"] = 1000


def compressed(hub: HubServer) -> None:
    hub.faults.compressed = True


def in_a_circle(hub: HubServer) -> None:
    hub.faults.in_a_circle = True


def a_page(hub: HubServer) -> None:
    hub.faults.listing = b"<html>Welcome to the hotel. Please log in.</html>"


def a_way_out(hub: HubServer) -> None:
    entry = {"rfilename": "../tekken.json", "size": 1, "blobId": "0" * 40}
    hub.faults.listing = json.dumps({"sha": hub.commit, "siblings": [entry]}).encode()


def an_odd_list(hub: HubServer) -> None:
    entry = {"rfilename": "tekken.json", "size": "much", "blobId": None, "lfs": "yes"}
    hub.faults.listing = json.dumps({"sha": hub.commit, "siblings": [entry]}).encode()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shorter, "tekken.json: it ends after 1199000 of the 1200000 bytes that the hub lists, in 3 downloads"),
        (compressed, "it came as gzip, though it was asked for as it is"),
        (in_a_circle, "tekken.json: the hub redirects in a circle"),
        (a_page, "does not list files with checksums"),
        (a_way_out, "'../tekken.json' is no path within a repository"),
        (an_odd_list, "does not list files with checksums"),
    ],
)
def test_a_hub_that_lies_ends_the_copying_with_what_it_said(
    hub: HubServer, bucket: str, copy: Copy, s3: Any, *, spoil: Callable[[HubServer], None], said: str
) -> None:
    spoil(hub)

    code, shown = copy()

    assert code == 1
    assert last(shown).startswith("failed: ")
    assert said in last(shown)
    assert keys(s3, bucket) == set()


def test_a_hub_that_asks_to_wait_is_waited_for(hub: HubServer, copy: Copy) -> None:
    hub.faults.asks_to_wait = [1]
    began = time.monotonic()

    code, shown = copy("params.json")

    assert code == 0, shown
    # Its own pauses are hundredths of a second here.
    assert time.monotonic() - began >= 1
    assert "429" in shown


def test_storage_that_cuts_each_answer_elsewhere_and_knows_no_ranges_is_given_up(hub: HubServer, copy: Copy) -> None:
    hub.faults.no_ranges = True
    # Each answer brings more than the one before the last: progress against the last one alone would never end.
    hub.faults.cut_after["tekken.json"] = [600_000, 500_000] * 8

    code, shown = copy()

    assert code == 1
    assert "nothing came after byte 600000 of 1200000 in 8 attempts" in last(shown)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (json.dumps({"HF_TOKEN": TOKEN}, separators=(",", ":")), "holds no token"),
        (f"{TOKEN}\nsecond", "holds no token"),
        (f"{TOKEN}é", "holds no token"),
        (f"{TOKEN}-of-nobody", "the hub refuses with 401; the token may not read it"),
    ],
    ids=["key and value", "two lines", "no ASCII", "not let in"],
)
def test_a_secret_that_opens_nothing_is_told_without_its_text(
    client: Any, copy: Copy, bucket: str, *, secret: str, said: str
) -> None:
    name = client("secretsmanager").create_secret(Name=f"for-{bucket}", SecretString=secret)["Name"]
    with HubServer(MODEL, FILES, token=TOKEN) as gated:
        code, shown = copy(HUB_TOKEN_SECRET=name, HUB_URL=gated.url, REVISION=gated.commit)

    assert code == 1
    assert said in last(shown)
    assert "secretsecret" not in shown


def uploads(s3: Any, bucket: str) -> list[Any]:
    return list(s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ()))


def test_s3_that_slows_down_is_asked_again_and_one_that_refuses_leaves_no_half_upload(
    bucket: str, s3: Any, endpoint: str, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"partNumber=1": 2, "partNumber=2": 1}

    def slow_down(method: str, path: str) -> Refusal | None:
        for part, times in slow.items():
            if method == "PUT" and part in path and times:
                slow[part] -= 1
                return Refusal(503, "SlowDown")
        return None

    def refuse_the_second(method: str, path: str) -> Refusal | None:
        return Refusal(403, "AccessDenied") if method == "PUT" and "partNumber=2" in path else None

    with S3Front(endpoint, refuse_the_second) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.url)
        code, shown = copy(WEIGHTS)
        assert code == 1
        assert "AccessDenied" in last(shown)
        assert front.count("DELETE", "uploadId=") == 1
    assert uploads(s3, bucket) == []
    assert keys(s3, bucket) == set()

    with S3Front(endpoint, slow_down) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.url)
        code, shown = copy(WEIGHTS)
        assert code == 0, shown
        assert front.count("PUT", "partNumber=") == 5
    assert len(keys(s3, bucket)) == 2


def test_a_build_that_is_stopped_takes_its_upload_back_and_the_next_one_goes_on(
    hub: HubServer, bucket: str, s3: Any, copy: Copy, *, endpoint: str, environment: dict[str, str]
) -> None:
    with S3Front(endpoint, delay_seconds=2) as front:
        told = {"WEIGHTS_BUCKET": bucket, "MODEL": MODEL, "REVISION": hub.commit, "HUB_URL": hub.url}
        running = subprocess.Popen(
            [sys.executable, "-m", "weights_staging"],
            cwd=JOB,
            env={**environment, **told, "FILES": f"params.json,{WEIGHTS}", "AWS_ENDPOINT_URL": front.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert front.arrived.wait(60)
        running.send_signal(signal.SIGTERM)
        shown, errors = running.communicate(timeout=60)

    assert running.returncode == 1, shown + errors
    assert last(shown) == "failed: it was stopped. Start again: what was staged stays."
    assert errors == ""
    assert uploads(s3, bucket) == []
    assert f"models/{MODEL}/{hub.commit}.manifest.json" not in keys(s3, bucket)

    code, shown = copy(f"params.json,{WEIGHTS}")

    assert code == 0, shown
    assert len(manifest(s3, bucket, hub)["files"]) == 2


def test_two_stagings_of_one_revision_at_once_both_end_complete(hub: HubServer, bucket: str, s3: Any) -> None:
    def copier() -> Copier:
        said: list[str] = []
        return Copier(Hub(hub.url, None, said.append, HubSettings()), WeightsStore(s3, bucket), said.append)

    both = [copier(), copier()]
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda one: one.run(MODEL, hub.commit, ["params.json", "tekken.json"]), both))

    assert outcomes[0].manifest == outcomes[1].manifest
    assert WeightsStore(s3, bucket).manifest(MODEL, hub.commit) == outcomes[0].manifest
    for name in ("params.json", "tekken.json"):
        found = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/{name}")["Body"].read()
        assert found == FILES[name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"files": []}, "it lists no file like tekken.json"),
        ({"patterns": [], "files": []}, "it is of no files"),
        ({"format": 2}, "format 2, not 1"),
        ({"files": [{"path": "tekken.json", "size": "1", "sha256": "0" * 64, "checksum": None}]}, "'1' as its size"),
        ({"files": [{"path": "tekken.json", "size": 1, "sha256": "0", "checksum": None}]}, "'0' as its sha256"),
        (
            {"files": [{"path": "tekken.json", "size": 1, "sha256": None, "checksum": None}]},
            "a part is missing or wrong",
        ),
        ({"files": [{"path": "tekken.json"}]}, "a part is missing or wrong"),
        ({"files": [None]}, "a part is missing or wrong"),
    ],
)
def test_a_manifest_that_was_changed_is_no_manifest(change: dict[str, Any], said: str) -> None:
    file = StagedFile("tekken.json", 1, "0" * 64, None)
    written = json.loads(Manifest(MODEL, "a" * 40, ("tekken.json",), (file,)).to_json())
    assert Manifest.from_json(json.dumps(written)).files == (file,)

    with pytest.raises(ValueError, match=said):
        Manifest.from_json(json.dumps({**written, **change}))


def test_a_manifest_of_another_model_is_written_anew_and_nothing_is_copied_for_it(
    hub: HubServer, bucket: str, s3: Any, copy: Copy
) -> None:
    assert copy("params.json")[0] == 0
    right = manifest(s3, bucket, hub)
    key = f"models/{MODEL}/{hub.commit}.manifest.json"
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps({**right, "model": "somebody/else"}).encode())
    with pytest.raises(ValueError, match="it is of somebody/else@"):
        WeightsStore(s3, bucket).manifest(MODEL, hub.commit)

    asked = len(hub.asked)
    assert copy("params.json")[0] == 0

    assert manifest(s3, bucket, hub) == right
    assert len(hub.asked) == asked
