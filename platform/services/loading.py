"""Loads an app as a snapshot: each kind of rows once, in the transaction of the mutation that acts on it."""

from collections.abc import Iterable
from dataclasses import replace

from alcove.platform.domain.records import ExperimentRecord, RolloutRecord, VersionRecord
from alcove.platform.domain.snapshots.app import AppSnapshot, PolicyDocument
from alcove.platform.store.catalog import rules_of
from alcove.platform.store.defaults import defaults_of_app
from alcove.platform.store.experiments import get_experiment, last_stopped, running_experiments
from alcove.platform.store.layers import find_holdout, layers_of_app
from alcove.platform.store.manifests import declared_parameters, program_sizes, signatures_of
from alcove.platform.store.publications import last_publication, policies_newest_first
from alcove.platform.store.readouts import find_running_readout
from alcove.platform.store.rollouts import get_rollout, live_rollouts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.usage import apps_using
from alcove.platform.store.value_overrides import overrides_of_feature, standing_overrides
from alcove.platform.store.versions import get_version, version_states
from alcove.registry.policy import VersionRef, halt_from_bytes
from alcove.registry.reinstatements import without_reinstated

__all__ = ["load_app", "load_apps_using", "load_experiment", "load_overridden", "load_rollout"]


async def load_app(uow: UnitOfWork, app: str) -> AppSnapshot:
    """Return an app."""
    rollouts = await live_rollouts(uow.session, app)
    return await _load(uow, app, rollouts, await running_experiments(uow.session, app))


async def load_rollout(uow: UnitOfWork, rollout_id: str) -> tuple[AppSnapshot, RolloutRecord]:
    """Return a rollout and its app, with what an action on it reads.

    Raises:
        ResourceNotFoundError: there is no such rollout.
    """
    session = uow.session
    rollout = await get_rollout(session, rollout_id)
    rollouts = await live_rollouts(session, rollout.app)
    experiments = await running_experiments(session, rollout.app)
    stopped = await last_stopped(session, rollout.app, rollout.feature)
    ref = VersionRef(version=rollout.version, manifest_sha256=rollout.manifest_sha256)
    app = await _load(uow, rollout.app, [*rollouts, rollout], experiments, feature=rollout.feature, version=ref)
    return replace(app, stopped={} if stopped is None else {rollout.feature: stopped}), rollout


async def load_experiment(uow: UnitOfWork, experiment_id: str) -> tuple[AppSnapshot, ExperimentRecord]:
    """Return an experiment and its app, with what an action on it reads.

    Raises:
        ResourceNotFoundError: there is no such experiment.
    """
    session = uow.session
    experiment = await get_experiment(session, experiment_id)
    experiments = [*await running_experiments(session, experiment.app), experiment]
    rollouts = await live_rollouts(session, experiment.app)
    return await _load(uow, experiment.app, rollouts, experiments, feature=experiment.feature), experiment


async def load_overridden(uow: UnitOfWork, app: str, feature: str) -> AppSnapshot:
    """Return an app with what the versions of a feature declare, whose values are to be overridden or not any more.

    Those of other overridden features are there as well.
    """
    snapshot = await load_app(uow, app)
    digests = snapshot.digests_of({feature})
    return replace(snapshot, parameters={**snapshot.parameters, **await declared_parameters(uow.session, digests)})


async def load_apps_using(uow: UnitOfWork, feature: str, version: str) -> tuple[VersionRecord, list[AppSnapshot]]:
    """Return a version, and every app that ever used it, by name.

    Raises:
        ResourceNotFoundError: it was never published.
    """
    session = uow.session
    apps = await apps_using(session, feature, version)
    rollouts = [await live_rollouts(session, app) for app in apps]
    experiments = [await running_experiments(session, app) for app in apps]
    record = await get_version(session, feature, version)
    ref = VersionRef(version=record.version, manifest_sha256=record.manifest_sha256)
    rows = zip(apps, rollouts, experiments, strict=True)
    return record, [
        await _load(uow, app, moving, compared, feature=feature, version=ref) for app, moving, compared in rows
    ]


async def _load(
    uow: UnitOfWork,
    app: str,
    rollouts: Iterable[RolloutRecord],
    experiments: Iterable[ExperimentRecord],
    *,
    feature: str = "",
    version: VersionRef | None = None,
) -> AppSnapshot:
    """Return an app with its rollouts and experiments, and what is known of a feature that is acted on.

    Where `version` is the feature's default, the former default that may take its place is read as well.
    """
    session = uow.session
    defaults = {default.feature: default for default in await defaults_of_app(session, app)}
    states = await version_states(session, feature) if feature else {}
    moving = {rollout.rollout_id: rollout for rollout in rollouts}
    compared = {experiment.experiment_id: experiment for experiment in experiments}
    default = defaults.get(feature)
    rules = {feature: await rules_of(session, feature)} if feature else {}
    last = await last_publication(session, "policy", app)
    publication = await last_publication(session, "halt", app)
    earlier = policies_newest_first(session, app)  # read only as far as is needed
    halt = None if publication is None else halt_from_bytes(publication.document)
    snapshot = AppSnapshot(
        app=app,
        defaults=defaults,
        rollouts=moving,
        experiments=compared,
        last_policy=None if last is None else PolicyDocument(last.serial, last.document),
        last_halt=halt,
        standing_halt=None if halt is None else without_reinstated(halt, uow.reinstatements),
        states={(feature, name): state for name, state in states.items()},
        rules=rules,
        min_versions=uow.min_versions,
        overrides={override.feature: override for override in await standing_overrides(session, app)},
    )
    if version is not None and default is not None and default.manifest_sha256 == version.manifest_sha256:
        snapshot = replace(snapshot, past_overrides=tuple(await overrides_of_feature(session, app, feature)))
        async for document in earlier:
            former = snapshot.find_former(feature, version, document)
            if former is not None:
                snapshot = replace(snapshot, former=former)
                break
    digests = snapshot.compared_digests
    together = {one.manifest_sha256 for one in moving.values() if one.feature == feature}
    together |= set() if default is None else {default.manifest_sha256}
    together |= {arm.manifest_sha256 for one in compared.values() if one.feature == feature for arm in one.arms}
    return replace(
        snapshot,
        layers=tuple(await layers_of_app(session, app)),
        holdout=await find_holdout(session, app),
        readout=await find_running_readout(session, app),
        sizes=await program_sizes(session, digests),
        signatures=await signatures_of(session, together),
        parameters=await declared_parameters(session, snapshot.digests_of(snapshot.overrides.keys())),
    )
