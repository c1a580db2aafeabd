"""Decides which new policy or halt documents a change of rows calls for, in the change's own transaction."""

from alcove.platform.domain.snapshots.app import AppSnapshot, validate_runnable
from alcove.platform.services.loading import load_app
from alcove.platform.services.saving import save_app
from alcove.platform.store.catalog import rules_of
from alcove.platform.store.defaults import default_of
from alcove.platform.store.manifests import signatures_of
from alcove.platform.store.publications import Publication, add_publication, halted_apps, last_publication
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import find_version
from alcove.registry.policy import VersionRef, halt_from_bytes
from alcove.registry.reinstatements import without_reinstated

__all__ = ["apply_reinstatements", "decide_policy", "validate_may_run"]


async def decide_policy(uow: UnitOfWork, app: str) -> int:
    """Compile the app's policy from the rows of this mutation; return the serial that carries them.

    Nothing new is decided when the last policy says the same already.

    Raises:
        InvalidFieldError: the rows make no acceptable policy.
    """
    before = await load_app(uow, app)
    return (await save_app(uow, before, before.decide_policy())).policy_serial


async def apply_reinstatements(uow: UnitOfWork) -> None:
    """Leave out of each app's halt what the teams have reinstated since it was decided.

    What may run again does not run by itself: a rollout, an experiment or a default has to name it.
    """
    for app in await halted_apps(uow.session):
        last = await last_publication(uow.session, "halt", app)
        if last is None:
            continue
        before = halt_from_bytes(last.document)
        after = without_reinstated(before, uow.reinstatements)
        if after == before:
            continue
        halt = after.model_copy(update={"serial": before.serial + 1})
        await add_publication(uow.session, Publication("halt", app, halt.serial, halt.to_bytes(), is_published=False))
        uow.decided.add(("halt", app))
        given = [f"{item.feature} {item.version.version}" for item in before.halted if item not in after.halted]
        await uow.audit("reinstate", app, reinstated=given, serial=halt.serial)


async def validate_may_run(
    uow: UnitOfWork, app: str, feature: str, version: VersionRef, *, may_break_apps: bool = False
) -> None:
    """Let a version into the app's policy or not, beside the default that it has now.

    Raises:
        BreakingSignatureError: it would break apps in use, unless `may_break_apps`.
        PlatformError: as `validate_runnable`.
    """
    published = await find_version(uow.session, feature, version.version)
    last = await last_publication(uow.session, "halt", app)
    validate_runnable(
        feature,
        version,
        state=None if published is None else published.state,
        rules=await rules_of(uow.session, feature),
        halt=None if last is None else halt_from_bytes(last.document),
        min_version=uow.min_versions.get(feature),
    )
    default = None if may_break_apps else await default_of(uow.session, app, feature)
    if default is None:
        return
    signatures = await signatures_of(uow.session, {default.manifest_sha256, version.manifest_sha256})
    AppSnapshot(app, {feature: default}, {}, {}, signatures=signatures).validate_signature(feature, version)
