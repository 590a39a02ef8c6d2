"""Prices: one table, told as estimates, never guessed; the page that shows them says the same."""

import re
from pathlib import Path

import pytest

from stacks.settings import load_settings, read_context
from voice_constructs import prices as table
from voice_ops.doctor.check import Status
from voice_ops.doctor.price import price
from voice_ops.prices import ESTIMATE, cost_of, endpoint_costs, money, price_per_hour

PROJECT = Path(__file__).parents[2]


def test_what_an_instance_costs_follows_time_and_number() -> None:
    assert price_per_hour("ml.g6.xlarge", 2) == pytest.approx(2 * table.USD_PER_HOUR["ml.g6.xlarge"])
    assert cost_of("ml.g6.xlarge", 1800) == pytest.approx(table.USD_PER_HOUR["ml.g6.xlarge"] / 2)
    assert table.PRICES_AS_OF in ESTIMATE
    assert table.PRICES_SOURCE in ESTIMATE


def test_a_price_that_nobody_looked_up_is_unknown_and_not_zero() -> None:
    assert price_per_hour("ml.g6.48xlarge") is None
    assert cost_of("ml.g6.48xlarge", 3600) is None
    assert money(None) == "unknown"
    context = {**read_context(PROJECT / "cdk.json"), "stt.instance_types": "ml.g6.48xlarge,ml.g6.xlarge"}

    told = price(load_settings(context, "dev"), "us-east-1")

    assert told.status is Status.WARN
    assert "unknown $ an hour on the first choices" in told.detail
    assert "ml.g6.48xlarge" in told.advice


def test_other_regions_are_told_to_cost_other_amounts() -> None:
    settings = load_settings(read_context(PROJECT / "cdk.json"), "dev")

    assert "eu-central-1 costs other amounts" in price(settings, "eu-central-1").detail
    assert "other amounts" not in price(settings, "us-east-1").detail


def test_scaling_is_counted_from_least_to_most() -> None:
    context = {
        **read_context(PROJECT / "cdk.json"),
        "stt.scaling.max_instances": "3",
        "stt.instance_types": "ml.g5.xlarge",
    }

    ear = endpoint_costs(load_settings(context, "dev"))[0]

    hourly = table.USD_PER_HOUR["ml.g5.xlarge"]
    assert ear.instances == (1, 3)
    assert ear.cheapest == pytest.approx(hourly)
    assert ear.dearest == pytest.approx(3 * hourly)


def test_the_page_on_costs_shows_the_tables_own_figures() -> None:
    page = (PROJECT / "docs" / "costs.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| \d \| (ml\.\S+) \|[^|]+\| ([\d.]+) \| ([\d,]+) \|$", page, re.MULTILINE)

    assert len(shown) == 4
    for instance_type, hourly, monthly in shown:
        assert float(hourly) == table.USD_PER_HOUR[instance_type]
        assert int(monthly.replace(",", "")) == round(table.USD_PER_HOUR[instance_type] * table.HOURS_PER_MONTH)
    assert table.PRICES_AS_OF in page
    for row, figures in {
        "alarm, custom metric, dashboard": [
            table.USD_PER_MONTH["AWS::CloudWatch::Alarm"],
            table.USD_PER_MONTH_OF_A_METRIC,
            table.USD_PER_MONTH["AWS::CloudWatch::Dashboard"],
        ],
        "KMS key": [table.USD_PER_MONTH["AWS::KMS::Key"]],
        "interface VPC endpoint": [table.USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT],
        "images in ECR": [table.USD_PER_GB_MONTH_IN_ECR],
        "staged weights in S3": [table.USD_PER_GB_MONTH_IN_S3],
        "staging weights": [table.USD_PER_MINUTE_OF_A_BUILD],
        "hub token in Secrets Manager": [table.USD_PER_MONTH["AWS::SecretsManager::Secret"]],
        "CloudWatch logs": [table.USD_PER_GB_OF_A_LOG],
    }.items():
        found = re.search(rf"^\| {row} \| ([^|]+)\|", page, re.MULTILINE)
        assert found, row
        assert [float(figure) for figure in re.findall(r"\d+\.\d+", found[1])][: len(figures)] == figures
