"""Reads an experiment's reports in other ways than the one that decides.  Pure; nothing here changes a decision."""

from dataclasses import dataclass

from alcove.platform.domain.experiment_records import SecondaryRecord
from alcove.platform.domain.experiments.analysis import read_epochs, read_estimates
from alcove.platform.domain.experiments.bandit import AllocationView, read_allocation
from alcove.platform.domain.experiments.cell_table import CellTable, tabulate_cells
from alcove.platform.domain.experiments.dimension_view import DimensionView, compare_strata
from alcove.platform.domain.experiments.secondary import compare_secondary
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import BayesianView, bayesian_view, bayesian_view_of_epochs

__all__ = ["ExperimentViews", "make_views"]


@dataclass(frozen=True)
class ExperimentViews:
    """What is shown beside an experiment's results.

    Attributes:
        bayesian: posteriors in the primary metric, without the correction by the pre-period; where a bandit moves
            shares, over all epochs of equal shares.
        secondary: each arm against the control in each secondary metric.
        dimension: the same by the values of the experiment's dimension; None: it has none.
        cells: every cell of the reports; None where nobody asked for them.
        allocation: how a bandit moved the shares; None where they are fixed.
        is_at_horizon: whether `secondary` is what the last planned analysis kept; False: always valid, as of now.
    """

    bayesian: BayesianView
    secondary: tuple[SecondaryRecord, ...]
    is_at_horizon: bool
    dimension: DimensionView | None = None
    cells: CellTable | None = None
    allocation: AllocationView | None = None


def make_views(record: ExperimentRecord, reports: Reports, *, with_cells: bool = False) -> ExperimentViews:
    """Return what is shown beside the results, with each cell where `with_cells` asks for them.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    aggregate = aggregate_of(reports)
    kept = record.interim_analyses[-1].secondary if record.interim_analyses else ()
    estimates = read_estimates(record, aggregate, reports.per_device)
    bayesian = bayesian_view(estimates)
    if record.plan.bandit is not None:
        bayesian = bayesian_view_of_epochs(read_epochs(record, reports) or (estimates,))
    return ExperimentViews(
        bayesian=bayesian,
        secondary=kept or compare_secondary(record, reports),
        is_at_horizon=bool(kept),
        dimension=compare_strata(record, reports),
        cells=tabulate_cells(record, reports) if with_cells else None,
        allocation=None if record.plan.bandit is None else read_allocation(record, reports, bayesian),
    )
