"""Assigns a version to a device, computed on the device from a secret that never leaves it.

    read-out of the holdout:    in its groups? ─▶ no experiment; held out, and keeps a version that is not halted? ─▶ it
    else experiment:            holdout? ─▶ segment of its layer? ─▶ audience? ─▶ arm's buckets?
                                in an arm, and one is halted? ─▶ default
    else rollout:               halted? ─▶ audience? ─▶ treatment's or control's buckets?
    else default:               halted? ─▶ the device keeps to its previous slot or baseline

A device's bucket is a keyed hash of its secret and the salt of the rollout, experiment, layer or holdout, so buckets of
different salts are independent and nobody without the secret can tell them.  Treatment arms take buckets from 0 up, the
control (arm 0) from the top down: widening either never removes a device that is already in.  A rollout's control group
is taken the same way.  An experiment whose shares move by themselves lists the buckets of its arms, so that no device
moves that need not.

Frozen: `tests/registry/vectors/` holds what every implementation must answer.
"""

from __future__ import annotations

import bisect
import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import FeatureUnknownError, VersionHaltedError
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy.attributes import NO_ATTRIBUTES, DeviceAttributes
from alcove.registry.policy.readout import HELD_OUT, ReadoutGroup, find_group, group_ranges
from alcove.registry.policy.resolution import Candidate, Check, Kept, Reason, Resolution, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alcove.registry.policy.document import (
        ArmBuckets,
        ExperimentPolicy,
        FeaturePolicy,
        Policy,
        RolloutPolicy,
    )
    from alcove.registry.policy.task import TaskPolicy

__all__ = [
    "SECRET_BYTES",
    "TASK_SUFFIX",
    "arm_ranges",
    "bucket",
    "candidates",
    "draw_task",
    "draw_tasks",
    "resolve",
    "rollout_ranges",
]

SECRET_BYTES: Final = 32
TASK_SUFFIX: Final = "/task"
"""Of the salt that draws a device's task; no salt of a policy has a slash, so that none is the same."""


def bucket(secret: bytes, salt: str) -> int:
    """Return the device's bucket for `salt`, uniform in [0, 10 000).

    Args:
        secret: the 32 bytes drawn at installation.
        salt: of one rollout, experiment, layer or holdout.

    Raises:
        ValueError: `secret` has another length.
    """
    if len(secret) != SECRET_BYTES:
        msg = f"the installation secret has {SECRET_BYTES} bytes, got {len(secret)}"
        raise ValueError(msg)
    digest = hmac.digest(secret, salt.encode("utf-8"), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") * POLICY_BUCKETS >> 64


def draw_tasks(part: ExperimentPolicy | RolloutPolicy, secret: bytes) -> tuple[TaskPolicy, ...]:
    """Return the tasks of the one question that the device answers: one, or one for each value of a dimension.

    Its bucket of the part's salt with `TASK_SUFFIX` draws it: questions take buckets from 0 up, in their order and
    shares.  The draw has nothing to do with that of the arm, so that each task compares the same arms.

    Raises:
        ValueError: `secret` has another length than 32.
    """
    tasks = part.tasks
    questions = [index for index, task in enumerate(tasks) if not task.stratum]  # the others are of the first one
    if not tasks:
        return ()
    place = 0
    if len(questions) > 1:
        number = bucket(secret, part.salt + TASK_SUFFIX)
        while place < len(questions) - 1 and number >= tasks[questions[place]].share_basis_points:
            number -= tasks[questions[place]].share_basis_points
            place += 1
    ends = (*questions[1:], len(tasks))
    return tasks[questions[place] : ends[place]]


def draw_task(part: ExperimentPolicy | RolloutPolicy, secret: bytes) -> TaskPolicy | None:
    """Return the one task that a device reports of a part without a dimension; None where there is none.

    Raises:
        ValueError: `secret` has another length than 32.
    """
    return next(iter(draw_tasks(part, secret)), None)


def arm_ranges(experiment: ExperimentPolicy) -> tuple[range, ...]:
    """Return the buckets that each arm has at the start: the control at the top, the others from 0, one by one."""
    control = experiment.arms[0].share_basis_points
    ranges = [range(POLICY_BUCKETS - control, POLICY_BUCKETS)]
    start = 0
    for arm in experiment.arms[1:]:
        ranges.append(range(start, start + arm.share_basis_points))
        start += arm.share_basis_points
    return tuple(ranges)


def rollout_ranges(rollout: RolloutPolicy) -> tuple[range, range]:
    """Return the buckets of control and treatment: the control at the top, the treatment from 0."""
    top = range(POLICY_BUCKETS - rollout.control_basis_points, POLICY_BUCKETS)
    return top, range(rollout.share_basis_points)


def resolve(
    policy: Policy,
    feature: str,
    secret: bytes,
    *,
    attributes: DeviceAttributes = NO_ATTRIBUTES,
    halted: frozenset[str] = frozenset(),
    now_s: int = 0,
    note: Callable[[Step], None] | None = None,
) -> Resolution:
    """Return what this device runs: what a read-out keeps, its experiment's arm, the rollout's version, the default.

    An experiment with a halted arm is over for everybody: a comparison with one side missing has no answer, and
    leaving only that arm would tell which devices were in it.  Its devices get the default, not a share of a rollout:
    a halt only takes away, so under any halt a device runs what it would run without it, or the default, or less.

    Args:
        policy: the app's policy.
        feature: name of the feature.
        secret: the 32 bytes drawn at installation.
        attributes: what the app says of the device; audiences are compared with it.
        halted: manifest digests that must not run (`Halt.digests`).
        now_s: seconds since 1970; a read-out ends by it.  0: none is over.
        note: hears each question and its answer (`explain`).

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
        VersionHaltedError: the default is halted; the device keeps to its previous slot or baseline.
        ValueError: `secret` has another length than 32.
    """
    rules = policy.features.get(feature)
    if rules is None:
        raise FeatureUnknownError(policy.app, feature)
    device = _Device(secret, attributes, halted, note)
    group = _find_group(policy, device, now_s)
    kept = None if group is None else _keep(group, policy, feature, device)
    if kept is not None:
        return kept
    found = _in_experiments(policy, rules, device) if group is None else None
    chosen = _in_rollout(rules, device) if found is None else found
    if isinstance(chosen, Resolution):
        return chosen if group is None else _report_in(group, policy, feature, chosen, halted)
    version = rules.default
    is_halted = version.manifest_sha256 in halted
    if note is not None:
        detail = "halted; the device keeps its previous version or baseline" if is_halted else "nothing else chose"
        note(Step(f"default {version.version}", Check.DEFAULT, not is_halted, detail))
    if is_halted:
        raise VersionHaltedError(feature, version.version)
    default = Resolution(version, Reason.DEFAULT, values=rules.values)
    return default if group is None else _report_in(group, policy, feature, default, halted)


def candidates(
    policy: Policy,
    feature: str,
    secret: bytes,
    *,
    now_s: int,
    halted: frozenset[str] = frozenset(),
    is_in_experiments: bool = True,
) -> tuple[Candidate, ...]:
    """Return the parts of the policy that a device can be in, whatever its attributes are, in the order of `resolve`.

    The first whose audience has the device is what `resolve` returns; the last is everybody's.  What depends on this
    alone tells nothing of the attributes.

    Args:
        policy: the app's policy.
        feature: name of the feature.
        secret: the 32 bytes drawn at installation.
        now_s: the device's clock, seconds since 1970.
        halted: manifest digests that must not run.
        is_in_experiments: False for a device whose user takes part in none, nor in a read-out; then `resolve` may
            differ.

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
        ValueError: `secret` has another length than 32.
    """
    rules = policy.features.get(feature)
    if rules is None:
        raise FeatureUnknownError(policy.app, feature)
    device = _Device(secret, None, halted, None)
    group = _find_group(policy, device, now_s) if is_in_experiments else None
    if group is not None:
        parts = _candidates(policy, rules, device, is_in_experiments=False)
        return tuple(_candidate_in(group, policy, feature, one, halted) for one in parts)
    return _candidates(policy, rules, device, is_in_experiments=is_in_experiments)


def _candidates(
    policy: Policy, rules: FeaturePolicy, device: _Device, *, is_in_experiments: bool
) -> tuple[Candidate, ...]:
    """Return the candidates of a device that is in no read-out."""
    halted = device.halted
    default = None
    if rules.default.manifest_sha256 not in halted:
        default = Resolution(rules.default, Reason.DEFAULT, values=rules.values)
    found: list[Candidate] = []
    for experiment, place in _open_experiments(policy, rules, device) if is_in_experiments else ():
        chosen = _in_experiment(experiment, place, device)
        if chosen is not None:
            found.append(Candidate(experiment, chosen if isinstance(chosen, Resolution) else default))
            if experiment.audience is None:
                return tuple(found)
    resolution = _in_rollout(rules, device)
    if resolution is not None:
        found.append(Candidate(rules.rollout, resolution))
        if found[-1].audience is None:
            return tuple(found)
    return (*found, Candidate(None, default))


def _find_group(policy: Policy, device: _Device, now_s: int) -> ReadoutGroup | None:
    """Return the device's group in a read-out that is not over."""
    holdout = policy.holdout
    if holdout is None or holdout.readout is None:
        return None
    return find_group(holdout, bucket(device.secret, holdout.salt), now_s)


def _keep(group: ReadoutGroup, policy: Policy, feature: str, device: _Device) -> Resolution | None:
    """Return what a held-out device keeps for a feature; None: it runs what everybody runs."""
    kept = group.find_kept(feature, device.halted)
    is_mine = kept is not None and group.number == HELD_OUT
    holdout = policy.holdout
    if device.note is not None and holdout is not None:
        mine, place = group_ranges(holdout)[group.number], bucket(device.secret, holdout.salt)
        side = "mirror group, which runs what everybody runs"
        if group.number == HELD_OUT:
            side = "held out" if kept is None else f"held out, keeps {kept.version}"
        detail = f"bucket {place} is in {_range_text(mine)}: {side}; in no experiment"
        device.note(Step(f"read-out {group.readout.id}", Check.HOLDOUT, is_mine, detail))
    if kept is None or not is_mine:
        return None
    return _report_in(group, policy, feature, Resolution(kept, Reason.HOLDOUT), device.halted)


def _report_in(
    group: ReadoutGroup, policy: Policy, feature: str, found: Resolution, halted: frozenset[str]
) -> Resolution:
    """Return what a device of a read-out runs: it reports the read-out, or nothing."""
    task = group.find_task(policy, feature, halted)
    return replace(found, task=task, group=None if task is None else group.number)


def _candidate_in(
    group: ReadoutGroup, policy: Policy, feature: str, one: Candidate, halted: frozenset[str]
) -> Candidate:
    """Return a candidate of a device that is in a read-out's group."""
    resolution, version = one.resolution, group.find_kept(feature, halted)
    if resolution is not None:
        resolution = _report_in(group, policy, feature, resolution, halted)
    kept = None
    if version is not None:
        mine = Resolution(version, Reason.HOLDOUT) if group.number == HELD_OUT else None
        kept = Kept(version, None if mine is None else _report_in(group, policy, feature, mine, halted))
    return Candidate(one.part, resolution, kept)


@dataclass(frozen=True, slots=True)
class _Device:
    """Attributes None: in every audience."""

    secret: bytes
    attributes: DeviceAttributes | None
    halted: frozenset[str]
    note: Callable[[Step], None] | None


class _Freed:
    """A device of an experiment that a halt ended: the default is its, and no other part of the policy."""


def _in_experiments(policy: Policy, rules: FeaturePolicy, device: _Device) -> Resolution | _Freed | None:
    """Return the arm that the device is in; at most one experiment has it (I6 of `document.py`), in any order."""
    found = (
        _in_experiment(experiment, place, device) for experiment, place in _open_experiments(policy, rules, device)
    )
    return next((one for one in found if one is not None), None)


def _open_experiments(
    policy: Policy, rules: FeaturePolicy, device: _Device
) -> Iterator[tuple[ExperimentPolicy, int | None]]:
    """Give the experiments that the device can be in, each with the device's bucket in its layer."""
    if not rules.experiments or _is_held_out(policy, device):
        return
    # One keyed hash for each layer, however many experiments share it.
    places = {layer: bucket(device.secret, policy.layers[layer]) for layer in rules.segments}
    for experiment in rules.experiments if device.note is not None else _possible(rules, places):
        yield experiment, None if experiment.segment is None else places[experiment.segment.layer]


def _possible(rules: FeaturePolicy, places: dict[str, int]) -> Iterator[ExperimentPolicy]:
    """Give the experiments but those whose segment cannot be the device's: of a layer, one at most is left."""
    yield from rules.outside_layers
    for layer, (firsts, experiments) in rules.segments.items():
        index = bisect.bisect_right(firsts, places[layer]) - 1
        if index >= 0:
            yield experiments[index]


def _is_held_out(policy: Policy, device: _Device) -> bool:
    holdout = policy.holdout
    if holdout is None:
        return False
    number = bucket(device.secret, holdout.salt)
    is_held_out = number < holdout.share_basis_points
    if device.note is not None:
        where = "in" if is_held_out else "not in"
        detail = f"bucket {number} is {where} [0, {holdout.share_basis_points})"
        device.note(Step(f"holdout of {policy.app}", Check.HOLDOUT, not is_held_out, detail))
    return is_held_out


def _in_experiment(experiment: ExperimentPolicy, place: int | None, device: _Device) -> Resolution | _Freed | None:
    """Return the arm of one experiment, or None; `place` is the device's bucket in the experiment's layer."""
    note = device.note
    subject = f"experiment {experiment.id}"
    segment = experiment.segment
    if segment is not None and place is not None:
        is_inside = place in segment.buckets
        if note is not None:
            where = f"{'in' if is_inside else 'not in'} {_range_text(segment.buckets)}"
            note(Step(subject, Check.LAYER, is_inside, f"bucket {place} of layer {segment.layer} is {where}"))
        if not is_inside:
            return None
    if experiment.audience is not None and not _is_addressed(subject, experiment, device):
        return None
    number = bucket(device.secret, experiment.salt)
    own = _range_of(experiment, number)
    if own is not None:
        arm = experiment.arms[own.arm]
        if note is not None:
            detail = f"bucket {number} is in {_range_text(own.buckets)} of arm {own.arm}, {arm.name}"
            note(Step(subject, Check.BUCKET, True, detail))
        stopped = [one.name for one in experiment.arms if one.version.manifest_sha256 in device.halted]
        if stopped:
            if note is not None:
                detail = f"over: arm {', '.join(stopped)} is halted; its devices get the default"
                note(Step(subject, Check.HALT, False, detail))
            return _Freed()
        found = Resolution(arm.version, Reason.EXPERIMENT, arm=own.arm, experiment_id=experiment.id, values=arm.values)
        return _ask(experiment, found, device)
    if note is not None:
        named = ", ".join(_range_text(each.buckets) for each in experiment.ranges)
        note(Step(subject, Check.BUCKET, False, f"bucket {number} is in no arm: {named}"))
    return None


def _range_of(experiment: ExperimentPolicy, number: int) -> ArmBuckets | None:
    """Return the range of an arm that has a bucket; None: it is in no arm."""
    ranges = experiment.ranges
    index = bisect.bisect_right(ranges, number, key=lambda each: each.first) - 1
    return ranges[index] if index >= 0 and number in ranges[index].buckets else None


def _ask(experiment: ExperimentPolicy, found: Resolution, device: _Device) -> Resolution:
    """Return a resolution with the task of its question; with those of all values where attributes are left aside.

    An experiment that asks for no reports leaves it without one.
    """
    tasks, dimension = draw_tasks(experiment, device.secret), experiment.dimension
    if not tasks:
        return found
    if len(tasks) == 1 or dimension is None:
        return replace(found, task=tasks[0])
    open_one = replace(found, strata=tasks)
    if device.attributes is None:
        return open_one
    value = dimension.value_of(device.attributes)
    if device.note is not None:
        seen = getattr(device.attributes, dimension.attribute) or "not stated"
        detail = f"{dimension}: {dimension.attribute} is {seen}, reported as {dimension.names[value]!r}"
        device.note(Step(f"experiment {experiment.id}", Check.DIMENSION, True, detail))
    return open_one.place(value)


def _in_rollout(rules: FeaturePolicy, device: _Device) -> Resolution | None:
    """Return the treatment's version, or the default for its control.

    With the default halted there is nothing to compare with: the treatment continues, and no device is in an arm.
    """
    rollout, note = rules.rollout, device.note
    if rollout is None:
        return None
    subject = f"rollout {rollout.id}"
    if rollout.version.manifest_sha256 in device.halted:
        if note is not None:
            note(Step(subject, Check.HALT, False, f"over: {rollout.version.version} is halted"))
        return None
    if rollout.audience is not None and not _is_addressed(subject, rollout, device):
        return None
    is_compared = bool(rollout.tasks) or rollout.control_basis_points > 0
    is_compared = is_compared and rules.default.manifest_sha256 not in device.halted
    number = bucket(device.secret, rollout.salt)
    control, treatment = rollout_ranges(rollout)
    found = None
    if number in treatment:
        found = Resolution(rollout.version, Reason.ROLLOUT, values=rollout.values)
        if is_compared:
            found = replace(found, arm=1, task=draw_task(rollout, device.secret))
    elif number in control and is_compared:
        task = draw_task(rollout, device.secret)
        found = Resolution(rules.default, Reason.ROLLOUT, arm=0, task=task, values=rules.values)
    if note is not None:
        if found is None:
            detail = f"bucket {number} is not in {_range_text(treatment)}"
            detail += f" nor in the control's {_range_text(control)}" if is_compared and control else ""
        else:
            is_treated = number in treatment
            side = "the new version" if is_treated else "the control, which stays on the default"
            detail = f"bucket {number} is in {_range_text(treatment if is_treated else control)}: {side}"
        note(Step(subject, Check.BUCKET, found is not None, detail))
    return found


def _is_addressed(subject: str, part: ExperimentPolicy | RolloutPolicy, device: _Device) -> bool:
    audience = part.audience
    if audience is None or device.attributes is None:
        return True
    missed = audience.unmet(device.attributes)
    if device.note is not None:
        seen = "" if missed is None else f"; {missed} is {getattr(device.attributes, missed) or 'not stated'}"
        device.note(Step(subject, Check.AUDIENCE, missed is None, f"{audience}{seen}"))
    return missed is None


def _range_text(buckets: range) -> str:
    return f"[{buckets.start}, {buckets.stop})"
