"""Keeps the console's process, and gives it a door to the calls that nobody else has.

The door is a Unix socket in a folder that only this process's user may enter: it needs no certificate, whatever the
ports for others have.  Callers still prove who they are with their tokens; the console itself has a key, made at each
start of the server and written nowhere, which lets it bring the proofs of people who sign in, and nothing else.
"""

import errno
import ipaddress
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.domain.errors import ConsoleFailedError
from alcove.platform.listening.http import listen_http
from alcove.platform.server.kept_process import KeptKind, KeptProcess
from cryptography import x509

if TYPE_CHECKING:
    from alcove.platform.server.settings import Settings

__all__ = ["ConsoleProcess", "console_door", "console_settings", "listen_console", "make_console_key"]

USUAL_PORT: Final = 7481
KIND: Final = KeptKind(
    "the console's process", "alcove.platform.console", "the console answers again", ConsoleFailedError
)


class ConsoleProcess(KeptProcess):
    """The process that shows the console.

    Args:
        settings: what it gets at its start.
        listener: the listening socket; stays the caller's.
    """

    def __init__(self, settings: ConsoleSettings, listener: socket.socket) -> None:
        super().__init__(KIND, settings.model_dump_json(), listener)


@contextmanager
def console_door() -> Iterator[str]:
    """Give an address for gRPC, "unix:…", that exists inside the block."""
    with tempfile.TemporaryDirectory(prefix="alcove-") as folder:  # mode 0700
        yield f"unix:{Path(folder) / 'console.sock'}"


def listen_console(settings: "Settings") -> socket.socket:
    """Return the socket of the console; close it.

    Raises:
        OSError: the port that was asked for is taken or not ours to open.
    """
    if settings.console_port is not None:
        return listen_http(settings.host, settings.console_port)
    try:
        return listen_http(settings.host, USUAL_PORT)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return listen_http(settings.host, 0)  # another server's console is there; nobody asked for this very port


def make_console_key() -> str:
    """Return a key by which the console proves itself, of the form of a token."""
    return f"alc_{secrets.token_hex(8)}_{secrets.token_hex(32)}"


def console_settings(settings: "Settings", door: str, key: str = "") -> ConsoleSettings:
    """Return the console's settings; of names beside this machine's it gets those of the certificate."""
    names = () if settings.tls_certificate is None else names_of_certificate(settings.tls_certificate.read_bytes())
    return ConsoleSettings(
        host=settings.host,
        tls_certificate=settings.tls_certificate,
        tls_key=settings.tls_key,
        behind_proxy=settings.behind_proxy,
        grpc_target=door,
        names=names,
        url=settings.console_url,
        key=key,
        client_ca=settings.client_ca if settings.console_certificates else None,
        provider=settings.oidc_issuer or "",
    )


def names_of_certificate(pem: bytes) -> tuple[str, ...]:
    """Return the host names and addresses of a certificate, without those that stand for many."""
    try:
        extensions = x509.load_pem_x509_certificate(pem).extensions
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return ()
    names = [name for name in found.get_values_for_type(x509.DNSName) if "*" not in name]
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*names, *(f"[{one}]" if isinstance(one, ipaddress.IPv6Address) else str(one) for one in addresses))
