"""What happens when an operator creates, advances, pauses, takes back or halts a rollout?"""

import secrets
from dataclasses import replace

from alcove.platform.core.checks import check, check_reason
from alcove.platform.core.errors import FeatureBusyError, NoDefaultVersionError, OverrideRequiredError
from alcove.platform.core.records import Default, RolloutRecord, RolloutState, VersionRecord
from alcove.platform.policy_compiler.decide import check_may_run, decide_halt, decide_policy, leave_default
from alcove.platform.rollouts.machine import Action, transition
from alcove.platform.store.change import Change
from alcove.platform.store.experiments import last_stopped, running_experiments
from alcove.platform.store.rollouts import add_rollout, get_rollout, live_rollouts, save_rollout
from alcove.platform.store.versions import find_default, get_version, set_default
from alcove.registry.canonical import AppName
from alcove.registry.policy import VersionRef
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["advance", "create", "halt", "pause", "resume", "roll_back"]


async def create(change: Change, *, app: str, feature: str, version: str) -> RolloutRecord:
    """Write a draft.

    Raises:
        InvalidFieldError: the app's name is malformed.
        NotFoundError: the version was never published.
        VersionHaltedError: the version is forbidden in the app.
        BelowFloorError: its team forbids versions as old as this one.
    """
    app = check("app", AppName, app)
    published = await get_version(change.session, feature, version)
    await check_may_run(change, app, feature, _ref(published))
    record = RolloutRecord(
        sequence=0,
        rollout_id=f"ro-{secrets.token_hex(6)}",
        app=app,
        feature=feature,
        version=version,
        manifest_sha256=published.manifest_sha256,
        salt=secrets.token_hex(16),
        state=RolloutState.DRAFT,
        share_permyriad=0,
        created_at_s=change.now_s,
        updated_at_s=change.now_s,
        policy_serial=0,
    )
    record = await add_rollout(change.session, record)
    await change.audit("create rollout", record.rollout_id, app=app, feature=feature, version=version)
    return record


async def advance(change: Change, rollout_id: str, *, share_permyriad: int, override_reason: str) -> RolloutRecord:
    """Raise the share; at 10 000 complete the rollout and make its version the default.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is neither draft nor running.
        InvalidFieldError: the share or the reason is out of its bounds.
        ShareNotRaisedError: the share is not above the present one.
        FeatureBusyError: an experiment or another rollout holds the feature.
        NoDefaultVersionError: a partial share in an app without a default version.
        OverrideRequiredError: no experiment named the version the winner, and no reason was given.
        VersionHaltedError: the version is forbidden in the app.
        BelowFloorError: its team forbids versions as old as this one.
    """
    session = change.session
    before = await get_rollout(session, rollout_id)
    after = transition(before, Action.ADVANCE, now_s=change.now_s, share_permyriad=share_permyriad)
    await _check_free(session, before)
    await check_may_run(change, after.app, after.feature, _ref(after))
    is_complete = after.state is RolloutState.COMPLETED
    if not is_complete and await find_default(session, after.app, after.feature) is None:
        raise NoDefaultVersionError(after.app, after.feature, share_permyriad)
    evidence = await _winning_experiment(session, after)
    reason = check_reason("override_reason", override_reason) if override_reason else None
    if evidence is None and reason is None:
        raise OverrideRequiredError(after.feature, after.version)
    if is_complete:
        await set_default(session, Default(after.app, after.feature, after.version, after.manifest_sha256))
    return await _save(
        change,
        after,
        Action.ADVANCE,
        from_permyriad=before.share_permyriad,
        to_permyriad=after.share_permyriad,
        winner_of=evidence,
        override_reason=reason,
    )


async def pause(change: Change, rollout_id: str) -> RolloutRecord:
    """Refuse to advance until resumed; devices keep what they have.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is not running.
    """
    before = await get_rollout(change.session, rollout_id)
    return await _save(change, transition(before, Action.PAUSE, now_s=change.now_s), Action.PAUSE)


async def resume(change: Change, rollout_id: str) -> RolloutRecord:
    """Allow to advance again.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is not paused.
    """
    before = await get_rollout(change.session, rollout_id)
    return await _save(change, transition(before, Action.RESUME, now_s=change.now_s), Action.RESUME)


async def roll_back(change: Change, rollout_id: str, *, reason: str) -> RolloutRecord:
    """Return all devices to the default version.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is over.
        InvalidFieldError: the reason is empty or too long.
    """
    reason = check_reason("reason", reason)
    before = await get_rollout(change.session, rollout_id)
    after = transition(before, Action.ROLL_BACK, now_s=change.now_s)
    return await _save(change, after, Action.ROLL_BACK, from_permyriad=before.share_permyriad, reason=reason)


async def halt(change: Change, rollout_id: str, *, reason: str) -> RolloutRecord:
    """Forbid the version in the app, whoever runs it: as this rollout, as an arm of an experiment or as the default.

    The default before takes the place of a default that is halted; where none is known the feature leaves the policy,
    and devices go to their previous version or to the one inside the app.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it was rolled back or halted before; a new one may be drafted and halted.
        InvalidFieldError: the reason is empty or too long, or the app's halts are more than devices read.
    """
    reason = check_reason("reason", reason)
    before = await get_rollout(change.session, rollout_id)
    after = transition(before, Action.HALT, now_s=change.now_s)
    serial = await decide_halt(change, after.app, after.feature, _ref(after))
    default = await leave_default(change, after.app, after.feature, _ref(after))
    return await _save(
        change,
        after,
        Action.HALT,
        from_permyriad=before.share_permyriad,
        reason=reason,
        halt_serial=serial,
        default=None if default is None else default.version,
    )


async def _save(change: Change, after: RolloutRecord, action: Action, **details: object) -> RolloutRecord:
    """Write the rollout, decide the policy that it makes, and audit."""
    session = change.session
    await save_rollout(session, after)
    if after.state is not RolloutState.ROLLED_BACK or after.policy_serial:  # a draft was in no policy
        after = replace(after, policy_serial=await decide_policy(change, after.app))
        await save_rollout(session, after)
    await change.audit(f"{action} rollout", after.rollout_id, policy_serial=after.policy_serial, **details)
    return after


async def _winning_experiment(session: AsyncSession, rollout: RolloutRecord) -> str | None:
    """Return the id of the feature's last experiment if it named this version the winner."""
    experiment = await last_stopped(session, rollout.app, rollout.feature)
    if experiment is None or experiment.decision is None or experiment.decision.winner is None:
        return None
    winner = experiment.arms[experiment.decision.winner]
    return experiment.experiment_id if winner.manifest_sha256 == rollout.manifest_sha256 else None


async def _check_free(session: AsyncSession, rollout: RolloutRecord) -> None:
    running = await running_experiments(session, rollout.app)
    holders = [e.experiment_id for e in running if e.feature == rollout.feature]
    live = await live_rollouts(session, rollout.app)
    holders += [r.rollout_id for r in live if r.feature == rollout.feature and r.rollout_id != rollout.rollout_id]
    if holders:
        raise FeatureBusyError(rollout.app, rollout.feature, holders[0])


def _ref(record: VersionRecord | RolloutRecord) -> VersionRef:
    return VersionRef(version=record.version, manifest_sha256=record.manifest_sha256)
