"""Buckets that move between arms: as many as shares change, those that moved last go back first, and none is lost."""

import itertools

from alcove.platform.domain.experiment_records import BucketRange
from alcove.platform.domain.experiments.buckets import count_moves, first_ranges, move_buckets
from alcove.platform.stats import AllocationRule, next_buckets
from alcove.registry.policy import arm_ranges
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.registry.policies import experiment


def counts_of(ranges: tuple[BucketRange, ...], arms: int) -> list[int]:
    """How many buckets each arm has."""
    return [sum(each.count for each in ranges if each.arm == arm) for arm in range(arms)]


def test_arms_begin_where_those_of_a_fixed_split_are() -> None:
    """So that nothing moves at the first change but what has to."""
    for shares in ((5000, 5000), (1000, 300, 700), (2500,) * 4):
        found = {each.arm: range(each.first, each.end) for each in first_ranges(shares)}
        assert [found[arm] for arm in range(len(shares))] == list(arm_ranges(experiment("e", *shares)))


def test_two_arms_move_their_border_there_and_back() -> None:
    """The same buckets return; the experiment keeps its own."""
    start = first_ranges((5000, 5000))
    there = move_buckets(start, (4000, 6000))
    assert there == (BucketRange(1, 0, 6000), BucketRange(0, 6000, 4000))
    assert move_buckets(there, (5000, 5000)) == start
    assert move_buckets(start, (5000, 5000)) == start


def test_arms_that_do_not_touch_move_an_end_and_then_its_border() -> None:
    """An experiment of a part of the devices: none of the others joins it, and what moved last goes back first."""
    start = first_ranges((1000, 1000))
    there = move_buckets(start, (800, 1200))
    assert there == (BucketRange(1, 0, 1000), BucketRange(0, 9000, 800), BucketRange(1, 9800, 200))
    further = move_buckets(there, (700, 1300))
    assert further == (BucketRange(1, 0, 1000), BucketRange(0, 9000, 700), BucketRange(1, 9700, 300))
    assert move_buckets(further, (1000, 1000)) == start


@st.composite
def walks(draw: st.DrawFn) -> tuple[list[int], list[list[float]]]:
    """The first shares of an experiment, and chances of some days."""
    arms = draw(st.integers(2, 5))
    total = draw(st.sampled_from((100, 1000, 9999, 10_000)))
    shares = [total // arms] * arms
    shares[0] += total - sum(shares)
    days = draw(st.lists(st.lists(st.integers(0, 100), min_size=arms, max_size=arms), min_size=1, max_size=5))
    return shares, [[(each + 1) / (sum(day) + arms) for each in day] for day in days]


@settings(max_examples=25)
@given(walks())
def test_as_many_buckets_move_as_shares_change(walk: tuple[list[int], list[list[float]]]) -> None:
    """Each day, whatever the days before were; no arm that grows gives any, and the experiment keeps its buckets."""
    shares, days = walk
    ranges = first_ranges(shares)
    own = {bucket for each in ranges for bucket in range(each.first, each.end)}
    for chances in days:
        after = next_buckets(shares, chances, AllocationRule(0.05, 0.1))
        moved = move_buckets(ranges, after)
        assert counts_of(moved, len(shares)) == list(after)
        assert count_moves(ranges, moved) == sum(abs(new - old) for new, old in zip(after, shares, strict=True)) // 2
        assert {bucket for each in moved for bucket in range(each.first, each.end)} == own
        assert all(low.end <= high.first for low, high in itertools.pairwise(moved))
        for arm, (new, old) in enumerate(zip(after, shares, strict=True)):
            kept = [each for each in ranges if each.arm == arm]
            if new >= old:
                assert count_moves(kept, moved) == 0
        shares, ranges = list(after), moved


def test_the_same_shares_give_the_same_ranges() -> None:
    """Any server that reads the same rows writes the same policy."""
    start = first_ranges((2500,) * 4)
    assert len({move_buckets(start, (2000, 3500, 2500, 2000)) for _ in range(3)}) == 1


def test_ranges_stay_few() -> None:
    """Far fewer than devices read, when eight arms change in turns."""
    shares: list[int] = [1250] * 8
    ranges = first_ranges(shares)
    for day in range(60):
        chances = [0.02] * 8
        chances[day * 5 % 8] = 0.6
        chances[day * 3 % 8] += 0.26
        shares = list(next_buckets(shares, [each / sum(chances) for each in chances], AllocationRule(0.05, 0.1)))
        ranges = move_buckets(ranges, shares)
    assert len(ranges) < 64
