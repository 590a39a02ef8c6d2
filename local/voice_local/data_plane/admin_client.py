"""Faults of a data plane in another process, over its admin route."""

import json
import urllib.error
import urllib.request
from typing import Any

from voice_local.data_plane.errors import DataPlaneError

SECONDS = 10.0
"""How long the data plane may take to answer; it needs milliseconds."""


class AdminRouteError(DataPlaneError):
    """The admin route refused, or did not answer."""


class AdminClient:
    """Arms, lists and disarms; blocks while it waits."""

    def __init__(self, faults_url: str, token: str) -> None:
        """Remember where; nothing is sent yet. Both are in the line a data plane prints when it is ready."""
        self._url = faults_url
        self._token = token
        # A proxy of the environment must not see loopback traffic.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def arm(self, text: str) -> dict[str, Any]:
        """Arm a fault given in the text form of `Fault.parse`; return its number, seed and fields.

        Raises:
            AdminRouteError: it makes no sense, or nobody answers.
        """
        return self._ask("POST", text)

    def state(self) -> dict[str, Any]:
        """Return what is `armed` and what has `fired`.

        Raises:
            AdminRouteError: nobody answers.
        """
        return self._ask("GET")

    def clear(self) -> None:
        """Disarm everything.

        Raises:
            AdminRouteError: nobody answers.
        """
        self._ask("DELETE")

    def _ask(self, method: str, body: str | None = None) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the data plane's own URL
            self._url,
            data=None if body is None else body.encode(),
            headers={"authorization": f"Bearer {self._token}"},
            method=method,
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                read: dict[str, Any] = json.load(answer)
                return read
        except urllib.error.HTTPError as refusal:
            raise AdminRouteError(json.load(refusal)["Message"]) from None
        except OSError as error:
            raise AdminRouteError(f"{self._url} does not answer ({error}); is that local cloud still up?") from None
