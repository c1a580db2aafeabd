"""Defines what the server has of a task's reports, and turns it into what statistics read.  Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    IdleReports,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    pool,
)
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.schedule import debit_times_s
from alcove.registry.policy import TaskPolicy

__all__ = [
    "Reports",
    "WindowReports",
    "aggregate_of",
    "estimate_reports",
    "pool_windows",
    "reports_per_device",
]


@dataclass(frozen=True)
class WindowReports:
    """The reports of one window of a task; fields as in `Reports`."""

    window: int
    counts: tuple[int, ...]
    reports: int
    idle: int = 0
    released: int = 0


@dataclass(frozen=True)
class Reports:
    """The reports of a task over all windows.

    Attributes:
        task: that they belong to.
        counts: of each cell in the order of the task's layout: how many reports named it, or, with aggregators, their
            noised sums, which may be negative.
        reports: how many there are; with aggregators, an estimate of how many told something.
        windows: how many windows have any; with aggregators, how many were collected.
        idle: with aggregators, noised sum of the devices that had nothing to tell.
        released: with aggregators, how many reports were added up, those of such devices among them.
        span: how many windows lie between the first and the last that have any, both included; 0: they follow each
            other, so that it is `windows`.
        others: of the experiment's other tasks, in their order; empty where it has one, or nobody reads them.
        by_window: the same window by window, rising, where arms' shares change from window to window; else empty.
        strata: with a dimension, the reports of each of its values, of which these are the sum; else empty.
    """

    task: TaskPolicy
    counts: tuple[int, ...]
    reports: int
    windows: int
    idle: int = 0
    released: int = 0
    span: int = 0
    others: "tuple[Reports, ...]" = ()
    by_window: tuple[WindowReports, ...] = ()
    strata: "tuple[Reports, ...]" = ()

    @classmethod
    def of_cells(cls, task: TaskPolicy, counts: Sequence[int], windows: int, span: int = 0) -> "Reports":
        """Return the reports of a task by randomized response, each of which named `task.subset_size` cells."""
        return cls(task, tuple(counts), sum(counts) // task.subset_size, windows, span=span)

    @classmethod
    def of_strata(cls, strata: "Sequence[Reports]") -> "Reports":
        """Return the reports of all values of a dimension together; a device reports as one value alone.

        Args:
            strata: of each value, at least one; their tasks differ in the value alone.
        """
        if len(strata) == 1:
            return strata[0]
        return cls(
            task=strata[0].task,
            counts=tuple(map(sum, zip(*(one.counts for one in strata), strict=True))),
            reports=sum(one.reports for one in strata),
            windows=max(one.windows for one in strata),
            idle=sum(one.idle for one in strata),
            released=sum(one.released for one in strata),
            span=max(one.span for one in strata),
            strata=tuple(strata),
        )

    @property
    def per_device(self) -> int:
        """How many of the reports one device can have sent, >= 1."""
        return reports_per_device(self.task, self.windows, self.span)


def pool_windows(task: TaskPolicy, windows: Sequence[WindowReports]) -> Reports:
    """Return the sum of some windows' reports, with the windows themselves.

    Args:
        task: that they belong to.
        windows: rising.
    """
    counts = tuple(sum(column) for column in zip(*(each.counts for each in windows), strict=True))
    return Reports(
        task,
        counts or (0,) * task.cell_count,
        sum(each.reports for each in windows),
        len(windows),
        sum(each.idle for each in windows),
        sum(each.released for each in windows),
        windows[-1].window - windows[0].window + 1 if windows else 0,
        by_window=tuple(windows),
    )


def reports_per_device(task: TaskPolicy, windows: int, span: int = 0) -> int:
    """Return how many reports of a task one device can have sent, >= 1: one a window, as far as its ledger pays.

    Args:
        task: that the reports belong to.
        windows: how many windows have reports.
        span: as in `Reports`.

    Source: privacy/schedule.py, for a device whose ledger keeps what is promised.
    """
    times_s = debit_times_s(task.epsilon_fraction, task.window_s, max(windows, span), may_use_reserve=task.is_guardrail)
    return max(1, min(windows, len(times_s)))


def aggregate_of(reports: Reports) -> Aggregate:
    """Return the estimated counts and the noise in them, by the task's mechanism.

    Raises:
        StatsError: the counts are more than statistics accept.
    """
    if reports.strata:  # each has its own noise
        return pool([aggregate_of(one) for one in reports.strata])
    task = reports.task
    if task.aggregation is None:
        return aggregate_from_randomized_response(
            reports.counts, task.layout, epsilon=task.epsilon_fraction, subset_size=task.subset_size
        )
    return aggregate_from_noised_histogram(
        np.asarray(reports.counts, np.float64),
        layout=task.layout,
        reports=reports.reports,
        epsilon=task.epsilon_fraction,
        windows=reports.windows,
        local_epsilon=task.aggregation.local_epsilon_fraction,
        idle=IdleReports(reports.idle, reports.released),
        is_attested=task.aggregation.token_issuer is not None,
    )


def estimate_reports(task: TaskPolicy, released: int, idle: int) -> int:
    """Return how many of a window's reports told something, an estimate in [0, released].

    Args:
        task: with aggregators.
        released: reports that were added up.
        idle: noised count of the idle cell; where devices randomize their cell first, of those that named it.
    """
    floor = None if task.aggregation is None else task.aggregation.local_epsilon_fraction
    if floor is not None:
        mechanism = RandomizedResponse(task.cell_count + 1, floor)
        other = mechanism.other_probability
        idle = round((idle - released * other) / (mechanism.keep_probability - other))
    return min(max(released - idle, 0), released)
