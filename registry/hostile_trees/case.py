"""Defines one hostile tree, what a device made of it, and the values that may stand anywhere in one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


Json = dict[str, Any]

APP: Final = "messenger"
FEATURE: Final = "language_id"
EVIL: Final = "9.9.9"
DAY_S: Final = 86_400
DATERS: Final = frozenset({"snapshot", "timestamp"})
TOP: Final = ("root", "timestamp", "snapshot", "targets")
VALUES: Final[tuple[Any, ...]] = (  # any of which may stand anywhere
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    "",
    "x",
    "*",
    [],
    {},
    [[]],
    "2.0.0",
    "1.0.31",
    0.5,
)
NAMES: Final = ("policy", "halt", "team-text", "team-speech", "bin-speech-0", "bin-text-0", "team-evil", "evil", "a/b")
PATTERNS: Final = (
    "*", "*/*", "*.json", "policy/*.json", "halt/*.json", f"{FEATURE}/*.json", "bandwidth/*.json",
    f"{FEATURE}/{EVIL}.json", f"policy/{APP}.json", f"halt/{APP}.json", "[a-z]*/*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile tree.

    Attributes:
        seed: makes it again.
        stolen: roles whose keys the thief has.
        files: what is served, by path; None answers 404.
        reads: what the device reads, in order.
        is_used: whether the device read the honest tree before.
        later_s: how much later than the honest tree it reads.
        is_followed: whether it reads the honest tree afterwards, and must not have kept anything forged.
    """

    seed: int
    stolen: frozenset[str]
    files: Mapping[str, bytes | None]
    reads: tuple[str, ...]
    is_used: bool
    later_s: int
    is_followed: bool


@dataclass(slots=True)
class Outcome:
    """The outcome of one case on a device.

    Attributes:
        findings: what it took that the stolen keys may not set; empty for a device that holds.
        trusted: roles that it trusted at the end.
        altered: those that say what their owners never signed, with stolen keys that may.
        answers: how many reads gave a document.
    """

    findings: list[str] = field(default_factory=list)
    trusted: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    answers: int = 0
