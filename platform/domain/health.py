"""Defines how well the parts of a server work.  Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["HealthCheck", "HealthState", "worst_state"]


class HealthState(StrEnum):
    """How well a part works; OFF: this server has none, and nothing is wrong."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True)
class HealthCheck:
    """What was found of one part.

    Attributes:
        name: of the part, in words.
        state: how well it works.
        summary: what was found, a sentence that names no address, file or password.
        remedy: what to do, a sentence; "": nothing.
        detail: the words of what failed, for operators of everything; "": there are none.
        latency_ms: milliseconds that it took to answer; 0: it was not asked anything.
        last_ok_s: when it last worked, seconds since 1970-01-01 UTC; 0: not known.
    """

    name: str
    state: HealthState
    summary: str
    remedy: str = ""
    detail: str = ""
    latency_ms: float = 0.0
    last_ok_s: int = 0


def worst_state(checks: Iterable[HealthCheck]) -> HealthState:
    """Return the state of the whole: the worst of its parts."""
    states = {check.state for check in checks}
    return next((state for state in (HealthState.FAILED, HealthState.DEGRADED) if state in states), HealthState.OK)
