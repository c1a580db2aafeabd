"""Reads an experiment's reports in other ways than the one that decides.  Pure; nothing here changes a decision."""

from dataclasses import dataclass

from alcove.platform.domain.experiments.analysis import read_estimates
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import BayesianView, bayesian_view

__all__ = ["ExperimentViews", "make_views"]


@dataclass(frozen=True)
class ExperimentViews:
    """What is shown beside an experiment's results.

    Attributes:
        bayesian: posteriors in the primary metric, without the correction by the pre-period.
    """

    bayesian: BayesianView


def make_views(record: ExperimentRecord, reports: Reports) -> ExperimentViews:
    """Return what is shown beside the results.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return ExperimentViews(bayesian_view(read_estimates(record, aggregate_of(reports), reports.per_device)))
