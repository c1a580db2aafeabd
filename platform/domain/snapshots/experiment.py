"""Derives the state of an app after an action on one of its experiments.  Pure."""

from contextlib import suppress
from dataclasses import asdict, replace

from alcove.platform.domain.errors import FeatureBusyError
from alcove.platform.domain.experiments.analysis import UNREADABLE, UNREADABLE_ERRORS, evaluate
from alcove.platform.domain.experiments.claims import validate_claims
from alcove.platform.domain.experiments.interim import analyze_interim, is_due
from alcove.platform.domain.experiments.machine import mark_stopped
from alcove.platform.domain.records import Default, ExperimentRecord, StoredDecision
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.snapshots.app import AppSnapshot, Entry
from alcove.platform.stats import DecisionKind
from alcove.registry.policy import VersionRef

__all__ = ["analyze_if_due", "start", "stop"]


def start(app: AppSnapshot, record: ExperimentRecord) -> AppSnapshot:
    """Return the app with an experiment that starts: its arms are in the policy.

    Raises:
        FeatureBusyError: a rollout holds the feature.
        OverlappingClaimError: a device could be in it and in another that runs.
        ValuesOverriddenError: the values of its feature are overridden: no device would report.
        BreakingSignatureError: an arm would break apps in use: arms are called alike.
        PlatformError: an arm's version may not run, as `AppSnapshot.validate_may_run`.
    """
    holders = [rollout.rollout_id for rollout in app.live_rollouts if rollout.feature == record.feature]
    if holders:
        raise FeatureBusyError(record.app, record.feature, holders[0])
    app.validate_compares(record.feature)
    validate_claims(record, app.running_experiments)
    for arm in record.arms:
        app.validate_may_run(record.feature, VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256))
    if record.feature not in app.defaults:
        control = record.arms[0]
        app = app.with_default(
            Default(record.app, record.feature, control.version, control.manifest_sha256, control.values)
        )
    for arm in record.arms:
        app.validate_signature(record.feature, VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256))
    return app.carry_experiment(record, "start", task_id=record.task_id)


def stop(
    app: AppSnapshot, record: ExperimentRecord, reports: Reports, stop_reason: str = "", *, now_s: int
) -> AppSnapshot:
    """Return the app without a running experiment's arms, and the experiment with what held.

    A planned interim analysis that is due is made.  Reports that statistics refuse never keep an experiment on devices:
    it ends inconclusive, with the reason.  The entry has `reason`, that of the decision, and `stop_reason`, the
    caller's, where there is one.
    """
    with suppress(*UNREADABLE_ERRORS):  # the decision says what they refuse
        record, entry = analyze_if_due(record, reports, now_s=now_s)
        app = app if entry is None else replace(app, entries=(*app.entries, entry))
    try:
        decision = evaluate(record, reports).decision
    except UNREADABLE_ERRORS as error:
        reason = f"the results could not be read: {error}"
        decision = StoredDecision(str(DecisionKind.INCONCLUSIVE), None, UNREADABLE, reason)
    return app.carry_experiment(
        mark_stopped(record, decision, now_s=now_s),
        "stop",
        decision=decision.kind,
        winner=decision.winner,
        reason=decision.reason,
        **({"stop_reason": stop_reason} if stop_reason else {}),
    )


def analyze_if_due(record: ExperimentRecord, reports: Reports, *, now_s: int) -> tuple[ExperimentRecord, Entry | None]:
    """Return a running experiment with the planned interim analysis that is due, and its entry; None: none is due.

    Raises:
        StatsError: statistics refuse its reports.
    """
    if not is_due(record, reports.reports):
        return record, None
    found = analyze_interim(record, reports, now_s=now_s)
    record = replace(record, interim_analyses=(*record.interim_analyses, found))
    details = {
        "interim_analysis": len(record.interim_analyses),
        "reports": found.reports,
        "fraction": found.fraction,
        "boundary": found.boundary,
        "decision": asdict(found.decision),
    }
    return record, Entry("analyze experiment", record.experiment_id, details)
