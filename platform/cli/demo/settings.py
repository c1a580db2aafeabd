"""Defines what a run of the demo is asked for, and what follows from the mechanism of its reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.platform.stats import Mechanism

if TYPE_CHECKING:
    from pathlib import Path

EPSILONS = {Mechanism.PRIO3: "1", Mechanism.RANDOMIZED_RESPONSE: "2"}
"""Privacy loss of one window: of its sums, or of one report."""

ENOUGH_TO_TELL = {Mechanism.PRIO3: 1_000, Mechanism.RANDOMIZED_RESPONSE: 10_000}
"""Devices of the fleet of which a fifth tells that the harmful version harms."""

LATENCY_EDGES_MS = (0.01, 0.04)


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a run.

    Attributes:
        folder: empty; holds all that the demo writes.
        devices: devices in processes of their own, at least 1.
        fleet: devices in this process, 0 or more.
        mechanism: of the reports: PRIO3, by two aggregators, or RANDOMIZED_RESPONSE.
        is_swapped: publish the larger model as the control.
        canary: text added to everything that the devices' people write.
        seed: of the people.
    """

    folder: Path
    devices: int = 24
    fleet: int = 20_000
    mechanism: Mechanism = Mechanism.PRIO3
    is_swapped: bool = False
    canary: str = ""
    seed: int = 20_000

    @property
    def epsilon(self) -> str:
        """Privacy loss of a window."""
        return EPSILONS[self.mechanism]
