"""Keeps everything the local cloud starts or calls on this machine, whatever the user's shell is set up for.

A developer's environment often holds a profile, filled credential files, proxies, or switches that make an SDK
ignore configured endpoints. Each of them could send a request to a real account. So child processes get an
environment made here, and clients in this process come from a session that reads neither environment nor files.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
from botocore import loaders
from botocore.config import Config

from voice_local.identity import LocalIdentity

CONNECT_TIMEOUT_SECONDS = 5.0
"""The server is on this machine: longer means it is gone."""

READ_TIMEOUT_SECONDS = 60.0
"""No call of the control plane waits for a container; only a machine under heavy load comes near this."""

_service_models = loaders.Loader(
    extra_search_paths=[loaders.Loader.BUILTIN_DATA_PATH], include_default_search_paths=False
)
"""Read once a process: SageMaker's alone takes 0.2 s to load. botocore's own folder only, none that the user names."""

_DROPPED_PREFIXES = ("AWS_", "CDK_", "BOTO", "MOTO_")
_DROPPED_NAMES = frozenset(
    {
        # Proxies: a request for loopback must not leave through one. Compared in lower case.
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "ftp_proxy",
        "no_proxy",
        # TLS trust and key logs that are not the local cloud's own.
        "ssl_cert_file",
        "ssl_cert_dir",
        "requests_ca_bundle",
        "curl_ca_bundle",
        "node_extra_ca_certs",
        "sslkeylogfile",
        "node_tls_reject_unauthorized",
        # Switches that would load foreign code into the CDK CLI or point the Docker client elsewhere.
        "node_options",
        "docker_host",
        "docker_context",
        "docker_config",
    }
)


def leading_elsewhere(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that could lead a program to another account, endpoint or proxy, sorted."""
    return sorted(
        name for name in environment if name.upper().startswith(_DROPPED_PREFIXES) or name.lower() in _DROPPED_NAMES
    )


def without_ways_elsewhere(base: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that could lead to another account, endpoint or proxy."""
    dropped = set(leading_elsewhere(base))
    return {name: value for name, value in base.items() if name not in dropped}


def connection_variables(
    *,
    identity: LocalIdentity,
    control_plane_url: str,
    data_plane_url: str | None = None,
    ca_bundle: Path | None = None,
    docker: Path | None = None,
    runtime_url: str | None = None,
) -> dict[str, str]:
    """Return the variables that make any AWS SDK, the CDK CLI and our client talk to the local cloud.

    Args:
        identity: the keys, the account and the region of the local cloud.
        control_plane_url: `http://127.0.0.1:PORT`, for every service but the streaming one.
        data_plane_url: `https://127.0.0.1:PORT`, for bidirectional streams; without it, streams go to the control
            plane, which knows none.
        ca_bundle: PEM file of the data plane's certificate authority.
        docker: executable that the CDK CLI builds and pushes images with; a real Docker would push to a registry
            that this account names and does not own.
        runtime_url: `http://127.0.0.1:PORT`, for boto3's `sagemaker-runtime`; without it, plain requests go to the
            control plane, which has no containers.
    """
    variables = {
        "AWS_ACCESS_KEY_ID": identity.access_key_id,
        "AWS_SECRET_ACCESS_KEY": identity.secret_access_key,
        "AWS_REGION": identity.region,
        "AWS_DEFAULT_REGION": identity.region,
        "AWS_ENDPOINT_URL": control_plane_url,
        # The JavaScript SDK would put the bucket into the host name; with a URL of its own it is asked by path.
        "AWS_ENDPOINT_URL_S3": control_plane_url,
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "CDK_DEFAULT_ACCOUNT": identity.account_id,
        "CDK_DEFAULT_REGION": identity.region,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "1",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    }
    if data_plane_url is not None:
        variables["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2"] = data_plane_url
    if runtime_url is not None:
        variables["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = runtime_url
    if ca_bundle is not None:
        variables["SSL_CERT_FILE"] = str(ca_bundle)
    if docker is not None:
        variables["CDK_DOCKER"] = str(docker)
        # A user's registry credentials would be offered to that registry.
        variables["CDK_DOCKER_CREDS_FILE"] = os.devnull
    return variables


def isolated_environment(
    base: Mapping[str, str],
    *,
    identity: LocalIdentity,
    control_plane_url: str,
    data_plane_url: str | None = None,
    ca_bundle: Path | None = None,
    docker: Path | None = None,
    runtime_url: str | None = None,
) -> dict[str, str]:
    """Return the environment for a child process that can reach the local cloud and no other.

    It is `base`, usually `os.environ`, without what could lead elsewhere, and with `connection_variables`.
    """
    return without_ways_elsewhere(base) | connection_variables(
        identity=identity,
        control_plane_url=control_plane_url,
        data_plane_url=data_plane_url,
        ca_bundle=ca_bundle,
        docker=docker,
        runtime_url=runtime_url,
    )


class IsolatedClients:
    """botocore clients of the local cloud that read no environment variable, no file and no proxy.

    One client a service, made when first needed; may be used from several threads.
    """

    def __init__(self, identity: LocalIdentity, endpoint_url: str) -> None:
        """Make no client yet; `endpoint_url` is the control plane's."""
        self._identity = identity
        self._endpoint_url = endpoint_url
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        # A botocore variable is (name in a config file, name in the environment, default, conversion).
        self._session = botocore.session.Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
                "ca_bundle": (None, None, None, None),
                "data_path": (None, None, None, None),
                "region": (None, None, identity.region, None),
            }
        )
        self._session.register_component("data_loader", _service_models)

    def of(self, service: str) -> Any:
        """Return the client of a service, by boto3's name for it."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._session.create_client(
                    service,
                    region_name=self._identity.region,
                    endpoint_url=self._endpoint_url,
                    aws_access_key_id=self._identity.access_key_id,
                    aws_secret_access_key=self._identity.secret_access_key,
                    config=Config(
                        connect_timeout=CONNECT_TIMEOUT_SECONDS,
                        read_timeout=READ_TIMEOUT_SECONDS,
                        retries={"total_max_attempts": 2},
                        proxies={"http": "", "https": ""},
                        s3={"addressing_style": "path"},
                        inject_host_prefix=False,
                    ),
                )
            return self._clients[service]


def isolated_client(service: str, *, identity: LocalIdentity, endpoint_url: str) -> Any:
    """Return one client; for several services, `IsolatedClients` loads botocore's data once."""
    return IsolatedClients(identity, endpoint_url).of(service)
