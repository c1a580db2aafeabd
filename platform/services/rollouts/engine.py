"""Creates, changes, advances, pauses, rolls back and halts rollouts, as an operator asks."""

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from alcove.platform.domain.audience import check_wider, checked_audience
from alcove.platform.domain.checks import check, check_reason
from alcove.platform.domain.errors import (
    FeatureBusyError,
    IllegalTransitionError,
    NoDefaultVersionError,
    NotFoundError,
    OverrideRequiredError,
    OwnApprovalError,
)
from alcove.platform.domain.records import Default, RolloutRecord, RolloutState, VersionRecord
from alcove.platform.domain.rollout_records import Judgement, Proposal, RolloutPlan
from alcove.platform.domain.rollouts.machine import Action, allowed_actions, transition
from alcove.platform.domain.rollouts.plan import check_update, checked_plan
from alcove.platform.services.policy.decide import check_may_run, decide_halt, decide_policy, leave_default
from alcove.platform.store.catalog import rules_of
from alcove.platform.store.experiments import last_stopped, running_experiments
from alcove.platform.store.rollouts import add_rollout, get_rollout, live_rollouts, save_rollout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import find_default, get_version, set_default
from alcove.registry.canonical import AppName
from alcove.registry.policy import VersionRef
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["RolloutSpec", "advance", "approve", "create", "halt", "pause", "resume", "roll_back", "update"]


@dataclass(frozen=True)
class RolloutSpec:
    """A rollout as asked for; `audience` in the words of `registry.policy.audience`, "" for every device."""

    app: str
    feature: str
    version: str
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    audience: str = ""


async def create(uow: UnitOfWork, spec: RolloutSpec) -> RolloutRecord:
    """Write a draft.

    Raises:
        InvalidFieldError: the app's name, the plan or the audience is malformed.
        NotFoundError: the version was never published.
        VersionHaltedError: the version is forbidden in the app.
        VersionRevokedError: it is forbidden in every app.
        NotReleasedError: the feature's rules ask for a released version.
        BelowFloorError: its team forbids versions as old as this one.
    """
    app = check("app", AppName, spec.app)
    published = await get_version(uow.session, spec.feature, spec.version)
    await check_may_run(uow, app, spec.feature, _ref(published))
    record = RolloutRecord(
        sequence=0,
        rollout_id=f"ro-{secrets.token_hex(6)}",
        app=app,
        feature=spec.feature,
        version=spec.version,
        manifest_sha256=published.manifest_sha256,
        salt=secrets.token_hex(16),
        state=RolloutState.DRAFT,
        share_permyriad=0,
        created_at_s=uow.now_s,
        updated_at_s=uow.now_s,
        policy_serial=0,
        plan=checked_plan(spec.plan),
        audience=checked_audience(spec.audience),
    )
    record = await add_rollout(uow.session, record)
    details: dict[str, object] = {"plan": asdict(record.plan)} if record.plan.stages else {}
    details |= {"audience": record.audience} if record.audience else {}
    await uow.audit("create rollout", record.rollout_id, app=app, feature=spec.feature, version=spec.version, **details)
    return record


async def update(uow: UnitOfWork, rollout_id: str, change_of: Callable[[RolloutSpec], RolloutSpec]) -> RolloutRecord:
    """Change the plan or the audience.

    Args:
        uow: the mutation under way.
        rollout_id: which rollout.
        change_of: returns what is asked for from what there is; app, feature and version stay as they are.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is over.
        InvalidFieldError: the plan or the audience is malformed, or changes what a begun rollout is compared by.
    """
    before = await get_rollout(uow.session, rollout_id)
    if before.state not in (RolloutState.DRAFT, RolloutState.RUNNING, RolloutState.PAUSED):
        allowed = allowed_actions(before.state)
        raise IllegalTransitionError("rollout", rollout_id, before.state, "update", allowed)
    wanted = change_of(RolloutSpec(before.app, before.feature, before.version, before.plan, before.audience))
    plan, audience = checked_plan(wanted.plan), checked_audience(wanted.audience)
    check_update(before, plan)
    if before.state is not RolloutState.DRAFT:
        check_wider(before.audience, audience)
    after = replace(before, plan=plan, audience=audience, updated_at_s=uow.now_s, proposal=None)
    after = await save_rollout(uow.session, after)
    if after.state is not RolloutState.DRAFT:
        after = replace(after, policy_serial=await decide_policy(uow, after.app))
        after = await save_rollout(uow.session, after)
    await uow.audit("update rollout", rollout_id, plan=asdict(plan), audience=audience, before=asdict(before.plan))
    return after


async def advance(
    uow: UnitOfWork, rollout_id: str, *, share_permyriad: int, override_reason: str, approved_by: str | None = None
) -> RolloutRecord:
    """Raise the share; at 10 000 complete the rollout and make its version the default.

    Where the feature's rules ask for a second person, the advance is proposed only.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is neither draft nor running.
        InvalidFieldError: the share or the reason is out of its bounds.
        ShareNotRaisedError: the share is not above the present one.
        FeatureBusyError: an experiment or another rollout holds the feature.
        NoDefaultVersionError: a partial share in an app without a default version.
        OverrideRequiredError: nothing says that the version is safe, and no reason was given.
        VersionHaltedError: the version is forbidden in the app.
        BelowFloorError: its team forbids versions as old as this one.
    """
    session = uow.session
    before = await get_rollout(session, rollout_id)
    after = transition(before, Action.ADVANCE, now_s=uow.now_s, share_permyriad=share_permyriad)
    await _check_free(session, before)
    await check_may_run(uow, after.app, after.feature, _ref(after))
    is_complete = after.state is RolloutState.COMPLETED
    if not is_complete and await find_default(session, after.app, after.feature) is None:
        raise NoDefaultVersionError(after.app, after.feature, share_permyriad)
    reason = check_reason("override_reason", override_reason) if override_reason else None
    evidence = await _evidence(session, before)
    if evidence is None and reason is None:
        raise OverrideRequiredError(after.feature, after.version)
    if approved_by is None and (await rules_of(session, after.feature)).must_approve_rollouts:
        return await _propose(uow, before, after.share_permyriad, reason or "")
    if is_complete:
        await set_default(session, Default(after.app, after.feature, after.version, after.manifest_sha256))
    return await _save(
        uow,
        after,
        Action.ADVANCE,
        from_permyriad=before.share_permyriad,
        to_permyriad=after.share_permyriad,
        override_reason=reason,
        **(evidence or {}),
        **({} if approved_by is None else {"approved_by": approved_by}),
    )


async def approve(uow: UnitOfWork, rollout_id: str) -> RolloutRecord:
    """Make the advance that somebody else has proposed.

    Raises:
        NotFoundError: there is no such rollout, or nothing is proposed.
        OwnApprovalError: whoever approves has proposed it.
        PlatformError: as `advance`.
    """
    before = await get_rollout(uow.session, rollout_id)
    if before.proposal is None:
        raise NotFoundError("proposal of rollout", rollout_id)
    if before.proposal.proposed_by == uow.principal:
        raise OwnApprovalError(f"the advance of rollout {rollout_id}", uow.principal)
    proposer = replace(uow, principal=before.proposal.proposed_by)
    return await advance(
        proposer,
        rollout_id,
        share_permyriad=before.proposal.share_permyriad,
        override_reason=before.proposal.override_reason,
        approved_by=uow.principal,
    )


async def pause(uow: UnitOfWork, rollout_id: str, **details: object) -> RolloutRecord:
    """Refuse to advance until resumed; devices keep what they have; `details` go into the audit log.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is not running.
    """
    before = await get_rollout(uow.session, rollout_id)
    return await _save(uow, transition(before, Action.PAUSE, now_s=uow.now_s), Action.PAUSE, **details)


async def resume(uow: UnitOfWork, rollout_id: str) -> RolloutRecord:
    """Allow to advance again.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is not paused.
    """
    before = await get_rollout(uow.session, rollout_id)
    return await _save(uow, transition(before, Action.RESUME, now_s=uow.now_s), Action.RESUME)


async def roll_back(uow: UnitOfWork, rollout_id: str, *, reason: str, **details: object) -> RolloutRecord:
    """Return all devices to the default version; `details` go into the audit log.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it is over.
        InvalidFieldError: the reason is empty or too long.
    """
    reason = check_reason("reason", reason)
    before = await get_rollout(uow.session, rollout_id)
    after = transition(before, Action.ROLL_BACK, now_s=uow.now_s)
    return await _save(uow, after, Action.ROLL_BACK, from_permyriad=before.share_permyriad, reason=reason, **details)


async def halt(uow: UnitOfWork, rollout_id: str, *, reason: str, **details: object) -> RolloutRecord:
    """Forbid the version in the app, whoever runs it: as this rollout, as an arm of an experiment or as the default.

    `details` go into the audit log.

    The default before takes the place of a default that is halted; where none is known the feature leaves the policy,
    and devices go to their previous version or to the one inside the app.

    Raises:
        NotFoundError: there is no such rollout.
        IllegalTransitionError: it was rolled back or halted before; a new one may be drafted and halted.
        InvalidFieldError: the reason is empty or too long, or the app's halts are more than devices read.
    """
    reason = check_reason("reason", reason)
    before = await get_rollout(uow.session, rollout_id)
    after = transition(before, Action.HALT, now_s=uow.now_s)
    serial = await decide_halt(uow, after.app, after.feature, _ref(after))
    default = await leave_default(uow, after.app, after.feature, _ref(after))
    return await _save(
        uow,
        after,
        Action.HALT,
        from_permyriad=before.share_permyriad,
        reason=reason,
        halt_serial=serial,
        default=None if default is None else default.version,
        **details,
    )


async def _save(uow: UnitOfWork, after: RolloutRecord, action: Action, **details: object) -> RolloutRecord:
    """Write the rollout, decide the policy that it makes, and audit."""
    session = uow.session
    after = await save_rollout(session, after)
    if after.state is not RolloutState.ROLLED_BACK or after.policy_serial:  # a draft was in no policy
        after = replace(after, policy_serial=await decide_policy(uow, after.app))
        after = await save_rollout(session, after)
    await uow.audit(f"{action} rollout", after.rollout_id, policy_serial=after.policy_serial, **details)
    return after


async def _propose(uow: UnitOfWork, before: RolloutRecord, share_permyriad: int, reason: str) -> RolloutRecord:
    proposal = Proposal(uow.principal, uow.now_s, share_permyriad, reason)
    after = await save_rollout(uow.session, replace(before, proposal=proposal, updated_at_s=uow.now_s))
    await uow.audit("propose advance", before.rollout_id, to_permyriad=share_permyriad, override_reason=reason or None)
    return after


async def _evidence(session: AsyncSession, before: RolloutRecord) -> dict[str, object] | None:
    """Return what says that the version may go on, as it is audited; None: nothing does."""
    if before.plan.guardrails:
        if before.stage == 0:
            return {"evidence": "the first stage, under guardrails"}
        found = before.examination
        return {"evidence": asdict(found)} if found is not None and found.judgement is Judgement.READY else None
    winner_of = await _winning_experiment(session, before)
    return None if winner_of is None else {"winner_of": winner_of}


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
