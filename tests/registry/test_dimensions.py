"""A dimension has a few values that share no device, and each device reports the task of exactly one of them."""

import json
from collections import Counter
from typing import Any

import pytest
from alcove.registry.errors import AudienceError
from alcove.registry.policy import (
    Arm,
    Audience,
    Check,
    DeviceAttributes,
    Dimension,
    ExperimentPolicy,
    FeaturePolicy,
    Policy,
    TaskPolicy,
    VersionRef,
    candidates,
    explain,
    in_stratum,
    make_task,
    parse_audience,
    parse_dimension,
    policy_from_bytes,
    policy_to_bytes,
    resolve,
)
from alcove.registry.policy.dimension import OTHER, make_dimension
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ATTRIBUTES = st.builds(
    DeviceAttributes,
    os=st.none() | st.sampled_from(["android", "ios", "ipados", "web", "fuchsia"]),
    app_version=st.none() | st.sampled_from(["1.9.9", "2.0.0", "2.9", "3.0.0", "10.1"]),
    device_class=st.none() | st.sampled_from(["phone", "tablet", "other"]),
    locale=st.none() | st.sampled_from(["de", "de-AT", "en"]),
    memory_mb=st.none() | st.sampled_from([1024, 4096, 8192]),
)
DIMENSIONS = (
    "os=android,ios+ipados",
    "app_version=2.0,3.0",
    "device_class=phone,tablet",
    "locale=de",
    "memory_mb=4096",
)


def secret(device: int) -> bytes:
    """A device's secret."""
    return device.to_bytes(32, "big")


def ref(version: str) -> VersionRef:
    """A version."""
    return VersionRef(version=version, manifest_sha256=version[0] * 64)


def make_terms(share: int = 10_000, epsilon: str = "2") -> TaskPolicy:
    """A task of two arms."""
    return make_task(
        experiment_id="ex-1",
        epsilon=epsilon,
        arm_count=2,
        latency_edges_ms=(),
        window_s=86_400,
        first_window_start_s=0,
        share_basis_points=share,
    )


def make_experiment(text: str, tasks: tuple[TaskPolicy, ...] | None = None, **more: Any) -> ExperimentPolicy:
    """An experiment of two halves by a dimension."""
    dimension = parse_dimension(text) if text else None
    if tasks is None:
        count = 0 if dimension is None else len(dimension.names)
        tasks = tuple(in_stratum(make_terms(), value) for value in range(count)) or (make_terms(),)
    arms = tuple(
        Arm(name=name, version=ref(v), share_basis_points=5000) for name, v in (("a", "1.0.0"), ("b", "2.0.0"))
    )
    return ExperimentPolicy(id="ex-1", salt="salt", arms=arms, tasks=tasks, dimension=dimension, **more)


def make_policy(experiment: ExperimentPolicy) -> Policy:
    """A policy with one experiment."""
    rules = FeaturePolicy(min_version="0.1.0", default=ref("1.0.0"), experiments=(experiment,))
    return Policy(app="messenger", serial=1, features={"language_id": rules})


# --- text and documents


@pytest.mark.parametrize(
    ("text", "spelled", "names"),
    [
        ("os=ios,android", "os=android,ios", ("android", "ios", OTHER)),
        (" os = ipados+iOS , android ,other", "os=android,ios+ipados", ("android", "ios+ipados", OTHER)),
        (
            "app_version=2,3.0",
            "app_version=2.0.0,3.0.0",
            ("below 2.0.0", "from 2.0.0 below 3.0.0", "from 3.0.0", OTHER),
        ),
        ("memory_mb=4096", "memory_mb=4096", ("below 4096", "from 4096", OTHER)),
        ("device_class=phone", "device_class=phone", ("phone", OTHER)),
    ],
)
def test_text_has_one_spelling_and_one_document(text: str, spelled: str, names: tuple[str, ...]) -> None:
    """What people write, its canonical text, and its signed form mean the same."""
    dimension = parse_dimension(text)
    assert (str(dimension), dimension.names) == (spelled, names)
    assert parse_dimension(spelled) == Dimension.from_json(json.loads(json.dumps(dimension.to_json()))) == dimension


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected ATTRIBUTE=VALUE"),
        ("os", "expected ATTRIBUTE=VALUE"),
        ("os=", "expected ATTRIBUTE=VALUE"),
        ("os=android,,ios", "expected ATTRIBUTE=VALUE"),
        ("os=other", "1 to 3 values"),
        ("os=android,ios,web,linux", "1 to 3 values"),
        (f"device_class={','.join(f'c{n}' for n in range(100))}", "1 to 3 values"),
        ("os=android,android", "share no device"),
        ("os=android+ios,ios", "share no device"),
        ("locale=de,de-AT", "share no device"),
        ("os=other+android", "other than 'other'"),
        ("os=beos", "os is one of"),
        ("platform=android", "no device has the attribute 'platform'"),
        ("os=android;app_version=2", "character 11: expected one dimension alone"),
        ("os=android, app_version=2", "expected one dimension alone"),
        ("app_version=3,2", "rising cuts"),
        ("app_version=2,2.0.0", "rising cuts"),
        ("app_version=0", "rising cuts"),
        ("app_version=1,2,3", "1 to 3 values"),
        ("app_version=two", "a version such as"),
        ("x" * 5000, "at most 4096 characters"),
    ],
)
def test_text_that_tells_nothing_apart_is_refused(text: str, problem: str) -> None:
    """Empty, overlapping, too many, two dimensions at once: with the bound and the value."""
    with pytest.raises(AudienceError, match=problem):
        parse_dimension(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"attribute": "os", "values": []},
        {"attribute": "os", "values": "android"},
        {"attribute": "os", "values": [{"in": ["ios"]}, {"in": ["android"]}]},
        {"attribute": "os", "values": [{"in": ["android"]}, {"in": ["android", "ios"]}]},
        {"attribute": "os", "values": [{"not_in": ["android"]}]},
        {"attribute": "os", "values": [{"in": ["other"]}]},
        {"attribute": "os", "values": [{"in": ["android"]}] * 100},
        {"attribute": "os", "values": [{"in": [f"o{n}"]} for n in range(4)]},
        {"attribute": "os", "values": [{"in": ["android"]}], "more": 1},
        {"attribute": "app_version", "values": [{"from": "2.0.0"}]},
        {"attribute": "app_version", "values": [{"below": "2.0.0"}, {"from": "3.0.0"}]},
        {"attribute": "app_version", "values": [{"from": "2.0.0"}, {"below": "2.0.0"}]},
        {"attribute": 7, "values": [{"in": ["android"]}]},
        {"attribute": "color", "values": [{"in": ["red"]}]},
    ],
)
def test_documents_of_no_dimension_are_refused(value: object) -> None:
    """Every document that a stolen key could sign: gaps, overlaps, another order, too many values."""
    with pytest.raises(AudienceError):
        Dimension.from_json(value)


def test_values_are_of_one_attribute() -> None:
    """A value may not ask for a second attribute: two dimensions are never crossed silently."""
    crossed = parse_audience("os in (android) and app_version >= 2.0.0")
    other: Audience = parse_audience("locale in (de)")
    for audiences in ([crossed], [parse_audience("os in (android)"), other]):
        with pytest.raises(AudienceError, match="values of os alone"):
            make_dimension("os", audiences)


# --- the policy


def test_policy_carries_a_dimension_and_its_tasks() -> None:
    """The same policy comes back from its bytes; without a dimension nothing is written of one."""
    document = make_policy(make_experiment("os=android,ios"))
    assert policy_from_bytes(policy_to_bytes(document)) == document
    plain = policy_to_bytes(make_policy(make_experiment("")))
    assert b"dimension" not in plain
    assert b"stratum" not in plain


def test_experiments_without_a_task_for_each_value_are_refused() -> None:
    """A value without a task, a task without a dimension, other terms for a value, another order, four questions."""
    first, second, third = (in_stratum(make_terms(), value) for value in range(3))
    dearer = in_stratum(make_terms(epsilon="1"), 1)
    half = make_terms(share=5000)
    halves = tuple(in_stratum(half, value) for value in range(3))
    for text, tasks in (
        ("os=android,ios", (first, second)),
        ("os=android,ios", (second, first, third)),
        ("os=android,ios", (first, dearer, third)),
        ("os=android,ios", (make_terms(),)),
        ("os=android,ios", halves),
        ("", (first, second, third)),
        ("", (first,)),
        ("os=android,ios,web", (*(in_stratum(half, value) for value in range(4)), half)),
    ):
        with pytest.raises(ValidationError):
            make_experiment(text, tasks)
    make_experiment("os=android,ios", (*halves, half))


# --- devices


@given(st.sampled_from(DIMENSIONS), ATTRIBUTES, st.integers(0, 10**6))
def test_a_device_has_exactly_one_value(text: str, attributes: DeviceAttributes, device: int) -> None:
    """Whatever it states; it reports that value's task, and its arm has nothing to do with it."""
    dimension = parse_dimension(text)
    value = dimension.value_of(attributes)
    met = [number for number, audience in enumerate(dimension.audiences) if audience.matches(attributes)]
    assert met in ([], [value])
    assert bool(met) or dimension.names[value] == OTHER
    experiment = make_experiment(text)
    found = resolve(make_policy(experiment), "language_id", secret(device), attributes=attributes)
    assert found.task == experiment.tasks[value]
    plain = resolve(make_policy(make_experiment("")), "language_id", secret(device))
    assert (found.arm, found.version) == (plain.arm, plain.version)


def test_candidates_leave_the_value_open() -> None:
    """What depends on buckets alone tells nothing of the attribute: all tasks of the question, and none of them."""
    experiment = make_experiment("os=android,ios")
    (found,) = candidates(make_policy(experiment), "language_id", secret(1), now_s=0)
    assert found.resolution is not None
    assert (found.resolution.task, found.resolution.strata) == (None, experiment.tasks)
    assert found.resolution.place(2).task == experiment.tasks[2]


def test_a_question_is_drawn_before_the_value() -> None:
    """Half of the devices of each value answer the other question, within five standard errors."""
    half = make_terms(share=5000)
    other = make_terms(share=5000, epsilon="1")
    experiment = make_experiment("os=android,ios", (*(in_stratum(half, value) for value in range(3)), other))
    for attributes in (DeviceAttributes(os="android"), DeviceAttributes()):
        document = make_policy(experiment)
        seen = Counter(resolve(document, "language_id", secret(n), attributes=attributes).task for n in range(1000))
        value = 0 if attributes.os else 2
        assert set(seen) == {experiment.tasks[value], other}
        assert abs(seen[other] - 500) < 5 * 250**0.5


def test_explanations_name_the_value() -> None:
    """A device that states another system, or none, hears why it reports as "other"."""
    document = make_policy(make_experiment("os=android,ios"))
    for os, said in (
        ("ios", "os is ios, reported as 'ios'"),
        ("web", "os is web, reported as 'other'"),
        (None, "'other'"),
    ):
        steps = explain(document, "language_id", secret(1), attributes=DeviceAttributes(os=os)).steps
        (step,) = [step for step in steps if step.check is Check.DIMENSION]
        assert said in step.detail
