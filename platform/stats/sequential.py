"""Defines what a test of differences must offer, and `AlwaysValid`, the test that may be read at any time.

A test says how many standard errors an interval reaches and what p-value a difference has.  `AlwaysValid` holds however
often it is asked (`confidence_sequence.py`); `GroupSequential` holds at a few planned analyses and is sharper there
(`group_sequential.py`).
"""

from dataclasses import dataclass
from typing import Protocol

from alcove.platform.stats import confidence_sequence
from alcove.platform.stats.always_valid_p import always_valid_p
from alcove.platform.stats.limits import DEFAULT_PLANNED_REPORTS


class SequentialTest(Protocol):
    """Intervals and p-values of differences whose error stays below alpha over all analyses."""

    @property
    def planned_reports(self) -> int:
        """Reports at which always-valid intervals beside the test's own are tightest; fixed at the start."""
        ...

    def critical_value(self, *, reports: int, alpha: float) -> float:
        """Return how many standard errors an interval reaches to each side; infinite where nothing can be said.

        Raises:
            ArgumentError: alpha not in (0, 1), or the test does not hold at this number of reports.
        """
        ...

    def p_value(self, value: float, standard_error: float, *, reports: int, alpha: float) -> float:
        """Return the two-sided p-value of "no difference"; `alpha` is the error that the test is tuned for.

        Raises:
            ArgumentError: an argument is out of its bounds, or the test does not hold at this number of reports.
        """
        ...


@dataclass(frozen=True)
class AlwaysValid:
    """A test that holds at every number of reports.

    Attributes:
        planned_reports: where it is sharpest, in [1, 10**12]; fixed at the start.
    """

    planned_reports: int = DEFAULT_PLANNED_REPORTS

    def critical_value(self, *, reports: int, alpha: float) -> float:
        """Return how many standard errors the always-valid interval reaches to each side.

        Raises:
            ArgumentError: an argument is out of its bounds.
        """
        return confidence_sequence.critical_value(reports=reports, alpha=alpha, planned_reports=self.planned_reports)

    def p_value(self, value: float, standard_error: float, *, reports: int, alpha: float) -> float:
        """Return the always-valid p-value, by the same rho as the interval at `alpha`.

        Raises:
            ArgumentError: an argument is out of its bounds.
        """
        return always_valid_p(value, standard_error, reports=reports, planned_reports=self.planned_reports, alpha=alpha)
