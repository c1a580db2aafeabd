"""Writes what an action changed of an app: the difference of two snapshots, the documents decided and the audit log."""

from dataclasses import replace

from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.store.defaults import remove_default, set_default
from alcove.platform.store.experiments import save_experiment
from alcove.platform.store.publications import Publication, add_publication
from alcove.platform.store.readouts import save_readout
from alcove.platform.store.rollouts import save_rollout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.value_overrides import save_override

__all__ = ["save_app"]


async def save_app(uow: UnitOfWork, before: AppSnapshot, after: AppSnapshot) -> AppSnapshot:
    """Write the difference; return `after` with the revisions that its records have now."""
    session, app = uow.session, after.app
    for feature in before.defaults.keys() - after.defaults.keys():
        await remove_default(session, app, feature)
    for feature, default in after.defaults.items():
        if default != before.defaults.get(feature):
            await set_default(session, default)
    experiments = dict(after.experiments)
    for rollout_id, rollout in after.rollouts.items():
        if rollout != before.rollouts[rollout_id]:
            await save_rollout(session, rollout)
    for experiment_id, experiment in experiments.items():
        if experiment != before.experiments[experiment_id]:
            experiments[experiment_id] = await save_experiment(session, experiment)
    await _save_overrides(uow, before, after)
    readout = after.readout
    if readout is not None and readout != before.readout:
        readout = await save_readout(session, readout)
    for document in _documents(after):
        await add_publication(session, document)
        uow.decided.add((document.kind, app))
    for entry in after.entries:
        await uow.audit(entry.action, entry.subject, **entry.details)
    return replace(after, experiments=experiments, readout=readout)


async def _save_overrides(uow: UnitOfWork, before: AppSnapshot, after: AppSnapshot) -> None:
    """Write which overrides have ended, and which began, with the policies in which they did."""
    for feature, override in before.overrides.items():
        if after.overrides.get(feature) != override:
            await save_override(uow.session, replace(override, end_serial=after.policy_serial))
    for feature, override in after.overrides.items():
        if override != before.overrides.get(feature):
            await save_override(uow.session, override)


def _documents(app: AppSnapshot) -> list[Publication]:
    """Return the documents that are decided."""
    documents = []
    if app.halt is not None:
        documents.append(Publication("halt", app.app, app.halt.serial, app.halt.to_bytes(), is_published=False))
    if app.policy is not None:
        documents.append(Publication("policy", app.app, app.policy.serial, app.policy.content, is_published=False))
    return documents
