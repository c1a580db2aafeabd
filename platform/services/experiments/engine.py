"""Creates, changes, starts and stops experiments, as an operator asks, and reads their results."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from alcove.platform.domain import limits
from alcove.platform.domain.audience import validate_audience
from alcove.platform.domain.comparisons import experiment_policy
from alcove.platform.domain.errors import InvalidFieldError, ResultsRefusedError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.analysis import UNREADABLE_ERRORS, ExperimentResults, evaluate
from alcove.platform.domain.experiments.bandit import validate_bandit
from alcove.platform.domain.experiments.claims import validate_claims
from alcove.platform.domain.experiments.machine import Action, mark_started, validate_action
from alcove.platform.domain.experiments.own_guardrails import validate_own
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.questions import strata_count, validate_dimension
from alcove.platform.domain.experiments.secondary import validate_secondary
from alcove.platform.domain.experiments.views import ExperimentViews, make_views
from alcove.platform.domain.field_validation import (
    fields_named,
    validate_epsilon,
    validate_etag,
    validate_field,
    validate_reason,
)
from alcove.platform.domain.mechanism import largest_epsilon, mechanism_of
from alcove.platform.domain.parameter_values import GivenValues, parameters_of, plain_values, read_values
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState, SegmentRecord
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.snapshots import experiment as actions
from alcove.platform.services.loading import load_experiment
from alcove.platform.services.own_metrics import find_own_metrics
from alcove.platform.services.policy.decide import validate_may_run
from alcove.platform.services.reports import read_experiment_reports
from alcove.platform.services.saving import save_app
from alcove.platform.stats import ArgumentError
from alcove.platform.store.experiments import (
    add_experiment,
    delete_experiment,
    get_experiment,
    running_experiments,
    save_experiment,
)
from alcove.platform.store.layers import get_layer
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version
from alcove.registry.canonical import AppName
from alcove.registry.limits import ARMS_MAX, POLICY_BUCKETS, WINDOW_MIN_S
from alcove.registry.policy import VersionRef
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ArmSpec", "ExperimentSpec", "create", "delete", "read", "start", "stop", "update"]


@dataclass(frozen=True)
class ArmSpec:
    """One side of an experiment as asked for; `values` are of parameters of its version."""

    name: str
    version: str
    share_basis_points: int
    values: GivenValues = ()


@dataclass(frozen=True)
class ExperimentSpec:
    """An experiment as asked for; 0 stands for a default as the API says."""

    app: str
    feature: str
    arms: tuple[ArmSpec, ...]
    epsilon: str
    latency_edges_ms: tuple[float, ...]
    window_s: int
    minimum_cohort: int
    plan: ExperimentPlan = field(default_factory=ExperimentPlan)
    audience: str = ""
    segment: SegmentRecord | None = None


async def create(uow: UnitOfWork, spec: ExperimentSpec) -> ExperimentRecord:
    """Write a draft, with what its plan needs.

    Raises:
        InvalidFieldError: a field is out of its bounds.
        ResourceNotFoundError: a version was never published, or there is no such layer.
        VersionRevokedError: an arm's version is forbidden in every app.
        VersionHaltedError: an arm's version is forbidden in the app.
        NotReleasedError: an arm's version is not released, and the feature's rules ask for that.
        BreakingSignatureError: an arm would break apps in use.
        BelowMinVersionError: the team forbids versions as old as an arm's.
        OverlappingClaimError: it has an audience or a segment, and a device could be in it and in one that runs.
    """
    arms = tuple([await _arm(uow, spec, arm) for arm in spec.arms])
    plan = await find_own_metrics(uow.session, spec.feature, spec.plan)
    record = ExperimentRecord(
        sequence=0,
        experiment_id=f"ex-{secrets.token_hex(6)}",
        app=validate_field("app", AppName, spec.app),
        feature=spec.feature,
        salt=secrets.token_hex(16),
        arms=arms,
        state=ExperimentState.DRAFT,
        epsilon=spec.epsilon,
        latency_edges_ms=spec.latency_edges_ms,
        window_s=spec.window_s,
        minimum_cohort=spec.minimum_cohort,
        created_at_s=uow.now_s,
        started_at_s=None,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
        plan=plan,
    )
    record = await add_experiment(uow.session, await _place_in_layer(uow, spec, record))
    await uow.audit(
        "create experiment",
        record.experiment_id,
        app=record.app,
        feature=record.feature,
        arms=[_arm_details(arm) for arm in arms],
        epsilon=record.epsilon,
        mechanism=mechanism_of(record.plan.aggregation),
    )
    return record


async def delete(uow: UnitOfWork, experiment_id: str, *, etag: str = "") -> ExperimentRecord:
    """Delete a draft, of which no device ever knew; return it as it was.

    Raises:
        ResourceNotFoundError: there is no such experiment.
        StaleEtagError: it was changed since the caller read it.
        IllegalTransitionError: it is no draft any more: it is part of the app's history.
    """
    record = await _load_known(uow, experiment_id, etag)
    validate_action(record, Action.DELETE)
    await delete_experiment(uow.session, record)
    await uow.audit("delete experiment", experiment_id, app=record.app, feature=record.feature)
    return record


async def update(
    uow: UnitOfWork, experiment_id: str, revise: Callable[[ExperimentSpec], ExperimentSpec], *, etag: str = ""
) -> ExperimentRecord:
    """Change a draft to what `revise` makes of it; everything is checked and planned as at its creation.

    Raises:
        ResourceNotFoundError: there is no such experiment or layer, or a version was never published.
        StaleEtagError: it was changed since the caller read it.
        IllegalTransitionError: it is no draft any more.
        PlatformError: as `create`.
    """
    before = await _load_known(uow, experiment_id, etag)
    validate_action(before, Action.UPDATE)
    spec = revise(_spec_of(before))
    plan = await find_own_metrics(uow.session, before.feature, spec.plan, before.plan)
    record = replace(
        before,
        arms=tuple([await _arm(uow, spec, arm) for arm in spec.arms]),
        epsilon=spec.epsilon,
        latency_edges_ms=spec.latency_edges_ms,
        window_s=spec.window_s,
        minimum_cohort=spec.minimum_cohort,
        plan=plan,
    )
    record = await save_experiment(uow.session, await _place_in_layer(uow, spec, record))
    changed = sorted(name for name, value in vars(spec).items() if value != getattr(_spec_of(before), name))
    await uow.audit("update experiment", experiment_id, fields=changed)
    return record


async def start(uow: UnitOfWork, experiment_id: str, *, etag: str = "") -> ExperimentRecord:
    """Put the arms into the policy and open the collection.

    Raises:
        ResourceNotFoundError: there is no such experiment.
        StaleEtagError: it was changed since the caller read it.
        IllegalTransitionError: it is not a draft.
        FeatureBusyError: a rollout holds the feature.
        OverlappingClaimError: a device could be in it and in another that runs.
        ValuesOverriddenError: the values of the feature are overridden.
        VersionHaltedError: an arm's version is forbidden in the app.
        NotReleasedError: an arm's version is not released, and the feature's rules ask for that.
        BreakingSignatureError: an arm would break apps in use, or is not called as the others are.
        BelowMinVersionError: the team forbids versions as old as an arm's.
    """
    before, draft = await load_experiment(uow, experiment_id)
    validate_etag(etag, draft.revision, kind="experiment", name=experiment_id)
    after = actions.start(before, mark_started(draft, now_s=uow.now_s))
    return (await save_app(uow, before, after)).experiments[experiment_id]


async def stop(uow: UnitOfWork, experiment_id: str, *, reason: str = "", etag: str = "") -> ExperimentRecord:
    """Take the arms from the policy, close the collection and keep what held; an interim analysis that is due is made.

    Reports that statistics refuse never keep an experiment on devices: it ends inconclusive, with the reason.

    Args:
        uow: of the mutation.
        experiment_id: of the experiment.
        reason: why it is stopped, for the audit log; "": nothing was said.
        etag: of the experiment as the caller knows it; "": whatever it is now.

    Raises:
        InvalidFieldError: the reason is too long, or has characters that cannot be printed.
        ResourceNotFoundError: there is no such experiment.
        StaleEtagError: it was changed since the caller read it.
        IllegalTransitionError: it is not running.
    """
    reason = validate_reason("reason", reason) if reason else ""
    before, record = await load_experiment(uow, experiment_id)
    validate_etag(etag, record.revision, kind="experiment", name=experiment_id)
    validate_action(record, Action.STOP)
    reports = await read_experiment_reports(uow.session, record)
    after = await asyncio.to_thread(actions.stop, before, record, reports, reason, now_s=uow.now_s)
    return (await save_app(uow, before, after)).experiments[experiment_id]


async def read(
    session: AsyncSession, experiment_id: str, *, with_cells: bool = False
) -> tuple[ExperimentRecord, ExperimentResults, ExperimentViews]:
    """Return an experiment, what its reports say, and what is shown beside it.

    Raises:
        ResourceNotFoundError: there is no such experiment.
        IllegalTransitionError: it has not started.
        ResultsRefusedError: statistics refuse the reports.
    """
    record = await get_experiment(session, experiment_id)
    validate_action(record, Action.READ_RESULTS)
    reports = await read_experiment_reports(session, record)
    try:
        results = evaluate(record, reports)
        # A quarter of a second for eight arms: other calls go on meanwhile.
        views = await asyncio.to_thread(make_views, record, reports, with_cells=with_cells)
    except UNREADABLE_ERRORS as error:
        raise ResultsRefusedError(experiment_id, str(error)) from error
    return record, results, views


async def _load_known(uow: UnitOfWork, experiment_id: str, etag: str) -> ExperimentRecord:
    """Return the experiment, as its caller knows it.

    Raises:
        ResourceNotFoundError: there is no such experiment.
        StaleEtagError: it was changed since.
    """
    record = await get_experiment(uow.session, experiment_id)
    validate_etag(etag, record.revision, kind="experiment", name=experiment_id)
    return record


def _spec_of(record: ExperimentRecord) -> ExperimentSpec:
    return ExperimentSpec(
        app=record.app,
        feature=record.feature,
        arms=tuple(
            ArmSpec(
                arm.name, arm.version, arm.share_basis_points, tuple((each.name, each.value) for each in arm.values)
            )
            for arm in record.arms
        ),
        epsilon=record.epsilon,
        latency_edges_ms=record.latency_edges_ms,
        window_s=record.window_s,
        minimum_cohort=record.minimum_cohort,
        plan=record.plan,
        audience=record.audience,
        segment=record.segment,
    )


async def _arm(uow: UnitOfWork, spec: ExperimentSpec, arm: ArmSpec) -> ArmRecord:
    version = await get_version(uow.session, spec.feature, arm.version)
    ref = VersionRef(version=version.version, manifest_sha256=version.manifest_sha256)
    await validate_may_run(uow, spec.app, spec.feature, ref)
    subject = f"{spec.feature} {version.version}"
    values = read_values(f"arms.{arm.name}.values", subject, parameters_of(version.manifest), arm.values)
    return ArmRecord(arm.name, arm.version, version.manifest_sha256, arm.share_basis_points, values)


def _arm_details(arm: ArmRecord) -> dict[str, object]:
    details: dict[str, object] = {"name": arm.name, "version": arm.version}
    details["share_basis_points"] = arm.share_basis_points
    return details | ({"values": plain_values(arm.values)} if arm.values else {})


async def _place_in_layer(uow: UnitOfWork, spec: ExperimentSpec, record: ExperimentRecord) -> ExperimentRecord:
    """Return a draft with the audience and the segment that are asked for, checked as a whole.

    Raises:
        InvalidFieldError: a field is out of its bounds.
        ResourceNotFoundError: there is no such layer.
        OverlappingClaimError: a device could be in it and in one that runs.
    """
    record = replace(record, audience=validate_audience(spec.audience), segment=spec.segment)
    if record.segment is not None:
        await get_layer(uow.session, record.app, record.segment.layer)
    record = _validate_draft(record)
    if record.segment is not None or record.audience:  # a draft for everybody may wait for another's end
        validate_claims(record, await running_experiments(uow.session, record.app))
    return record


def _validate_draft(record: ExperimentRecord) -> ExperimentRecord:
    """Return it with what its plan needs; refuse what the policy would refuse at the start, and what compares nothing.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    lowest, highest = limits.MINIMUM_COHORT
    if not lowest <= record.minimum_cohort <= highest:
        raise InvalidFieldError("minimum_cohort", f"{lowest} to {highest}", record.minimum_cohort)
    if not 2 <= len(record.arms) <= ARMS_MAX:
        raise InvalidFieldError("arms", f"2 to {ARMS_MAX}", len(record.arms))
    if any(arm.share_basis_points < 1 for arm in record.arms):
        raise InvalidFieldError("arms.share_basis_points", "at least 1", 0)
    names = [arm.name for arm in record.arms]
    if len(set(names)) != len(names):
        raise InvalidFieldError("arms.name", "a different name for each arm", names)
    total = sum(arm.share_basis_points for arm in record.arms)
    if total > POLICY_BUCKETS:
        bound = f"shares that add up to at most {POLICY_BUCKETS} basis points (100 %)"
        raise InvalidFieldError("arms.share_basis_points", bound, total)
    sides = [(arm.version, arm.values) for arm in record.arms]
    if len(set(sides)) != len(sides):
        bound = "a different version in each arm, or different values of its parameters"
        raise InvalidFieldError("arms.version", bound, [arm.version for arm in record.arms])
    if record.window_s < WINDOW_MIN_S:
        raise InvalidFieldError("window_s", f"at least {WINDOW_MIN_S}, an hour", record.window_s)
    validate_epsilon("epsilon", record.epsilon, largest_epsilon(record.plan.aggregation, is_guardrail=False))
    validate_own(record)
    validate_bandit(record)
    record = replace(record, plan=validate_dimension(record.plan))
    with fields_named("experiment"):
        tasks = experiment_policy(replace(record, started_at_s=record.created_at_s)).tasks
    task, count = tasks[0], strata_count(record.plan)
    record = replace(record, plan=make_plan(record, task))
    try:
        validate_secondary(record)
        none = [Reports(each, (0,) * each.cell_count, 0, 0) for each in tasks]
        evaluate(
            record, replace(Reports.of_strata(none[:count]), others=tuple(none[count:]))
        )  # what could not be read at the end is refused now
    except ArgumentError as error:
        raise InvalidFieldError(error.name, error.bound, error.value) from None
    return record
