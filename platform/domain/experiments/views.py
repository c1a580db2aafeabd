"""Reads an experiment's reports in other ways than the one that decides.  Pure; nothing here changes a decision."""

from dataclasses import dataclass

from alcove.platform.domain.experiment_records import SecondaryRecord
from alcove.platform.domain.experiments.analysis import read_estimates
from alcove.platform.domain.experiments.cell_table import CellTable, tabulate_cells
from alcove.platform.domain.experiments.secondary import compare_secondary
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import BayesianView, bayesian_view

__all__ = ["ExperimentViews", "make_views"]


@dataclass(frozen=True)
class ExperimentViews:
    """What is shown beside an experiment's results.

    Attributes:
        bayesian: posteriors in the primary metric, without the correction by the pre-period.
        secondary: each arm against the control in each secondary metric.
        cells: every cell of the reports; None where nobody asked for them.
        is_at_horizon: whether `secondary` is what the last planned analysis kept; False: always valid, as of now.
    """

    bayesian: BayesianView
    secondary: tuple[SecondaryRecord, ...]
    is_at_horizon: bool
    cells: CellTable | None = None


def make_views(record: ExperimentRecord, reports: Reports, *, with_cells: bool = False) -> ExperimentViews:
    """Return what is shown beside the results, with each cell where `with_cells` asks for them.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    aggregate = aggregate_of(reports)
    kept = record.interim_analyses[-1].secondary if record.interim_analyses else ()
    return ExperimentViews(
        bayesian=bayesian_view(read_estimates(record, aggregate, reports.per_device)),
        secondary=kept or compare_secondary(record, reports),
        is_at_horizon=bool(kept),
        cells=tabulate_cells(record, reports) if with_cells else None,
    )
