"""An experiment may list the buckets of its arms: devices follow the list, and nothing but a sound one is read."""

from typing import Any

import pytest
from alcove.registry.policy import (
    ArmBuckets,
    Check,
    ExperimentPolicy,
    bucket,
    candidates,
    explain,
    policy_from_bytes,
    resolve,
)
from pydantic import ValidationError

from tests.registry.policies import experiment, policy, rules, secret

MOVED = [(1, 0, 3000), (0, 3000, 500), (1, 3500, 1500), (0, 9000, 1000)]


def with_buckets(ranges: list[tuple[int, int, int]] | None, *shares: int) -> ExperimentPolicy:
    """An experiment whose arms have these ranges: arm, first, count."""
    before = experiment("e1", *shares).model_dump()
    listed = None if ranges is None else [{"arm": arm, "first": first, "count": count} for arm, first, count in ranges]
    return ExperimentPolicy.model_validate(before | {"buckets": listed})


def test_devices_are_in_the_arm_that_lists_their_bucket() -> None:
    """Some in each range, and those between the ranges in none."""
    document = policy(f=rules(with_buckets(MOVED, 1500, 4500)))
    assert policy_from_bytes(document.to_bytes()) == document
    seen = set()
    for device in range(300):
        number = bucket(secret(device), "salt-e1")
        expected = next((arm for arm, first, count in MOVED if first <= number < first + count), None)
        assert resolve(document, "f", secret(device)).arm == expected
        (found, *_) = candidates(document, "f", secret(device), now_s=0)
        assert found.resolution is not None
        assert found.resolution.arm == expected
        place = next((index for index, (_, first, count) in enumerate(MOVED) if first <= number < first + count), None)
        seen.add(place)
    assert seen == {None, 0, 1, 2, 3}


def test_an_explanation_names_the_range() -> None:
    """That which has the device, or all of them."""
    document = policy(f=rules(with_buckets(MOVED, 1500, 4500)))
    details = set()
    for device in range(100):
        (step,) = [each for each in explain(document, "f", secret(device)).steps if each.check is Check.BUCKET]
        details.add(step.detail.partition(" is ")[2])
    assert "in [3000, 3500) of arm 0, arm0" in details
    assert "in no arm: [0, 3000), [3000, 3500), [3500, 5000), [9000, 10000)" in details


def test_without_a_list_arms_have_the_ranges_of_their_shares() -> None:
    """The control at the top, the others from 0; the document does not speak of them."""
    one = with_buckets(None, 2000, 3000, 1000)
    assert [(each.arm, each.buckets) for each in one.ranges] == [
        (1, range(3000)),
        (2, range(3000, 4000)),
        (0, range(8000, 10_000)),
    ]
    assert b"buckets" not in policy(f=rules(one)).to_bytes()
    assert with_buckets(None, 0, 3000).ranges == (ArmBuckets(arm=1, first=0, count=3000),)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([], "have shares"),
        ([(1, 0, 3000), (0, 9000, 1000)], "have shares"),
        ([(1, 0, 4500), (0, 4400, 1500)], "rise, are apart"),
        ([(0, 4500, 1500), (1, 0, 4500)], "rise, are apart"),
        ([(1, 0, 4000), (1, 4000, 500), (0, 4500, 1500)], "one range where two"),
        ([(1, 0, 4500), (0, 9000, 1500)], "below 10000"),
        ([(2, 0, 4500), (0, 4500, 1500)], "buckets of arm 2"),
        ([(1, 0, 4500), (0, 4500, 1500), (0, 7000, 0)], "greater than or equal to 1"),
        ([(1, 0, 4500), (0, 4500, 1500), (8, 7000, 1)], "less than 8"),
        ([(index % 2, index * 10, 10) for index in range(300)], "at most 256"),
    ],
)
def test_ranges_that_are_not_the_shares_are_refused(ranges: list[Any], message: str) -> None:
    """Overlaps, second spellings, buckets that do not exist, and other counts than the shares."""
    with pytest.raises(ValidationError, match=message):
        with_buckets(ranges, 1500, 4500)
