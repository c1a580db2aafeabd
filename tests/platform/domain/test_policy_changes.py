"""What one policy changed against another, in words."""

from collections.abc import Mapping
from typing import Any

import pytest
from alcove.platform.domain.policy_changes import list_changes
from alcove.registry.parameters import Setting
from alcove.registry.policy import (
    ArmBuckets,
    ExperimentPolicy,
    FeaturePolicy,
    Policy,
    RolloutPolicy,
    Segment,
    VersionRef,
    parse_audience,
    parse_dimension,
)

from tests.registry.policies import experiment, make_full_policy, policy, readout, ref, rollout, rules


def words(before: Policy, after: Policy) -> list[str]:
    """The changes as a page shows them."""
    return [f"{one.feature}: {one.text}" if one.feature else one.text for one in list_changes(before, after)]


def change_rollout(**changes: Any) -> Policy:
    """A policy with a rollout that is as in `policies.py` but for some fields."""
    return policy(f=rules(moving=rollout(1000, 500, "os == ios").model_copy(update=changes)))


def test_a_policy_is_no_change_of_itself() -> None:
    """Another serial number alone is none."""
    document = make_full_policy()
    assert list_changes(document, document.model_copy(update={"serial": document.serial + 1})) == []


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (change_rollout(share_basis_points=2500), "f: rollout r1 10 % → 25 %"),
        (change_rollout(control_basis_points=0), "f: rollout r1: control group 5 % → 0 %"),
        (change_rollout(audience=None), "f: rollout r1: audience os in (ios) → everybody"),
        (change_rollout(version=ref("3.1.0")), "f: rollout r1: version 3.0.0 → 3.1.0"),
        (change_rollout(tasks=rollout(1, 1, has_task=True).tasks), "f: rollout r1: asks for reports, ε = 1"),
        (change_rollout(values=(Setting(name="floor", value=3),)), "f: rollout r1: floor its own default → 3"),
        (change_rollout(salt="other"), "f: rollout r1: other salt"),
        (change_rollout(own_arm=True), "f: rollout r1: other own_arm"),
        (policy(f=rules()), "f: rollout r1 of 3.0.0 ended at 10 %"),
        (policy(g=rules()), "f: gone: default was 0.9.0"),
    ],
)
def test_each_change_of_a_rollout_has_its_words(after: Policy, text: str) -> None:
    """Before and after, with their units; what has no words of its own is named by its field."""
    assert text in words(change_rollout(), after)


def test_each_change_of_an_experiment_has_its_words() -> None:
    """Its start and end, arms, shares, audience and part of a layer."""
    segment = Segment(layer="l", first=0, count=5000)
    one = experiment("ex-a", 5000, 5000)
    plain, tried = policy(f=rules()), policy(f=rules(one))
    assert words(plain, tried) == ["f: experiment ex-a started: arm0 1.0.0 50 %, arm1 1.1.0 50 %"]
    assert words(tried, plain) == ["f: experiment ex-a ended"]
    other = experiment("ex-a", 4000, 6000, segment=segment, audience="os == ios")
    assert words(tried, policy(f=rules(other))) == [
        "layer l in use",
        "f: experiment ex-a: audience everybody → os in (ios)",
        "f: experiment ex-a: part of a layer none → [0, 5000) of layer l",
        "f: experiment ex-a: arm arm0 50 % → 40 %",
        "f: experiment ex-a: arm arm1 50 % → 60 %",
    ]


def test_changes_of_the_app_come_first() -> None:
    """Default, lowest version, holdout and read-out."""
    before = policy(holdout=500, still=rules(), moved=rules())
    raised = FeaturePolicy(min_version="0.2.0", default=VersionRef(version="1.0.0", manifest_sha256="0" * 64))
    after = policy(holdout=1000, readout=readout(), still=raised, moved=rules())
    assert words(before, after) == [
        "holdout: 5 % → 10 % of the devices",
        "read-out ro-1 started: held-out devices keep moved 0.8.0, still 0.8.0",
        "still: default 0.9.0 → 1.0.0",
        "still: lowest version 0.1.0 → 0.2.0",
    ]
    assert words(after, policy(holdout=1000, still=raised, moved=rules())) == ["read-out ro-1 ended"]
    assert words(policy(still=rules()), policy(holdout=500, still=rules())) == ["holdout: 0 % → 5 % of the devices"]


ANOTHER: Mapping[str, Any] = {
    "salt": "another",
    "version": ref("9.9.9"),
    "share_basis_points": 1234,
    "control_basis_points": 1234,
    "audience": parse_audience("os == web"),
    "tasks": (),
    "own_arm": True,
    "values": (Setting(name="added", value=1),),
    "arms": experiment("ex-a", 100, 200).arms,
    "segment": Segment(layer="l", first=77, count=1),
    "buckets": (ArmBuckets(arm=0, first=0, count=1),),
    "dimension": parse_dimension("os=ios"),
}


@pytest.mark.parametrize("kind", [RolloutPolicy, ExperimentPolicy])
def test_whatever_differs_is_named(kind: type[RolloutPolicy] | type[ExperimentPolicy]) -> None:
    """Each field, also beside another one, so that a new field cannot change unseen."""
    part = rollout(1000, 500, has_task=True) if kind is RolloutPolicy else experiment("ex-a", 5000, 5000)
    for field in kind.model_fields.keys() - {"id"}:
        for more in ({}, {"salt": "another"}):
            changed = part.model_copy(update={**more, field: ANOTHER[field]})
            documents = [policy().model_copy(update={"features": {"f": _with(one)}}) for one in (part, changed)]
            assert len(words(*documents)) >= len({field, *more}), field


def _with(part: RolloutPolicy | ExperimentPolicy) -> FeaturePolicy:
    """Rules with one part, whether or not it could be signed."""
    update = {"rollout": part} if isinstance(part, RolloutPolicy) else {"experiments": (part,)}
    return rules().model_copy(update=update)


def test_another_manifest_of_the_same_version_is_a_change() -> None:
    """A version is one digest; a document with another one is seen."""
    other = VersionRef(version="3.0.0", manifest_sha256="0" * 64)
    assert words(change_rollout(), change_rollout(version=other)) == ["f: rollout r1: version 3.0.0: another manifest"]
