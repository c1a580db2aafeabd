"""Moves the shares of arms by Thompson sampling, a bounded step at a time.

Thompson (1933) gives a device to an arm with the probability that the arm is the best one. Where many devices are
assigned between two looks at the reports, each arm's share *is* that probability: it is computed, not drawn (batched
Thompson sampling; Chapelle and Li 2011), so that the same counts give the same shares.

Three bounds keep it slow and reversible:

    min_share    every arm keeps that part of the devices, so that each can be found better later
    max_step     no share changes by more in one step, so that an error of one day is a small one
    dead band    a step in which no share would change by `MIN_STEP` is not made: devices don't move for nothing

Next shares are those nearest to the chances (least squares) within the bounds: each chance plus one number that is the
same for all arms, cut off at the arm's bounds. So the order of chances is kept where shares were equal, no arm is
preferred by its place, and shares within the bounds that are the chances stay.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alcove.platform.stats.errors import ArgumentError

__all__ = ["MIN_STEP", "AllocationRule", "next_buckets", "next_shares"]

MIN_STEP = 0.01  # part of the devices


@dataclass(frozen=True)
class AllocationRule:
    """Bounds of the shares.

    Attributes:
        min_share: least part of the experiment's devices that each arm keeps, in (0, 1/2].
        max_step: most that a share changes in one step, in [`MIN_STEP`, 1].

    Raises:
        ArgumentError: a field is out of its bounds.
    """

    min_share: float = 0.1
    max_step: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.min_share <= 0.5:
            raise ArgumentError("min_share", "in (0, 0.5]", self.min_share)
        if not MIN_STEP <= self.max_step <= 1.0:
            raise ArgumentError("max_step", f"in [{MIN_STEP}, 1]", self.max_step)


def next_shares(shares: Sequence[float], chances: Sequence[float], rule: AllocationRule) -> tuple[float, ...]:
    """Return the shares of the next step, of sum 1; exchanging arms exchanges their shares.

    Args:
        shares: of the arms now, each at least `min_share`, of sum 1.
        chances: of each arm to be the best one, of sum 1.
        rule: the bounds.

    Raises:
        ArgumentError: shares or chances are none, or a share is below the least one.
    """
    _validate(shares, chances, rule)
    lows = [max(rule.min_share, share - rule.max_step) for share in shares]
    highs = [min(1.0, share + rule.max_step) for share in shares]
    return tuple(_project(chances, lows, highs, 1.0))


def next_buckets(buckets: Sequence[int], chances: Sequence[float], rule: AllocationRule) -> tuple[int, ...]:
    """Return how many buckets each arm has after the next step; their sum stays, and bounds hold in whole buckets.

    Args:
        buckets: of the arms now, each at least `min_share` of their sum.
        chances: of each arm to be the best one, of sum 1.
        rule: the bounds.

    Raises:
        ArgumentError: buckets or chances are none, or an arm has fewer than its least share.
    """
    total = sum(buckets)
    if total < len(buckets):
        raise ArgumentError("buckets", "at least one for each arm", list(buckets))
    _validate([each / total for each in buckets], chances, rule)
    least, step = math.ceil(rule.min_share * total - 1e-9), math.floor(rule.max_step * total + 1e-9)
    lows = [max(min(least, each), each - step) for each in buckets]
    highs = [min(total, each + step) for each in buckets]
    wanted = _project([total * chance for chance in chances], lows, highs, float(total))
    found = [math.floor(each + 1e-9) for each in wanted]
    # Whole buckets: those that are left go to the largest remainders; among equal ones to where fewest devices move.
    order = sorted(
        range(len(found)),
        key=lambda arm: (round(found[arm] - wanted[arm], 6), -round(abs(found[arm] - buckets[arm]), 6), arm),
    )
    open_arms = [arm for arm in order if found[arm] < highs[arm]]
    for arm in open_arms[: total - sum(found)]:
        found[arm] += 1
    if max(abs(after - before) for after, before in zip(found, buckets, strict=True)) < MIN_STEP * total:
        return tuple(buckets)
    return tuple(found)


def _validate(shares: Sequence[float], chances: Sequence[float], rule: AllocationRule) -> None:
    for name, values in (("shares", shares), ("chances", chances)):
        is_whole = math.isclose(math.fsum(values), 1.0, abs_tol=1e-6)
        if len(values) < 2 or not is_whole or not all(0.0 <= each <= 1.0 + 1e-9 for each in values):
            raise ArgumentError(name, "two or more in [0, 1] of sum 1", list(values))
    if len(shares) != len(chances):
        raise ArgumentError("chances", f"one for each of {len(shares)} arms", len(chances))
    if rule.min_share * len(shares) > 1.0 + 1e-9:
        raise ArgumentError("min_share", f"at most 1 / {len(shares)}, for {len(shares)} arms", rule.min_share)
    if min(shares) < rule.min_share - 1e-9:
        raise ArgumentError("shares", f"each at least the least share {rule.min_share}", list(shares))


def _project(wanted: Sequence[float], lows: Sequence[float], highs: Sequence[float], total: float) -> list[float]:
    """Return the numbers nearest to `wanted` within the bounds, of sum `total`, which lies between the bounds' sums.

    They are wanted + shift, cut off; the sum rises with the shift, and is linear between the shifts at which some
    number meets a bound.
    """

    def cut(shift: float) -> list[float]:
        return [min(max(each + shift, low), high) for each, low, high in zip(wanted, lows, highs, strict=True)]

    bends = sorted({bound - each for bounds in (lows, highs) for each, bound in zip(wanted, bounds, strict=True)})
    below, above = bends[0], bends[-1]
    for bend in bends:
        if math.fsum(cut(bend)) <= total:
            below = bend
        else:
            above = bend
            break
    first, last = math.fsum(cut(below)), math.fsum(cut(above))
    if last <= first:
        return cut(below)
    return cut(below + (above - below) * (total - first) / (last - first))
