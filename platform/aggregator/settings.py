"""Defines the settings of an aggregator's process."""

from pathlib import Path
from typing import Annotated, Self

from alcove.platform.aggregator.store.database import DATABASE_FILE
from alcove.platform.ingress.connections import ConnectionLimits
from alcove.platform.ingress.settings import networks_of
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

__all__ = ["AggregatorSettings"]


class AggregatorSettings(BaseModel):
    """Folders, addresses and limits of an aggregator.

    Attributes:
        data_dir: database, HPKE keys and, unless named elsewhere, the configuration; for this aggregator alone.
        config: the configuration (`AggregatorConfig`), mode 0600; None: aggregator.json in `data_dir`.
        database_url: a PostgreSQL database as libpq reads it, in the place of the file in `data_dir`.
        host: address to listen on.
        port: for devices and partners; 0: any free port.
        tls_certificate: PEM chain; without it, plain HTTP, for a proxy or for loopback.
        tls_key: PEM key of the certificate.
        metrics_port: for Prometheus, without TLS; 0: any free port; None: no page.
        connections: open at once.
        connections_per_address: the same, from one IPv4 address or one /64 of IPv6.
        requests_per_address: connections and requests a second from one address.
        behind_proxy: addresses and networks of our own proxies and partners, with commas: they are not limited singly.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    config: Path | None = None
    database_url: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)]
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
            raise ValueError("tls_certificate and tls_key come together")
        return self

    @field_validator("behind_proxy")
    @classmethod
    def _validate_proxies(cls, text: str) -> str:
        networks_of(text)
        return text

    @property
    def config_path(self) -> Path:
        """Where the configuration is."""
        return self.config or self.data_dir / "aggregator.json"

    @property
    def keys_folder(self) -> Path:
        """Where the HPKE keys are."""
        return self.data_dir / "keys"

    @property
    def database(self) -> Path | str:
        """Where the rows are; it may hold a password."""
        return self.data_dir / DATABASE_FILE if self.database_url is None else self.database_url.get_secret_value()

    @property
    def limits(self) -> ConnectionLimits:
        """Limits on what strangers may ask for at once."""
        return ConnectionLimits(
            self.connections, self.connections_per_address, self.requests_per_address, networks_of(self.behind_proxy)
        )
