"""Derives the state of an app after a look at the shares of an experiment that a bandit moves.  Pure."""

from dataclasses import dataclass

from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.experiments.analysis import UNREADABLE_ERRORS, evaluate, find_alarm, read_epochs
from alcove.platform.domain.experiments.bandit import (
    NOTHING_TO_MOVE,
    closed_reports,
    find_obstacle,
    mark_held,
    mark_moved,
    propose_shares,
)
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.domain.snapshots.experiment import stop
from alcove.platform.stats import BayesianView, GuardKind, bayesian_view_of_epochs
from alcove.registry.errors import RegistryError
from alcove.registry.policy import VersionRef

__all__ = ["move_shares"]


@dataclass(frozen=True)
class _Look:
    """What closed windows say: why shares stay ("": they may move), whether an arm harms, and the posterior."""

    obstacle: str
    is_harmful: bool = False
    view: BayesianView | None = None


def move_shares(app: AppSnapshot, record: ExperimentRecord, reports: Reports, *, now_s: int) -> AppSnapshot:
    """Return the app after a bandit's look at its reports: with moved shares, with the same ones, or without its arms.

    A guardrail that finds an arm harmful ends the experiment, as an operator's stop does. Shares move only where every
    arm may run; else, and where reports say too little, they stay, and the experiment keeps the reason.

    Args:
        app: as it is.
        record: of a running experiment whose shares a bandit moves.
        reports: with those of each window; the windows that are closed are read.
        now_s: seconds since 1970.
    """
    bandit = record.plan.bandit
    if bandit is None:
        return app
    closed = closed_reports(reports, now_s)
    look = _look_at(record, closed)
    if look.is_harmful:
        return stop(app, record, reports, now_s=now_s)
    obstacle = _find_forbidden(app, record) or look.obstacle
    after = record
    if obstacle or look.view is None:
        after = mark_held(record, closed, obstacle, now_s=now_s)
    else:
        shares = propose_shares(record, bandit, look.view)
        if shares == record.allocation.changes[-1].shares:
            after = mark_held(record, closed, NOTHING_TO_MOVE, now_s=now_s)
        else:
            after = mark_moved(record, closed, look.view, shares, now_s=now_s)
    if after.allocation.held:
        return app.with_experiment(after)
    change = after.allocation.changes[-1]
    return app.carry_experiment(
        after,
        "move shares of",
        shares=list(change.shares),
        before=list(record.allocation.changes[-1].shares),
        chances=list(change.chances),
        reports=change.reports,
        first_window=change.first_window,
    )


def _look_at(record: ExperimentRecord, reports: Reports) -> _Look:
    try:
        results, epochs = evaluate(record, reports), read_epochs(record, reports)
        alarm = find_alarm(record, aggregate_of(reports))
        obstacle = find_obstacle(record, results.comparison, epochs, alarm)
        view = None if obstacle else bayesian_view_of_epochs(epochs)
    except UNREADABLE_ERRORS as error:
        return _Look(f"the reports could not be read: {error}")
    is_trusted = not (alarm or results.comparison.sample_ratio.mismatched)
    is_harmful = any(verdict.kind is GuardKind.HARMFUL for of_arm in results.verdicts for verdict in of_arm)
    if view is not None and not view.arms:
        obstacle = view.obstacle
    return _Look(obstacle, is_harmful and is_trusted, view)


def _find_forbidden(app: AppSnapshot, record: ExperimentRecord) -> str:
    """Return why an arm may not run in the app; "": all may."""
    try:
        for arm in record.arms:
            app.validate_may_run(record.feature, VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256))
    except (PlatformError, RegistryError) as error:
        return f"an arm may not run: {error}"
    return ""
