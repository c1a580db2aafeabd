"""Defines the settings of what listens to strangers, and of the process that answers devices."""

import ipaddress
import json
from pathlib import Path
from typing import Annotated, Final, Self

from alcove.platform.ingress.connections import ConnectionLimits, Network
from alcove.platform.store.database import database_of
from alcove.registry.policy.aggregation import TokenIssuerUrl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

__all__ = ["BlobsUrl", "IngressSettings", "ListenerSettings", "networks_of"]

_STORES: Final = ("s3://", "gs://", "az://", "file://")


def _validate_blobs(text: str) -> str:
    if not text.startswith(_STORES):
        msg = f"a URL that begins with {', '.join(_STORES[:-1])} or {_STORES[-1]}"
        raise ValueError(msg)
    return text


BlobsUrl = Annotated[str, AfterValidator(_validate_blobs)]
"""URL of a store of blobs."""


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


class IngressSettings(ListenerSettings):
    """Folders, addresses and limits of the devices' process.  It needs no key that signs what devices run.

    Attributes:
        data_dir: database and signed tree.
        database_url: a PostgreSQL database as libpq reads it, in the place of the file in `data_dir`.
        blobs: URL of the store of programs and cards, in the place of the tree's own folder.
        http_port: for devices; 0: any free port.
        reports_per_second: reports accepted a second, from all devices together.
        bodies_per_second: bodies of reports read a second, good or bad.
        token_issuer: the address at which this server issues tokens, as tasks name it; its path is a path of this
            process. None: it issues none.
        software_attestation: file with the public key (PEM, Ed25519) of the software attestor, which believes all that
            this key signs: for tests and demonstrations. None: there is no attestor.
        tokens_per_second: requests of enrollment and issuance answered a second, from all devices together.
    """

    data_dir: Path
    database_url: SecretStr | None = None
    blobs: BlobsUrl | None = None
    http_port: Annotated[int, Field(ge=0, le=65535)] = 7480
    reports_per_second: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bodies_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    token_issuer: TokenIssuerUrl | None = None
    software_attestation: Path | None = None
    tokens_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 200

    @model_validator(mode="after")
    def _validate_issuer(self) -> Self:
        if (self.token_issuer is None) != (self.software_attestation is None):
            msg = "an issuer of tokens has an attestor (software_attestation), and an attestor an issuer (token_issuer)"
            raise ValueError(msg)
        return self

    @property
    def database(self) -> Path | str:
        """URL of the database; it may hold a password."""
        return database_of(self.data_dir, None if self.database_url is None else self.database_url.get_secret_value())

    @property
    def tree(self) -> Path:
        """The static tree that devices read."""
        return self.data_dir / "tree"

    def to_json(self) -> str:
        """Return all of it in one line, the database's URL included: for a pipe, never for a log."""
        plain = self.model_dump(mode="json")
        plain["database_url"] = None if self.database_url is None else self.database_url.get_secret_value()
        return json.dumps(plain)
