"""TLS for one run: a certificate authority that lives as long as the process, trusted by nobody else.

The HTTP/2 SDK cannot speak cleartext HTTP/2, so the local data plane serves TLS as AWS does. The CA's key never
touches the disk; clients get its certificate through `SSL_CERT_FILE` or a transport option.
"""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import trustme

from voice_local.data_plane.errors import TlsMaterialError

SUBJECT_NAMES = ("127.0.0.1", "localhost", "::1")
"""Loopback only: a certificate for anything else would be of no use."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """A server context and the CA bundle that makes clients trust it."""

    ca_bundle: Path
    """PEM file, mode 0600, in a folder of mode 0700."""
    server_context: ssl.SSLContext = field(repr=False)
    """TLS 1.2 or newer, ALPN `h2` only."""

    @classmethod
    def create(cls, directory: Path) -> Self:
        """Make a CA and a loopback certificate, and write the CA bundle into `directory` (made when missing).

        Raises:
            TlsMaterialError: the folder cannot be made or written.
        """
        authority = trustme.CA(organization_name="sagemaker-voice local cloud")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        authority.issue_cert(*SUBJECT_NAMES).configure_cert(context)
        bundle = directory / "ca.pem"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            # O_CREAT with the mode, so that the file is never wider than 0600, not even for a moment.
            descriptor = os.open(bundle, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(authority.cert_pem.bytes())
        except OSError as error:
            raise TlsMaterialError(
                f"cannot write the CA bundle {bundle}: {error.strerror}; name a folder that you own"
            ) from error
        return cls(ca_bundle=bundle, server_context=context)
