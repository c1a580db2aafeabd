"""Defines where a task's reports are added up: the two aggregators of Prio3, and what a device demands of them.

The addresses are hashed into the task's id of DAP, so that two spellings of one address would be two tasks: an address
is accepted in one spelling only.
"""

from __future__ import annotations

import ipaddress
import re
from fractions import Fraction
from typing import Annotated, Final, Self

from alcove.registry import limits
from alcove.registry.canonical import Decimal, Part
from pydantic import AfterValidator, Field, model_validator

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_PORT_MAX: Final = 65_535
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS: Final = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>[1-9][0-9]{{0,4}}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)"
)


def _validate_url(url: str) -> str:
    match = _ADDRESS.fullmatch(url)
    if match is None:
        msg = (
            f"an aggregator's or issuer's address is https://host[:port][/path], lower case, no slash at its end: {url}"
        )
        raise ValueError(msg)
    if {".", ".."} & set(match["path"].split("/")):
        msg = f"the path of such an address has no segment of dots: {url}"
        raise ValueError(msg)
    port = int(match["port"] or 0)
    if port > _PORT_MAX or port == _DEFAULT_PORTS[match["scheme"]]:
        msg = f"a port is at most {_PORT_MAX}, and is left out where it is the scheme's own: {url}"
        raise ValueError(msg)
    is_loopback = _is_loopback(match["host"])
    if match["scheme"] == "http" and not is_loopback:
        msg = f"http:// is for loopback addresses only, elsewhere it is https://: {url}"
        raise ValueError(msg)
    return url


def _is_loopback(host: str) -> bool:
    """Return whether `host` is this machine; raises ValueError for an IP address that is not in its one spelling."""
    is_number = host.startswith("[") or host.rpartition(".")[2].isdecimal()  # no name has a number at its end
    if not is_number:
        return host == "localhost"
    plain = host.strip("[]")
    found = ipaddress.ip_address(plain)
    if str(found) != plain:
        msg = f"the IP address {plain} is written {found}"
        raise ValueError(msg)
    return found.is_loopback


AggregatorUrl = Annotated[str, Field(max_length=limits.AGGREGATOR_URL_LENGTH), AfterValidator(_validate_url)]
TokenIssuerUrl = Annotated[str, Field(max_length=limits.TOKEN_ISSUER_LENGTH), AfterValidator(_validate_url)]


class Aggregation(Part):
    """Two aggregators, of which neither sees a report, and the smallest batch that they release the sums of.

    Attributes:
        leader_url: address that devices send their reports to; without a slash at its end.
        helper_url: address of the other aggregator, which has another origin.
        min_batch_size: reports of a window below which neither aggregator releases anything.
        local_epsilon: privacy loss of a report against both aggregators together: the device randomizes its cell
            before it shares it. None: the two together see the cell.
        token_issuer: address at which an enrolled device gets the token without which neither aggregator takes its
            report. None: anybody can report.
    """

    leader_url: AggregatorUrl
    helper_url: AggregatorUrl
    min_batch_size: Annotated[int, Field(strict=True, ge=limits.BATCH_MIN, le=limits.BATCH_MAX)]
    local_epsilon: Decimal | None = None
    # Not written where it is None, as `TaskTerms.aggregation`.
    token_issuer: Annotated[TokenIssuerUrl | None, Field(exclude_if=lambda value: value is None)] = None

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if _origin(self.leader_url) == _origin(self.helper_url):
            msg = f"leader and helper have different origins, got {self.leader_url} and {self.helper_url}"
            raise ValueError(msg)
        local = self.local_epsilon_fraction
        if local is not None and not 0 < local <= limits.EPSILON_MAX:
            msg = f"local_epsilon must be in (0, {limits.EPSILON_MAX}], got {self.local_epsilon}"
            raise ValueError(msg)
        return self

    @property
    def local_epsilon_fraction(self) -> Fraction | None:
        """`local_epsilon`, exact."""
        return None if self.local_epsilon is None else Fraction(self.local_epsilon)


def _origin(url: str) -> list[str]:
    return url.split("/", 3)[:3]
