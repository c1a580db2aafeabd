"""Moves buckets between the arms of an experiment, so that only those devices change their arm that have to.  Pure.

B1  The buckets of all arms together stay: no device enters or leaves the experiment.
B2  As many buckets change their arm as shares change: the sum of what arms lose. None moves from an arm that grows.
B3  Buckets move at a border of the two arms where there is one. What an arm got last it gives back first, so that a
    share that goes and returns moves the same devices, and few devices ever see more than one arm.
B4  The same ranges and shares give the same ranges.
"""

from collections.abc import Sequence
from itertools import pairwise

from alcove.platform.domain.experiment_records import Allocation, BucketRange, ShareChange
from alcove.platform.domain.records import ExperimentRecord
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["count_moves", "first_allocation", "first_ranges", "move_buckets"]


def first_allocation(record: ExperimentRecord, *, now_s: int) -> Allocation:
    """Return the allocation of an experiment at its start; an empty one where its shares are fixed."""
    if record.plan.bandit is None:
        return Allocation()
    shares = tuple(arm.share_basis_points for arm in record.arms)
    return Allocation((ShareChange(0, now_s, shares),), first_ranges(shares))


def first_ranges(shares: Sequence[int]) -> tuple[BucketRange, ...]:
    """Return the arms' buckets at the start: the control's at the top, the others' one after another from 0.

    Args:
        shares: of the arms, in buckets, each at least 1; together at most all.
    """
    found, start = [], 0
    for arm, share in enumerate(shares[1:], start=1):
        found.append(BucketRange(arm, start, share))
        start += share
    return (*found, BucketRange(0, POLICY_BUCKETS - shares[0], shares[0]))


def move_buckets(ranges: Sequence[BucketRange], shares: Sequence[int]) -> tuple[BucketRange, ...]:
    """Return ranges in which each arm has its share, of the same buckets; B1 to B4.

    Args:
        ranges: rising and apart.
        shares: of the arms from now on, in buckets; their sum is that of the ranges.
    """
    found = list(ranges)
    lacking = list(shares)
    for each in found:
        lacking[each.arm] -= each.count
    while True:
        move = _find_border(found, lacking) or _find_end(found, lacking)
        if move is None:
            return tuple(found)
        place, taker, at_start = move
        giver = found[place]
        count = min(-lacking[giver.arm], lacking[taker], giver.count)
        lacking[giver.arm] += count
        lacking[taker] -= count
        first = giver.first if at_start else giver.end - count
        rest = BucketRange(giver.arm, giver.first + count if at_start else giver.first, giver.count - count)
        moved = BucketRange(taker, first, count)
        found[place : place + 1] = [moved, rest] if at_start else [rest, moved]
        found = _merge([each for each in found if each.count])


def count_moves(before: Sequence[BucketRange], after: Sequence[BucketRange]) -> int:
    """Return how many buckets have another arm afterwards, or are in none."""
    owners = {bucket: each.arm for each in after for bucket in range(each.first, each.end)}
    return sum(owners.get(bucket) != each.arm for each in before for bucket in range(each.first, each.end))


def _find_border(ranges: Sequence[BucketRange], lacking: Sequence[int]) -> tuple[int, int, bool] | None:
    """Return the range that gives at a border with an arm that lacks buckets, that arm, and on which side."""
    for place, (low, high) in enumerate(pairwise(ranges)):
        if low.end != high.first:
            continue
        if lacking[low.arm] > 0 > lacking[high.arm]:
            return place + 1, low.arm, True
        if lacking[high.arm] > 0 > lacking[low.arm]:
            return place, high.arm, False
    return None


def _find_end(ranges: Sequence[BucketRange], lacking: Sequence[int]) -> tuple[int, int, bool] | None:
    """Return the last range of an arm that has too many, and the first arm that lacks buckets; None: none does."""
    takers = [arm for arm, count in enumerate(lacking) if count > 0]
    givers = [place for place, each in enumerate(ranges) if lacking[each.arm] < 0]
    return (givers[-1], takers[0], False) if takers and givers else None


def _merge(ranges: Sequence[BucketRange]) -> list[BucketRange]:
    """Return the ranges with those of one arm that touch as one."""
    found: list[BucketRange] = []
    for each in ranges:
        if found and found[-1].arm == each.arm and found[-1].end == each.first:
            found[-1] = BucketRange(each.arm, found[-1].first, found[-1].count + each.count)
        else:
            found.append(each)
    return found
