"""Frozen vectors of what devices get from rollouts, experiments, layers, holdouts and audiences together."""

import json
from pathlib import Path
from typing import Any

import pytest
from alcove.registry.errors import DocumentError, VersionHaltedError
from alcove.registry.policy import (
    Check,
    DeviceAttributes,
    Policy,
    Reason,
    Resolution,
    Segment,
    bucket,
    explain,
    parse_audience,
    policy_from_bytes,
    resolve,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.registry.policies import experiment, make_full_policy, plainly, policy, ref, rollout, rules, secret

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "policy.json").read_text(encoding="utf-8"))
DOCUMENT = policy_from_bytes(VECTORS["policy"].encode())
DIGESTS = {version: ref(version).manifest_sha256 for version in ("0.9.0", "1.0.0", "1.1.0", "1.2.0", "3.0.0")}
VERSIONS = {digest: version for version, digest in DIGESTS.items()}


def answer(document: Policy, feature: str, device: int, known: dict[str, Any], halted: list[str]) -> list[Any]:
    """What the product says, in the vectors' form."""
    digests = frozenset(DIGESTS[version] for version in halted)
    try:
        found = resolve(document, feature, secret(device), attributes=DeviceAttributes(**known), halted=digests)
    except VersionHaltedError:
        return []
    return [found.version.version, found.reason.value, found.arm]


def test_there_are_a_thousand_frozen_cases_and_they_reach_every_branch() -> None:
    """Every reason, every arm, and devices for which nothing may run."""
    assert len(VECTORS["cases"]) >= 1000
    seen = {(feature, *case[1:]) for feature, _, _, _, case in VECTORS["cases"]}
    assert {("layered", "experiment", arm) for arm in (0, 1, 2)} <= seen
    assert {("watched", "rollout", arm) for arm in (None, 0, 1)} <= seen
    assert {("moved", "rollout", None), ("moved", "default", None), ("moved",)} <= seen


def test_frozen_cases() -> None:
    """Every implementation gives these answers for a policy read from its bytes."""
    for feature, device, described, halted, expected in VECTORS["cases"]:
        known, stopped = VECTORS["described"][described], VECTORS["halted"][halted]
        assert answer(DOCUMENT, feature, device, known, stopped) == expected, (feature, device)


def test_frozen_policy_is_what_is_built_today() -> None:
    """The encoding is frozen as well: the same parts give the same bytes."""
    assert make_full_policy().to_bytes() == VECTORS["policy"].encode()


@given(
    st.sampled_from(sorted(DOCUMENT.features)),
    st.integers(0, 10**6),
    st.sampled_from(VECTORS["described"]),
    st.lists(st.sampled_from(sorted(DIGESTS)), max_size=2),
)
def test_a_plain_resolver_over_the_json_agrees(
    feature: str, device: int, known: dict[str, Any], halted: list[str]
) -> None:
    """Written a second time in the fewest words, it says the same."""
    expected = plainly(json.loads(VECTORS["policy"]), feature, device, known, set(halted))
    assert answer(DOCUMENT, feature, device, known, halted) == expected


@given(
    st.sampled_from(sorted(DOCUMENT.features)),
    st.integers(0, 10**6),
    st.sampled_from(VECTORS["described"]),
    st.lists(st.sampled_from(sorted(DIGESTS)), max_size=2),
)
def test_explanation_ends_where_the_resolution_does(
    feature: str, device: int, known: dict[str, Any], halted: list[str]
) -> None:
    """The last step is the one that chose; before it every part of the policy was left at a step that did not pass."""
    digests = frozenset(DIGESTS[version] for version in halted)
    attributes = DeviceAttributes(**known)
    explanation = explain(DOCUMENT, feature, secret(device), attributes=attributes, halted=digests)
    expected = answer(DOCUMENT, feature, device, known, halted)
    found = explanation.resolution
    assert ([] if found is None else [found.version.version, found.reason.value, found.arm]) == expected
    last = explanation.steps[-1]
    assert last.passed is (found is not None)
    assert last.check is (Check.DEFAULT if found is None or found.reason is Reason.DEFAULT else Check.BUCKET)
    subjects = [step.subject for step in explanation.steps]
    assert subjects == sorted(subjects, key=subjects.index), "each part is asked about once, its questions together"
    left = {step.subject for step in explanation.steps if not step.passed}
    assert {subject for subject in subjects if subject != last.subject and "holdout" not in subject} <= left


def test_explanation_names_numbers_and_what_the_device_says() -> None:
    """One device of each kind, word for word."""
    document = policy(
        holdout=500,
        tags=rules(experiment("ex-a", 10, 10, segment=Segment(layer="top", first=0, count=5000)), moving=rollout(2500)),
        typing=rules(moving=rollout(5000, audience="os == ios")),
    )
    device = next(
        i for i in range(1000) if bucket(secret(i), "salt-h") >= 500 and bucket(secret(i), "salt-top") >= 5000
    )
    key = secret(device)
    explanation = explain(document, "tags", key)
    assert [(step.subject, step.check, step.passed) for step in explanation.steps[:2]] == [
        ("holdout of messenger", Check.HOLDOUT, True),
        ("experiment ex-a", Check.LAYER, False),
    ]
    assert explanation.steps[0].detail == f"bucket {bucket(key, 'salt-h')} is not in [0, 500)"
    assert explanation.steps[1].detail == f"bucket {bucket(key, 'salt-top')} of layer top is not in [0, 5000)"
    explanation = explain(document, "typing", key, attributes=DeviceAttributes(os="web"))
    assert explanation.steps[0].detail == "os in (ios); os is web"
    explanation = explain(document, "typing", key)
    assert explanation.steps[0].detail == "os in (ios); os is not stated"


parts = st.lists(st.integers(1, 2500), min_size=2, max_size=4)


@given(parts, st.integers(0, 10**5))
def test_experiments_of_a_layer_exclude_each_other_over_all_features(counts: list[int], device: int) -> None:
    """A device is in an arm of at most one of them, and in one if its bucket is in a segment and arms take all."""
    first, names = 0, []
    features: dict[str, Any] = {}
    for index, count in enumerate(counts):
        segment = Segment(layer="all", first=first, count=count)
        names.append(f"f{index}")
        features[names[-1]] = rules(experiment(f"ex-{index}", 5000, 5000, segment=segment))
        first += count
    document = policy(**features)
    inside = [name for name in names if resolve(document, name, secret(device)).reason is Reason.EXPERIMENT]
    assert len(inside) == (1 if bucket(secret(device), "salt-all") < first else 0)


@given(st.integers(0, 10_000), st.integers(0, 10**5))
def test_held_out_devices_are_in_no_experiment_and_still_get_rollouts(share: int, device: int) -> None:
    """Of any feature."""
    document = policy(
        holdout=share,
        one=rules(experiment("ex-1", 5000, 5000), moving=rollout(10_000)),
        two=rules(experiment("ex-2", 5000, 5000)),
    )
    reasons = {feature: resolve(document, feature, secret(device)).reason for feature in ("one", "two")}
    if bucket(secret(device), "salt-h") < share:
        assert reasons == {"one": Reason.ROLLOUT, "two": Reason.DEFAULT}
    else:
        assert set(reasons.values()) == {Reason.EXPERIMENT}


@given(
    st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
    st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
    st.tuples(st.integers(0, 9999), st.integers(1, 10_000)),
    st.tuples(st.integers(0, 9999), st.integers(0, 10_000)),
    st.integers(0, 10**5),
)
def test_widening_never_moves_a_device(
    shares: tuple[int, int], growth: tuple[int, int], place: tuple[int, int], more: tuple[int, int], device: int
) -> None:
    """Arms, segment and the narrowing of a holdout: a device that was in an arm is in the same one."""
    wider = tuple(min(5000, low + extra) for low, extra in zip(shares, growth, strict=True))
    first, count = place[0], min(place[1], 10_000 - place[0])
    start = max(0, first - more[0])
    end = min(10_000, first + count + more[1])
    old = experiment("ex-a", *shares, segment=Segment(layer="l", first=first, count=count))
    new = experiment("ex-a", *wider, segment=Segment(layer="l", first=start, count=end - start))
    before, after = policy(holdout=1000, f=rules(old)), policy(holdout=500, f=rules(new))
    was = resolve(before, "f", secret(device))
    if was.reason is Reason.EXPERIMENT:
        now = resolve(after, "f", secret(device))
        assert (now.reason, now.arm) == (was.reason, was.arm)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 10**5))
def test_a_rollout_that_widens_both_groups_never_moves_a_device(share: int, more: int, device: int) -> None:
    """Treatment and control both grow: nobody changes sides (below a half, where the control does not shrink)."""
    wider = min(5000, share + more)
    before, after = (policy(f=rules(moving=rollout(size, size, has_task=True))) for size in (share, wider))
    was = resolve(before, "f", secret(device))
    if was.arm is not None:
        assert resolve(after, "f", secret(device)).arm == was.arm


def part(layer: str, first: int, count: int) -> Segment:
    """A segment."""
    return Segment(layer=layer, first=first, count=count)


@pytest.mark.parametrize(
    ("one", "other", "is_allowed"),
    [
        ({}, {}, False),
        ({"audience": "os == ios"}, {}, False),
        ({"audience": "os == ios"}, {"audience": "locale == de"}, False),
        ({"audience": "os == ios"}, {"audience": "os == web"}, True),
        ({"segment": part("l", 0, 10)}, {}, False),
        ({"segment": part("l", 0, 10)}, {"segment": part("k", 10, 10)}, False),
        ({"segment": part("l", 0, 10)}, {"segment": part("l", 9, 10)}, False),
        ({"segment": part("l", 0, 10)}, {"segment": part("l", 10, 10)}, True),
        ({"segment": part("l", 0, 10), "audience": "os == ios"}, {"audience": "os == web"}, True),
        (
            {"segment": part("l", 0, 10), "audience": "os == ios"},
            {"segment": part("l", 5, 10), "audience": "os == web"},
            False,
        ),
    ],
)
def test_experiments_that_a_device_could_be_in_together_are_refused(
    one: dict[str, Any], other: dict[str, Any], is_allowed: bool
) -> None:
    """Of one feature: a shared layer with disjoint segments, or audiences that share no device."""
    pair = (experiment("ex-a", 10, 10, **one), experiment("ex-b", 10, 10, **other))
    if is_allowed:
        assert policy_from_bytes(policy(f=rules(*pair)).to_bytes()).features["f"].experiments == pair
        return
    with pytest.raises(ValidationError, match="ex-a and ex-b"):
        policy(f=rules(*pair))


def test_features_share_layers_but_never_buckets() -> None:
    """Exclusion holds over the features of an app."""
    one = rules(experiment("ex-a", 10, 10, segment=part("l", 0, 10)))
    policy(f=one, g=rules(experiment("ex-b", 10, 10, segment=part("l", 10, 10))))
    with pytest.raises(ValidationError, match="same buckets of layer l"):
        policy(f=one, g=rules(experiment("ex-b", 10, 10, segment=part("l", 5, 10))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"layers":{"search":"salt-search"}', '"layers":{"other":"salt-search"}'),
        ('"layers":{"search":"salt-search"}', '"layers":{"idle":"salt-i","search":"salt-search"}'),
        ('"count":4000', '"count":0'),
        ('"count":3000,"first":7000', '"count":3001,"first":7000'),
        ('"share_permyriad":500},"layers"', '"share_permyriad":0},"layers"'),
        ('"audience":{"os":{"in":["ios"]}}', '"audience":null'),
        ('"audience":{"os":{"in":["ios"]}}', '"audience":{"os":{"in":["ios","ios"]}}'),
        ('"holdout":{', '"holdout":{"id":"h",'),
        ('"own_arm":false,"salt":"salt-ex-d"', '"salt":"salt-ex-d"'),
        ('"id":"ex-a"', '"id":"ex-z"'),
    ],
)
def test_another_policy_than_an_acceptable_one_is_refused(old: str, new: str) -> None:
    """A layer without salt or without use, an empty or overlong segment, a field left out, wrong order."""
    text = VECTORS["policy"]
    assert old in text
    with pytest.raises(DocumentError):
        policy_from_bytes(text.replace(old, new).encode())


def test_resolution_of_an_experiment_names_it_among_several() -> None:
    """Its id, arm and task."""
    found = {
        resolution.experiment_id: resolution
        for device in range(200)
        for resolution in [resolve(DOCUMENT, "layered", secret(device), attributes=DeviceAttributes(memory_mb=4000))]
        if resolution.reason is Reason.EXPERIMENT
    }
    assert found.keys() == {"ex-a", "ex-b"}
    for name, resolution in found.items():
        assert isinstance(resolution, Resolution)
        assert resolution.task is not None
        assert resolution.task.experiment_id == name


def test_audience_of_a_policy_reads_as_it_was_written() -> None:
    """Through the signed bytes and back."""
    moving = DOCUMENT.features["moved"].rollout
    assert moving is not None
    assert moving.audience == parse_audience("os in (ios, android) and app_version >= 2.1")
