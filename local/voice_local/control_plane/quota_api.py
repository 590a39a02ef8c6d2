"""Fills moto's gap in Service Quotas: SageMaker's, for every instance type that an endpoint can name.

moto 5.2 knows the quotas of VPC and no other. Here a request to raise a quota is granted at once, and one to lower it
too, so that a missing quota can be tried out: `aws service-quotas request-service-quota-increase --desired-value 0`.
Endpoints are not refused for want of a quota: nothing here is short of GPUs.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moto.servicequotas import responses
from moto.servicequotas.exceptions import NoSuchResource

from voice_local.control_plane.patches import Patches
from voice_local.control_plane.variant_rules import known_values

LOCAL_QUOTA = 16.0
"""Instances of each type: twice the two of each voice, for an update, and as many again for a second stage."""

_SERVICE = "sagemaker"
_APPLIED = "applied_to_sagemaker"
_PAGE = 100
"""AWS's own largest page."""

_CODES = {
    # Seen in AWS's documentation; the others here are made up, and as stable as these.
    "ml.g5.xlarge for endpoint usage": "L-1928E07B",
    "ml.g6.xlarge for endpoint usage": "L-D470D954",
    "ml.g6e.xlarge for endpoint usage": "L-B0729CB4",
}


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    response = responses.ServiceQuotasResponse
    patches.method(response, "list_service_quotas", _list)
    patches.around(response, "list_aws_default_service_quotas", _list_defaults)
    patches.around(response, "get_service_quota", _get)
    patches.method(response, "request_service_quota_increase", _request)


@functools.cache
def _names() -> Mapping[str, str]:
    """Return the names of SageMaker's quotas for endpoints, by their codes, in the order of the names."""
    types = sorted(name for name in known_values("ProductionVariant", "InstanceType") if name.startswith("ml."))
    names = [f"{instance_type} for endpoint usage" for instance_type in types]
    made_up = {name: f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}" for name in names}
    return {_CODES.get(name, made_up[name]): name for name in names}


def _quota(response: Any, code: str, value: float) -> dict[str, Any]:
    arn = f"arn:aws:servicequotas:{response.region}:{response.current_account}:{_SERVICE}/{code}"
    return {
        "ServiceCode": _SERVICE,
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": arn,
        "QuotaCode": code,
        "QuotaName": _names()[code],
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _applied(response: Any) -> dict[str, float]:
    # On moto's own object, so that it is reset and saved with everything else.
    values: dict[str, float] = vars(response.backend).setdefault(_APPLIED, {})
    return values


def _list(response: Any) -> str:
    asked = json.loads(response.body)
    if asked.get("ServiceCode") != _SERVICE:
        return json.dumps({"Quotas": response.backend.list_aws_default_service_quotas(asked.get("ServiceCode"))})
    applied = _applied(response)
    return _page(asked, [_quota(response, code, applied.get(code, LOCAL_QUOTA)) for code in _names()])


def _list_defaults(list_defaults: Any, response: Any) -> str:
    asked = json.loads(response.body)
    if asked.get("ServiceCode") != _SERVICE:
        return str(list_defaults(response))
    return _page(asked, [_quota(response, code, LOCAL_QUOTA) for code in _names()])


def _page(asked: Mapping[str, Any], quotas: list[dict[str, Any]]) -> str:
    begin = int(asked.get("NextToken") or 0)
    end = begin + min(int(asked.get("MaxResults") or _PAGE), _PAGE)
    more = {"NextToken": str(end)} if end < len(quotas) else {}
    return json.dumps({"Quotas": quotas[begin:end], **more})


def _get(get: Any, response: Any) -> str:
    asked = json.loads(response.body)
    code = asked.get("QuotaCode")
    if asked.get("ServiceCode") != _SERVICE:
        return str(get(response))
    if code not in _names():
        raise NoSuchResource
    return json.dumps({"Quota": _quota(response, code, _applied(response).get(code, LOCAL_QUOTA))})


def _request(response: Any) -> str:
    asked = json.loads(response.body)
    code = asked.get("QuotaCode")
    if asked.get("ServiceCode") != _SERVICE or code not in _names():
        raise NoSuchResource
    value = float(asked["DesiredValue"])
    _applied(response)[code] = value
    granted = {
        "Id": hashlib.sha256(f"{code}={value}".encode()).hexdigest()[:32],
        "ServiceCode": _SERVICE,
        "ServiceName": "Amazon SageMaker",
        "QuotaCode": code,
        "QuotaName": _names()[code],
        "DesiredValue": value,
        "Status": "APPROVED",
        "Created": datetime.now(UTC).timestamp(),
        "Unit": "None",
    }
    return json.dumps({"RequestedQuota": granted})
