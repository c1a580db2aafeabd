"""Derives the state of an app after an action on one of its rollouts, by a person or by the plan.  Pure."""

from dataclasses import asdict, replace
from typing import Final

from alcove.platform.domain.errors import FeatureBusyError, NoDefaultVersionError, OverrideRequiredError
from alcove.platform.domain.records import Default, RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import AnalysisRecord, Proposal, StageDecisionKind
from alcove.platform.domain.rollouts.decide import action_of, planned_action
from alcove.platform.domain.rollouts.machine import Action, transition
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.registry.policy import VersionRef

__all__ = ["ALARM", "NOT_ATTESTED", "SAME_VERSION", "advance", "follow_plan", "halt", "move", "roll_back"]

ALARM: Final = "raise alarm"  # in the audit log
NOT_ATTESTED: Final = "the reports are not attested: they pause, and a person decides what more"
SAME_VERSION: Final = "the rollout changes values of the default version, which stays"


def move(app: AppSnapshot, before: RolloutRecord, action: Action, *, now_s: int, **details: object) -> AppSnapshot:
    """Return the app after a rollout was paused or resumed; `details` go into the audit log.

    Raises:
        IllegalTransitionError: its state does not allow it.
        ValuesOverriddenError: it is resumed to be watched, and no device reports on its feature.
    """
    if action is Action.RESUME and before.plan.watched:
        app.validate_compares(before.feature)
    return app.carry_rollout(transition(before, action, now_s=now_s), action, **details)


def roll_back(app: AppSnapshot, before: RolloutRecord, *, now_s: int, reason: str, **details: object) -> AppSnapshot:
    """Return the app after a rollout was rolled back to the default version; `details` go into the audit log.

    Raises:
        IllegalTransitionError: it is over.
    """
    share = before.share_basis_points
    return move(app, before, Action.ROLL_BACK, now_s=now_s, from_basis_points=share, reason=reason, **details)


def halt(app: AppSnapshot, before: RolloutRecord, *, now_s: int, reason: str, **details: object) -> AppSnapshot:
    """Return the app after a rollout's version was forbidden in it; `details` go into the audit log.

    Raises:
        IllegalTransitionError: it was rolled back or halted before.
        InvalidFieldError: the app's halts are more than devices read.
    """
    after = transition(before, Action.HALT, now_s=now_s)
    ref = VersionRef(version=after.version, manifest_sha256=after.manifest_sha256)
    app = app.forbid(after.feature, ref).leave_default(after.feature, ref)
    default = app.defaults.get(after.feature)
    return app.carry_rollout(
        after,
        Action.HALT,
        from_basis_points=before.share_basis_points,
        reason=reason,
        halt_serial=app.halt_serial,
        default=None if default is None else default.version,
        **details,
    )


def _missing_evidence(rollout: RolloutRecord, now_s: int) -> str:
    """Return why the present stage was not found safe, in words; "" where the rollout has no stage."""
    if not 0 < rollout.stage <= len(rollout.plan.stages):
        return ""
    stage = rollout.plan.stages[rollout.stage - 1]
    lasted_s = max(0, now_s - (rollout.stage_started_at_s or now_s))
    lasts = f"it has lasted {lasted_s / 3600:.1f} h of at least {stage.minimum_s / 3600:g} h"
    said = "no analysis of its reports yet" if rollout.analysis is None else rollout.analysis.reason
    return f"stage {rollout.stage} was not found safe ({lasts}; {said})"


def advance(
    app: AppSnapshot,
    before: RolloutRecord,
    *,
    now_s: int,
    principal: str,
    share_basis_points: int = 0,
    override_reason: str = "",
    approved_by: str | None = None,
) -> AppSnapshot:
    """Return the app after a rollout's share was raised, or proposed to be where that takes a second person.

    Raises:
        IllegalTransitionError: it is neither draft nor running.
        InvalidFieldError: the share is out of its bounds.
        ShareNotRaisedError: the share is not above the present one.
        FeatureBusyError: an experiment or another rollout holds the feature.
        NoDefaultVersionError: a partial share in an app without a default version.
        OverrideRequiredError: nothing says that the version is safe, and no reason was given.
        ValuesOverriddenError: the stage would be watched, and no device reports on its feature.
        BreakingSignatureError: it would break apps in use, and the plan gives no reason for that.
        PlatformError: the version may not run, as `AppSnapshot.validate_may_run`.
    """
    analysis = _analysis_details(app, before)
    after = transition(before, Action.ADVANCE, now_s=now_s, share_basis_points=share_basis_points)
    holders = [one.experiment_id for one in app.running_experiments if one.feature == before.feature]
    holders += [
        one.rollout_id
        for one in app.live_rollouts
        if one.feature == before.feature and one.rollout_id != before.rollout_id
    ]
    if holders:
        raise FeatureBusyError(before.app, before.feature, holders[0])
    ref = VersionRef(version=after.version, manifest_sha256=after.manifest_sha256)
    app.validate_may_run(after.feature, ref)
    if not after.plan.signature_override_reason:
        app.validate_signature(after.feature, ref)
    is_complete = after.state is RolloutState.COMPLETED
    if after.control_basis_points:
        app.validate_compares(after.feature)
    if not is_complete and after.feature not in app.defaults:
        raise NoDefaultVersionError(after.app, after.feature, share_basis_points)
    if analysis is None and not override_reason:
        raise OverrideRequiredError(after.feature, after.version, _missing_evidence(before, now_s))
    if approved_by is None and app.rules[after.feature].must_approve_rollouts:
        proposal = Proposal(principal, now_s, after.share_basis_points, override_reason)
        return app.with_rollout(
            replace(before, proposal=proposal, updated_at_s=now_s, revision=before.revision + 1)
        ).with_entry(
            "propose advance",
            before.rollout_id,
            to_basis_points=after.share_basis_points,
            override_reason=override_reason or None,
        )
    if is_complete:
        app = app.with_default(Default(after.app, after.feature, after.version, after.manifest_sha256, after.values))
    return app.carry_rollout(
        after,
        Action.ADVANCE,
        from_basis_points=before.share_basis_points,
        to_basis_points=after.share_basis_points,
        override_reason=override_reason or None,
        **(analysis or {}),
        **({} if approved_by is None else {"approved_by": approved_by}),
    )


def follow_plan(
    app: AppSnapshot, before: RolloutRecord, found: AnalysisRecord, *, now_s: int, principal: str
) -> AppSnapshot:
    """Return the app after an analysis of a rollout's stage: the analysis is kept, and the plan's action is taken.

    Raises:
        PlatformError: what the plan asks for cannot be done now.
    """
    rollout, shown = replace(before, analysis=found), asdict(found)
    action = action_of(rollout, found.decision, is_attested=found.is_attested)
    match action:
        case Action.PAUSE:
            planned = planned_action(rollout, found.decision)
            limit = {} if planned in (None, action) else {"planned": planned, "because": NOT_ATTESTED}
            return move(app, rollout, action, now_s=now_s, reason=found.reason, analysis=shown, **limit)
        case Action.ROLL_BACK:
            return roll_back(app, rollout, now_s=now_s, reason=found.reason, analysis=shown)
        case Action.HALT if _is_default(app, rollout):  # its control group runs the version, too
            details = {"analysis": shown, "planned": action, "because": SAME_VERSION}
            return roll_back(app, rollout, now_s=now_s, reason=found.reason, **details)
        case Action.HALT:
            return halt(app, rollout, now_s=now_s, reason=found.reason, analysis=shown)
        case Action.ADVANCE if rollout.proposal is None:  # else it waits for the second person already
            return advance(app, rollout, now_s=now_s, principal=principal)
        case _:
            app = app.with_rollout(rollout)
    is_alarmed = before.analysis is not None and before.analysis.decision is StageDecisionKind.ALARM
    if found.decision is StageDecisionKind.ALARM and not is_alarmed:
        app = app.with_entry(ALARM, before.rollout_id, analysis=shown)
    return app


def _is_default(app: AppSnapshot, rollout: RolloutRecord) -> bool:
    """Tell whether a rollout changes values of the version that the other devices run."""
    default = app.defaults.get(rollout.feature)
    return default is not None and default.manifest_sha256 == rollout.manifest_sha256


def _analysis_details(app: AppSnapshot, before: RolloutRecord) -> dict[str, object] | None:
    """Return what says that the version may advance, as it is audited; None: nothing does."""
    if before.plan.watched:
        if before.stage == 0:
            return {"analysis": "the first stage, under guardrails"}
        found = before.analysis
        return {"analysis": asdict(found)} if found is not None and found.decision is StageDecisionKind.READY else None
    experiment = app.stopped.get(before.feature)
    if experiment is None or experiment.decision is None or experiment.decision.winner is None:
        return None
    winner = experiment.arms[experiment.decision.winner]
    is_same = (winner.manifest_sha256, winner.values) == (before.manifest_sha256, before.values)
    return {"winner_of": experiment.experiment_id} if is_same else None
