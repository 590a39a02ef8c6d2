"""Signature Version 4, checked: of the request, and of every event of its stream.

Sources: the AWS documentation of SigV4 and of signed event streams. A signed event is an outer frame with the headers
`:date` and `:chunk-signature`; its payload is the event's own frame. Each signature covers the one before it, the
first one the signature of the request, so that an event cannot be dropped, repeated or moved unseen. A signed frame
with an empty payload ends the input.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from voice_local.data_plane.errors import RequestRefusedError, StreamFaultError
from voice_local.data_plane.event_stream import Frame, Timestamp
from voice_local.identity import LocalIdentity

SERVICE = "sagemaker"
"""The signing name of both runtime services."""

EVENT_STREAM_HASH = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
"""Stands for the hash of a body that is a signed event stream."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALGORITHM = "AWS4-HMAC-SHA256"
_DATE_FORMAT = "%Y%m%dT%H%M%SZ"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=(?P<credential>[^\s,]+), *"
    r"SignedHeaders=(?P<headers>[^\s,]+), *Signature=(?P<signature>[0-9a-f]{64})"
)
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)

type Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the server's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that its signature covers. Header names are lower-case; `host` is among them."""

    method: str
    target: str
    """Path and query, as sent."""
    headers: Sequence[tuple[str, str]]

    def header(self, name: str) -> str | None:
        """Return a header's values joined by commas, None when it is missing."""
        values = [value for key, value in self.headers if key == name]
        return ",".join(values) if values else None


@dataclass(frozen=True, slots=True)
class _Authorization:
    credential: tuple[str, ...]
    signed_headers: tuple[str, ...]
    signature: str


class SignatureVerifier:
    """Knows the one key pair of the local cloud, and checks requests against it."""

    def __init__(self, identity: LocalIdentity, *, clock_skew_seconds: float, clock: Clock = utc_now) -> None:
        self._identity = identity
        self._skew = timedelta(seconds=clock_skew_seconds)
        self._clock = clock

    def verify_request(self, request: SignedRequest, payload_hash: str) -> str:
        """Check the request and return its signature, in hexadecimal: the seed of the event chain.

        Args:
            request: what was signed.
            payload_hash: hash of the body that was received, or `EVENT_STREAM_HASH`.

        Raises:
            RequestRefusedError: 403, with the error type and the words AWS uses.
        """
        authorization = _parse_authorization(request)
        access_key, *scope = authorization.credential
        if access_key != self._identity.access_key_id or request.header("x-amz-security-token") is not None:
            # The local cloud gives out no session tokens, so that any token is a foreign one.
            raise _refused("UnrecognizedClientException", "The security token included in the request is invalid.")
        date = self._check_date(request.header("x-amz-date"))
        self._check_scope(scope, date)
        _check_signed_headers(request, authorization.signed_headers)
        claimed_hash = request.header("x-amz-content-sha256") or payload_hash
        string_to_sign = "\n".join(
            (
                _ALGORITHM,
                date,
                "/".join(scope),
                hashlib.sha256(_canonical_request(request, authorization, claimed_hash).encode()).hexdigest(),
            )
        )
        expected = hmac.digest(self.signing_key(date[:8]), string_to_sign.encode(), "sha256").hex()
        if not hmac.compare_digest(expected, authorization.signature) or claimed_hash != payload_hash:
            raise _refused("InvalidSignatureException", _MISMATCH)
        return authorization.signature

    def signing_key(self, day: str) -> bytes:
        """Derive the key of one day (YYYYMMDD) for this region and service."""
        key = b"AWS4" + self._identity.secret_access_key.encode()
        for part in (day, self._identity.region, SERVICE, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key

    def scope(self, day: str) -> str:
        """Return the credential scope of one day."""
        return f"{day}/{self._identity.region}/{SERVICE}/aws4_request"

    def skew_problem(self, date: datetime) -> str | None:
        """Say in AWS's words what is wrong with a signing date, None when it is near enough to now."""
        now = self._clock()
        minutes = f"{self._skew.total_seconds() / 60:g} min."
        if date < now - self._skew:
            limit, words, sign = now - self._skew, "Signature expired: {} is now earlier than {} ({} {} {})", "-"
        elif date > now + self._skew:
            limit, words, sign = (
                now + self._skew,
                "Signature not yet current: {} is still later than {} ({} {} {})",
                "+",
            )
        else:
            return None
        shown, edge, current = (moment.strftime(_DATE_FORMAT) for moment in (date, limit, now))
        return words.format(shown, edge, current, sign, minutes)

    def _check_date(self, date: str | None) -> str:
        try:
            parsed = datetime.strptime(date or "", _DATE_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            raise _refused(
                "IncompleteSignatureException",
                "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
            ) from None
        if problem := self.skew_problem(parsed):
            raise _refused("InvalidSignatureException", problem)
        return parsed.strftime(_DATE_FORMAT)

    def _check_scope(self, scope: Sequence[str], date: str) -> None:
        day, region, service, terminator = scope
        problems = []
        if day != date[:8]:
            problems.append(
                f"Date in Credential scope does not match YYYYMMDD from the request's date: {day} != {date[:8]}."
            )
        if region != self._identity.region:
            problems.append(f"Credential should be scoped to a valid region, not '{region}'.")
        if service != SERVICE:
            problems.append(f"Credential should be scoped to correct service: '{SERVICE}'.")
        if terminator != "aws4_request":
            problems.append("Credential should be scoped with a valid terminator: 'aws4_request'.")
        if problems:
            raise _refused("InvalidSignatureException", " ".join(problems))


class EventChain:
    """Checks the signed events of one stream, in their order."""

    def __init__(self, verifier: SignatureVerifier, request_signature: str) -> None:
        self._verifier = verifier
        self._previous = request_signature
        self._key_day = ""
        self._key = b""
        self._second = -1
        self._stamp = ""

    def verify(self, frame: Frame) -> bytes:
        """Check the next signed frame and return its payload; an empty one ends the input.

        Raises:
            StreamFaultError: a header is missing, the date is off, or the signature does not continue the chain.
        """
        date, signature = frame.value(":date"), frame.value(":chunk-signature")
        if not isinstance(date, Timestamp) or not isinstance(signature, bytes):
            raise _event_refused("An event must carry ':date' (timestamp) and ':chunk-signature' (bytes).")
        try:
            moment = _EPOCH + timedelta(milliseconds=date)
        except OverflowError:
            raise _event_refused("The ':date' of an event is outside the calendar.") from None
        if problem := self._verifier.skew_problem(moment):
            raise _event_refused(problem)
        if (second := date // 1000) != self._second:
            self._second, self._stamp = second, moment.strftime(_DATE_FORMAT)
        stamp = self._stamp
        day = stamp[:8]
        if day != self._key_day:
            self._key_day, self._key = day, self._verifier.signing_key(day)
        signed = b"".join(header.encoded for header in frame.headers if header.name != ":chunk-signature")
        string_to_sign = "\n".join(
            (
                f"{_ALGORITHM}-PAYLOAD",
                stamp,
                self._verifier.scope(day),
                self._previous,
                hashlib.sha256(signed).hexdigest(),
                hashlib.sha256(frame.payload).hexdigest(),
            )
        )
        if not hmac.compare_digest(hmac.digest(self._key, string_to_sign.encode(), "sha256"), signature):
            raise _event_refused(_MISMATCH)
        self._previous = signature.hex()
        return frame.payload


def _refused(error_type: str, message: str) -> RequestRefusedError:
    return RequestRefusedError(403, error_type, message)


def _event_refused(message: str) -> StreamFaultError:
    return StreamFaultError("InvalidSignatureException", message, modeled=False)


def _parse_authorization(request: SignedRequest) -> _Authorization:
    value = request.header("authorization")
    if value is None:
        raise _refused("MissingAuthenticationTokenException", "Missing Authentication Token")
    match = _AUTHORIZATION.fullmatch(value.strip())
    if match is None or len(credential := tuple(match["credential"].split("/"))) != 5:
        raise _refused(
            "IncompleteSignatureException",
            "Authorization header requires 'Credential' parameter. "
            "Authorization header requires 'Signature' parameter. "
            "Authorization header requires 'SignedHeaders' parameter.",
        )
    return _Authorization(credential, tuple(match["headers"].split(";")), match["signature"])


def _check_signed_headers(request: SignedRequest, signed: Sequence[str]) -> None:
    required = {"host"} | {name for name, _ in request.headers if name.startswith("x-amz-")}
    if missing := sorted(required - set(signed)):
        raise _refused(
            "InvalidSignatureException", f"'{missing[0]}' must be a 'SignedHeader' in the AWS Authorization."
        )


def _canonical_request(request: SignedRequest, authorization: _Authorization, payload_hash: str) -> str:
    path, _, query = request.target.partition("?")
    headers = "".join(
        f"{name}:{' '.join((request.header(name) or '').split())}\n" for name in authorization.signed_headers
    )
    return "\n".join(
        (
            request.method,
            # Every service but S3 signs the path encoded once more than it was sent.
            quote(path, safe="/-_.~"),
            _canonical_query(query),
            headers,
            ";".join(authorization.signed_headers),
            payload_hash,
        )
    )


def _canonical_query(query: str) -> str:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return "&".join(
        f"{name}={value}"
        for name, value in sorted(
            (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~")) for name, _, value in pairs
        )
    )
