"""Creates, changes, advances, pauses, rolls back and halts rollouts, as an operator asks."""

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from alcove.platform.domain.audience import validate_audience, validate_wider
from alcove.platform.domain.errors import (
    ApprovalRequiredError,
    IllegalTransitionError,
    OwnApprovalError,
    ResourceNotFoundError,
)
from alcove.platform.domain.field_validation import validate_field, validate_reason
from alcove.platform.domain.parameter_values import GivenValues, parameters_of, plain_values, read_values
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.machine import Action, allowed_actions
from alcove.platform.domain.rollouts.plan import validate_plan, validate_update
from alcove.platform.domain.snapshots import rollout as actions
from alcove.platform.services.loading import load_rollout
from alcove.platform.services.own_metrics import find_own_guardrails
from alcove.platform.services.policy.decide import validate_may_run
from alcove.platform.services.saving import save_app
from alcove.platform.store.rollouts import add_rollout, delete_rollout, get_rollout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version
from alcove.registry.canonical import AppName
from alcove.registry.policy import VersionRef

__all__ = ["RolloutSpec", "advance", "approve", "create", "delete", "halt", "pause", "resume", "roll_back", "update"]


@dataclass(frozen=True)
class RolloutSpec:
    """A rollout as asked for.

    Attributes:
        app, feature, version: whose devices go where.
        plan: how it advances.
        audience: in the words of `registry.policy.audience`, "" for every device.
        values: of parameters of the version; a draft keeps those that it was made with.
    """

    app: str
    feature: str
    version: str
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    audience: str = ""
    values: GivenValues = ()


async def create(uow: UnitOfWork, spec: RolloutSpec) -> RolloutRecord:
    """Write a draft.

    Raises:
        InvalidFieldError: the app's name, the plan or the audience is malformed, or a value is none that the version's
            team allows.
        ResourceNotFoundError: the version was never published.
        VersionHaltedError: the version is forbidden in the app.
        VersionRevokedError: it is forbidden in every app.
        NotReleasedError: it is not released, and the feature's rules ask for that.
        BreakingSignatureError: it would break apps in use, and the plan gives no reason for that.
        BelowMinVersionError: its team forbids versions as old as this one.
    """
    app = validate_field("app", AppName, spec.app)
    published = await get_version(uow.session, spec.feature, spec.version)
    ref = VersionRef(version=published.version, manifest_sha256=published.manifest_sha256)
    parameters = parameters_of(published.manifest)
    values = read_values("values", f"{spec.feature} {spec.version}", parameters, spec.values)
    may_break = bool(spec.plan.signature_override_reason)
    own = await find_own_guardrails(uow.session, spec.feature, spec.plan.own_guardrails)
    plan, audience = validate_plan(replace(spec.plan, own_guardrails=own)), validate_audience(spec.audience)
    await validate_may_run(uow, app, spec.feature, ref, may_break_apps=may_break)
    record = RolloutRecord(
        sequence=0,
        rollout_id=f"ro-{secrets.token_hex(6)}",
        app=app,
        feature=spec.feature,
        version=spec.version,
        manifest_sha256=published.manifest_sha256,
        salt=secrets.token_hex(16),
        state=RolloutState.DRAFT,
        share_basis_points=0,
        created_at_s=uow.now_s,
        updated_at_s=uow.now_s,
        policy_serial=0,
        plan=plan,
        audience=audience,
        values=values,
    )
    record = await add_rollout(uow.session, record)
    details: dict[str, object] = {"plan": _details(record.plan)} if record.plan.stages else {}
    details |= {"audience": record.audience} if record.audience else {}
    details |= {"values": plain_values(values)} if values else {}
    why = record.plan.signature_override_reason
    details |= {"signature_override_reason": why} if why else {}
    await uow.audit("create rollout", record.rollout_id, app=app, feature=spec.feature, version=spec.version, **details)
    return record


async def delete(uow: UnitOfWork, rollout_id: str) -> RolloutRecord:
    """Delete a draft, of which no device ever knew; return it as it was.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is no draft any more: it is part of the app's history.
    """
    record = await get_rollout(uow.session, rollout_id)
    if record.state is not RolloutState.DRAFT:
        raise IllegalTransitionError("rollout", rollout_id, record.state, Action.DELETE, allowed_actions(record.state))
    await delete_rollout(uow.session, record)
    await uow.audit("delete rollout", rollout_id, app=record.app, feature=record.feature, version=record.version)
    return record


async def update(uow: UnitOfWork, rollout_id: str, change_of: Callable[[RolloutSpec], RolloutSpec]) -> RolloutRecord:
    """Change the plan or the audience.

    Args:
        uow: the mutation under way.
        rollout_id: which rollout.
        change_of: returns what is asked for from what there is; app, feature and version stay as they are.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is over.
        InvalidFieldError: the plan or the audience is malformed, or changes what a begun rollout is compared by.
        ApprovalRequiredError: it would reach more devices, where the feature's rules ask for a second person.
    """
    app, before = await load_rollout(uow, rollout_id)
    if before.state not in (RolloutState.DRAFT, RolloutState.RUNNING, RolloutState.PAUSED):
        allowed = allowed_actions(before.state)
        raise IllegalTransitionError("rollout", rollout_id, before.state, "update", allowed)
    wanted = change_of(RolloutSpec(before.app, before.feature, before.version, before.plan, before.audience))
    own = await find_own_guardrails(uow.session, before.feature, wanted.plan.own_guardrails, before.plan.own_guardrails)
    # A draft is asked anew what its guardrails need; what has begun goes on as it was asked.
    questions = () if before.state is RolloutState.DRAFT else before.plan.questions
    plan = validate_plan(replace(wanted.plan, own_guardrails=own, questions=questions))
    audience = validate_audience(wanted.audience)
    validate_update(before, plan)
    if before.state is not RolloutState.DRAFT:
        validate_wider(before.audience, audience)
        if audience != before.audience and app.rules[before.feature].must_approve_rollouts:
            raise ApprovalRequiredError(
                f"widen the audience of rollout {rollout_id}",
                before.feature,
                "must_approve_rollouts",
                "roll it back and create one with the wider audience",
            )
    after = replace(
        before,
        plan=plan,
        audience=audience,
        updated_at_s=uow.now_s,
        proposal=None,
        revision=before.revision + 1,
    )
    revised = app.with_rollout(after)
    if after.state is not RolloutState.DRAFT:
        revised = revised.decide_policy()
        revised = revised.with_rollout(replace(after, policy_serial=revised.policy_serial))
    revised = revised.with_entry(
        "update rollout", rollout_id, plan=_details(plan), audience=audience, before=_details(before.plan)
    )
    return (await save_app(uow, app, revised)).rollouts[rollout_id]


async def advance(uow: UnitOfWork, rollout_id: str, *, share_basis_points: int, override_reason: str) -> RolloutRecord:
    """Raise the share; at 10 000 complete the rollout and make its version the default.

    Where the feature's rules ask for a second person, the advance is proposed only.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is neither draft nor running.
        InvalidFieldError: the share or the reason is out of its bounds.
        ShareNotRaisedError: the share is not above the present one.
        FeatureBusyError: an experiment or another rollout holds the feature.
        NoDefaultVersionError: a partial share in an app without a default version.
        OverrideRequiredError: nothing says that the version is safe, and no reason was given.
        ValuesOverriddenError: the stage would be watched, and the values of the feature are overridden.
        NotReleasedError: it is not released, and the feature's rules ask for that.
        BreakingSignatureError: it would break apps in use, and the plan gives no reason for that.
        VersionHaltedError: the version is forbidden in the app.
        BelowMinVersionError: its team forbids versions as old as this one.
    """
    before, rollout = await load_rollout(uow, rollout_id)
    reason = validate_reason("override_reason", override_reason) if override_reason else ""
    after = actions.advance(
        before,
        rollout,
        now_s=uow.now_s,
        principal=uow.principal,
        share_basis_points=share_basis_points,
        override_reason=reason,
    )
    return (await save_app(uow, before, after)).rollouts[rollout_id]


async def approve(uow: UnitOfWork, rollout_id: str) -> RolloutRecord:
    """Make the advance that somebody else has proposed.

    Raises:
        ResourceNotFoundError: there is no such rollout, or nothing is proposed.
        OwnApprovalError: the same person proposed it.
        PlatformError: as `advance`.
    """
    before, rollout = await load_rollout(uow, rollout_id)
    proposal = rollout.proposal
    if proposal is None:
        raise ResourceNotFoundError("proposal of rollout", rollout_id)
    if proposal.proposed_by == uow.principal:
        raise OwnApprovalError(f"the advance of rollout {rollout_id}", uow.principal)
    after = actions.advance(
        before,
        rollout,
        now_s=uow.now_s,
        principal=proposal.proposed_by,
        share_basis_points=proposal.share_basis_points,
        override_reason=proposal.override_reason,
        approved_by=uow.principal,
    )
    return (await save_app(replace(uow, principal=proposal.proposed_by), before, after)).rollouts[rollout_id]


async def pause(uow: UnitOfWork, rollout_id: str, *, reason: str = "") -> RolloutRecord:
    """Refuse to advance until resumed; devices keep what they have.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is not running.
        InvalidFieldError: the reason is too long.
    """
    details = {"reason": validate_reason("reason", reason)} if reason else {}
    before, rollout = await load_rollout(uow, rollout_id)
    after = actions.move(before, rollout, Action.PAUSE, now_s=uow.now_s, **details)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


async def resume(uow: UnitOfWork, rollout_id: str, *, reason: str = "") -> RolloutRecord:
    """Allow to advance again.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is not paused.
        InvalidFieldError: the reason is too long.
        ValuesOverriddenError: it is watched, and the values of the feature are overridden.
    """
    details = {"reason": validate_reason("reason", reason)} if reason else {}
    before, rollout = await load_rollout(uow, rollout_id)
    after = actions.move(before, rollout, Action.RESUME, now_s=uow.now_s, **details)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


async def roll_back(uow: UnitOfWork, rollout_id: str, *, reason: str) -> RolloutRecord:
    """Return all devices to the default version.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it is over.
        InvalidFieldError: the reason is empty or too long.
    """
    reason = validate_reason("reason", reason)
    before, rollout = await load_rollout(uow, rollout_id)
    after = actions.roll_back(before, rollout, now_s=uow.now_s, reason=reason)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


async def halt(uow: UnitOfWork, rollout_id: str, *, reason: str) -> RolloutRecord:
    """Forbid the version in the app: as this rollout, as an arm of an experiment or as the default.

    The default before takes the place of a default that is halted; where none is known the feature leaves the policy,
    and devices go to their previous version or to the one inside the app.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        IllegalTransitionError: it was rolled back or halted before; a new one may be drafted and halted.
        InvalidFieldError: the reason is empty or too long, or the app's halts are more than devices read.
    """
    reason = validate_reason("reason", reason)
    before, rollout = await load_rollout(uow, rollout_id)
    after = actions.halt(before, rollout, now_s=uow.now_s, reason=reason)
    return (await save_app(uow, before, after)).rollouts[rollout_id]


def _details(plan: RolloutPlan) -> dict[str, object]:
    """Return a plan as plain JSON values."""
    details: dict[str, object] = asdict(plan)
    details["aggregation"] = None if plan.aggregation is None else plan.aggregation.model_dump(mode="json")
    return details
