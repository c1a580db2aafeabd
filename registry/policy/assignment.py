"""Which version does this device run?  Computed on the device, from a secret that never leaves it.

A device's bucket is a keyed hash of its secret and the salt of the rollout or experiment, so buckets of different
salts are independent and nobody without the secret can tell them.  Treatment arms take buckets from 0 up, the control
(arm 0) from the top down: widening either never removes a device that is already in.

Frozen: `tests/registry/vectors/assignment.json` holds what every implementation must answer.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from alcove.registry.errors import FeatureUnknownError, VersionHaltedError
from alcove.registry.limits import POLICY_BUCKETS

if TYPE_CHECKING:
    from alcove.registry.policy.document import ExperimentPolicy, FeaturePolicy, Policy, TaskPolicy, VersionRef

SECRET_BYTES: Final = 32


class Reason(StrEnum):
    """Why a device runs the version it runs."""

    EXPERIMENT = "experiment"
    ROLLOUT = "rollout"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one device runs for one feature, and why.

    Attributes:
        version: the version to run.
        reason: which part of the policy chose it.
        arm: number of the arm, only in an experiment.
        experiment_id: only in an experiment.
        task: what the device may report, only in an experiment.
    """

    version: VersionRef
    reason: Reason
    arm: int | None = None
    experiment_id: str | None = None
    task: TaskPolicy | None = None


def bucket(secret: bytes, salt: str) -> int:
    """Return the device's bucket for `salt`, uniform in [0, 10 000).

    Args:
        secret: the 32 bytes drawn at installation.
        salt: of one rollout or experiment.

    Raises:
        ValueError: `secret` has another length.
    """
    if len(secret) != SECRET_BYTES:
        msg = f"the installation secret has {SECRET_BYTES} bytes, got {len(secret)}"
        raise ValueError(msg)
    digest = hmac.digest(secret, salt.encode("utf-8"), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") * POLICY_BUCKETS >> 64


def arm_ranges(experiment: ExperimentPolicy) -> tuple[range, ...]:
    """Return each arm's buckets: the control at the top, the others one after another from 0."""
    control = experiment.arms[0].share_permyriad
    ranges = [range(POLICY_BUCKETS - control, POLICY_BUCKETS)]
    start = 0
    for arm in experiment.arms[1:]:
        ranges.append(range(start, start + arm.share_permyriad))
        start += arm.share_permyriad
    return tuple(ranges)


def keeps_devices(before: ExperimentPolicy, after: ExperimentPolicy) -> bool:
    """Tell whether every device in an arm of `before` is in the same arm of `after`.

    With two arms that is so whenever no share falls.  With more, a treatment's neighbours move when it is widened, so
    only the last may be; whoever changes a running experiment asks this first.
    """
    if before.salt != after.salt or len(before.arms) != len(after.arms):
        return False
    pairs = zip(arm_ranges(before), arm_ranges(after), strict=True)
    return all(not old or (new.start <= old.start and old.stop <= new.stop) for old, new in pairs)


def resolve(policy: Policy, feature: str, secret: bytes, *, halted: frozenset[str] = frozenset()) -> Resolution:
    """Return what this device runs: its experiment's arm before the rollout's version before the default.

    An experiment with a halted arm is over for everybody: a comparison with one side missing has no answer, and
    leaving only that arm would tell which devices were in it.

    Args:
        policy: the app's policy.
        feature: name of the feature.
        secret: the 32 bytes drawn at installation.
        halted: manifest digests that must not run (`Halt.digests`).

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
        VersionHaltedError: the default is halted; the device keeps to its previous slot or baseline.
        ValueError: `secret` has another length than 32.
    """
    rules = policy.features.get(feature)
    if rules is None:
        raise FeatureUnknownError(policy.app, feature)
    chosen = _in_experiment(rules, secret, halted) or _in_rollout(rules, secret, halted)
    if chosen is not None:
        return chosen
    if rules.default.manifest_sha256 in halted:
        raise VersionHaltedError(feature, rules.default.version)
    return Resolution(rules.default, Reason.DEFAULT)


def _in_experiment(rules: FeaturePolicy, secret: bytes, halted: frozenset[str]) -> Resolution | None:
    experiment = rules.experiment
    if experiment is None or any(arm.version.manifest_sha256 in halted for arm in experiment.arms):
        return None
    number = bucket(secret, experiment.salt)
    for index, buckets in enumerate(arm_ranges(experiment)):
        if number in buckets:
            ref = experiment.arms[index].version
            return Resolution(ref, Reason.EXPERIMENT, arm=index, experiment_id=experiment.id, task=experiment.task)
    return None


def _in_rollout(rules: FeaturePolicy, secret: bytes, halted: frozenset[str]) -> Resolution | None:
    rollout = rules.rollout
    if rollout is None or rollout.version.manifest_sha256 in halted:
        return None
    if bucket(secret, rollout.salt) < rollout.share_permyriad:
        return Resolution(rollout.version, Reason.ROLLOUT)
    return None
