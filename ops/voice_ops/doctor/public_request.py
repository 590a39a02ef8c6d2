"""One HTTP request to a public service (model hub, public registry): bounded in time and size, TLS verified."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlsplit

MAX_BYTES = 4_000_000
"""Of an answer: the hub's page of a model with many files is some hundred kilobytes."""


class PublicRequestError(Exception):
    """No answer came; says from where and why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever its status.

    Attributes:
        status: of HTTP.
        headers: names in lower case.
        body: at most `MAX_BYTES`.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: a file's address is on another host, to which no token is sent."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def get(
    url: str, *, seconds: float, headers: Mapping[str, str] | None = None, method: str = "GET", follow: bool = True
) -> Answer:
    """Ask once; HTTP errors are answers too. Proxies as the environment says.

    Args:
        url: `https://` or, for a server on this machine, `http://`.
        seconds: for connecting, and for each wait for data.
        headers: sent along.
        method: GET or HEAD.
        follow: whether redirects are followed; with a token in the headers they must not be.

    Raises:
        PublicRequestError: nobody answered in time, or the URL cannot be asked.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise PublicRequestError(f"{url!r} is no http(s) address")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url, headers={"User-Agent": "sagemaker-voice", **(headers or {})}, method=method
    )
    opener = urllib.request.build_opener(*([] if follow else [_KeepRedirects()]))
    try:
        with opener.open(request, timeout=seconds) as answer:
            return Answer(answer.status, _lower(answer.headers), answer.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers), error.read(MAX_BYTES))
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise PublicRequestError(f"no answer from {parts.hostname}: {reason}") from error


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
