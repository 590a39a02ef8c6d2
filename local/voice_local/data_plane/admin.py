"""The admin route: arm, list and disarm faults from another process. No part of SageMaker's API.

    GET    /faults        what is armed, what has happened
    POST   /faults        arm one: a JSON object with the fields of `Fault`, or the text form `reset-stream,after=5`
    DELETE /faults        disarm all
    DELETE /faults/3      disarm one

It is served on the HTTP/1.1 port, to callers that hold the token.
"""

import hmac
import json
import re
import secrets
from typing import Any

from voice_local.data_plane.errors import RequestRefusedError
from voice_local.data_plane.fault_plan import ArmedFault, FaultPlan, FiredFault
from voice_local.data_plane.faults import Fault, FaultSpecError
from voice_local.data_plane.sigv4 import SignedRequest

LARGEST_BODY = 64 * 1024
"""Bytes; a fault needs a few hundred."""

_ROUTE = re.compile(r"/faults(?:/(\d{1,9}))?")


class AdminRoutes:
    """Answers the admin requests of one data plane."""

    def __init__(self, faults: FaultPlan) -> None:
        self.token = secrets.token_urlsafe(24)
        """To be sent as `Authorization: Bearer TOKEN`. A web page in a browser of this machine can reach loopback
        ports, but not know this."""
        self._faults = faults

    @staticmethod
    def owns(request: SignedRequest) -> bool:
        """Whether a request is one of these."""
        return _ROUTE.fullmatch(request.target) is not None

    def answer(self, request: SignedRequest, body: bytes) -> tuple[int, Any]:
        """Do what is asked for; return the HTTP status and what goes into the JSON body.

        Raises:
            RequestRefusedError: 401 without the token, 400 for a fault that makes no sense, 404 for a number that is
                not armed, 405 for another method.
        """
        if not hmac.compare_digest((request.header("authorization") or "").encode(), f"Bearer {self.token}".encode()):
            raise RequestRefusedError(401, "Unauthorized", "Send the admin token: 'Authorization: Bearer TOKEN'.")
        match = _ROUTE.fullmatch(request.target)
        number = match[1] if match is not None else None
        match request.method, number:
            case "GET", None:
                fired = [_describe_fired(each) for each in self._faults.history]
                return 200, {"armed": [_describe_armed(each) for each in self._faults.armed], "fired": fired}
            case "POST", None:
                return 201, _describe_armed(self._faults.arm(_read_fault(body)))
            case "DELETE", None:
                self._faults.clear()
                return 200, {}
            case "DELETE", str():
                if not self._faults.disarm(int(number)):
                    raise RequestRefusedError(404, "NotArmed", f"No fault of number {number} is armed.")
                return 200, {}
            case _:
                words = "There are GET, POST and DELETE of /faults, and DELETE of /faults/NUMBER."
                raise RequestRefusedError(405, "MethodNotAllowed", words)


def _read_fault(body: bytes) -> Fault:
    try:
        text = body.decode().strip()
        return Fault.from_json(text) if text.startswith("{") else Fault.parse(text)
    except UnicodeDecodeError:
        raise RequestRefusedError(400, "FaultSpecError", "The body is not UTF-8.") from None
    except FaultSpecError as error:
        raise RequestRefusedError(400, "FaultSpecError", str(error)) from None


def _describe_armed(armed: ArmedFault) -> dict[str, Any]:
    return {
        "number": armed.number,
        "fired": armed.fired,
        "seed": armed.seed,
        "fault": _fields(armed.fault),
    }


def _describe_fired(fired: FiredFault) -> dict[str, Any]:
    return {
        "number": fired.number,
        "fault": _fields(fired.fault),
        "request_id": fired.request_id,
        "to_client": fired.to_client,
        "to_container": fired.to_container,
    }


def _fields(fault: Fault) -> Any:
    """Return the fields that were given, so that they can be sent back as they are."""
    return json.loads(fault.model_dump_json(exclude_unset=True))
