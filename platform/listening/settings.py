"""Defines the settings of what listens to strangers."""

import ipaddress
from pathlib import Path
from typing import Annotated, Self

from alcove.platform.listening.connections import ConnectionLimits, Network
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["ListenerSettings", "networks_of"]


def networks_of(text: str) -> tuple[Network, ...]:
    """Return the networks that a list with commas names.

    Raises:
        ValueError: one is no address and no network.
    """
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


class ListenerSettings(BaseModel):
    """Where a process listens to strangers, and what they may ask for at once.

    Attributes:
        host: address to listen on.
        tls_certificate: PEM chain; without it, plain HTTP.
        tls_key: PEM key of the certificate.
        metrics_port: for Prometheus, without TLS; 0: any free port; None: no page of this process.
        connections: open at once.
        connections_per_address: the same, from one IPv4 address or one /64 of IPv6.
        requests_per_address: connections and requests a second from one address.
        behind_proxy: addresses and networks of our own proxies, with commas: they limit addresses in our place.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    connections: Annotated[int, Field(ge=4, le=16_000)] = 2048
    connections_per_address: Annotated[int, Field(ge=1, le=16_000)] = 64
    requests_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    behind_proxy: str = ""

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            msg = "tls_certificate and tls_key come together"
            raise ValueError(msg)
        return self

    @field_validator("behind_proxy")
    @classmethod
    def _validate_proxies(cls, text: str) -> str:
        networks_of(text)
        return text

    @property
    def limits(self) -> ConnectionLimits:
        """Limits on what strangers may ask for at once."""
        return ConnectionLimits(
            self.connections, self.connections_per_address, self.requests_per_address, networks_of(self.behind_proxy)
        )

    @property
    def url_host(self) -> str:
        """The host as it stands before a port: IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def scheme(self) -> str:
        """The scheme of this process's addresses."""
        return "http" if self.tls_key is None else "https"
