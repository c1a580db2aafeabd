"""Says which group of a read-out of the holdout a device is in, what it keeps there, and what it reports.

    bucket of the holdout's salt:   [0, share)   held out, group 0    keeps the versions of the first day
                                    top share    mirror, group 1      runs what everybody runs
                                    between      in neither           the read-out says nothing of it

Devices of both groups take part in no experiment and report nothing but the read-out, so that they differ in the
versions that they run and in nothing else: neither in what else was tried on them, nor in what their budgets paid for.

A held-out device may be behind, never unsafe: a halted version is kept by nobody, and what the team's minimum version
forbids the policy cannot name (I1 and I9 of `document.py`).  Where the measured feature's kept version or its default
is halted, nobody reports any more: a comparison with one side missing has no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alcove.registry.limits import POLICY_BUCKETS

if TYPE_CHECKING:
    from alcove.registry.policy.document import Holdout, Policy, Readout, VersionRef
    from alcove.registry.policy.task import TaskPolicy

__all__ = ["HELD_OUT", "MIRROR", "ReadoutGroup", "find_group", "group_ranges"]

HELD_OUT: Final = 0
MIRROR: Final = 1


@dataclass(frozen=True, slots=True)
class ReadoutGroup:
    """A device's group in a read-out that is not over.

    Attributes:
        readout: as the policy says.
        number: `HELD_OUT` or `MIRROR`; the arm of the read-out's task.
    """

    readout: Readout
    number: int

    def find_kept(self, feature: str, halted: frozenset[str]) -> VersionRef | None:
        """Return the version that held-out devices keep for a feature; None where they run what everybody runs."""
        ref = self.readout.kept.get(feature)
        return None if ref is None or ref.manifest_sha256 in halted else ref

    def find_task(self, policy: Policy, feature: str, halted: frozenset[str]) -> TaskPolicy | None:
        """Return what the device reports of a feature; None where it is not the measured one, or a side is halted."""
        if feature != self.readout.feature or self.find_kept(feature, halted) is None:
            return None
        is_halted = policy.features[feature].default.manifest_sha256 in halted
        return None if is_halted else self.readout.task


def group_ranges(holdout: Holdout) -> tuple[range, range]:
    """Return the buckets of both groups: the holdout's from 0, the mirror group's at the top."""
    share = holdout.share_basis_points
    return range(share), range(POLICY_BUCKETS - share, POLICY_BUCKETS)


def find_group(holdout: Holdout, number: int, now_s: int) -> ReadoutGroup | None:
    """Return the group of a device; None: it is in neither, or there is no read-out now.

    Args:
        holdout: of the app's policy.
        number: the device's bucket of the holdout's salt.
        now_s: the device's clock; a read-out is over from its `until_s` on, whether or not a newer policy is there.
    """
    readout = holdout.readout
    if readout is None or now_s >= readout.until_s:
        return None
    held_out, mirror = group_ranges(holdout)
    if number in held_out:
        return ReadoutGroup(readout, HELD_OUT)
    return ReadoutGroup(readout, MIRROR) if number in mirror else None
