"""Says how the devices with some attributes split over the versions of a feature: exact shares, from the policy alone.

Buckets of different salts are independent (`assignment.py`), so the shares of its questions multiply.  For devices with
the same attributes at most one experiment of a feature can have a device (I6 of `document.py`): their shares add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from alcove.registry.errors import FeatureUnknownError
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy.attributes import NO_ATTRIBUTES, DeviceAttributes
from alcove.registry.policy.readout import HELD_OUT, ReadoutGroup
from alcove.registry.policy.resolution import Reason

if TYPE_CHECKING:
    from alcove.registry.policy.document import FeaturePolicy, Policy

__all__ = ["VersionShare", "split_devices"]


@dataclass(frozen=True, slots=True)
class VersionShare:
    """Devices that run one version for one reason.

    Attributes:
        version: "MAJOR.MINOR.PATCH"; "": nothing may run, the device keeps its previous version or baseline.
        reason: which part of the policy chooses it.
        part: id of the rollout, experiment or read-out; "" for the default.
        arm: number of the arm in `part`; None: in none.
        share: of the devices with the attributes, in (0, 1].
    """

    version: str
    reason: Reason
    part: str
    arm: int | None
    share: Fraction


def split_devices(
    policy: Policy,
    feature: str,
    *,
    attributes: DeviceAttributes = NO_ATTRIBUTES,
    halted: frozenset[str] = frozenset(),
    now_s: int = 0,
) -> tuple[VersionShare, ...]:
    """Return the shares of what `resolve` answers over all secrets; they add up to 1.

    Args:
        policy: the app's policy.
        feature: name of the feature.
        attributes: of all the devices that are split.
        halted: manifest digests that must not run.
        now_s: seconds since 1970; a read-out ends by it.

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
    """
    rules = policy.features.get(feature)
    if rules is None:
        raise FeatureUnknownError(policy.app, feature)
    split = _Split(rules, attributes, halted)
    holdout = policy.holdout
    held = Fraction(0) if holdout is None else _part(holdout.share_basis_points)
    readout = None if holdout is None else holdout.readout
    if readout is None or now_s >= readout.until_s:
        split.add_rest(held)
        split.add_experiments(1 - held)
        return split.sort()
    kept = ReadoutGroup(readout, HELD_OUT).find_kept(feature, halted)
    if kept is None:
        split.add_rest(held)
    else:
        split.add(kept.version, Reason.HOLDOUT, readout.id, HELD_OUT, held)
    split.add_rest(held)  # the mirror group runs what everybody runs who is in no experiment
    split.add_experiments(1 - 2 * held)
    return split.sort()


class _Split:
    """Shares that were found so far, in the order of `resolve`."""

    def __init__(self, rules: FeaturePolicy, attributes: DeviceAttributes, halted: frozenset[str]) -> None:
        self._rules = rules
        self._attributes = attributes
        self._halted = halted
        self._shares: dict[tuple[str, Reason, str, int | None], Fraction] = {}

    def sort(self) -> tuple[VersionShare, ...]:
        """Return what was added, the largest first."""
        shares = [VersionShare(*key, share) for key, share in self._shares.items() if share > 0]
        return tuple(sorted(shares, key=lambda one: (-one.share, one.reason, one.part, one.arm or 0)))

    def add(self, version: str, reason: Reason, part: str, arm: int | None, share: Fraction) -> None:
        """Add a share of all devices."""
        key = (version, reason, part, arm)
        self._shares[key] = self._shares.get(key, Fraction(0)) + share

    def add_experiments(self, share: Fraction) -> None:
        """Add devices that may be in an experiment; those that are in none go on."""
        left = share
        for experiment in self._rules.experiments:
            if experiment.audience is not None and not experiment.audience.matches(self._attributes):
                continue
            inside = share if experiment.segment is None else share * _part(experiment.segment.count)
            is_over = any(arm.version.manifest_sha256 in self._halted for arm in experiment.arms)
            for number, arm in enumerate(experiment.arms):
                mine = inside * _part(arm.share_basis_points)
                left -= mine
                if is_over:
                    self._add_default(mine)
                else:
                    self.add(arm.version.version, Reason.EXPERIMENT, experiment.id, number, mine)
        self.add_rest(left)

    def add_rest(self, share: Fraction) -> None:
        """Add devices that are in no experiment: the rollout's, and those of the default."""
        rollout, default = self._rules.rollout, self._rules.default
        is_open = rollout is not None and rollout.version.manifest_sha256 not in self._halted
        if rollout is not None and is_open and rollout.audience is not None:
            is_open = rollout.audience.matches(self._attributes)
        if rollout is None or not is_open:
            self._add_default(share)
            return
        is_compared = bool(rollout.tasks) or rollout.control_basis_points > 0
        is_compared = is_compared and default.manifest_sha256 not in self._halted
        treated = share * _part(rollout.share_basis_points)
        control = share * _part(rollout.control_basis_points) if is_compared else Fraction(0)
        self.add(rollout.version.version, Reason.ROLLOUT, rollout.id, 1 if is_compared else None, treated)
        self.add(default.version, Reason.ROLLOUT, rollout.id, 0, control)
        self._add_default(share - treated - control)

    def _add_default(self, share: Fraction) -> None:
        default = self._rules.default
        is_halted = default.manifest_sha256 in self._halted
        self.add("" if is_halted else default.version, Reason.DEFAULT, "", None, share)


def _part(basis_points: int) -> Fraction:
    return Fraction(basis_points, POLICY_BUCKETS)
