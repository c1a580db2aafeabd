"""Makes rows of what was timed: each network beside its best peer, with the spread of the rounds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.zoo.networks import BY_NAME
from benchmarks.zoo.run import refusals
from benchmarks.zoo.store import read_seconds

BOUND: Final = 1e-3
"""Greatest difference of an answer from eager's, of its largest element."""
ENOUGH: Final = 1.2
"""Beside a lower ratio stands where the time goes."""


@dataclass(frozen=True)
class Row:
    """One network: times in microseconds, each the median of its rounds.

    Attributes:
        name: of the network.
        family: of the network.
        size: height and width of the image.
        times_us: of each engine that ran.
        best: the fastest peer; "" if there is none.
        ratio: how many times as long that takes, the median of the rounds; 0 if there is none.
        lowest: of the rounds' ratios.
        highest: of the rounds' ratios.
        difference: of alcove's answer from eager's, of the largest element.
        shares: of each operator in alcove's time, the largest first.
        failed: engine and reason.
        export_s: processor's seconds of `torch.export` and of each step of alcove's export; empty if not measured.
    """

    name: str
    family: str
    size: int
    times_us: dict[str, float]
    best: str
    ratio: float
    lowest: float
    highest: float
    difference: float
    shares: dict[str, float]
    failed: dict[str, str]
    export_s: dict[str, float] = field(default_factory=dict)

    @property
    def export_ratio(self) -> float:
        """Time of alcove's export in times of `torch.export`'s."""
        return (sum(self.export_s.values()) - self.export_s["torch.export"]) / self.export_s["torch.export"]

    @property
    def packing_ratio(self) -> float:
        """Time of packing and writing weights in times of `torch.export`'s, a part of `export_ratio`."""
        return sum(self.export_s.get(step, 0.0) for step in ("pack", "write")) / self.export_s["torch.export"]

    @property
    def is_slower(self) -> bool:
        """Whether alcove was slower than the best peer in each round."""
        return 0 < self.highest < 1

    @property
    def is_wrong(self) -> bool:
        """Whether the answer is not eager's."""
        return not self.difference <= BOUND

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def make_rows(results: Mapping[str, Any], names: Sequence[str]) -> list[Row]:
    """Return a row of each network that was timed."""
    return [_row(name, results[name]) for name in names if name in results]


def _row(name: str, found: Mapping[str, Any]) -> Row:
    network = BY_NAME[name]
    rounds: dict[str, list[float]] = found.get("times_us", {})
    times = {engine: statistics.median(those) for engine, those in rounds.items()}
    peers = {engine: time for engine, time in times.items() if engine != "alcove"}
    best = min(peers, key=lambda engine: peers[engine]) if peers and "alcove" in times else ""
    ratios = [theirs / ours for ours, theirs in zip(rounds["alcove"], rounds[best], strict=True)] if best else [0.0]
    failed = {**refusals(network), **found.get("failed", {})}
    return Row(
        name=name,
        family=network.family,
        size=network.size,
        times_us=times,
        best=best,
        ratio=statistics.median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        difference=found.get("differences", {}).get("alcove", float("nan")),
        shares=found.get("shares", {}),
        failed=failed,
        export_s=read_seconds(network),
    )


def median_ratio(rows: Sequence[Row]) -> float:
    """Return the median of the ratios of those that have a peer; 0 if none has."""
    ratios = [row.ratio for row in rows if row.best]
    return statistics.median(ratios) if ratios else 0.0
