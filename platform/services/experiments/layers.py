"""Creates layers, which keep experiments apart, and sets the share of devices held out of every experiment."""

import secrets
from dataclasses import replace

from alcove.platform.domain.errors import HoldoutRaisedError, InvalidFieldError, ReadoutRunningError
from alcove.platform.domain.field_validation import validate_etag, validate_field
from alcove.platform.domain.records import HoldoutRecord, LayerRecord
from alcove.platform.services.policy.decide import decide_policy
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.layers import add_layer, find_holdout, layers_of_app, save_holdout
from alcove.platform.store.readouts import find_running_readout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.canonical import AppName, Identifier
from alcove.registry.limits import LAYERS_MAX, POLICY_BUCKETS

__all__ = ["create_layer", "no_holdout", "set_holdout"]


async def create_layer(uow: UnitOfWork, *, app: str, name: str) -> LayerRecord:
    """Write a layer; it is in the policy as soon as an experiment with a segment of it runs.

    Raises:
        InvalidFieldError: a name is malformed, or the app has as many layers as devices read.
        LayerExistsError: the app has one of this name.
    """
    record = LayerRecord(
        app=validate_field("app", AppName, app),
        name=validate_field("name", Identifier, name),
        salt=secrets.token_hex(16),
        created_at_s=uow.now_s,
    )
    count = len(await layers_of_app(uow.session, app))
    if count >= LAYERS_MAX:
        raise InvalidFieldError("name", f"at most {LAYERS_MAX} layers in app {app!r}", count + 1)
    await add_layer(uow.session, record)
    await uow.audit("create layer", f"{app}/{name}", app=app)
    return record


def no_holdout(app: str) -> HoldoutRecord:
    """Return what stands for a holdout that was never set."""
    return HoldoutRecord(app=app, salt="", share_basis_points=0, revision=0, policy_serial=0)


async def set_holdout(uow: UnitOfWork, *, app: str, share_basis_points: int, etag: str) -> HoldoutRecord:
    """Hold a share of an app's devices out of every experiment, always the same ones.

    Raises:
        InvalidFieldError: the app's name or the share is out of its bounds.
        StaleEtagError: it was changed since it was read.
        HoldoutRaisedError: it would rise while an experiment runs, which devices would leave.
        ReadoutRunningError: a read-out of it runs, whose groups would change.
    """
    app = validate_field("app", AppName, app)
    if not 0 <= share_basis_points <= POLICY_BUCKETS:
        raise InvalidFieldError("share_basis_points", f"0 to {POLICY_BUCKETS}", share_basis_points)
    session = uow.session
    before = await find_holdout(session, app) or no_holdout(app)
    validate_etag(etag, before.revision, kind="holdout", name=app)
    readout = await find_running_readout(session, app)
    if readout is not None and share_basis_points != before.share_basis_points:
        raise ReadoutRunningError(app, readout.readout_id)
    running = await running_experiments(session, app)
    if running and share_basis_points > before.share_basis_points:
        raise HoldoutRaisedError(
            app,
            share_basis_points=share_basis_points,
            current_basis_points=before.share_basis_points,
            holder=running[0].experiment_id,
        )
    after = replace(
        before,
        salt=before.salt or secrets.token_hex(16),
        share_basis_points=share_basis_points,
        revision=before.revision + 1,
    )
    await save_holdout(session, after)
    after = replace(after, policy_serial=await decide_policy(uow, app))
    await save_holdout(session, after)
    await uow.audit(
        "set holdout",
        app,
        app=app,
        from_basis_points=before.share_basis_points,
        to_basis_points=share_basis_points,
        policy_serial=after.policy_serial,
    )
    return after
