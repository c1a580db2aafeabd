"""What do the reports of an experiment say?  The statistics themselves know nothing of this server."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from alcove.platform.core.records import ExperimentRecord, StoredDecision
from alcove.platform.experiments.task import OUTCOMES, bin_values_ms, task_of
from alcove.platform.stats import Comparison, aggregate_from_randomised_response, compare
from alcove.platform.store.reports import cell_counts, window_count
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ALPHA", "UNREADABLE", "ExperimentResults", "evaluate", "read_results"]

ALPHA = 0.05  # error of each interval over all looks together
UNREADABLE = "unreadable"  # code of the decision where statistics refuse the reports


@dataclass(frozen=True)
class ExperimentResults:
    """Everything that the reports show so far.

    Attributes:
        windows: distinct windows with a report.
        counts: reports per randomised cell, over all windows.
        comparison: estimates, intervals and the decision.
    """

    windows: int
    counts: tuple[int, ...]
    comparison: Comparison

    @property
    def decision(self) -> StoredDecision:
        """The decision as it is kept when the experiment stops."""
        decision = self.comparison.decision
        return StoredDecision(str(decision.kind), decision.winner, str(decision.code), decision.reason)


async def read_results(session: AsyncSession, record: ExperimentRecord) -> ExperimentResults:
    """Return what the reports of an experiment that has started say.

    Raises:
        StatsError: the counts are more than statistics accept.
    """
    task = task_of(record)
    counts = await cell_counts(session, task.task_id, task.cell_count)
    return evaluate(record, task, counts, await window_count(session, task.task_id))


def evaluate(record: ExperimentRecord, task: TaskPolicy, counts: Sequence[int], windows: int) -> ExperimentResults:
    """Return what `counts`, one per cell of the task, say.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    aggregate = aggregate_from_randomised_response(
        counts,
        arms=task.arm_count,
        outcomes=OUTCOMES,
        bins=task.latency_bin_count,
        epsilon=Fraction(record.epsilon),
    )
    total = sum(arm.share_permyriad for arm in record.arms)
    comparison = compare(
        aggregate,
        bin_values_ms=bin_values_ms(record.latency_edges_ms),
        alpha=ALPHA,
        minimum_cohort=record.minimum_cohort,
        expected_shares=[arm.share_permyriad / total for arm in record.arms],
        reports_per_device=max(1, windows),
    )
    return ExperimentResults(windows, tuple(counts), comparison)
