"""Defines the settings of the server."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from alcove.platform.ingress.settings import BlobsUrl, IngressSettings
from alcove.platform.store.database import database_of
from alcove.registry.rollback_guard import FILE as PUBLISHED_NOTE
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

__all__ = ["Settings", "is_loopback"]

ISSUER = r"^https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?$"
Port = Annotated[int, Field(ge=0, le=65535)]


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is this machine's alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Settings(BaseModel):
    """Folders, addresses and limits of the server.

    Attributes:
        data_dir: database, blobs and the signed tree (`alcove keys create` makes it).
        database_url: a PostgreSQL database as libpq reads it, in the place of the file in `data_dir`; several servers
            may then have this database and this `data_dir` together, on one machine or over a network's file system.
        online_keys: folder with policy.pem, halt.pem, snapshot.pem and timestamp.pem, and no other key.
        blobs: URL of the store of programs and cards ("s3://bucket/prefix"), in the place of the tree's own folder; its
            keys are in the environment, by the names that its maker gave them.
        host: address to listen on; this machine only by default.
        grpc_port: for teams and operators; 0: any free port.
        http_port: for devices; 0: any free port.
        tls_certificate: PEM chain for both ports; without it tokens are accepted from this machine only.
        tls_key: PEM key of the certificate.
        reports_per_second: reports accepted a second, from all devices together.
        client_ca: PEM certificates of the CA that signs client certificates; opens a port for callers that bring one.
        client_certificates: JSON file {"dns:deploy.acme.example": "operator", …}: the role of each such certificate.
        mtls_port: for callers with client certificates; 0: any free port.
        metrics_port: for Prometheus, without TLS; 0: any free port; None: no metrics.
        traces: "http(s)://host:4317" of an OTLP collector, or "console"; None: no traces.
        reflection: whether callers that are known may ask which calls there are.
        calls_per_second: gRPC calls that one caller (a token, a certificate) may make a second.
        call_s_max: seconds that a call may run, except a stream.
        connections, connections_per_address, requests_per_address, behind_proxy: of devices; see `IngressSettings`.
        console: whether a web page shows people what is here; off this machine it needs TLS.
        console_port: for browsers; 0: any free port; None: 7481, or any free port where that is taken.
        console_url: address at which people reach the console through a proxy, "https://console.example"; "": directly.
        console_certificates: whether people sign in to the console by the client certificates of the list; its own TLS
            must see them, so not through a proxy.
        session_idle_minutes: after which a session of the console ends that nobody uses.
        oidc_issuer: URL of a provider of OpenID Connect, as its tokens write it; None: nobody signs in through one.
        oidc_client_id: of this server there.
        oidc_client_secret_file: mode 0600, one line; None: a public client.
        oidc_role_claim: claim of the identity token whose values have roles in `oidc_roles`.
        oidc_roles: JSON file {"alcove-operators": "operator", …}, in the order in which a person's first counts; None:
            who signs in was given access by `alcove access grant`.
        only: "grpc": devices are answered elsewhere (`alcove serve --only ingress`, or a CDN and no reports).
        bodies_per_second: bodies of reports read a second, good or bad.
        analysis_interval_s: seconds between two analyses of the rollouts that are watched; harm is acted on within
            them. Likewise between two looks at which windows are to be collected.
        aggregators: collector.json of the two aggregators that this server collects from, mode 0600; None: reports are
            randomized on the devices.
        token_issuer, software_attestation, tokens_per_second: of tokens; see `IngressSettings`.
        alerts: alerts.toml, which says what people hear of and how; None: nothing is sent.
        refresh_s: seconds between two looks at whether signatures must be renewed; the timestamp lives for a day.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    online_keys: Path
    database_url: SecretStr | None = None
    blobs: BlobsUrl | None = None
    host: str = "127.0.0.1"
    grpc_port: Port = 7443
    http_port: Port = 7480
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    client_certificates: Path | None = None
    mtls_port: Port = 7444
    metrics_port: Port | None = None
    traces: Annotated[str, Field(pattern=r"^(console|https?://[^/@\s]+)$")] | None = None
    reflection: bool = False
    console: bool = False
    console_port: Port | None = None
    console_url: Annotated[str, Field(pattern=r"^(https?://[A-Za-z0-9.\[\]:-]+)?$")] = ""
    console_certificates: bool = False
    session_idle_minutes: Annotated[int, Field(ge=10, le=720)] = 60
    oidc_issuer: Annotated[str, Field(pattern=ISSUER)] | None = None
    oidc_client_id: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")] | None = None
    oidc_client_secret_file: Path | None = None
    oidc_role_claim: Annotated[str, Field(min_length=1, max_length=255)] = "groups"
    oidc_roles: Path | None = None
    only: Literal["grpc"] | None = None
    calls_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    call_s_max: Annotated[float, Field(ge=0.01, le=3600)] = 120.0
    reports_per_second: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bodies_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    connections: int = 2048
    connections_per_address: int = 64
    requests_per_address: int = 200
    behind_proxy: str = ""
    analysis_interval_s: Annotated[float, Field(ge=0.01, le=24 * 3600)] = 60.0
    aggregators: Path | None = None
    token_issuer: str | None = None
    software_attestation: Path | None = None
    tokens_per_second: int = 200
    alerts: Path | None = None
    refresh_s: Annotated[float, Field(ge=0.01, le=6 * 3600)] = 3600.0

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            msg = "tls_certificate and tls_key come together"
            raise ValueError(msg)
        if (self.client_ca is None) != (self.client_certificates is None):
            msg = "client_ca and client_certificates come together"
            raise ValueError(msg)
        _ = self.ingress  # raises for what devices' limits must not be
        if self.console and self.tls_key is None and not is_loopback(self.host):
            msg = "off loopback the console needs TLS: set tls_certificate and tls_key, or listen on 127.0.0.1"
            raise ValueError(msg)
        self._validate_sign_in()
        if self.client_ca is not None and self.tls_key is None:
            msg = "client certificates need TLS: set tls_certificate and tls_key"
            raise ValueError(msg)
        return self

    def _validate_sign_in(self) -> None:
        if self.console_certificates and (self.client_ca is None or not self.console or self.console_url):
            msg = "console_certificates need a console with client_ca, and no console_url: a proxy keeps them"
            raise ValueError(msg)
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            msg = "oidc_issuer and oidc_client_id come together"
            raise ValueError(msg)
        if self.oidc_issuer is None and (self.oidc_client_secret_file is not None or self.oidc_roles is not None):
            msg = "oidc_client_secret_file and oidc_roles need oidc_issuer"
            raise ValueError(msg)
        if self.oidc_issuer is None:
            return
        if not self.oidc_issuer.startswith("https://") and not is_loopback(urlsplit(self.oidc_issuer).hostname or ""):
            msg = "oidc_issuer is reached over https, or on this machine"
            raise ValueError(msg)
        if not self.console or (not self.console_url and not is_loopback(self.host)):
            msg = "oidc_issuer needs a console, and off loopback console_url: the provider sends browsers back there"
            raise ValueError(msg)

    @property
    def ingress(self) -> IngressSettings:
        """The settings that the devices' process gets: nothing of keys."""
        names = IngressSettings.model_fields.keys() & type(self).model_fields.keys() - {"metrics_port"}
        return IngressSettings.model_validate({name: getattr(self, name) for name in names})

    @property
    def url_host(self) -> str:
        """The host as it stands before a port: IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def database(self) -> Path | str:
        """URL of the database; it may hold a password."""
        return database_of(self.data_dir, None if self.database_url is None else self.database_url.get_secret_value())

    @property
    def tree(self) -> Path:
        """The static tree that devices read."""
        return self.data_dir / "tree"

    @property
    def rollback_note(self) -> Path:
        """Folder in which the server notes how far it has published.

        Beside its keys, so that a back-up of the data folder does not bring the note back too; in the data folder where
        it may not write beside its keys.
        """
        folder = self.online_keys if os.access(self.online_keys, os.W_OK) else self.data_dir
        return folder / PUBLISHED_NOTE

    @property
    def uploads(self) -> Path:
        """Folder of unfinished uploads."""
        return self.data_dir / "uploads"
