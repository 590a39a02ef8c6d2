"""The templates of every stage are those that somebody has reviewed; `make snapshots` renews them."""

import json
from typing import Any

import pytest

from stacks.settings import read_context
from voice_ops import snapshots
from voice_ops.assembly import PROJECT

SynthesizedStage = Any


@pytest.mark.parametrize("fixture", ["dev", "prod_as_configured"])
def test_templates_are_the_reviewed_ones(fixture: str, request: pytest.FixtureRequest) -> None:
    stage: SynthesizedStage = request.getfixturevalue(fixture)
    name = stage.stt.name.removesuffix("-voice-stt")
    changed = snapshots.differences(name, {stack.name: stack.template for stack in stage.all})
    assert not changed, "\n".join(["CloudFormation changes; if they are meant: make snapshots", *changed])


def test_every_stage_has_reviewed_templates() -> None:
    assert {path.name for path in snapshots.DIRECTORY.iterdir()} == set(snapshots.stages())
    assert set(snapshots.stages()) == set(read_context(PROJECT / "cdk.json")["voice"])


def test_a_changed_value_a_new_stack_and_a_lost_one_are_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "DIRECTORY", tmp_path)
    (tmp_path / "dev").mkdir()
    for name in ("kept", "lost"):
        (tmp_path / "dev" / f"{name}.json").write_text(snapshots.normalised({"Resources": {"A": 1}}))
    assert snapshots.differences("dev", {name: {"Resources": {"A": 1}} for name in ("kept", "lost")}) == []
    told = "\n".join(snapshots.differences("dev", {"kept": {"Resources": {"A": 2}}, "new": {"Resources": {}}}))
    assert '-    "A": 1' in told
    assert '+    "A": 2' in told
    assert "+++ now/new" in told
    assert "--- reviewed/lost" in told


def test_what_differs_between_machines_is_left_out() -> None:
    def template(digest: str) -> dict[str, Any]:
        return {"b": {"Fn::Sub": f"registry/assets:{digest}"}, "a": [digest]}

    assert snapshots.normalised(template("0a" * 32)) == snapshots.normalised(template("f1" * 32))
    assert json.loads(snapshots.normalised(template("0a" * 32)))["a"] == ["ASSET-HASH"]


def test_snapshots_hold_no_hash_account_or_place_of_a_machine() -> None:
    for path in snapshots.DIRECTORY.rglob("*.json"):
        written = path.read_text()
        assert not snapshots._ASSET_HASH.search(written)
        assert str(PROJECT) not in written
