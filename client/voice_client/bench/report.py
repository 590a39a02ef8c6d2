"""The report of a run: one JSON document with a schema, checked when it is written and when it is read."""

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from voice_client.bench.endpoint_facts import HourlyPrice, Instances, hourly_price
from voice_client.bench.figures import BEHIND_LIMIT, DRIFT_LIMIT, ERROR_LIMIT, StepFigures, figures, most_streams
from voice_client.bench.measuring import Measured
from voice_client.bench.sample import Sample
from voice_client.errors import BadInputError

FORMAT = "sagemaker-voice-bench/1"
"""Name and version of the document; the number changes when a reader would have to."""
SCHEMA_FILE = Path(__file__).parent / "report-schema.json"
LONGEST_REPORT_BYTES = 512 * 1024 * 1024
"""A file that is larger is no report: an hour of 100 streams gives some 20 MB."""
_PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A run's results.

    Attributes:
        document: the JSON document.
        steps: the figures in it.
    """

    document: Mapping[str, Any]
    steps: Sequence[StepFigures]


def make_report(measured: Measured, *, price_per_hour: float | None, local: bool, interrupted: bool) -> Report:
    """Put the results of a run, or of the part of it that was run, together.

    Args:
        measured: what came back.
        price_per_hour: US dollars for all instances, when the user gave it.
        local: whether the run's own local cloud was measured; an endpoint on this machine is found out without.
        interrupted: whether it was broken off.
    """
    here = local or any(endpoint["local"] for endpoint in measured.endpoints)
    price = _price(measured, price_per_hour, here=here)
    steps = figures(measured.steps, dollars_per_hour=price.usd)
    plan = {name: value for name, value in measured.plan.as_json().items() if name != "place"}
    document = {
        "format": FORMAT,
        "version": version("sagemaker-voice"),
        "kind": measured.plan.kind,
        "started": measured.started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "interrupted": interrupted,
        "local": here,
        "plan": plan | {"concurrency": list(plan["concurrency"])},
        "endpoints": [
            {name: value for name, value in endpoint.items() if name != "local"} for endpoint in measured.endpoints
        ],
        "price_per_hour": price.as_json(),
        "machine": {
            "system": platform.system(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load_average": [round(load, 2) for load in os.getloadavg()],
        },
        "material": measured.material,
        "limits": {"word_error_drift": DRIFT_LIMIT, "error_share": ERROR_LIMIT, "behind": BEHIND_LIMIT},
        "most_streams": most_streams(steps),
        "steps": [step.as_json() for step in steps],
        "timelines": [timeline for step in measured.steps for timeline in step.timelines[:1]],
        "samples": [
            {name: _short(value) for name, value in sample.as_json().items()}
            for step in measured.steps
            for sample in step.samples
        ],
    }
    return Report(document, steps)


def to_text(report: Report) -> str:
    """Return the document as JSON, checked against its schema."""
    if problems := problems_of(report.document):
        raise AssertionError(f"the bench made a report that its own schema forbids: {problems}")
    return json.dumps(report.document, indent=1, ensure_ascii=False) + "\n"


def read_report(path: Path) -> Mapping[str, Any]:
    """Read a report from a file.

    Raises:
        BadInputError: no such file, no JSON, not a report, or one of a format this release does not know.
    """
    try:
        if path.stat().st_size > LONGEST_REPORT_BYTES:
            raise BadInputError(f"{path} is no report: it has {path.stat().st_size} bytes")
        document = json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is no JSON, or its numbers are none") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInputError(
            f"{path} is no report of the format {FORMAT}",
            advice="Give the JSON file that `voice bench stt|tts|talk` wrote",
        )
    if problems := problems_of(document):
        raise BadInputError(f"{path} is no whole report: {'; '.join(problems)}")
    return document


def _finite(text: str) -> float:
    """Read a number; NaN, Infinity and 1e999 are none, and no comparison could be made of them."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def samples_of(document: Mapping[str, Any]) -> list[Sample]:
    """Return the utterances of a report."""
    return [Sample.from_json(values) for values in document["samples"]]


def problems_of(document: Mapping[str, Any]) -> list[str]:
    """Return what the schema has against a document; nothing when it is a report."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # noqa: PLC0415 - of the extra `bench`

    validator = Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    # As JSON has it: tuples are arrays.
    found = validator.iter_errors(json.loads(json.dumps(document)))
    return [
        f"{error.json_path}: {error.message[:200]}" for _, error in zip(range(_PROBLEMS_SHOWN), found, strict=False)
    ]


def _price(measured: Measured, given: float | None, *, here: bool) -> HourlyPrice:
    if given is not None or not measured.endpoints:
        return hourly_price(Instances(unknown_because="no endpoint was reached"), given, region=None, local=here)
    prices = []
    for endpoint in measured.endpoints:
        said = endpoint["instances"]
        instances = Instances(tuple(said["types"]), said["running"], said["unknown_because"])
        prices.append(hourly_price(instances, None, region=endpoint["region"], local=here))
    for price in prices:
        if price.usd is None:
            return price
    return HourlyPrice(sum(price.usd or 0.0 for price in prices), prices[0].source)


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    return value
