"""Where the HTTP/2 runtime is: an argument, the environment, or the region's own name."""

from pathlib import Path

import pytest
import trustme

from voice_client.errors import BadInputError
from voice_client.transport.address import StreamAddress, regional_host, resolve_address

STREAM = "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "runtime.sagemaker.us-east-1.amazonaws.com"),
        ("eu-central-1", "runtime.sagemaker.eu-central-1.amazonaws.com"),
        ("us-gov-west-1", "runtime.sagemaker.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "runtime.sagemaker.cn-north-1.amazonaws.com.cn"),
        ("us-iso-east-1", "runtime.sagemaker.us-iso-east-1.c2s.ic.gov"),
        ("eusc-de-east-1", "runtime.sagemaker.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_each_partition_has_its_suffix_and_port_8443(region: str, host: str) -> None:
    address = resolve_address(region, endpoint_url=None, ca_bundle=None, environment={})
    assert address == StreamAddress(host, 8443)
    assert address.url == f"https://{host}:8443"


def test_the_names_of_fips_and_dual_stack() -> None:
    assert regional_host("us-east-1", fips=True) == "runtime-fips.sagemaker.us-east-1.amazonaws.com"
    assert regional_host("us-east-1", dual_stack=True) == "runtime.sagemaker.us-east-1.api.aws"
    assert regional_host("us-east-1", fips=True, dual_stack=True) == "runtime-fips.sagemaker.us-east-1.api.aws"
    environment = {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "True"}
    address = resolve_address("us-east-1", endpoint_url=None, ca_bundle=None, environment=environment)
    assert address.host == "runtime-fips.sagemaker.us-east-1.api.aws"


def test_the_order_of_urls() -> None:
    environment: dict[str, str] = {}

    def host(given: str | None = None) -> str:
        return resolve_address("us-east-1", endpoint_url=given, ca_bundle=None, environment=environment).host

    assert host() == "runtime.sagemaker.us-east-1.amazonaws.com"
    environment["AWS_ENDPOINT_URL"] = "https://every-service.example"
    assert host() == "every-service.example"
    environment[STREAM] = "https://this-service.example:8443"
    assert host() == "this-service.example"
    assert host("https://given.example") == "given.example"
    environment["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
    assert host() == "runtime.sagemaker.us-east-1.amazonaws.com"
    assert host("https://given.example") == "given.example"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8443", "127.0.0.1:8443", "https://", "https://host:port", ""])
def test_what_is_no_https_url_is_refused_and_its_source_named(url: str) -> None:
    with pytest.raises(BadInputError, match="endpoint_url"):
        resolve_address("us-east-1", endpoint_url=url, ca_bundle=None, environment={})
    if url:
        with pytest.raises(BadInputError, match=STREAM):
            resolve_address("us-east-1", endpoint_url=None, ca_bundle=None, environment={STREAM: url})


def test_an_ipv6_address() -> None:
    address = resolve_address("us-east-1", endpoint_url="https://[::1]:9", ca_bundle=None, environment={})
    assert (address.host, address.port, address.url) == ("::1", 9, "https://[::1]:9")


@pytest.mark.parametrize("region", ["", "mars", "us_east_1"])
def test_what_is_no_region_is_refused(region: str) -> None:
    with pytest.raises(BadInputError, match="not an AWS region"):
        resolve_address(region, endpoint_url=None, ca_bundle=None, environment={})


def test_the_order_of_authorities(tmp_path: Path) -> None:
    bundles = {}
    for name in ("given", "ssl", "aws"):
        path = tmp_path / f"{name}.pem"
        trustme.CA().cert_pem.write_to_path(str(path))
        bundles[name] = path
    environment: dict[str, str] = {}

    def authorities(given: Path | None = None) -> bytes | None:
        address = resolve_address("us-east-1", endpoint_url=None, ca_bundle=given, environment=environment)
        return address.authorities

    assert authorities() is None
    environment["AWS_CA_BUNDLE"] = str(bundles["aws"])
    assert authorities() == bundles["aws"].read_bytes()
    environment["SSL_CERT_FILE"] = str(bundles["ssl"])
    assert authorities() == bundles["ssl"].read_bytes()
    assert authorities(bundles["given"]) == bundles["given"].read_bytes()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
def test_a_bundle_that_cannot_be_used_names_its_source(tmp_path: Path, variable: str) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (tmp_path / "missing.pem", empty):
        with pytest.raises(BadInputError, match=variable):
            resolve_address("us-east-1", endpoint_url=None, ca_bundle=None, environment={variable: str(path)})
