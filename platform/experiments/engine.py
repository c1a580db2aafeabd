"""What happens when an operator creates, starts and stops an experiment?"""

import secrets
from dataclasses import dataclass, replace

from alcove.platform.core import limits
from alcove.platform.core.checks import check, fields_named
from alcove.platform.core.errors import FeatureBusyError, IllegalTransitionError, InvalidFieldError
from alcove.platform.core.records import ArmRecord, Default, ExperimentRecord, ExperimentState, StoredDecision
from alcove.platform.experiments.machine import started, stopped
from alcove.platform.experiments.results import UNREADABLE, ExperimentResults, evaluate, read_results
from alcove.platform.policy_compiler.compiler import experiment_policy
from alcove.platform.policy_compiler.decide import check_may_run, decide_policy
from alcove.platform.stats import ArgumentError, DecisionKind, StatsError
from alcove.platform.store.change import Change
from alcove.platform.store.experiments import add_experiment, get_experiment, running_experiments, save_experiment
from alcove.platform.store.rollouts import live_rollouts
from alcove.platform.store.versions import find_default, get_version, set_default
from alcove.privacy.limits import EPSILON_PER_DAY, MIN_EPSILON
from alcove.registry.canonical import AppName
from alcove.registry.limits import ARMS_MAX
from alcove.registry.policy import VersionRef
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ArmSpec", "ExperimentSpec", "create", "read", "start", "stop"]


@dataclass(frozen=True)
class ArmSpec:
    """One side of an experiment as asked for."""

    name: str
    version: str
    share_permyriad: int


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


async def create(change: Change, spec: ExperimentSpec) -> ExperimentRecord:
    """Write a draft.

    Raises:
        InvalidFieldError: a field is out of its bounds.
        NotFoundError: a version was never published.
        VersionRevokedError: an arm's version is forbidden in every app.
        VersionHaltedError: an arm's version is forbidden in the app.
        NotReleasedError: the feature's rules ask for released versions.
        BelowFloorError: the team forbids versions as old as an arm's.
    """
    arms = tuple([await _arm(change, spec, arm) for arm in spec.arms])
    record = ExperimentRecord(
        sequence=0,
        experiment_id=f"ex-{secrets.token_hex(6)}",
        app=check("app", AppName, spec.app),
        feature=spec.feature,
        salt=secrets.token_hex(16),
        arms=arms,
        state=ExperimentState.DRAFT,
        epsilon=spec.epsilon,
        latency_edges_ms=spec.latency_edges_ms,
        window_s=spec.window_s,
        minimum_cohort=spec.minimum_cohort,
        created_at_s=change.now_s,
        started_at_s=None,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
    )
    _check(record)
    record = await add_experiment(change.session, record)
    await change.audit(
        "create experiment",
        record.experiment_id,
        app=record.app,
        feature=record.feature,
        arms=[{"name": arm.name, "version": arm.version, "share_permyriad": arm.share_permyriad} for arm in arms],
        epsilon=record.epsilon,
    )
    return record


async def start(change: Change, experiment_id: str) -> ExperimentRecord:
    """Put the arms into the policy and open the collection.

    Raises:
        NotFoundError: there is no such experiment.
        IllegalTransitionError: it is not a draft.
        FeatureBusyError: a rollout or another experiment holds the feature.
        VersionHaltedError: an arm's version is forbidden in the app.
        BelowFloorError: the team forbids versions as old as an arm's.
    """
    session = change.session
    record = started(await get_experiment(session, experiment_id), now_s=change.now_s)
    await _check_free(session, record)
    for arm in record.arms:
        ref = VersionRef(version=arm.version, manifest_sha256=arm.manifest_sha256)
        await check_may_run(change, record.app, record.feature, ref)
    if await find_default(session, record.app, record.feature) is None:
        control = record.arms[0]
        await set_default(session, Default(record.app, record.feature, control.version, control.manifest_sha256))
    await save_experiment(session, record)
    record = replace(record, policy_serial=await decide_policy(change, record.app))
    await save_experiment(session, record)
    await change.audit("start experiment", experiment_id, policy_serial=record.policy_serial, task_id=record.task_id)
    return record


async def stop(change: Change, experiment_id: str) -> ExperimentRecord:
    """Take the arms from the policy, close the collection and keep what held.

    Reports that statistics refuse never keep an experiment on devices: it ends inconclusive, with the reason.

    Raises:
        NotFoundError: there is no such experiment.
        IllegalTransitionError: it is not running.
    """
    session = change.session
    before = await get_experiment(session, experiment_id)
    if before.state is not ExperimentState.RUNNING:
        raise IllegalTransitionError("experiment", experiment_id, before.state, "stop")
    decision = await _decide(session, before)
    record = stopped(before, decision, now_s=change.now_s)
    await save_experiment(session, record)
    record = replace(record, policy_serial=await decide_policy(change, record.app))
    await save_experiment(session, record)
    await change.audit(
        "stop experiment",
        experiment_id,
        policy_serial=record.policy_serial,
        decision=decision.kind,
        winner=decision.winner,
        reason=decision.reason,
    )
    return record


async def read(session: AsyncSession, experiment_id: str) -> tuple[ExperimentRecord, ExperimentResults]:
    """Return an experiment and what its reports say.

    Raises:
        NotFoundError: there is no such experiment.
        IllegalTransitionError: it has not started.
        StatsError: the counts are more than statistics accept.
    """
    record = await get_experiment(session, experiment_id)
    if record.state is ExperimentState.DRAFT:
        raise IllegalTransitionError("experiment", experiment_id, record.state, "read results")
    return record, await read_results(session, record)


async def _decide(session: AsyncSession, record: ExperimentRecord) -> StoredDecision:
    try:
        return (await read_results(session, record)).decision
    except (StatsError, ArithmeticError, ValueError) as error:
        reason = f"the results could not be read: {error}"
        return StoredDecision(str(DecisionKind.INCONCLUSIVE), None, UNREADABLE, reason)


async def _arm(change: Change, spec: ExperimentSpec, arm: ArmSpec) -> ArmRecord:
    version = await get_version(change.session, spec.feature, arm.version)
    ref = VersionRef(version=version.version, manifest_sha256=version.manifest_sha256)
    await check_may_run(change, spec.app, spec.feature, ref)
    return ArmRecord(arm.name, arm.version, version.manifest_sha256, arm.share_permyriad)


def _check(record: ExperimentRecord) -> None:
    """Refuse what the policy would refuse at the start, and what makes no comparison."""
    lowest, highest = limits.MINIMUM_COHORT
    if not lowest <= record.minimum_cohort <= highest:
        raise InvalidFieldError("minimum_cohort", f"{lowest} to {highest}", record.minimum_cohort)
    if not 2 <= len(record.arms) <= ARMS_MAX:
        raise InvalidFieldError("arms", f"2 to {ARMS_MAX}", len(record.arms))
    if any(arm.share_permyriad < 1 for arm in record.arms):
        raise InvalidFieldError("arms.share_permyriad", "at least 1", 0)
    versions = [arm.version for arm in record.arms]
    if len(set(versions)) != len(versions):
        raise InvalidFieldError("arms.version", "a different version in each arm", versions)
    if record.window_s < 1:
        raise InvalidFieldError("window_s", "at least 1", record.window_s)
    with fields_named("experiment"):
        task = experiment_policy(replace(record, started_at_s=record.created_at_s)).task
    if not MIN_EPSILON <= task.epsilon_fraction <= EPSILON_PER_DAY:
        raise InvalidFieldError("epsilon", f"{float(MIN_EPSILON):g} to {EPSILON_PER_DAY}", record.epsilon)
    try:
        evaluate(record, task, [0] * task.cell_count, 0)  # what could not be read at the end is refused now
    except ArgumentError as error:
        raise InvalidFieldError(error.name, error.bound, error.value) from None


async def _check_free(session: AsyncSession, record: ExperimentRecord) -> None:
    holders = [r.rollout_id for r in await live_rollouts(session, record.app) if r.feature == record.feature]
    running = await running_experiments(session, record.app)
    holders += [e.experiment_id for e in running if e.feature == record.feature]
    if holders:
        raise FeatureBusyError(record.app, record.feature, holders[0])
