"""What a reviewer is promised: nothing unaccepted passes, and the printed review can be relied on."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from stacks.settings import load_settings
from voice_constructs.acknowledgements import Scanner, acknowledge
from voice_constructs.instance_pools import InstancePools
from voice_ops import assembly as assembly_module
from voice_ops import review, scanners
from voice_ops.assembly import Acknowledgement, Assembly, SynthesizedStack, read_assembly
from voice_ops.errors import ScannerError, SynthesisError
from voice_ops.findings import Finding, judge
from voice_ops.readable import public_access, statements, text
from voice_ops.running_cost import stage_cost

SynthesizedStage = Any


def assembly_of(stage: SynthesizedStage) -> Assembly:
    return read_assembly(stage.stt.path.parent)


def stack_of(resources: dict[str, Any], acknowledgements: Sequence[Acknowledgement] = ()) -> SynthesizedStack:
    return SynthesizedStack(
        "s", Path("s.template.json"), {"Resources": resources}, {}, tuple(acknowledgements), {}, False
    )


def assembly_with(*acknowledgements: Acknowledgement) -> Assembly:
    return Assembly(Path(), (stack_of({}, acknowledgements),), {})


FINDING = Finding("checkov", "CKV_1", "s", "Logs", "is not as it should be")
ACCEPTED = Acknowledgement("s", "s/Logs/Resource", "Logs", "checkov", "CKV_1", "because")


class TestVerdict:
    def test_a_finding_nobody_accepted_is_open(self) -> None:
        verdict = judge(assembly_with(), [FINDING], scanners=["checkov"])
        assert verdict.open == (FINDING,)
        assert not verdict.clean

    def test_one_acknowledgement_is_for_one_finding_of_one_resource(self) -> None:
        others = [
            Finding("checkov", "CKV_1", "s", "OtherLogs", "same rule, other resource"),
            Finding("checkov", "CKV_2", "s", "Logs", "other rule, same resource"),
            Finding("checkov", "CKV_1", "t", "Logs", "same id, other stack"),
            Finding("cfn-lint", "CKV_1", "s", "Logs", "other scanner"),
        ]
        verdict = judge(assembly_with(ACCEPTED), [FINDING, *others], scanners=["checkov", "cfn-lint"])
        assert verdict.accepted == ((FINDING, ACCEPTED),)
        assert verdict.open == tuple(others)

    def test_an_acknowledgement_of_a_whole_stack_without_a_reason_or_of_nothing_is_refused(self) -> None:
        verdict = judge(
            assembly_with(
                Acknowledgement("s", "s", None, "checkov", "CKV_1", "all of them"),
                Acknowledgement("s", "s/A", "A", "checkov", "CKV_1", " "),
                Acknowledgement("s", "s/B", "B", "checkov", "CKV_1", "was once found"),
            ),
            [],
            scanners=["checkov"],
        )
        assert [text.rpartition(": ")[2].split(";")[0] for text in verdict.refused] == [
            "covers more than one resource",
            "gives no reason",
            "there is no such finding any more",
        ]
        assert not verdict.clean

    def test_what_a_scanner_that_did_not_run_would_find_is_left_alone(self) -> None:
        assert judge(assembly_with(ACCEPTED), [], scanners=["cfn-lint"]).clean

    def test_a_construct_of_several_resources_cannot_be_acknowledged(self) -> None:
        with pytest.raises(TypeError, match="is not one resource"):
            acknowledge(Stack(App(), "Test"), Scanner.CHECKOV, "CKV_1", reason="whatever")


class TestStages:
    @pytest.mark.parametrize("fixture", ["dev", "prod_as_configured", "in_vpc"])
    def test_nothing_is_public_and_nothing_unacknowledged(self, fixture: str, request: pytest.FixtureRequest) -> None:
        assembly = assembly_of(request.getfixturevalue(fixture))
        # cfn-lint is asked in test_voice_stacks.py and test_operations.py: once a template, for it takes seconds.
        verdict = judge(assembly, scanners.cdk_nag_findings(assembly), scanners=[scanners.CDK_NAG])
        assert verdict.open == ()
        assert verdict.refused == ()
        # Each stack has the two actions that take no resource: cdk-nag did look.
        assert len(verdict.accepted) >= 2
        for stack in assembly.stacks:
            assert public_access(stack) == []

    def test_every_wildcard_resource_is_acknowledged(self, prod_as_configured: SynthesizedStage) -> None:
        assembly = assembly_of(prod_as_configured)
        for stack in assembly.stacks:
            everywhere = [s for s in statements(stack) if s.kind == "identity" and "*" in s.resources]
            given = {a.logical_id for a in stack.acknowledgements if a.rule == "AwsSolutions-IAM5[Resource::*]"}
            assert {statement.resource for statement in everywhere} == given

    def test_a_synthesis_without_cdk_nag_is_not_taken_for_a_clean_one(self, paused: SynthesizedStage) -> None:
        with pytest.raises(ScannerError, match="without cdk-nag"):
            scanners.cdk_nag_findings(assembly_of(paused))


class TestCfnLint:
    def test_findings_name_the_resource_and_the_rule(self, tmp_path: Path) -> None:
        path = tmp_path / "s.template.json"
        path.write_text(json.dumps({"Resources": {"Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"Nme": 1}}}}))
        stack = SynthesizedStack("s", path, json.loads(path.read_text()), {}, (), {}, False)
        (found, *_) = scanners.cfn_lint_findings(Assembly(tmp_path, (stack,), {}))
        assert (found.scanner, found.rule, found.stack, found.logical_id) == ("cfn-lint", "E3002", "s", "Logs")


class TestPrinted:
    def lines(self, stage: SynthesizedStage, name: str, **overrides: str) -> str:
        context = json.loads((assembly_module.PROJECT / "cdk.json").read_text())["context"]
        assembly = assembly_of(stage)
        findings = scanners.cdk_nag_findings(assembly) if assembly.validation.get("pluginReports", []) else []
        verdict = judge(assembly, findings, scanners=[scanners.CDK_NAG])
        settings = load_settings({**context, **overrides}, name)
        return "\n".join(review.report(settings, assembly, findings, verdict, [scanners.CDK_NAG]))

    def test_resources_statements_costs_and_findings(self, prod_as_configured: SynthesizedStage) -> None:
        printed = self.lines(prod_as_configured, "prod")
        for resource in (r for stack in prod_as_configured.all for r in stack.template["Resources"]):
            assert resource in printed
        assert "ALLOW sagemaker.amazonaws.com: sts:AssumeRole" in printed
        assert (
            "cloudwatch:PutMetricData  on *  if cloudwatch:namespace StringEquals /aws/sagemaker/Endpoints" in printed
        )
        assert "Public\n  nothing" in printed
        assert "checkov: not run" in printed
        assert "nothing is left to do" in printed
        assert "kept on delete" in printed

    def test_each_statement_is_one_line(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in assembly_of(prod_as_configured).stacks:
            for statement in statements(stack):
                assert "\n" not in str(statement)
                assert "Fn::" not in str(statement)
                assert "{'" not in str(statement)


class TestCosts:
    def test_best_and_worst_pool_entry_with_scaling(self, prod_as_configured: SynthesizedStage) -> None:
        context = json.loads((assembly_module.PROJECT / "cdk.json").read_text())["context"]
        cost = stage_cost(load_settings(context, "prod"), assembly_of(prod_as_configured).stacks)
        low, high = cost.per_hour
        assert low == pytest.approx(2 * 0.736)
        assert high == pytest.approx(2 * 2 * 2.605)
        # 2 keys, 8 alarms, 5 metrics, 1 dashboard
        assert cost.standing == pytest.approx(2 * 1.0 + 8 * 0.1 + 5 * 0.3 + 3.0)
        assert cost.per_month[0] == pytest.approx(2 * 0.736 * 730 + cost.standing)

    def test_paused_costs_nothing_by_the_hour(self, paused: SynthesizedStage) -> None:
        context = json.loads((assembly_module.PROJECT / "cdk.json").read_text())["context"]
        cost = stage_cost(load_settings({**context, "paused": "true"}, "prod"), assembly_of(paused).stacks)
        assert cost.per_hour == (0, 0)
        assert cost.standing < 10

    def test_a_type_without_a_price_is_told_and_not_guessed(self) -> None:
        price = InstancePools(["ml.g6.xlarge", "ml.g6.48xlarge"]).hourly_price_range
        assert (price.cheapest, price.dearest, price.unknown) == (1.127, 1.127, ("ml.g6.48xlarge",))
        only_unknown = InstancePools(["ml.g6.48xlarge"]).hourly_price_range
        assert (only_unknown.cheapest, only_unknown.dearest) == (None, None)


class TestPublic:
    def test_what_lets_everybody_in_is_found(self) -> None:
        stack = Stack(App(), "Test")
        bucket = s3.Bucket(stack, "Bucket")
        bucket.add_to_resource_policy(
            iam.PolicyStatement(principals=[iam.AnyPrincipal()], actions=["s3:GetObject"], resources=["*"])
        )
        found = public_access(stack_of(Template.from_stack(stack).to_json()["Resources"]))
        assert any("s3:GetObject" in line for line in found)

    def test_an_open_port_an_open_bucket_and_an_open_function_are_found(self) -> None:
        found = public_access(
            stack_of(
                {
                    "Group": {
                        "Type": "AWS::EC2::SecurityGroup",
                        "Properties": {"SecurityGroupIngress": [{"CidrIp": "0.0.0.0/0", "FromPort": 1, "ToPort": 2}]},
                    },
                    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
                    "Url": {"Type": "AWS::Lambda::Url", "Properties": {"AuthType": "NONE"}},
                }
            )
        )
        assert [line.split(":")[0] for line in found] == ["Group", "Bucket", "Url"]

    def test_intrinsics_are_read_aloud(self) -> None:
        arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":x:", {"Fn::GetAtt": ["Key", "Arn"]}]]}
        assert text(arn) == "arn:<Partition>:x:<Key.Arn>"


class TestCommand:
    def test_wrong_settings_are_the_settings_own_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert review.main(["--stage", "prod", "-c", "tts.scaling.min_instances=9"]) == 2
        assert "tts.scaling.max_instances" in capsys.readouterr().err
        assert review.main(["--stage", "nowhere"]) == 2
        assert "known: dev, prod" in capsys.readouterr().err
        assert review.main(["-c", "paused"]) == 2
        assert "key=value" in capsys.readouterr().err

    def test_an_open_finding_ends_with_1(
        self, dev: SynthesizedStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(review, "synthesize", lambda *_args, **_kwargs: assembly_of(dev))
        monkeypatch.setattr(review, "SCANNERS", {"checkov": lambda _assembly: [FINDING]})
        assert review.main(["--stage", "dev"]) == 1
        assert f"OPEN  {FINDING}" in capsys.readouterr().out

    def test_an_app_that_hangs_is_given_up(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def hang(*_args: Any, **_kwargs: Any) -> None:
            raise subprocess.TimeoutExpired("app.py", 1)

        monkeypatch.setattr(subprocess, "run", hang)
        with pytest.raises(SynthesisError, match="did not end within"):
            assembly_module.synthesize("dev", {}, tmp_path, scanned=False)

    def test_what_is_no_assembly_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(SynthesisError, match="no cloud assembly"):
            read_assembly(tmp_path)
