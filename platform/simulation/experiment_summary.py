"""Summarizes simulated experiments, and compares reports that have the earlier share with reports that do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from alcove.platform.domain.experiments.task import task_of
from alcove.platform.simulation.experiment import ExperimentRun, ExperimentScenario, record_of
from alcove.platform.simulation.summary import SharePart, share_part
from alcove.platform.stats import cuped_error_ratio

__all__ = ["ExperimentSummary", "expected_ratio", "summarize_experiment"]


@dataclass(frozen=True)
class ExperimentSummary:
    """Many runs of one scenario.

    Attributes:
        runs: how many.
        won: share in which the treatment won at the end of some window.
        lost: likewise the control.
        won_within: share in which the treatment had won by the end of each window, from the first on.
        standard_errors: of the difference, mean over the runs, at the end of each window; None: noise hid an arm's size
            in some run.
        epsilon_max: most spent by any device.
    """

    runs: int
    won: SharePart
    lost: SharePart
    won_within: tuple[float, ...]
    standard_errors: tuple[float | None, ...]
    epsilon_max: float


def summarize_experiment(runs: Sequence[ExperimentRun]) -> ExperimentSummary:
    """Return what runs say together; there is at least one."""
    windows = range(len(runs[0].windows))
    errors = [[run.windows[window].standard_error for run in runs] for window in windows]
    known = [[error for error in of_window if error is not None] for of_window in errors]
    won = [run.won_window for run in runs if run.won_window is not None]
    return ExperimentSummary(
        runs=len(runs),
        won=share_part(len(won), len(runs)),
        lost=share_part(sum(run.lost_window is not None for run in runs), len(runs)),
        won_within=tuple(sum(each <= window + 1 for each in won) / len(runs) for window in windows),
        standard_errors=tuple(fmean(each) if len(each) == len(runs) else None for each in known),
        epsilon_max=max(run.epsilon_max for run in runs),
    )


def expected_ratio(scenario: ExperimentScenario) -> float:
    """Return the closed form of the first window's standard error relative to that without the earlier share.

    For devices that all report; see `platform/stats/cuped_gain.py`.
    """
    fine, plain = (task_of(record_of(each)) for each in (scenario, scenario.without_earlier_share()))
    return cuped_error_ratio(
        scenario.pre_edges,
        rate=scenario.rate,
        shares=(0.5, 0.5),
        mechanism=scenario.mechanism,
        epsilon=fine.epsilon_fraction,
        devices=scenario.devices,
        correlation=scenario.correlation,
        subset_sizes=(plain.subset_size, fine.subset_size),
    )
