"""Says in words what one policy of an app changed against another: what devices do otherwise.  Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from alcove.registry.parameters import Settings
from alcove.registry.policy import (
    ExperimentPolicy,
    FeaturePolicy,
    Holdout,
    Policy,
    RolloutPolicy,
    TaskPolicy,
    VersionRef,
)

__all__ = ["Change", "list_changes", "share_text"]


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        feature: whose rules changed; "": of the whole app.
        text: what was before and what is now.
    """

    feature: str
    text: str


def list_changes(before: Policy, after: Policy) -> list[Change]:
    """Return what `after` says otherwise than `before`, the app's own rules first, then feature by feature.

    Serial numbers are no change.  Whatever differs is named: a part without words of its own by its field.
    """
    changes = [Change("", text) for text in _of_app(before, after)]
    for feature in sorted(before.features.keys() | after.features.keys()):
        old, new = before.features.get(feature), after.features.get(feature)
        if old == new:
            continue
        if old is None and new is not None:
            changes.append(Change(feature, f"new: default {new.default.version}"))
        elif new is None and old is not None:
            changes.append(Change(feature, f"gone: default was {old.default.version}"))
            continue
        if new is not None:
            changes += [Change(feature, text) for text in _of_feature(old, new)]
    return changes


def share_text(basis_points: int) -> str:
    """Return a share of devices in per cent."""
    return f"{basis_points / 100:g} %"


def _of_app(before: Policy, after: Policy) -> Iterator[str]:
    if before.app != after.app:
        yield f"app: {before.app} → {after.app}"
    for layer in sorted(before.layers.keys() | after.layers.keys()):
        old, new = before.layers.get(layer), after.layers.get(layer)
        if old is None:
            yield f"layer {layer} in use"
        elif new is None:
            yield f"layer {layer} no longer in use"
        elif old != new:
            yield f"layer {layer}: other buckets (salt {old} → {new})"
    yield from _of_holdout(before.holdout, after.holdout)


def _of_holdout(old: Holdout | None, new: Holdout | None) -> Iterator[str]:
    shares = [0 if one is None else one.share_basis_points for one in (old, new)]
    if shares[0] != shares[1]:
        yield f"holdout: {share_text(shares[0])} → {share_text(shares[1])} of the devices"
    if old is not None and new is not None and old.salt != new.salt:
        yield f"holdout: other buckets (salt {old.salt} → {new.salt})"
    readouts = [None if one is None else one.readout for one in (old, new)]
    if readouts[0] == readouts[1]:
        return
    if readouts[0] is not None and (readouts[1] is None or readouts[1].id != readouts[0].id):
        yield f"read-out {readouts[0].id} ended"
    if readouts[1] is not None and (readouts[0] is None or readouts[0].id != readouts[1].id):
        kept = ", ".join(f"{name} {ref.version}" for name, ref in sorted(readouts[1].kept.items()))
        yield f"read-out {readouts[1].id} started: held-out devices keep {kept}"
    elif readouts[1] is not None:
        yield f"read-out {readouts[1].id}: other terms"


def _of_feature(old: FeaturePolicy | None, new: FeaturePolicy) -> Iterator[str]:
    if old is not None:
        yield from _of_version("default", old.default, new.default)
        if old.min_version != new.min_version:
            yield f"lowest version {old.min_version} → {new.min_version}"
    yield from _of_values("default", () if old is None else old.values, new.values)
    yield from _of_rollout(None if old is None else old.rollout, new.rollout)
    earlier = {one.id: one for one in (() if old is None else old.experiments)}
    later = {one.id: one for one in new.experiments}
    for name in sorted(earlier.keys() | later.keys()):
        yield from _of_experiment(earlier.get(name), later.get(name))


def _of_rollout(old: RolloutPolicy | None, new: RolloutPolicy | None) -> Iterator[str]:
    if old is not None and (new is None or new.id != old.id):
        yield f"rollout {old.id} of {old.version.version} ended at {share_text(old.share_basis_points)}"
        old = None
    if new is None:
        return
    name = f"rollout {new.id}"
    if old is None:
        audience = "" if new.audience is None else f", for {new.audience}"
        yield (
            f"{name} of {new.version.version} at {share_text(new.share_basis_points)}, with a control group of"
            f" {share_text(new.control_basis_points)}{audience}"
        )
        yield from _of_values(name, (), new.values)
        return
    found = [
        *_of_share(name, old.share_basis_points, new.share_basis_points),
        *_of_share(f"{name}: control group", old.control_basis_points, new.control_basis_points),
        *_of_version(f"{name}: version", old.version, new.version),
        *_of_text(f"{name}: audience", _all(old.audience), _all(new.audience)),
        *_of_tasks(name, old.tasks, new.tasks),
        *_of_values(name, old.values, new.values),
    ]
    yield from found
    worded = {"share_basis_points", "control_basis_points", "version", "audience", "tasks", "values"}
    yield from _of_rest(name, old, new, worded)


def _of_experiment(old: ExperimentPolicy | None, new: ExperimentPolicy | None) -> Iterator[str]:
    if new is None:
        if old is not None:
            yield f"experiment {old.id} ended"
        return
    name = f"experiment {new.id}"
    if old is None:
        segment = f", in {_segment(new)}" if new.segment is not None else ""
        arms = ", ".join(f"{arm.name} {arm.version.version} {share_text(arm.share_basis_points)}" for arm in new.arms)
        audience = "" if new.audience is None else f", for {new.audience}"
        yield f"{name} started: {arms}{segment}{audience}"
        for arm in new.arms:
            yield from _of_values(f"{name}, arm {arm.name}", (), arm.values)
        return
    found = [
        *_of_text(f"{name}: audience", _all(old.audience), _all(new.audience)),
        *_of_text(f"{name}: part of a layer", _segment(old) or "none", _segment(new) or "none"),
        *_of_tasks(name, old.tasks, new.tasks),
    ]
    arms_before = {arm.name: arm for arm in old.arms}
    for arm in new.arms:
        earlier = arms_before.get(arm.name)
        if earlier is None:
            found.append(f"{name}: arm {arm.name} {arm.version.version} at {share_text(arm.share_basis_points)}")
            continue
        found += _of_share(f"{name}: arm {arm.name}", earlier.share_basis_points, arm.share_basis_points)
        found += _of_version(f"{name}: arm {arm.name}", earlier.version, arm.version)
        found += _of_values(f"{name}, arm {arm.name}", earlier.values, arm.values)
    found += [f"{name}: arm {gone} gone" for gone in sorted(arms_before.keys() - {arm.name for arm in new.arms})]
    yield from found
    yield from _of_rest(name, old, new, {"arms", "audience", "segment", "tasks"})


def _of_values(name: str, old: Settings, new: Settings) -> list[str]:
    before, after = ({one.name: one.value for one in settings} for settings in (old, new))
    return [
        f"{name}: {key} {_value(before, key)} → {_value(after, key)}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) or (key in before) != (key in after)
    ]


def _value(values: Mapping[str, object], name: str) -> str:
    return repr(values[name]) if name in values else "its own default"


def _of_tasks(name: str, old: tuple[TaskPolicy, ...], new: tuple[TaskPolicy, ...]) -> list[str]:
    """Return how what devices report changed: each task is the digest of its terms."""
    if [task.task_id for task in old] == [task.task_id for task in new]:
        return []
    if not new:
        return [f"{name}: asks for no reports any more"]
    if not old:
        return [f"{name}: asks for reports, ε = {', '.join(sorted({task.epsilon for task in new}))}"]
    terms = []
    for field, words in (("epsilon", "ε"), ("window_s", "window in seconds"), ("cell_count", "cells")):
        sides = [", ".join(sorted({str(getattr(task, field)) for task in tasks})) for tasks in (old, new)]
        terms += _of_text(f"{name}: {words}", *sides)
    return terms or [f"{name}: reports of a new stage or other terms"]


def _of_share(name: str, old: int, new: int) -> list[str]:
    return [] if old == new else [f"{name} {share_text(old)} → {share_text(new)}"]


def _of_text(name: str, old: str, new: str) -> list[str]:
    return [] if old == new else [f"{name} {old} → {new}"]


def _of_version(name: str, old: VersionRef, new: VersionRef) -> list[str]:
    if old.version == new.version and old != new:
        return [f"{name} {new.version}: another manifest"]
    return _of_text(name, old.version, new.version)


def _of_rest(
    name: str, old: RolloutPolicy | ExperimentPolicy, new: RolloutPolicy | ExperimentPolicy, worded: set[str]
) -> list[str]:
    """Return the fields that differ and have no words of their own."""
    before, after = dict(old), dict(new)
    return [f"{name}: other {field}" for field in sorted(after.keys() - worded) if before.get(field) != after[field]]


def _all(audience: object) -> str:
    return "everybody" if audience is None else str(audience)


def _segment(experiment: ExperimentPolicy) -> str:
    segment = experiment.segment
    if segment is None:
        return ""
    return f"[{segment.first}, {segment.first + segment.count}) of layer {segment.layer}"
