"""The report of the integration suite: a fixed schema, so that two runs can be compared."""

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.integration.measuring import Measuring
from tests.integration.report import EndpointFacts, Figure, IntegrationReport
from voice_client.session import HearingMetrics

SCHEMA = Path(__file__).parents[1] / "integration" / "report.schema.json"

EAR = EndpointFacts(
    name="dev-voice-stt",
    config="config-1",
    model="mistralai/Voxtral-Mini-4B-Realtime-2602",
    image="bridge:1",
    inference_ami="al2023-ami-sagemaker-inference-gpu-4-1",
    instance_type="ml.g6.xlarge",
    instance_types=["ml.g6.xlarge", "ml.g6e.xlarge"],
)


def measured(folder: Path) -> Measuring:
    measuring = Measuring("local", "dev", slow=False, folder=folder, began=datetime(2026, 11, 29, tzinfo=UTC))
    measuring.endpoints["stt"] = EAR
    for first_partial in (300.0, 100.0, 200.0):
        metrics = HearingMetrics(50.0, first_partial, 400.0, 1.0, 7.1, 0)
        measuring.heard(metrics, paced=True)
    measuring.heard(HearingMetrics(50.0, None, 900.0, 0.1, 7.1, 0), paced=False)
    measuring.outcome("test_a.py::one", "passed", 1.0, "")
    measuring.outcome("test_a.py::two", "failed", 2.0, "AssertionError: nothing was heard\nassert 1 == 2")
    measuring.outcome("test_a.py::two", "passed", 0.5, "")
    return measuring


def test_the_schema_is_the_one_that_is_written_down() -> None:
    """A change of it is a new schema_version, and a new file."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == IntegrationReport.model_json_schema()


def test_a_report_fulfils_its_schema_and_can_be_read_again(tmp_path: Path) -> None:
    report = measured(tmp_path).report("failed")
    report.write(tmp_path)

    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(written, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert IntegrationReport.model_validate(written) == report
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"], "no draft is left"


def test_a_figure_has_every_value_and_its_percentiles_by_nearest_rank(tmp_path: Path) -> None:
    figures = measured(tmp_path).report("passed").figures

    assert figures["stt.first_partial"].values == [300.0, 100.0, 200.0]
    assert (figures["stt.first_partial"].count, figures["stt.first_partial"].p50) == (3, 200.0)
    assert figures["stt.finalization"].count == 3, "an unpaced recording says nothing about live speech"
    assert figures["stt.rtf.unpaced"].values == [0.1]
    hundred = Figure.of("ms", [float(value) for value in range(1, 101)])
    assert (hundred.p50, hundred.p95, hundred.least, hundred.most) == (50.0, 95.0, 1.0, 100.0)


def test_a_figure_without_a_value_cannot_be(tmp_path: Path) -> None:
    measuring = measured(tmp_path)
    measuring.add("stt.nothing", "ms", None)

    assert "stt.nothing" not in measuring.report("passed").figures
    with pytest.raises((IndexError, ValueError)):
        Figure.of("ms", [])


def test_a_failure_stays_a_failure_and_the_summary_names_it(tmp_path: Path) -> None:
    report = measured(tmp_path).report("failed")
    text = "\n".join(report.markdown())

    assert [test.outcome for test in report.tests] == ["passed", "failed"]
    assert text.startswith("# Integration of stage dev on the local cloud: failed")
    assert "- **failed** test_a.py::two: AssertionError: nothing was heard" in text
    assert "| stt.first_partial | ms | 3 | 200 | 300 | 100 | 300 |" in text
    assert "| dev-voice-stt | mistralai/Voxtral-Mini-4B-Realtime-2602 | ml.g6.xlarge |" in text
    assert "no figure here is the real models'" in text


def test_a_run_that_was_interrupted_is_no_failure_and_says_so(tmp_path: Path) -> None:
    text = "\n".join(measured(tmp_path).report("interrupted").markdown())

    assert text.startswith("# Integration of stage dev on the local cloud: interrupted")
    assert "what is not counted was not run" in text


def test_it_says_which_code_was_tested(tmp_path: Path) -> None:
    versions = measured(tmp_path).report("passed").versions

    assert {"sagemaker-voice", "aws-sdk-sagemaker-runtime-http2", "boto3"} <= set(versions.packages)
    assert versions.commit is None or len(versions.commit.partition("+")[0]) == 40
