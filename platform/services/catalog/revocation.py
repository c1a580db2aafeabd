"""Revokes a version: forbids it in every app that ever used it, so that every device drops it.

Its digest goes into the halt document of each app that ever had it in a rollout, in an experiment or as a default: the
online halt key signs that, and no device keeps a halted version after its next check-in.  Nothing names it afterwards:
rollouts of it are halted, experiments with it are stopped, and the default before takes its place.
"""

from alcove.platform.domain.catalog.lifecycle import Action
from alcove.platform.domain.records import VersionRecord
from alcove.platform.services.catalog.states import move
from alcove.platform.services.experiments import engine as experiments
from alcove.platform.services.policy.decide import decide_halt, decide_policy, leave_default
from alcove.platform.services.rollouts import engine as rollouts
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.rollouts import live_rollouts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.usage import apps_using
from alcove.platform.store.versions import get_version
from alcove.registry.policy import VersionRef

__all__ = ["revoke"]


async def revoke(uow: UnitOfWork, feature: str, version: str, *, reason: str) -> tuple[VersionRecord, list[str]]:
    """Forbid a version for ever; return it, and the apps whose devices are told, by name.

    Raises:
        NotFoundError: it was never published.
        InvalidFieldError: the reason is empty or too long, or an app's halts are more than devices read.
        IllegalTransitionError: it is revoked already.
    """
    before = await get_version(uow.session, feature, version)
    apps = await apps_using(uow.session, before)
    after = await move(uow, before, Action.REVOKE, reason, apps=apps)
    for app in apps:
        await _leave(uow, app, after, reason)
    return after, apps


async def _leave(uow: UnitOfWork, app: str, version: VersionRecord, reason: str) -> None:
    ref = VersionRef(version=version.version, manifest_sha256=version.manifest_sha256)
    await decide_halt(uow, app, version.feature, ref)
    for experiment in await running_experiments(uow.session, app):
        if any(arm.manifest_sha256 == ref.manifest_sha256 for arm in experiment.arms):
            await experiments.stop(uow, experiment.experiment_id)
    for rollout in await live_rollouts(uow.session, app):
        if rollout.manifest_sha256 == ref.manifest_sha256:
            await rollouts.halt(uow, rollout.rollout_id, reason=reason)
    await leave_default(uow, app, version.feature, ref)
    await decide_policy(uow, app)
