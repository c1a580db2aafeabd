"""Devices get the frozen buckets and arms, arms have exactly their shares, and widening a share moves no device."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from alcove.registry.errors import FeatureUnknownError, VersionHaltedError
from alcove.registry.policy import (
    Arm,
    DeviceAttributes,
    ExperimentPolicy,
    FeaturePolicy,
    Outcome,
    Policy,
    Reason,
    RolloutPolicy,
    TaskPolicy,
    VersionRef,
    arm_ranges,
    bucket,
    candidates,
    draw_task,
    make_task,
    policy_from_bytes,
    resolve,
    rollout_ranges,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.policies import make_full_policy

VECTORS = Path(__file__).parent / "vectors" / "assignment.json"


def secret(device: int) -> bytes:
    """The secret of a numbered device, as the vectors say."""
    return hashlib.sha256(str(device).encode()).digest()


def ref(version: str) -> VersionRef:
    """A version with a digest of its own."""
    return VersionRef(version=version, manifest_sha256=hashlib.sha256(version.encode()).hexdigest())


def experiment(*shares: int, salt: str = "salt-e") -> ExperimentPolicy:
    """An experiment of versions 1.0.0, 1.1.0, ... with these shares."""
    arms = tuple(
        Arm(name=f"arm{index}", version=ref(f"1.{index}.0"), share_basis_points=share)
        for index, share in enumerate(shares)
    )
    task = make_task(
        experiment_id="e1",
        epsilon="2",
        arm_count=len(shares),
        latency_edges_ms=(1.0,),
        window_s=60,
        first_window_start_s=0,
    )
    return ExperimentPolicy(id="e1", salt=salt, arms=arms, tasks=(task,))


def policy(*shares: int, rollout: int | None = None) -> Policy:
    """A policy with an experiment (if there are shares) and a rollout of 3.0.0 (if it has a share)."""
    rules = FeaturePolicy(
        min_version="0.1.0",
        default=ref("0.9.0"),
        rollout=None
        if rollout is None
        else RolloutPolicy(id="r1", salt="salt-r", version=ref("3.0.0"), share_basis_points=rollout),
        experiments=(experiment(*shares),) if shares else (),
    )
    return Policy(app="messenger", serial=1, features={"language_id": rules})


def test_frozen_buckets() -> None:
    """Every implementation gives these buckets."""
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    for salt, buckets in vectors["buckets"].items():
        assert [bucket(secret(device), salt) for device in range(vectors["devices"])] == buckets


def test_frozen_resolutions() -> None:
    """Every implementation gives these versions, reasons and arms for a policy read from its bytes."""
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    document = policy_from_bytes(vectors["policy"].encode())
    for device, expected in enumerate(vectors["resolutions"]):
        answer = resolve(document, "language_id", secret(device))
        assert [answer.version.version, answer.reason.value, answer.arm] == expected


@given(st.binary(min_size=32, max_size=32), st.text(alphabet="abc123", min_size=1, max_size=8))
def test_bucket_is_the_formula_of_the_page(key: bytes, salt: str) -> None:
    """Recomputed without hmac: the first 8 bytes of HMAC-SHA256, scaled by multiplication."""
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key.ljust(64, b"\0")) + salt.encode()).digest()
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key.ljust(64, b"\0")) + inner).digest()
    assert bucket(key, salt) == int.from_bytes(outer[:8], "big") * 10_000 // 2**64


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_secret_of_another_length_is_refused(length: int) -> None:
    """Wrong use raises, naming both lengths."""
    with pytest.raises(ValueError, match=f"32 bytes, got {length}"):
        bucket(bytes(length), "salt")


def test_buckets_are_spread_evenly_and_independently_of_other_salts() -> None:
    """20 000 devices: ten classes within five standard deviations, and knowing one salt tells nothing of another."""
    count = 20_000
    first = [bucket(secret(device), "first") // 1000 for device in range(count)]
    second = [bucket(secret(device), "second") // 1000 for device in range(count)]
    bound = 5 * (count * 0.1 * 0.9) ** 0.5
    assert all(abs(first.count(number) - count / 10) < bound for number in range(10))
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert abs(same - count / 10) < bound


shares_of_two = st.tuples(st.integers(0, 5000), st.integers(0, 5000))


@given(st.lists(st.integers(0, 1250), min_size=2, max_size=8))
def test_each_arm_has_exactly_its_share_and_no_bucket_two_arms(shares: list[int]) -> None:
    """Over all 10 000 buckets."""
    ranges = arm_ranges(experiment(*shares))
    assert [len(buckets) for buckets in ranges] == shares
    numbers = [number for buckets in ranges for number in buckets]
    assert len(numbers) == len(set(numbers)) == sum(shares)
    assert all(0 <= number < 10_000 for number in numbers)


def test_control_comes_from_the_top_and_treatment_from_zero() -> None:
    """Arm 0 ends at 10 000, arm 1 starts at 0, arm 2 follows arm 1."""
    assert arm_ranges(experiment(1000, 2000, 500)) == (range(9000, 10_000), range(2000), range(2000, 2500))


@given(shares_of_two, shares_of_two, st.integers(0, 10**6))
def test_widening_never_removes_a_device(before: tuple[int, int], growth: tuple[int, int], device: int) -> None:
    """A device in an arm is in the same arm after any widening of both."""
    after = tuple(min(5000, low + more) for low, more in zip(before, growth, strict=True))
    old = resolve(policy(*before), "language_id", secret(device))
    new = resolve(policy(*after), "language_id", secret(device))
    if old.reason is Reason.EXPERIMENT:
        assert (new.reason, new.arm) == (Reason.EXPERIMENT, old.arm)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10**6))
def test_widening_a_rollout_never_removes_a_device(share: int, wider: int, device: int) -> None:
    """A device with the new version keeps it while the share rises."""
    low, high = sorted((share, wider))
    if resolve(policy(rollout=low), "language_id", secret(device)).reason is Reason.ROLLOUT:
        assert resolve(policy(rollout=high), "language_id", secret(device)).reason is Reason.ROLLOUT


def test_experiment_comes_before_rollout_before_default() -> None:
    """Each device gets the first that applies; the answer carries arm, experiment and task."""
    document = policy(2000, 2000, rollout=5000)
    (compared_arms,) = document.features["language_id"].experiments
    answers = [resolve(document, "language_id", secret(device)) for device in range(2000)]
    for device, answer in enumerate(answers):
        number = bucket(secret(device), "salt-e")
        if number < 2000 or number >= 8000:
            arm = 1 if number < 2000 else 0
            assert (answer.reason, answer.arm, answer.version) == (Reason.EXPERIMENT, arm, ref(f"1.{arm}.0"))
            assert (answer.experiment_id, answer.task) == ("e1", compared_arms.tasks[0])
        else:
            rolled = bucket(secret(device), "salt-r") < 5000
            assert answer.reason is (Reason.ROLLOUT if rolled else Reason.DEFAULT)
            assert (answer.arm, answer.experiment_id, answer.task) == (None, None, None)
    assert {answer.reason for answer in answers} == set(Reason) - {Reason.HOLDOUT}


def test_shares_of_zero_and_all_are_exact() -> None:
    """Nobody, and everybody."""
    for share, reason in ((0, Reason.DEFAULT), (10_000, Reason.ROLLOUT)):
        found = {resolve(policy(rollout=share), "language_id", secret(device)).reason for device in range(500)}
        assert found == {reason}
    everybody = {resolve(policy(5000, 5000), "language_id", secret(device)).reason for device in range(500)}
    assert everybody == {Reason.EXPERIMENT}


def test_halted_arm_ends_the_experiment_for_everybody() -> None:
    """No device learns from a halt which arm it was in, nor gets a rollout's version by it."""
    document = policy(5000, 5000, rollout=10_000)
    for arm in ("1.0.0", "1.1.0"):
        halted = frozenset({ref(arm).manifest_sha256})
        found = {resolve(document, "language_id", secret(device), halted=halted).reason for device in range(50)}
        assert found == {Reason.DEFAULT}
    halted = frozenset(ref(version).manifest_sha256 for version in ("1.1.0", "3.0.0"))
    assert resolve(document, "language_id", secret(1), halted=halted).reason is Reason.DEFAULT
    halted |= {ref("0.9.0").manifest_sha256}
    with pytest.raises(VersionHaltedError) as caught:
        resolve(document, "language_id", secret(1), halted=halted)
    assert (caught.value.feature, caught.value.version) == ("language_id", "0.9.0")


def test_unknown_feature_is_named() -> None:
    """The error carries app and feature."""
    with pytest.raises(FeatureUnknownError) as caught:
        resolve(policy(), "bandwidth", secret(1))
    assert (caught.value.app, caught.value.feature) == ("messenger", "bandwidth")


def make_compared_policy(share: int, control: int) -> Policy:
    """A policy with a rollout of 3.0.0 that has a control group and a task."""
    task = make_task(
        experiment_id="r1",
        epsilon="1",
        arm_count=2,
        outcome_groups=[(outcome,) for outcome in list(Outcome)[:4]],
        is_guardrail=True,
        latency_edges_ms=(1.0,),
        window_s=60,
        first_window_start_s=0,
    )
    rollout = RolloutPolicy(
        id="r1",
        salt="salt-r",
        version=ref("3.0.0"),
        share_basis_points=share,
        control_basis_points=control,
        tasks=(task,),
    )
    rules = FeaturePolicy(min_version="0.1.0", default=ref("0.9.0"), rollout=rollout)
    return Policy(app="messenger", serial=1, features={"language_id": rules})


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10**6))
def test_control_of_a_rollout_stays_on_the_default_and_reports(share: int, control: int, device: int) -> None:
    """Treatment from bucket 0 up, control from the top down, the rest in no arm."""
    control = min(control, 10_000 - share)
    document = make_compared_policy(share, control)
    rollout = document.features["language_id"].rollout
    assert rollout is not None
    answer = resolve(document, "language_id", secret(device))
    number = bucket(secret(device), "salt-r")
    expected: tuple[object, ...]
    if number < share:
        expected = (ref("3.0.0"), Reason.ROLLOUT, 1, rollout.tasks[0])
    elif number >= 10_000 - control:
        expected = (ref("0.9.0"), Reason.ROLLOUT, 0, rollout.tasks[0])
    else:
        expected = (ref("0.9.0"), Reason.DEFAULT, None, None)
    assert (answer.version, answer.reason, answer.arm, answer.task) == expected
    assert rollout_ranges(rollout) == (range(10_000 - control, 10_000), range(share))


def test_halted_default_ends_the_comparison_of_a_rollout_not_the_rollout() -> None:
    """The treatment continues in no arm; the control has nothing to run, like everybody else."""
    document = make_compared_policy(5000, 5000)
    halted = frozenset({ref("0.9.0").manifest_sha256})
    seen = set()
    for device in range(50):
        try:
            answer = resolve(document, "language_id", secret(device), halted=halted)
            seen.add((answer.version.version, answer.arm, answer.task))
        except VersionHaltedError as error:
            seen.add((error.version, None, None))
    assert seen == {("3.0.0", None, None), ("0.9.0", None, None)}


@given(st.integers(0, 10**6), st.integers(0, 5), st.booleans())
def test_first_candidate_whose_audience_has_the_device_is_what_it_runs(device: int, kind: int, is_halted: bool) -> None:
    """Candidates are found without the attributes, and lead to the same answer as the rules with them."""
    attributes = (
        DeviceAttributes(),
        DeviceAttributes(os="ios", app_version="2.3"),
        DeviceAttributes(os="android", locale="de-AT"),
        DeviceAttributes(locale="de", region="AT", memory_mb=8192),
        DeviceAttributes(device_class="phone", app_version="3.0", locale="en-GB"),
        DeviceAttributes(os="web", memory_mb=1024),
    )[kind]
    document = make_full_policy()
    for feature, rules in document.features.items():
        halted = frozenset({rules.default.manifest_sha256}) if is_halted else frozenset()
        found = candidates(document, feature, secret(device), now_s=0, halted=halted)
        mine = (one.resolution for one in found if one.audience is None or one.audience.matches(attributes))
        try:
            expected = resolve(document, feature, secret(device), attributes=attributes, halted=halted)
        except VersionHaltedError:
            expected = None
        assert next(mine, None) == expected
        assert all(one.audience is not None for one in found[:-1])
        assert found[-1].audience is None


def make_tasks(shares: list[int]) -> tuple[TaskPolicy, ...]:
    """Tasks of a rollout that differ in what they ask, with these shares."""
    return tuple(
        make_task(
            experiment_id="r1",
            epsilon=f"0.{number}",
            arm_count=2,
            is_guardrail=True,
            latency_edges_ms=(),
            share_basis_points=share,
            window_s=60,
            first_window_start_s=0,
        )
        for number, share in enumerate(shares, 1)
    )


def make_asking_policy(shares: list[int], salt: str = "salt-r") -> Policy:
    """A policy with a rollout to half of the devices, the others its control, of several tasks."""
    rollout = RolloutPolicy(
        id="r1",
        salt=salt,
        version=ref("3.0.0"),
        share_basis_points=5000,
        control_basis_points=5000,
        tasks=make_tasks(shares),
    )
    rules = FeaturePolicy(min_version="0.1.0", default=ref("0.9.0"), rollout=rollout)
    return Policy(app="messenger", serial=1, features={"language_id": rules})


def test_frozen_draws_of_tasks() -> None:
    """Every implementation draws the same task for a device."""
    vectors = json.loads((VECTORS.parent / "tasks.json").read_text(encoding="utf-8"))
    for case in vectors["cases"]:
        document = make_asking_policy(case["shares"], case["salt"])
        rollout = document.features["language_id"].rollout
        assert rollout is not None
        for device, place in enumerate(case["drawn"]):
            expected = rollout.tasks[int(place)]
            assert draw_task(rollout, secret(device)) == expected
            assert resolve(document, "language_id", secret(device)).task == expected


def test_draw_of_a_task_has_nothing_to_do_with_the_arm() -> None:
    """Of each arm's devices each task has its share, within five standard errors."""
    shares = [6000, 3000, 1000]
    document = make_asking_policy(shares)
    seen = Counter(
        (answer.arm, None if answer.task is None else answer.task.epsilon)
        for answer in (resolve(document, "language_id", secret(device)) for device in range(6000))
    )
    for arm in (0, 1):
        devices = sum(count for (of, _), count in seen.items() if of == arm)
        for number, share in enumerate(shares, 1):
            part = share / 10_000
            assert abs(seen[arm, f"0.{number}"] - part * devices) < 5 * (part * (1 - part) * devices) ** 0.5


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10**6))
def test_widening_a_rollout_leaves_a_device_its_question(share: int, wider: int, device: int) -> None:
    """The draw does not depend on the stage's share, so that a device is asked the same in each stage."""
    tasks = make_tasks([7000, 3000])
    drawn = set()
    for treated in (share, wider):
        rollout = RolloutPolicy(id="r1", salt="salt-r", version=ref("3.0.0"), share_basis_points=treated, tasks=tasks)
        drawn.add(draw_task(rollout, secret(device)))
    assert len(drawn) == 1
