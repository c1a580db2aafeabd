"""Defines what alerts go where: the file alerts.toml.

Secrets are in files of their own, mode 0600, which it names.  Paths in it are relative to its own folder.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from email.headerregistry import Address
from email.utils import parseaddr
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from alcove.platform.alerts.signing import parse_secret
from alcove.platform.domain.alerts.alert import Alert, AlertKind
from alcove.platform.domain.errors import AlertsFileError
from alcove.registry.errors import KeyFileError
from alcove.registry.keys import check_private_file
from alcove.runtime.files import read_bounded
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from yarl import URL

__all__ = ["AlertsConfig", "Destination", "EmailConfig", "WebhookConfig", "read_alerts_config"]

MAX_FILE_BYTES: Final = 65_536
DESTINATIONS_MAX: Final = 64  # each has a connection at a time
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _check_events(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if not any(fnmatchcase(kind, pattern) for kind in AlertKind):
            message = f"no event is called {pattern!r}: write one of {', '.join(AlertKind)}, or a pattern with *"
            raise ValueError(message)
    return patterns


def _check_mailbox(text: str) -> str:
    address = parseaddr(text)[1]
    if _CONTROL.search(text) or address.count("@") != 1 or not all(address.split("@")):
        message = f"an address is written name@host; got {text!r}"
        raise ValueError(message)
    Address(addr_spec=address)  # raises ValueError of its own for what no header can hold
    return text


def _check_url(text: str) -> str:
    url = URL(text)
    host = url.host or ""
    if url.scheme not in ("http", "https") or not host or url.user is not None or url.fragment:
        raise ValueError("url is https://host/path, without a user, password or fragment")
    if url.scheme == "http" and not is_loopback_host(host):
        raise ValueError("url is https:// unless its host is localhost or a loopback address")
    return text


def is_loopback_host(host: str) -> bool:
    """Tell whether a host is this machine, by its name alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Mailbox = Annotated[str, Field(max_length=254), AfterValidator(_check_mailbox)]
_Names = Annotated[tuple[str, ...], Field(max_length=1000)]


class Destination(BaseModel):
    """What one destination gets.

    Attributes:
        name: of the destination, in lists and figures.
        events: types, or patterns with `*`, of which one must fit.
        apps: of which one must be the alert's; empty: any.  An alert of no app (keys, monitors) passes.
        features: likewise.
        timeout_s: seconds that one attempt may take.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
    events: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_check_events)] = ("*",)
    apps: _Names = ()
    features: _Names = ()
    timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 10.0

    def wants(self, alert: Alert) -> bool:
        """Tell whether an alert goes here; a test always does."""
        return alert.kind is AlertKind.TEST or (
            any(fnmatchcase(alert.kind, pattern) for pattern in self.events)
            and (not self.apps or not alert.app or alert.app in self.apps)
            and (not self.features or not alert.feature or alert.feature in self.features)
        )


class WebhookConfig(Destination):
    """A URL that alerts are posted to.

    Attributes:
        url: https://, or http:// of this machine.  It may be a secret: it is in no log and in no row.
        url_file: file with the URL, in its place.
        secret_file: file of `whsec_…` secrets, one a line; the first ones may be old: each signs.
        format: "cloudevents", or "text" for chat services.
        allow_addresses: networks that the URL's host may be in although they are not public.
    """

    url: SecretStr | None = None
    url_file: Path | None = None
    secret_file: Path | None = None
    format: Literal["cloudevents", "text"] = "cloudevents"
    allow_addresses: tuple[Network, ...] = ()
    secrets: tuple[SecretStr, ...] = ()

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.url is None:
            raise ValueError("url or url_file is missing")
        _check_url(self.url.get_secret_value())
        if not self.secrets and self.format == "cloudevents":
            raise ValueError("secret_file is missing: receivers know by the signature who sends")
        for secret in self.secrets:
            parse_secret(secret.get_secret_value())
        return self

    @property
    def target(self) -> URL:
        """The URL; never to be shown whole."""
        if self.url is None:
            raise ValueError("url is missing")
        return URL(self.url.get_secret_value())


class EmailConfig(Destination):
    """Mailboxes that alerts are sent to, by one server of SMTP.

    Attributes:
        to: who gets them.
        sender: who sends them (`from` in the file).
        host: of the server.
        port: likewise; by default what `security` uses.
        security: "starttls" (587), "tls" (465), or "none" (25) for a server on this machine.
        user: by which the server knows us; "": it does not ask.
        password_file: file with the password, mode 0600.
        tls_root: PEM file of certificates to trust in the place of the system's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_by_name=True)

    to: Annotated[tuple[Mailbox, ...], Field(min_length=1, max_length=64)]
    sender: Mailbox = Field(alias="from")
    host: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:_-]+$")]
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password_file: Path | None = None
    tls_root: Path | None = None
    password: SecretStr | None = None

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.security == "none" and not is_loopback_host(self.host):
            raise ValueError('security = "none" is for a server on this machine: use "starttls" or "tls"')
        if bool(self.user) != (self.password is not None):
            raise ValueError("user and password_file come together")
        return self

    @property
    def smtp_port(self) -> int:
        """The port, given or by default."""
        return self.port or {"starttls": 587, "tls": 465, "none": 25}[self.security]


def _check_source(text: object) -> object:
    if isinstance(text, str) and _CONTROL.search(text):
        raise ValueError("source has a control character")
    return text


class AlertsConfig(BaseModel):
    """Everything in alerts.toml.

    Attributes:
        source: names this server in events and mails.
        console: address of the console, for links; "": there is none.
        webhook: destinations of one kind.
        email: and of the other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    source: Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(_check_source)] = "alcove"
    console: Annotated[str, Field(pattern=r"^(https?://[^\s]+)?$", max_length=500)] = ""
    webhook: tuple[WebhookConfig, ...] = ()
    email: tuple[EmailConfig, ...] = ()

    @model_validator(mode="after")
    def _validate(self) -> Self:
        names = [each.name for each in self.destinations]
        if len(set(names)) != len(names):
            raise ValueError("each destination has a name of its own")
        if not 1 <= len(names) <= DESTINATIONS_MAX:
            message = f"1 to {DESTINATIONS_MAX} [[webhook]] and [[email]], got {len(names)}"
            raise ValueError(message)
        return self

    @property
    def destinations(self) -> tuple[WebhookConfig | EmailConfig, ...]:
        """All of them."""
        return (*self.webhook, *self.email)

    def names_for(self, alert: Alert) -> list[str]:
        """Return the names of the destinations of an alert."""
        return [each.name for each in self.destinations if each.wants(alert)]


def read_alerts_config(path: Path) -> AlertsConfig:
    """Return what a file says, with the secrets that it names.

    Raises:
        AlertsFileError: it cannot be used; the error names the field, never a value of a secret.
        KeyFileError: a file of secrets is absent, or open to others.
    """
    try:
        data = read_bounded(path, MAX_FILE_BYTES)
        if data is None:
            raise AlertsFileError(path, f"is longer than {MAX_FILE_BYTES} bytes")
        plain = tomllib.loads(data.decode())
    except OSError as error:
        raise AlertsFileError(path, error.strerror or str(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AlertsFileError(path, f"is no TOML: {error}") from None
    _read_secrets(plain, path)
    try:
        return AlertsConfig.model_validate(plain)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise AlertsFileError(path, f"{_place(fault['loc'])}{fault['msg'].removeprefix('Value error, ')}") from None


def _place(location: tuple[int | str, ...]) -> str:
    """Return where a fault is, destinations counted from 1: "webhook 2, url: "."""
    words = [f" {part + 1}" if isinstance(part, int) else f", {part}" for part in location]
    return f"{''.join(words).removeprefix(', ')}: " if words else ""


def _read_secrets(plain: dict[str, Any], path: Path) -> None:
    """Put the secrets into the place of the files that hold them.

    Raises:
        AlertsFileError: a file holds none, or the secret itself is in alerts.toml.
        KeyFileError: it is absent, or open to others.
    """
    for kind in ("webhook", "email"):
        for entry in plain.get(kind, ()) if isinstance(plain.get(kind, ()), list) else ():
            if not isinstance(entry, dict):
                continue
            for name in ("secrets", "password"):
                if name in entry:
                    raise AlertsFileError(path, f"{name} belongs into a file of its own, mode 0600")
            if (lines := _secret_lines(entry, "secret_file", path)) is not None:
                entry["secrets"] = lines
            if (lines := _secret_lines(entry, "password_file", path)) is not None:
                entry["password"] = lines[0]
            if (lines := _secret_lines(entry, "url_file", path)) is not None:
                if "url" in entry:
                    raise AlertsFileError(path, "url and url_file name one thing twice")
                entry["url"] = lines[0]
            if isinstance(entry.get("tls_root"), str):
                entry["tls_root"] = path.parent / entry["tls_root"]


def _secret_lines(entry: Mapping[str, Any], name: str, path: Path) -> list[str] | None:
    if not isinstance(entry.get(name), str):
        return None
    file = path.parent / entry[name]
    check_private_file(file)
    try:
        data = read_bounded(file, MAX_FILE_BYTES)
        lines = [] if data is None else [line.strip() for line in data.decode().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(str(file), str(error)) from None
    if not lines:
        raise AlertsFileError(path, f"{name} {file} is empty")
    return lines
