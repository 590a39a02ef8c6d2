"""The copier as the build runs it: a process of its own, a hub that misbehaves, S3 behind real HTTP."""

from typing import Any

import pytest

from tests.ops.weights.copying import FILES, MODEL, NEEDED, TOKEN, WEIGHTS, Copy, keys, manifest, stage
from tests.ops.weights.hub_server import HubServer


def test_whatever_happens_to_the_connection_all_is_there_and_right_and_a_second_run_copies_nothing(
    hub: HubServer, bucket: str, s3: Any, environment: dict[str, str]
) -> None:
    hub.faults.cut_after = {WEIGHTS: [0, 1_000_000, 7_000_001, 5], "params.json": [4]}
    hub.faults.corrupt["tekken.json"] = 1
    hub.faults.unavailable["params.json"] = 2

    done = stage(hub, bucket, environment)

    assert done.returncode == 0, done.stdout + done.stderr
    folder = f"models/{MODEL}/{hub.commit}/"
    assert keys(s3, bucket) == {*(folder + name for name in NEEDED.split(",")), folder[:-1] + ".manifest.json"}
    for name in NEEDED.split(","):
        assert s3.get_object(Bucket=bucket, Key=folder + name)["Body"].read() == FILES[name], name
    # Never from the beginning again where ranges go on.
    ranges = [asked for path, asked in hub.asked if path == WEIGHTS]
    assert ranges == ["", "", "bytes=1000000-", "bytes=8000001-", "bytes=8000006-"]
    assert "tekken.json: its sha256 is" in done.stdout
    written = manifest(s3, bucket, hub)
    assert (written["model"], written["revision"]) == (MODEL, hub.commit)
    assert {file["path"]: file["size"] for file in written["files"]} == {n: len(FILES[n]) for n in NEEDED.split(",")}
    assert all(len(file["sha256"]) == 64 and file["checksum"] for file in written["files"])

    before, versions = len(hub.asked), len(s3.list_object_versions(Bucket=bucket)["Versions"])
    again = stage(hub, bucket, environment)

    assert again.returncode == 0, again.stdout + again.stderr
    assert "3 are there and right" in again.stdout
    assert len(hub.asked) == before
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == versions


def test_a_file_that_is_wrong_each_time_fails_by_name_and_leaves_no_manifest_and_what_was_right(
    hub: HubServer, bucket: str, s3: Any, copy: Copy, environment: dict[str, str]
) -> None:
    hub.faults.corrupt["tekken.json"] = 100

    done = stage(hub, bucket, environment, STAGING_REQUEST="request-1")

    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert last.startswith("failed: tekken.json: its sha256 is")
    assert "nothing of it was uploaded" in last
    folder = f"models/{MODEL}/{hub.commit}/"
    assert keys(s3, bucket) == {folder + WEIGHTS, folder + "params.json", "requests/request-1.reason"}
    assert "tekken.json" in s3.get_object(Bucket=bucket, Key="requests/request-1.reason")["Body"].read().decode()

    # The next run brings just that file.
    hub.faults.corrupt.clear()
    before = len(hub.asked)
    assert copy(NEEDED)[0] == 0
    assert [path for path, _ in hub.asked[before:]] == ["tekken.json"]


def test_a_copy_that_was_replaced_in_the_bucket_is_brought_again(
    hub: HubServer, bucket: str, s3: Any, copy: Copy
) -> None:
    assert copy("params.json")[0] == 0
    s3.put_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/params.json", Body=b'{"dim": 9999}')

    assert copy("params.json")[0] == 0

    found = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/params.json")["Body"].read()
    assert found == FILES["params.json"]


def test_storage_without_ranges_is_read_from_the_beginning(hub: HubServer, bucket: str, s3: Any, copy: Copy) -> None:
    hub.faults.no_ranges = True
    hub.faults.cut_after = {"tekken.json": [700_000]}

    code, shown = copy("tekken.json")

    assert code == 0, shown
    found = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/tekken.json")["Body"].read()
    assert found == FILES["tekken.json"]


def test_a_gated_model_needs_its_token_which_nobody_but_the_hub_sees(
    bucket: str, client: Any, copy: Copy, environment: dict[str, str]
) -> None:
    client("secretsmanager").create_secret(Name="hub-token", SecretString=TOKEN)
    with HubServer(MODEL, FILES, token=TOKEN) as hub:
        gated = {"HUB_URL": hub.url, "REVISION": hub.commit}
        without = copy("params.json", **gated)
        done = stage(hub, bucket, environment, FILES="params.json", HUB_TOKEN_SECRET="hub-token")
        missing = copy("params.json", **gated, HUB_TOKEN_SECRET="no-such-secret")

    assert without[0] == 1
    assert "staging.token_secret" in without[1].splitlines()[-1]
    assert done.returncode == 0, done.stdout
    assert hub.asked
    assert hub.tokens_at_storage == []
    assert TOKEN not in done.stdout + done.stderr
    assert missing[0] == 1
    assert "ResourceNotFound" in missing[1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"REVISION": "main"}, "pin that commit"),
        ({"REVISION": "0" * 40}, "no such model, revision or file"),
        ({"FILES": "params.json,weights-*.bin"}, "no file like weights-*.bin"),
        ({"FILES": "", "MODEL": ""}, "lacks MODEL, FILES"),
        ({"WEIGHTS_BUCKET": "there-is-no-such-bucket"}, "there-is-no-such-bucket"),
    ],
    ids=["a branch", "unknown commit", "missing file", "settings", "bucket"],
)
def test_what_cannot_be_staged_ends_with_what_to_change(
    bucket: str, s3: Any, copy: Copy, *, changed: dict[str, str], said: str
) -> None:
    code, shown = copy("params.json", **changed)

    assert code == 1
    assert said in shown.splitlines()[-1]
    assert keys(s3, bucket) == set()
