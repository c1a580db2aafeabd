"""Defines the settings of the console's process.  One is a secret, the key, with which it brings people's proofs."""

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from alcove.platform.listening.settings import ListenerSettings
from pydantic import Field

__all__ = ["LOOPBACK_NAMES", "ConsoleSettings"]

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class ConsoleSettings(ListenerSettings):
    """Where the console answers, whom it asks, and by which names people reach it.

    Attributes:
        grpc_target: of the server's calls, as gRPC writes it: "unix:/…/console.sock".
        names: host names under which people reach it, beside this machine's; others are refused, so that no page of
            another name can be pointed at it (DNS rebinding).
        url: address at which people reach it through a proxy, "https://console.example"; "": directly.
        sign_ins_per_minute: from one address.
        sign_ins_per_minute_in_all: from all addresses.
        threads: calls under way at once.
        key: proves the console to its server; a secret; "": people sign in by tokens alone.
        client_ca: PEM certificates of the CA of client certificates; None: nobody signs in by one.
        provider: issuer of the provider of OpenID Connect; "": nobody signs in through one.
        connections_per_address: more than devices have: an office is one address, and each browser opens up to six.
    """

    grpc_target: Annotated[str, Field(min_length=1)]
    names: tuple[str, ...] = ()
    url: Annotated[str, Field(pattern=r"^(https?://[A-Za-z0-9.\[\]:-]+)?$")] = ""
    sign_ins_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 10
    sign_ins_per_minute_in_all: Annotated[int, Field(ge=1, le=100_000)] = 120
    threads: Annotated[int, Field(ge=1, le=256)] = 16
    key: Annotated[str, Field(repr=False)] = ""
    client_ca: Path | None = None
    provider: str = ""
    connections_per_address: Annotated[int, Field(ge=1, le=16_000)] = 1024

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it over TLS, so that its cookies are for TLS alone."""
        return self.scheme == "https" or self.url.startswith("https://")

    @property
    def hosts(self) -> frozenset[str]:
        """Host names that requests may name, in lower case and without a port."""
        names = {self.url_host, *self.names, urlsplit(self.url).hostname or ""}
        return frozenset(name.lower() for name in names if name) | LOOPBACK_NAMES
