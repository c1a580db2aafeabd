"""Decides which new policy or halt documents a change of rows calls for, in the change's own transaction."""

from alcove.platform.domain.errors import BelowFloorError, InvalidFieldError, NotReleasedError, VersionRevokedError
from alcove.platform.domain.policy import compile_policy
from alcove.platform.domain.records import Default, VersionState
from alcove.platform.store.catalog import rules_of
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.layers import find_holdout, layers_of_app
from alcove.platform.store.manifests import program_sizes
from alcove.platform.store.publications import (
    Publication,
    add_publication,
    halted_apps,
    last_publication,
    policies_newest_first,
)
from alcove.platform.store.rollouts import live_rollouts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import defaults_of_app, find_default, find_version, remove_default, set_default
from alcove.registry.errors import VersionHaltedError
from alcove.registry.floors import is_below
from alcove.registry.lifts import without_lifted
from alcove.registry.limits import HALTED_MAX
from alcove.registry.policy import Halt, HaltedVersion, VersionRef, halt_from_bytes, policy_from_bytes

__all__ = ["check_may_run", "decide_halt", "decide_policy", "drop_lifted", "leave_default"]


async def decide_policy(uow: UnitOfWork, app: str) -> int:
    """Compile the app's policy from the rows of this change; return the serial that carries them.

    Nothing new is decided when the last policy says the same already.

    Raises:
        InvalidFieldError: the rows make no acceptable policy.
    """
    session = uow.session
    last = await last_publication(session, "policy", app)
    serial = 1 if last is None else last.serial + 1
    defaults = await defaults_of_app(session, app)
    rollouts = await live_rollouts(session, app)
    experiments = await running_experiments(session, app)
    compared = {arm.manifest_sha256 for experiment in experiments for arm in experiment.arms}
    compared |= {rollout.manifest_sha256 for rollout in rollouts}
    compared |= {default.manifest_sha256 for default in defaults} if rollouts else set()
    policy = compile_policy(
        app,
        serial,
        defaults=defaults,
        rollouts=rollouts,
        experiments=experiments,
        floors=uow.floors,
        layers=await layers_of_app(session, app),
        holdout=await find_holdout(session, app),
        sizes=await program_sizes(session, compared),
    )
    if last is not None and last.document == policy.model_copy(update={"serial": last.serial}).to_bytes():
        return last.serial
    await add_publication(session, Publication("policy", app, serial, policy.to_bytes(), is_published=False))
    uow.decided.add(("policy", app))
    return serial


async def decide_halt(uow: UnitOfWork, app: str, feature: str, version: VersionRef) -> int:
    """Forbid a version of a feature in an app, besides what was forbidden before; return the halt's serial.

    Raises:
        InvalidFieldError: the document would name more versions than a device reads.
    """
    last = await last_publication(uow.session, "halt", app)
    known = Halt(app=app, serial=0) if last is None else halt_from_bytes(last.document)
    before = without_lifted(known, uow.lifts)
    item = HaltedVersion(feature=feature, version=version)
    if item in before.halted:
        return before.serial
    if len(before.halted) >= HALTED_MAX:
        raise InvalidFieldError("halted versions", f"at most {HALTED_MAX} in app {app!r}", len(before.halted) + 1)
    halt = before.model_copy(update={"serial": before.serial + 1, "halted": (*before.halted, item)})
    await _decide(uow, halt)
    return halt.serial


async def drop_lifted(uow: UnitOfWork) -> None:
    """Leave out of each app's halt what the teams have lifted since it was decided.

    What may run again does not run by itself: a rollout, an experiment or a default has to name it.
    """
    for app in await halted_apps(uow.session):
        last = await last_publication(uow.session, "halt", app)
        if last is None:
            continue
        before = halt_from_bytes(last.document)
        after = without_lifted(before, uow.lifts)
        if after == before:
            continue
        await _decide(uow, after.model_copy(update={"serial": before.serial + 1}))
        given = [f"{item.feature} {item.version.version}" for item in before.halted if item not in after.halted]
        await uow.audit("lift halt", app, given_back=given, serial=before.serial + 1)


async def _decide(uow: UnitOfWork, halt: Halt) -> None:
    await add_publication(uow.session, Publication("halt", halt.app, halt.serial, halt.to_bytes(), is_published=False))
    uow.decided.add(("halt", halt.app))


async def leave_default(uow: UnitOfWork, app: str, feature: str, version: VersionRef) -> Default | None:
    """Put the newest former default that may still run in the place of `version`; return the default as it is then."""
    default = await find_default(uow.session, app, feature)
    if default is None or default.manifest_sha256 != version.manifest_sha256:
        return default
    await remove_default(uow.session, app, feature)
    async for document in policies_newest_first(uow.session, app):
        rules = policy_from_bytes(document).features.get(feature)
        if rules is None:
            continue
        former = Default(app, feature, rules.default.version, rules.default.manifest_sha256)
        if await _may_run(uow, former):
            await set_default(uow.session, former)
            return former
    return None


async def _may_run(uow: UnitOfWork, default: Default) -> bool:
    ref = VersionRef(version=default.version, manifest_sha256=default.manifest_sha256)
    try:
        await check_may_run(uow, default.app, default.feature, ref)
    except (VersionHaltedError, VersionRevokedError, NotReleasedError, BelowFloorError):
        return False
    return True


async def check_may_run(uow: UnitOfWork, app: str, feature: str, version: VersionRef) -> None:
    """Let a version into the app's policy or not.

    Raises:
        VersionRevokedError: it is forbidden in every app.
        VersionHaltedError: it is forbidden in the app.
        NotReleasedError: the feature's rules ask for a released version.
        BelowFloorError: its team forbids versions as old as this one.
    """
    published = await find_version(uow.session, feature, version.version)
    state = VersionState.REGISTERED if published is None else published.state
    if state is VersionState.REVOKED:
        raise VersionRevokedError(feature, version.version)
    if state is not VersionState.RELEASED and (await rules_of(uow.session, feature)).must_be_released:
        raise NotReleasedError(feature, version.version, state)
    last = await last_publication(uow.session, "halt", app)
    if last is not None and version.manifest_sha256 in halt_from_bytes(last.document).digests:
        raise VersionHaltedError(feature, version.version)
    floor = uow.floors.get(feature)
    if floor is not None and is_below(version.version, floor):
        raise BelowFloorError(feature, version.version, floor)
