"""Shares that follow the chances to be best: exact small cases, and what holds for all shares and chances."""

import itertools
import math
from collections.abc import Sequence
from random import Random

import pytest
from alcove.platform.stats import AllocationRule, ArgumentError, next_buckets, next_shares
from hypothesis import given, settings
from hypothesis import strategies as st

RULE = AllocationRule()
FREE = AllocationRule(min_share=0.1, max_step=1.0)


@pytest.mark.parametrize(
    ("shares", "chances", "rule", "expected"),
    [
        ((0.5, 0.5), (0.97, 0.03), RULE, (0.6, 0.4)),  # the step
        ((0.5, 0.5), (0.53, 0.47), RULE, (0.53, 0.47)),  # nothing but the chances
        ((0.85, 0.15), (1.0, 0.0), RULE, (0.9, 0.1)),  # the least share
        ((0.9, 0.1), (0.0, 1.0), RULE, (0.8, 0.2)),  # and back again
        ((0.4, 0.3, 0.3), (0.96, 0.02, 0.02), RULE, (0.5, 0.25, 0.25)),
        ((0.25,) * 4, (0.97, 0.01, 0.01, 0.01), FREE, (0.7, 0.1, 0.1, 0.1)),
        ((0.25,) * 4, (0.5, 0.45, 0.05, 0.0), FREE, (0.425, 0.375, 0.1, 0.1)),  # the least take from both others
        ((0.1, 0.8, 0.1), (0.2, 0.2, 0.6), RULE, (0.1, 0.7, 0.2)),  # what is over goes to the better one
    ],
)
def test_small_cases(
    shares: Sequence[float], chances: Sequence[float], rule: AllocationRule, expected: Sequence[float]
) -> None:
    """Shares that can be computed on paper."""
    assert next_shares(shares, chances, rule) == pytest.approx(expected, abs=1e-12)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[float], AllocationRule]:
    """Arms' buckets, chances and bounds that go together."""
    arms = draw(st.integers(2, 8))
    rule = AllocationRule(draw(st.floats(0.01, 1.0 / arms)), draw(st.sampled_from((0.01, 0.05, 0.1, 0.3, 1.0))))
    total = draw(st.integers(400, 10_000))
    least = math.ceil(rule.min_share * total)
    if least * arms > total:
        total = arms * least
    parts = draw(st.lists(st.integers(0, 100), min_size=arms, max_size=arms))
    free, weight = total - arms * least, sum(parts) or 1
    buckets = [least + free * part // weight for part in parts]
    buckets[0] += total - sum(buckets)
    raw = draw(st.lists(st.floats(0.0, 1.0), min_size=arms, max_size=arms))
    chances = [each / sum(raw) for each in raw] if sum(raw) > 1e-3 else [1.0 / arms] * arms
    return buckets, chances, rule


@settings(max_examples=40)
@given(cases())
def test_shares_keep_their_sum_and_their_bounds(case: tuple[list[int], list[float], AllocationRule]) -> None:
    """Of every experiment, in whole buckets and before rounding."""
    buckets, chances, rule = case
    total = sum(buckets)
    after = next_buckets(buckets, chances, rule)
    assert sum(after) == total
    assert min(after) >= rule.min_share * total - 1e-6
    assert max(abs(one - other) for one, other in zip(after, buckets, strict=True)) <= rule.max_step * total + 1e-6
    exact = next_shares([each / total for each in buckets], chances, rule)
    assert math.fsum(exact) == pytest.approx(1.0, abs=1e-9)
    if after != tuple(buckets):
        assert after == pytest.approx([total * each for each in exact], abs=len(buckets) + 1.0)


@settings(max_examples=40)
@given(cases(), st.randoms(use_true_random=False))
def test_no_arm_is_preferred_by_its_place(case: tuple[list[int], list[float], AllocationRule], random: Random) -> None:
    """Arms in another order have the same shares in that order."""
    buckets, chances, rule = case
    order = list(range(len(buckets)))
    random.shuffle(order)
    total = sum(buckets)
    shares = [each / total for each in buckets]
    straight = next_shares(shares, chances, rule)
    moved = next_shares([shares[arm] for arm in order], [chances[arm] for arm in order], rule)
    assert moved == pytest.approx([straight[arm] for arm in order], abs=1e-9)


@settings(max_examples=40)
@given(cases())
def test_a_better_arm_has_no_smaller_share(case: tuple[list[int], list[float], AllocationRule]) -> None:
    """Where shares were equal their order is that of the chances; a chance that rises lowers no share of its arm."""
    buckets, chances, rule = case
    arms = len(buckets)
    after = next_shares([1.0 / arms] * arms, chances, rule)
    ranked = sorted(range(arms), key=lambda arm: chances[arm])
    assert all(after[low] <= after[high] + 1e-9 for low, high in itertools.pairwise(ranked))
    raised = [chance * 0.7 + (0.3 if arm == 0 else 0.0) for arm, chance in enumerate(chances)]
    shares = [each / sum(buckets) for each in buckets]
    assert next_shares(shares, raised, rule)[0] >= next_shares(shares, chances, rule)[0] - 1e-9


@settings(max_examples=40)
@given(cases())
def test_shares_that_are_the_chances_stay(case: tuple[list[int], list[float], AllocationRule]) -> None:
    """The same chances again lead to the same shares in the end, and then nothing moves."""
    buckets, chances, rule = case
    for _ in range(120):
        following = next_buckets(buckets, chances, rule)
        if list(following) == list(buckets):
            break
        buckets = list(following)
    assert list(next_buckets(buckets, chances, rule)) == list(buckets)


def test_the_same_chances_give_the_same_digits() -> None:
    """Nothing is drawn."""
    seen = {next_buckets((3000, 4000, 3000), (0.31, 0.42, 0.27), RULE) for _ in range(5)}
    assert seen == {(3100, 4200, 2700)}


def test_a_step_that_is_not_worth_it_is_not_made() -> None:
    """Less than a hundredth of the devices."""
    assert next_buckets((5000, 5000), (0.509, 0.491), RULE) == (5000, 5000)
    assert next_buckets((5000, 5000), (0.51, 0.49), RULE) == (5100, 4900)


@pytest.mark.parametrize(
    ("shares", "chances", "rule", "name"),
    [
        ((0.5, 0.5), (0.5, 0.4), RULE, "chances"),
        ((0.5, 0.5), (1.2, -0.2), RULE, "chances"),
        ((0.5, 0.5), (0.4, 0.3, 0.3), RULE, "chances"),
        ((0.5, 0.4), (0.5, 0.5), RULE, "shares"),
        ((1.0,), (1.0,), RULE, "shares"),
        ((0.95, 0.05), (0.5, 0.5), RULE, "shares"),
        ((0.25,) * 4, (0.25,) * 4, AllocationRule(min_share=0.3), "min_share"),
    ],
)
def test_nonsense_is_refused_by_name(
    shares: Sequence[float], chances: Sequence[float], rule: AllocationRule, name: str
) -> None:
    """Shares and chances that are none."""
    with pytest.raises(ArgumentError) as error:
        next_shares(shares, chances, rule)
    assert error.value.name == name


def test_bounds_that_bound_nothing_are_refused() -> None:
    """A least share of nothing, and steps that are none."""
    for fields in (
        {"min_share": 0.0},
        {"min_share": 0.6},
        {"max_step": 0.0},
        {"max_step": 1.1},
        {"max_step": math.nan},
    ):
        with pytest.raises(ArgumentError):
            AllocationRule(**fields)
    with pytest.raises(ArgumentError):
        next_buckets((1, 0), (0.5, 0.5), RULE)
