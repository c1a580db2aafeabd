"""Simulates an A/B of two versions of a call's feature over a table of measured calls.

Each row of the table is one call that both versions heard: the quality of what each gave, and how long its frames took.
A virtual device makes a call of the table, drawn evenly, with its arm's version; whether it rates the call good and
whether its frame budget is missed are what it reports, each through the private aggregation of an experiment.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from alcove.platform.simulation.own_metric import OwnMetricRun, OwnMetricScenario, share_parts, simulate_own_metric
from alcove.platform.stats import BinMetric, Mechanism, PowerModel, bin_model
from alcove.registry.policy.metric import MetricKind
from numpy.typing import NDArray

__all__ = ["CALL_COLUMNS", "MeasuredCalls", "OutcomeRun", "calls_needed", "read_calls", "simulate_calls"]

CALL_COLUMNS: Final = ("control_db", "treatment_db", "control_us", "treatment_us")
"""Of a table: quality of what is heard, dB, and the time that 99 % of a call's frames stay below, µs."""

MAX_CALLS: Final = 1_000_000
"""Rows of a table, at most."""


@dataclass(frozen=True)
class MeasuredCalls:
    """What two versions made of the same calls.

    Attributes:
        quality_db: of what is heard, f64 [2, calls]: control, treatment.
        slow_us: the time that 99 % of a call's frames stay below, f64 [2, calls].
    """

    quality_db: NDArray[np.float64]
    slow_us: NDArray[np.float64]

    def good_shares(self, good_db: float) -> tuple[float, float]:
        """Return the share of calls that are rated good, those of `good_db` or more, for control and treatment."""
        control, treatment = (self.quality_db >= good_db).mean(axis=1)
        return float(control), float(treatment)

    def in_time_shares(self, budget_us: float, slowdown: float) -> tuple[float, float]:
        """Return the share of calls of which at most 1 % of the frames are late, for control and treatment.

        Args:
            budget_us: for a frame.
            slowdown: how many times as long a frame takes on a device as in the table.
        """
        control, treatment = (self.slow_us * slowdown <= budget_us).mean(axis=1)
        return float(control), float(treatment)


def read_calls(path: Path) -> MeasuredCalls:
    """Return the calls of a CSV file with the columns `CALL_COLUMNS`; others are not read.

    Raises:
        ValueError: a column is missing, a value is no finite number, or there are no rows, or more than `MAX_CALLS`.
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in CALL_COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{path} must have the columns {', '.join(CALL_COLUMNS)}; missing: {', '.join(missing)}")
        rows: list[list[float]] = []
        for row in reader:
            if len(rows) == MAX_CALLS:
                raise ValueError(f"{path} must have {MAX_CALLS:,} calls at most")
            try:
                rows.append([float(row[name]) for name in CALL_COLUMNS])
            except (TypeError, ValueError):
                raise ValueError(f"{path} must have a number in each column; line {reader.line_num} has none") from None
    values = np.array(rows, np.float64).reshape(-1, len(CALL_COLUMNS))
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"{path} must have one call or more, of finite numbers; it has {len(values)}")
    return MeasuredCalls(values[:, :2].T, values[:, 2:].T)


@dataclass(frozen=True)
class OutcomeRun:
    """One outcome in one experiment.

    Attributes:
        outcome: "call_good", or "frame_budget_kept": the opposite of the preset `frame_budget_missed`.
        shares: of the calls with it, for control and treatment: what the experiment is to find.
        run: what it found.
    """

    outcome: str
    shares: tuple[float, float]
    run: OwnMetricRun


def simulate_calls(
    scenario: OwnMetricScenario,
    good: tuple[float, float],
    in_time: tuple[float, float],
    progress: Callable[[int], None] | None = None,
) -> Iterator[OutcomeRun]:
    """Yield the runs of an experiment, for each outcome all of them; every call says whether it was in time.

    Args:
        scenario: devices, privacy and windows; its parts are replaced, and `answering` is for ratings alone.
        good: share of calls that are rated good, for control and treatment.
        in_time: share of calls within the frame budget.
        progress: called with the number of runs done of an outcome.

    Raises:
        InvalidFieldError: an epsilon that no experiment can have.
    """
    given = {**scenario.model_dump(), "kind": MetricKind.SHARE}
    for outcome, shares, answering in (
        ("call_good", good, scenario.answering),
        ("frame_budget_kept", in_time, 1.0),
    ):
        own = OwnMetricScenario.model_validate({**given, "parts": share_parts(*shares), "answering": answering})
        for run in simulate_own_metric(own, progress):
            yield OutcomeRun(outcome, shares, run)


def calls_needed(
    shares: tuple[float, float], answering: float, mechanism: Mechanism, epsilon: Fraction, power: float = 0.8
) -> int | None:
    """Return how many devices, a call each, find in one window that the arms' shares differ; None where none do.

    Args:
        shares: of the calls with the outcome, for control and treatment.
        answering: part of the devices that report a result.
        mechanism: how reports are made private.
        epsilon: privacy loss of one report, or of a window's sums.
        power: part of such experiments that find it.
    """
    low, high = sorted(shares)
    if not 0.0 < low < high:
        return None
    metric = BinMetric("call", (0.0, 0.0, 1.0), is_more_better=True, needs_record=True)
    parts = (1.0 - answering, answering * (1.0 - low), answering * low)
    return PowerModel(bin_model(metric, parts), (0.5, 0.5), mechanism, epsilon, power=power).devices_needed(high - low)
