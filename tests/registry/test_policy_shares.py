"""How devices split over versions: exact shares, and what the assignment itself gives to many devices."""

from collections import Counter
from fractions import Fraction

import pytest
from alcove.registry.errors import FeatureUnknownError, VersionHaltedError
from alcove.registry.policy import DeviceAttributes, Policy, resolve, split_devices

from tests.registry.policies import make_full_policy, make_readout_policy, policy, ref, rollout, rules, secret

DEVICES = 1000
TOLERANCE = 5 * (0.25 / DEVICES) ** 0.5  # five standard errors at the widest: of fixed secrets, so it never changes
KNOWN = (DeviceAttributes(), DeviceAttributes(os="ios", app_version="2.3.0", memory_mb=4096, region="AT", locale="de"))


@pytest.mark.parametrize("document", [make_full_policy(), make_readout_policy()], ids=["full", "read-out"])
@pytest.mark.parametrize("attributes", KNOWN, ids=["nothing known", "known"])
def test_shares_are_those_that_the_assignment_gives(document: Policy, attributes: DeviceAttributes) -> None:
    """Feature by feature, before and after a read-out's end, with the default halted and without."""
    for feature, own in document.features.items():
        for now_s in (0, 2000):
            for halted in (frozenset[str](), frozenset({own.default.manifest_sha256})):
                found = split_devices(document, feature, attributes=attributes, halted=halted, now_s=now_s)
                assert sum(one.share for one in found) == 1
                expected: dict[str, Fraction] = {}
                for one in found:
                    expected[one.version] = expected.get(one.version, Fraction(0)) + one.share
                seen: Counter[str] = Counter()
                for device in range(DEVICES):
                    try:
                        answer = resolve(
                            document, feature, secret(device), attributes=attributes, halted=halted, now_s=now_s
                        )
                        seen[answer.version.version] += 1
                    except VersionHaltedError:
                        seen[""] += 1
                assert seen.keys() <= expected.keys(), feature
                for version, share in expected.items():
                    assert abs(seen[version] / DEVICES - float(share)) < TOLERANCE, (feature, version, now_s)


def test_a_rollout_splits_by_its_shares_and_a_halt_gives_them_back() -> None:
    """Arms and reasons are named; a halted version has nobody."""
    document = policy(moved=rules(moving=rollout(1000, 500)))
    found = {(one.version, one.arm): one.share for one in split_devices(document, "moved")}
    assert found == {
        ("0.9.0", None): Fraction(85, 100),
        ("3.0.0", 1): Fraction(10, 100),
        ("0.9.0", 0): Fraction(5, 100),
    }
    halted = frozenset({ref("3.0.0").manifest_sha256})
    assert [(one.version, one.share) for one in split_devices(document, "moved", halted=halted)] == [
        ("0.9.0", Fraction(1))
    ]
    with pytest.raises(FeatureUnknownError):
        split_devices(document, "nothing")
