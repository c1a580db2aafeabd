"""Devices of a read-out of the holdout: who is in it, what goes before what they keep, and when it ends."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from alcove.registry.errors import VersionHaltedError
from alcove.registry.policy import (
    Check,
    Policy,
    Reason,
    bucket,
    candidates,
    explain,
    policy_from_bytes,
    resolve,
)
from pydantic import ValidationError

from tests.registry.policies import experiment, make_readout_policy, policy, readout, ref, rollout, rules, secret

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "readout.json").read_text(encoding="utf-8"))
DOCUMENT = policy_from_bytes(VECTORS["policy"].encode())
KEPT, DEFAULT, NEW = (ref(version).manifest_sha256 for version in ("0.8.0", "0.9.0", "3.0.0"))
BEFORE, LAST = 999, 1000
TASK = readout().task


def answer(document: Policy, feature: str, device: int, halted: frozenset[str], now_s: int) -> list[Any]:
    """Version, reason, the arm and the experiment of what is reported; nothing where all is halted."""
    try:
        found = resolve(document, feature, secret(device), halted=halted, now_s=now_s)
    except VersionHaltedError:
        return []
    task = None if found.task is None else found.task.experiment_id
    return [found.version.version, found.reason.value, None if task is None else found.reported_arm, task]


def place(device: int) -> int:
    """The device's bucket of the holdout."""
    return bucket(secret(device), "salt-h")


HELD_OUT = [device for device in range(1000) if place(device) < 1000]
MIRROR = [device for device in range(1000) if place(device) >= 9000]
OTHERS = [device for device in range(1000) if 1000 <= place(device) < 9000]


def test_frozen_cases() -> None:
    """Every implementation gives these answers for a policy read from its bytes."""
    assert make_readout_policy().to_bytes() == VECTORS["policy"].encode()
    assert len(VECTORS["cases"]) >= 500
    for feature, device, halted, now_s, expected in VECTORS["cases"]:
        digests = frozenset(ref(version).manifest_sha256 for version in halted)
        assert answer(DOCUMENT, feature, device, digests, now_s) == expected, (feature, device, halted, now_s)


def test_held_out_devices_keep_the_versions_of_the_first_day_before_rollout_and_default() -> None:
    """Of each feature that is named; both groups report the read-out of the measured one, and nothing else."""
    for device in HELD_OUT[:40]:
        assert answer(DOCUMENT, "moved", device, frozenset(), BEFORE) == ["0.8.0", "holdout", 0, "ro-1"]
        assert answer(DOCUMENT, "still", device, frozenset(), BEFORE) == ["0.8.0", "holdout", None, None]
        assert answer(DOCUMENT, "tried", device, frozenset(), BEFORE) == ["0.9.0", "default", None, None]
    seen: Counter[str] = Counter()
    for device in MIRROR[:80]:
        version, reason, *reported = answer(DOCUMENT, "moved", device, frozenset(), BEFORE)
        assert reported == [1, "ro-1"]
        seen[f"{version} {reason}"] += 1
        assert answer(DOCUMENT, "still", device, frozenset(), BEFORE) == ["0.9.0", "default", None, None]
        assert answer(DOCUMENT, "tried", device, frozenset(), BEFORE) == ["0.9.0", "default", None, None]
    assert seen.keys() == {"3.0.0 rollout", "0.9.0 rollout", "0.9.0 default"}, "it runs what everybody runs"


def test_devices_of_neither_group_are_as_without_a_read_out() -> None:
    """The rest of the app spends nothing on it."""
    assert DOCUMENT.holdout is not None
    without = DOCUMENT.model_copy(update={"holdout": DOCUMENT.holdout.model_copy(update={"readout": None})})
    for device in OTHERS[:100]:
        for feature in DOCUMENT.features:
            assert resolve(DOCUMENT, feature, secret(device)) == resolve(without, feature, secret(device))


def test_groups_are_of_one_size_and_share_no_device() -> None:
    """Up to a half of the devices each; more is refused."""
    held = policy(holdout=5000, readout=readout(), moved=rules(), still=rules())
    groups = Counter(answer(held, "moved", device, frozenset(), BEFORE)[2] for device in range(400))
    assert groups.keys() == {0, 1}
    with pytest.raises(ValidationError, match="at most 5000 of the devices, got 5001"):
        policy(holdout=5001, readout=readout(), moved=rules(), still=rules())


@pytest.mark.parametrize(
    ("halted", "held_out", "mirror"),
    [
        ({KEPT}, {"0.9.0", "3.0.0"}, {"0.9.0", "3.0.0"}),
        ({DEFAULT}, {"0.8.0"}, {"3.0.0"}),
        ({NEW}, {"0.8.0"}, {"0.9.0"}),
        ({KEPT, DEFAULT}, {"3.0.0"}, {"3.0.0"}),
        ({KEPT, DEFAULT, NEW}, set(), set()),
    ],
)
def test_halt_goes_before_what_is_kept(halted: set[str], held_out: set[str], mirror: set[str]) -> None:
    """A held-out device runs no halted version; where a side of the comparison is halted nobody reports."""
    digests = frozenset(halted)
    for devices, versions in ((HELD_OUT, held_out), (MIRROR, mirror)):
        found = [answer(DOCUMENT, "moved", device, digests, BEFORE) for device in devices]
        assert {one[0] for one in found if one} == versions
        is_over = bool(digests & {KEPT, DEFAULT})
        assert {one[3] for one in found if one} <= ({None} if is_over else {"ro-1"})


def test_halt_of_another_kept_feature_leaves_the_measured_one_alone() -> None:
    """It is let go of there, and the comparison goes on."""
    kept = {"moved": ref("0.8.0"), "still": ref("0.7.0")}
    document = policy(holdout=1000, readout=readout(versions=kept), moved=rules(), still=rules())
    halted = frozenset({ref("0.7.0").manifest_sha256})
    assert answer(document, "still", HELD_OUT[0], halted, BEFORE) == ["0.9.0", "default", None, None]
    assert answer(document, "moved", HELD_OUT[0], halted, BEFORE) == ["0.8.0", "holdout", 0, "ro-1"]


def test_minimum_version_goes_before_what_is_kept() -> None:
    """No policy can keep what the team's minimum version forbids."""
    with pytest.raises(ValidationError, match=r"0\.0\.9 that the holdout keeps is below min_version 0\.1\.0"):
        policy(holdout=1000, readout=readout(kept="0.0.9"), moved=rules(), still=rules())


def test_last_day_ends_it_on_a_device_that_has_an_old_policy() -> None:
    """By its own clock, in both groups: it is then as without a read-out; one that is held out is in no experiment."""
    for device in HELD_OUT[:20] + MIRROR[:20]:
        for feature in DOCUMENT.features:
            _, reason, _, task = answer(DOCUMENT, feature, device, frozenset(), LAST)
            assert reason != "holdout"
            assert task != "ro-1"
    assert {answer(DOCUMENT, "tried", device, frozenset(), LAST)[1] for device in HELD_OUT} == {"default"}
    assert {answer(DOCUMENT, "tried", device, frozenset(), LAST)[1] for device in MIRROR} == {"experiment"}


def test_both_groups_fetch_alike_and_say_no_to_it_alike() -> None:
    """Candidates differ between groups in nothing but who keeps; without consent a device is in neither group."""
    for feature in DOCUMENT.features:
        shapes = set()
        for device in HELD_OUT + MIRROR:
            found = candidates(DOCUMENT, feature, secret(device), now_s=BEFORE)
            shapes.add((feature, *(None if one.kept is None else one.kept.version.version for one in found)))
            refusing = candidates(DOCUMENT, feature, secret(device), now_s=BEFORE, is_in_experiments=False)
            for one in refusing:
                assert one.kept is None
                assert one.resolution is not None
                assert one.resolution.task is None or one.resolution.task.experiment_id != "ro-1"
        assert len(shapes) == 1


def test_candidates_assign_what_the_rules_do() -> None:
    """With and without halts."""
    for halted in (frozenset[str](), frozenset({KEPT}), frozenset({DEFAULT}), frozenset({NEW})):
        for device in HELD_OUT[:30] + MIRROR[:30] + OTHERS[:30]:
            for feature in DOCUMENT.features:
                first = candidates(DOCUMENT, feature, secret(device), now_s=BEFORE, halted=halted)[0].assigned
                try:
                    expected = resolve(DOCUMENT, feature, secret(device), halted=halted, now_s=BEFORE)
                except VersionHaltedError:
                    expected = None
                assert first == expected


def test_explanation_names_group_bucket_and_what_is_kept() -> None:
    """Word for word."""
    held, mirror = HELD_OUT[0], MIRROR[0]
    (step,) = explain(DOCUMENT, "moved", secret(held), now_s=BEFORE).steps
    assert (step.subject, step.check, step.passed) == ("read-out ro-1", Check.HOLDOUT, True)
    assert step.detail == f"bucket {place(held)} is in [0, 1000): held out, keeps 0.8.0; in no experiment"
    first, *_, last = explain(DOCUMENT, "tried", secret(held), now_s=BEFORE).steps
    assert first.detail == f"bucket {place(held)} is in [0, 1000): held out; in no experiment"
    assert (first.passed, last.check) == (False, Check.DEFAULT)
    found = explain(DOCUMENT, "still", secret(mirror), now_s=BEFORE)
    words = "mirror group, which runs what everybody runs"
    assert found.steps[0].detail == f"bucket {place(mirror)} is in [9000, 10000): {words}; in no experiment"
    assert found.resolution is not None
    assert found.resolution.reason is Reason.DEFAULT


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature": "tried"}, "measures a feature that it keeps"),
        ({"versions": {}}, "at least 1"),
        ({"task_of": "ro-2"}, "has a task of 2 arms under its own id"),
        ({"is_guardrail": True}, "may not use the reserve of guardrails"),
        ({"until_s": 0}, "greater than or equal to 1"),
        ({"versions": {"moved": ref("0.8.0"), "gone": ref("0.8.0")}}, "gone, which the policy does not mention"),
    ],
)
def test_read_out_that_cannot_be_read_is_refused(options: dict[str, Any], words: str) -> None:
    """Its task is its own, of experiments' budget; it measures what it keeps, of features that there are."""
    with pytest.raises(ValidationError, match=words):
        policy(holdout=1000, readout=readout(**options), moved=rules(), still=rules())


def test_versions_of_a_feature_are_those_of_the_holdout_too() -> None:
    """Whoever checks what a policy names sees what is kept."""
    names = [one.version for one in DOCUMENT.versions("moved")]
    assert names == ["0.9.0", "3.0.0", "0.8.0"]
    assert [one.version for one in DOCUMENT.versions("tried")] == ["0.9.0", "1.0.0", "1.1.0"]
    plain = policy(f=rules(experiment("ex-a", 10, 10), moving=rollout(10)))
    assert plain.versions("f") == plain.features["f"].versions()
