"""Starts and stops read-outs of an app's holdout, as an operator asks."""

import secrets
from dataclasses import dataclass, replace

from alcove.platform.domain.errors import ReadoutRunningError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_etag, validate_field, validate_reason
from alcove.platform.domain.readout_records import KeptVersion, ReadoutPlan, ReadoutRecord, ReadoutState
from alcove.platform.domain.readouts.machine import mark_stopped
from alcove.platform.domain.readouts.plan import fill_plan, validate_features, validate_share, validate_until
from alcove.platform.services.loading import load_app
from alcove.platform.services.metric_definitions import usable_metric
from alcove.platform.services.policy.decide import validate_may_run
from alcove.platform.services.saving import save_app
from alcove.platform.store.readouts import add_readout, get_readout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.canonical import AppName, FeatureName
from alcove.registry.policy import VersionRef

__all__ = ["ReadoutSpec", "start", "stop"]


@dataclass(frozen=True)
class ReadoutSpec:
    """A read-out as asked for.

    Attributes:
        app: whose holdout.
        features: whose present versions are kept; the first is measured.
        plan: what is measured; of an own metric name and version are read, 0 is the newest.
        until_s: end of the last day, seconds since 1970.
    """

    app: str
    features: tuple[str, ...]
    plan: ReadoutPlan
    until_s: int


async def start(uow: UnitOfWork, spec: ReadoutSpec) -> ReadoutRecord:
    """Put a read-out into the policy: held-out devices keep the default versions of this moment.

    Raises:
        InvalidFieldError: a field is out of its bounds, or the app has no holdout that leaves a mirror group.
        ReadoutRunningError: one runs.
        ResourceNotFoundError: a feature has no default version in the app, or there is no such metric.
        MetricDeprecatedError: the metric is to be used no more.
        PlatformError: a version may not run, as `validate_runnable`.
    """
    app = validate_field("app", AppName, spec.app)
    validate_features(spec.features)
    before = await load_app(uow, app)
    validate_share(app, 0 if before.holdout is None else before.holdout.share_basis_points)
    if before.readout is not None:
        raise ReadoutRunningError(app, before.readout.readout_id)
    plan = spec.plan
    if plan.own is not None:
        metric = await usable_metric(uow.session, spec.features[0], plan.own.name, plan.own.version)
        plan = replace(plan, own=metric.planned)
    plan, until_s = validate_until(fill_plan(plan), now_s=uow.now_s, until_s=spec.until_s)
    kept = []
    for feature in spec.features:
        default = before.defaults.get(validate_field("features", FeatureName, feature))
        if default is None:
            raise ResourceNotFoundError("default version", f"{app}/{feature}")
        ref = VersionRef(version=default.version, manifest_sha256=default.manifest_sha256)
        await validate_may_run(uow, app, feature, ref)
        kept.append(KeptVersion(feature, default.version, default.manifest_sha256))
    record = await add_readout(
        uow.session,
        ReadoutRecord(
            sequence=0,
            readout_id=f"hr-{secrets.token_hex(6)}",
            app=app,
            kept=tuple(kept),
            plan=plan,
            share_basis_points=0 if before.holdout is None else before.holdout.share_basis_points,
            state=ReadoutState.RUNNING,
            started_at_s=uow.now_s,
            until_s=until_s,
        ),
    )
    after = before.carry_readout(
        record,
        "start",
        app=app,
        kept={each.feature: each.version for each in kept},
        until_s=until_s,
        epsilon=plan.epsilon,
        experiments=sorted(one.experiment_id for one in before.running_experiments),
    )
    return (await save_app(uow, before, after)).readout or record


async def stop(uow: UnitOfWork, readout_id: str, *, reason: str, etag: str = "") -> ReadoutRecord:
    """Let go of what is kept, without a result.

    Raises:
        ResourceNotFoundError: there is no such read-out.
        InvalidFieldError: the reason is empty or too long.
        StaleEtagError: it was changed since the caller read it.
        IllegalTransitionError: it does not run.
    """
    record = await get_readout(uow.session, readout_id)
    validate_etag(etag, record.revision, kind="read-out", name=readout_id)
    stopped = mark_stopped(record, validate_reason("reason", reason), now_s=uow.now_s)
    before = await load_app(uow, record.app)
    after = before.carry_readout(stopped, "stop", reason=stopped.end_reason)
    return (await save_app(uow, before, after)).readout or stopped
