"""Summarizes many runs: shares with their 95 % intervals, times, and what it cost in privacy."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from alcove.platform.domain.records import RolloutState
from alcove.platform.simulation.run import Run, WindowAnalysis

__all__ = ["SharePart", "Summary", "summarize"]

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class SharePart:
    """A share of the runs with its 95 % interval: Wilson, "Probable inference", JASA 1927."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Many runs of one scenario.

    Attributes:
        runs: how many.
        harmed: share in which harm was found: the power where the version is harmful, the false-halt rate where not.
        harmed_within: share in which it was found by the end of each window, from the first on.
        windows_to_harm: median of the windows that it took, among those; None where it was never found.
        completed: share that reached everybody.
        states: runs by the rollout's state at the end.
        codes: runs by the rule that decided at their last analysis.
        epsilon_mean: spent by a device that took part, mean over devices and runs.
        epsilon_max: most spent by any device.
        device_windows_per_s: devices times windows simulated in a second.
        analyses: of the first run.
    """

    runs: int
    harmed: SharePart
    harmed_within: tuple[float, ...]
    windows_to_harm: float | None
    completed: SharePart
    states: dict[str, int]
    codes: dict[str, int]
    epsilon_mean: float
    epsilon_max: float
    device_windows_per_s: float
    analyses: tuple[WindowAnalysis, ...]


def summarize(runs: Sequence[Run], *, windows: int, seconds: float) -> Summary:
    """Return what runs say together.

    Args:
        runs: at least one.
        windows: that were simulated at most.
        seconds: that they took.
    """
    found = sorted(run.harmed_window for run in runs if run.harmed_window is not None)
    completed = sum(run.state is RolloutState.COMPLETED for run in runs)
    return Summary(
        runs=len(runs),
        harmed=share_part(len(found), len(runs)),
        harmed_within=tuple(sum(each <= window for each in found) / len(runs) for window in range(1, windows + 1)),
        windows_to_harm=float(found[len(found) // 2]) if found else None,
        completed=share_part(completed, len(runs)),
        states=dict(Counter(str(run.state) for run in runs)),
        codes=dict(Counter(run.code for run in runs)),
        epsilon_mean=sum(run.epsilon_mean for run in runs) / len(runs),
        epsilon_max=max(run.epsilon_max for run in runs),
        device_windows_per_s=sum(run.device_windows for run in runs) / seconds,
        analyses=runs[0].analyses,
    )


def share_part(count: int, total: int) -> SharePart:
    """Return count / total with its interval; `total` is at least 1."""
    share, z2 = count / total, _Z * _Z / total
    middle = (share + z2 / 2) / (1 + z2)
    half_width = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total)) / (1 + z2)
    return SharePart(share, max(0.0, middle - half_width), min(1.0, middle + half_width))
