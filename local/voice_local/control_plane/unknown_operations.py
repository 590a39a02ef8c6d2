"""Answers the operations that moto does not have as a service answers an unknown one: refused, not broken.

moto raises NotImplementedError, which becomes "500 Internal Server Error"; SDKs take that for a passing fault and try
again, up to seven times in the CDK CLI, which asks CloudTrail about every failed deployment.
"""

import warnings
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse

from voice_local.control_plane.patches import Patches


class _UnknownOperationError(ServiceException):
    # A class of this module: moto looks for the errors of its own classes in the model of the service they are part of.
    code = "UnknownOperationException"


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    # moto warns of errors that the service's model does not list; this one is meant to be none of them.
    warnings.filterwarnings("ignore", message=r"Exception\(_UnknownOperationError\)")
    patches.around(BaseResponse, "call_action", _refuse_unknown)


def _refuse_unknown(call: Any, response: Any) -> Any:
    try:
        return call(response)
    except NotImplementedError as error:
        refusal = _UnknownOperationError(f"The local cloud does not know this: {error}")
        status, headers, body = response.serialized(ActionResult(refusal))
        headers["status"] = str(status)
        return status, headers, body
