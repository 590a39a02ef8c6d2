"""The address of SageMaker's HTTP/2 runtime, and which certificate authorities to trust there."""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from voice_client.errors import BadInputError

STREAM_URL_VARIABLE = "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2"
"""The SDK's own variable for the URL of this one service."""
ANY_SERVICE_URL_VARIABLE = "AWS_ENDPOINT_URL"
IGNORE_URLS_VARIABLE = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
HTTP2_PORT = 8443
"""SageMaker's port for bidirectional streaming."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """Host and port of an HTTP/2 runtime, and the PEM data of the authorities to trust (None: the system's)."""

    host: str
    port: int
    authorities: bytes | None = None

    @property
    def url(self) -> str:
        """The address as `https://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext:
        """Return what verifies the server and offers it HTTP/2, and nothing else. Reads the system's authorities."""
        # The system's are loaded only when there are no given ones.
        context = ssl.create_default_context(cadata=_pem_text(self.authorities) if self.authorities else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        return context


def resolve_address(
    region: str, *, endpoint_url: str | None, ca_bundle: Path | None, environment: Mapping[str, str] | None = None
) -> StreamAddress:
    """Find the address of the HTTP/2 runtime.

    The URL: `endpoint_url`, else AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2, else AWS_ENDPOINT_URL (by the rule of all
    AWS SDKs the latter means every service), else the region's own, on port 8443, with AWS_USE_FIPS_ENDPOINT and
    AWS_USE_DUALSTACK_ENDPOINT honoured. AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true skips both variables.
    The authorities: `ca_bundle`, else SSL_CERT_FILE, else AWS_CA_BUNDLE, else the system's.

    Reads files (a CA bundle, the partitions botocore ships); call it from a thread.

    Raises:
        BadInputError: the region, the URL or the bundle cannot be used; the error names the argument or variable.
    """
    environment = os.environ if environment is None else environment
    if endpoint_url is not None:
        host, port = _split_url(endpoint_url, "endpoint_url")
    else:
        host, port = _configured_or_regional(region, environment)
    return StreamAddress(host, port, _read_authorities(ca_bundle, environment))


def _configured_or_regional(region: str, environment: Mapping[str, str]) -> tuple[str, int]:
    if not _is_true(environment, IGNORE_URLS_VARIABLE):
        for variable in (STREAM_URL_VARIABLE, ANY_SERVICE_URL_VARIABLE):
            if url := environment.get(variable):
                return _split_url(url, variable)
    return (
        regional_host(
            region,
            fips=_is_true(environment, "AWS_USE_FIPS_ENDPOINT"),
            dual_stack=_is_true(environment, "AWS_USE_DUALSTACK_ENDPOINT"),
        ),
        HTTP2_PORT,
    )


def regional_host(region: str, *, fips: bool = False, dual_stack: bool = False) -> str:
    """Return the host name of a region's HTTP/2 runtime, as the service's own endpoint rules form it.

    Raises:
        BadInputError: the region belongs to no known partition, or the partition lacks FIPS or dual-stack names.
    """
    from botocore.loaders import create_loader  # noqa: PLC0415  # slow to import

    partitions = create_loader().load_data("partitions")["partitions"]
    outputs = next((p["outputs"] for p in partitions if re.match(p["regionRegex"], region)), None)
    if outputs is None:
        raise BadInputError(f"{region!r} is not an AWS region", advice="Give a region such as us-east-1")
    if fips and not outputs["supportsFIPS"]:
        raise BadInputError(f"AWS_USE_FIPS_ENDPOINT is set, but the partition of {region} has no FIPS endpoints")
    if dual_stack and not outputs["supportsDualStack"]:
        raise BadInputError(f"AWS_USE_DUALSTACK_ENDPOINT is set, but the partition of {region} has none")
    suffix = outputs["dualStackDnsSuffix" if dual_stack else "dnsSuffix"]
    return f"runtime{'-fips' if fips else ''}.sagemaker.{region}.{suffix}"


def _split_url(url: str, source: str) -> tuple[str, int]:
    advice = f"Give {source} as https://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as the name look-up will have it: 1 to 63 characters between the dots
    except ValueError as error:
        raise BadInputError(f"{source} is not a URL ({error}): {url}", advice=advice) from error
    if parts.scheme != "https" or not parts.hostname:
        # HTTP/2 without TLS is not offered by the service, and would send speech in the clear.
        raise BadInputError(f"{source} must be an https URL, not {url}", advice=advice)
    return parts.hostname, port or 443


def _read_authorities(ca_bundle: Path | None, environment: Mapping[str, str]) -> bytes | None:
    candidates = [("ca_bundle", str(ca_bundle) if ca_bundle else None)]
    candidates += [(name, environment.get(name)) for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE")]
    source, path = next(((source, path) for source, path in candidates if path), (None, None))
    if source is None or path is None:
        return None
    advice = f"Point {source} at a PEM file of certificate authorities"
    try:
        authorities = Path(path).read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_pem_text(authorities))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise BadInputError(f"cannot use the CA bundle {path} ({source}): {error}", advice=advice) from error
    return authorities


def _pem_text(authorities: bytes) -> str:
    return authorities.decode("ascii", "ignore")  # comments between the certificates may be in any encoding


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"
