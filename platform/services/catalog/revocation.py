"""Revokes a version: forbids it in every app that ever used it, so that every device drops it.

Its digest goes into the halt document of each app that ever had it in a rollout, in an experiment or as a default: the
online halt key signs that, and no device keeps a halted version after its next check-in.  Nothing names it afterwards:
rollouts of it are halted, experiments with it are stopped, and the default before takes its place.
"""

import asyncio
from collections.abc import Mapping

from alcove.platform.domain.catalog.lifecycle import Action
from alcove.platform.domain.records import ExperimentRecord, VersionRecord
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.snapshots.app import AppSnapshot
from alcove.platform.domain.snapshots.experiment import stop
from alcove.platform.domain.snapshots.rollout import halt
from alcove.platform.services.catalog.states import move
from alcove.platform.services.loading import load_apps_using
from alcove.platform.services.reports import read_experiment_reports
from alcove.platform.services.saving import save_app
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy import VersionRef

__all__ = ["revoke"]


async def revoke(uow: UnitOfWork, feature: str, version: str, *, reason: str) -> tuple[VersionRecord, list[str]]:
    """Forbid a version for ever; return it, and the apps whose documents change, by name.

    Raises:
        ResourceNotFoundError: it was never published.
        InvalidFieldError: the reason is empty or too long, or an app's halts are more than devices read.
        IllegalTransitionError: it is revoked already.
    """
    before, apps = await load_apps_using(uow, feature, version)
    left = []
    for app in apps:
        compared = [one for one in app.running_experiments if _names(one, before)]
        reports = {one.experiment_id: await read_experiment_reports(uow.session, one) for one in compared}
        left.append(await asyncio.to_thread(_leave, app, before, reports, now_s=uow.now_s, reason=reason))
    names = [app.app for app in apps]
    after = await move(uow, before, Action.REVOKE, reason, apps=names)
    for app, without in zip(apps, left, strict=True):
        await save_app(uow, app, without)
    return after, names


def _leave(
    app: AppSnapshot, version: VersionRecord, reports: Mapping[str, Reports], *, now_s: int, reason: str
) -> AppSnapshot:
    """Return an app in which nothing names a version any more, and the halt does."""
    ref = VersionRef(version=version.version, manifest_sha256=version.manifest_sha256)
    app = app.forbid(version.feature, ref)
    for experiment_id, counted in reports.items():
        app = stop(app, app.experiments[experiment_id], counted, now_s=now_s)
    for rollout in app.live_rollouts:
        if rollout.manifest_sha256 == ref.manifest_sha256:
            app = halt(app, rollout, now_s=now_s, reason=reason)
    return app.leave_default(version.feature, ref).decide_policy()


def _names(experiment: ExperimentRecord, version: VersionRecord) -> bool:
    return any(arm.manifest_sha256 == version.manifest_sha256 for arm in experiment.arms)
