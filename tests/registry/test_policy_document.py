"""A policy has one canonical encoding and fixed bounds; any other bytes are refused with a typed error."""

import contextlib
import json
from fractions import Fraction
from typing import Any

import pytest
from alcove.registry import limits
from alcove.registry.canonical import canonical_json
from alcove.registry.errors import DocumentError, DocumentTooLargeError
from alcove.registry.policy import (
    Arm,
    ExperimentPolicy,
    FeaturePolicy,
    Halt,
    HaltedVersion,
    Policy,
    RolloutPolicy,
    TaskPolicy,
    VersionRef,
    halt_from_bytes,
    halt_to_bytes,
    make_task,
    policy_from_bytes,
    policy_to_bytes,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

versions = st.tuples(st.integers(1, 99), st.integers(0, 99), st.integers(0, 99)).map(lambda v: ".".join(map(str, v)))
refs = st.builds(
    VersionRef, version=versions, manifest_sha256=st.binary(min_size=32, max_size=32).map(lambda data: data.hex())
)
identifiers = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}", fullmatch=True)
features = st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True).filter(lambda name: name not in {"policy", "halt"})
edge_lists = st.lists(st.integers(1, 600_000_000), unique=True, max_size=15).map(
    lambda edges: tuple(edge / 1000 for edge in sorted(edges))
)


@st.composite
def experiments(draw: st.DrawFn) -> ExperimentPolicy:
    """Experiments of two to four arms within every bound."""
    count = draw(st.integers(2, 4))
    identifier = draw(identifiers)
    edges = draw(edge_lists)
    task = make_task(
        experiment_id=identifier,
        epsilon=draw(st.sampled_from(["0.5", "1", "2", "8"])),
        arm_count=count,
        latency_edges_ms=edges,
        window_s=draw(st.integers(1, limits.WINDOW_MAX_S)),
        first_window_start_s=draw(st.integers(0, 2**33)),
    )
    arms = tuple(
        Arm(name=f"arm{index}", version=draw(refs), share_basis_points=draw(st.integers(0, 2500)))
        for index in range(count)
    )
    return ExperimentPolicy(id=identifier, salt=draw(identifiers), arms=arms, tasks=(task,))


rollouts = st.builds(
    RolloutPolicy, id=identifiers, salt=identifiers, version=refs, share_permyriad=st.integers(0, 10_000)
)
feature_policies = st.builds(
    FeaturePolicy,
    min_version=st.just("0.0.1"),
    default=refs,
    rollout=st.none() | rollouts,
    experiments=st.just(()) | st.tuples(experiments()),
)
policies = st.builds(
    Policy,
    app=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,15}", fullmatch=True),
    serial=st.integers(1, 2**53 - 1),
    features=st.dictionaries(features, feature_policies, max_size=3),
)


FOUR = ((0,), (1,), (2,), (3,))
"""Each of the first outcomes by itself."""


def task(**changes: object) -> TaskPolicy:
    """A small task, with some fields changed."""
    fields: dict[str, object] = {
        "experiment_id": "e1",
        "epsilon": "2",
        "arm_count": 2,
        "latency_edges_ms": (0.5, 20.0),
        "window_s": 60,
        "first_window_start_s": 1000,
    }
    return make_task(**{**fields, **changes})  # type: ignore[arg-type]


def ref(version: str = "1.0.0") -> VersionRef:
    """A version whose manifest digest does not matter."""
    return VersionRef(version=version, manifest_sha256="ab" * 32)


def policy() -> Policy:
    """A policy with every part in it."""
    arms = (
        Arm(name="control", version=ref(), share_basis_points=1000),
        Arm(name="new", version=ref("2.0.0"), share_basis_points=1000),
    )
    rules = FeaturePolicy(
        min_version="1.0.0",
        default=ref(),
        rollout=RolloutPolicy(id="r1", salt="s1", version=ref("1.1.0"), share_basis_points=500),
        experiments=(ExperimentPolicy(id="e1", salt="s2", arms=arms, tasks=(task(),)),),
    )
    return Policy(app="messenger", serial=7, features={"language_id": rules})


@given(policies)
def test_policy_survives_its_canonical_bytes(document: Policy) -> None:
    """Reading what was written gives the same policy, and writing that gives the same bytes."""
    data = policy_to_bytes(document)
    again = policy_from_bytes(data)
    assert again == document
    assert policy_to_bytes(again) == data


@given(st.binary(max_size=300))
def test_any_bytes_give_a_policy_or_a_typed_error(data: bytes) -> None:
    """Nothing but DocumentError escapes."""
    with contextlib.suppress(DocumentError):
        policy_from_bytes(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_gives_a_policy_or_a_typed_error(value: object) -> None:
    """Well-formed JSON that is no policy is refused by name."""
    with pytest.raises(DocumentError):
        policy_from_bytes(json.dumps(value).encode())


def test_no_flipped_bit_leaves_the_meaning() -> None:
    """Every altered byte is refused, or is another policy with other bytes: never the same meaning."""
    data = policy().to_bytes()
    for position in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[position] ^= 1 << bit
            try:
                assert policy_from_bytes(bytes(altered)) != policy()
            except DocumentError:
                continue


@pytest.mark.parametrize(
    "altered",
    [
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: text.replace('"serial":7', '"serial":7.0'),
        lambda text: text.replace('"serial":7', '"serial":"7"'),
        lambda text: text.replace('"serial":7', '"serial":true'),
        lambda text: text.replace('"serial":7', '"serial":0'),
        lambda text: text.replace('"serial":7', '"serial":9007199254740992'),
        lambda text: text.replace('"serial":7', '"serial":7,"serial":7'),
        lambda text: text.replace('"serial":7', '"serial":7,"extra":1'),
        lambda text: text.replace('"app":"messenger"', '"app":"\\u006dessenger"'),
        lambda text: text.replace('"app":"messenger"', '"app":"../messenger"'),
        lambda text: text.replace('"format":1', '"format":2'),
        lambda text: text.replace('"language_id"', '"policy"'),
        lambda text: text.replace('"0.5"', "0.5"),
        lambda text: text.replace('"0.5"', '"0.50"'),
        lambda text: text.replace('"epsilon":"2"', '"epsilon":"2.0"'),
        lambda text: text.replace('"share_permyriad":500', '"share_permyriad":10001'),
        lambda text: text.replace('"share_permyriad":500', '"share_permyriad":-1'),
    ],
)
def test_second_spelling_is_refused(altered: object) -> None:
    """One meaning has one encoding, and no field is coerced."""
    assert callable(altered)
    text = policy().to_bytes().decode()
    changed = altered(text)
    assert changed != text
    with pytest.raises(DocumentError):
        policy_from_bytes(changed.encode())


def test_oversize_policy_is_refused_before_it_is_parsed() -> None:
    """The error names the cap and the size."""
    with pytest.raises(DocumentTooLargeError) as caught:
        policy_from_bytes(b"[" * (limits.POLICY_MAX_BYTES + 1))
    assert (caught.value.limit_bytes, caught.value.size_bytes) == (2_097_152, 2_097_153)


def test_nesting_bomb_is_refused() -> None:
    """Deep nesting within the cap is a typed error, not a stack overflow."""
    with pytest.raises(DocumentError):
        policy_from_bytes(b"[" * limits.POLICY_MAX_BYTES)


def test_version_below_the_floor_is_refused_wherever_it_stands() -> None:
    """I1: default, rollout and every arm are at or above min_version."""
    good = policy().features["language_id"]
    for version in ("1.0.1", "1.2.0", "3.0.0"):
        with pytest.raises(ValidationError, match="below min_version"):
            FeaturePolicy(min_version=version, default=good.default, rollout=good.rollout, experiments=good.experiments)
    with pytest.raises(ValidationError, match="below min_version"):
        FeaturePolicy(min_version="1.10.0", default=ref("1.9.0"))


def test_experiment_with_impossible_arms_is_refused() -> None:
    """I2, I3: shares, names and the task's number of arms."""
    control = Arm(name="a", version=ref(), share_basis_points=6000)
    too_many = (control, Arm(name="b", version=ref(), share_basis_points=4001))
    same_name = (control, Arm(name="a", version=ref(), share_basis_points=1))
    three = (
        control,
        Arm(name="b", version=ref(), share_basis_points=1),
        Arm(name="c", version=ref(), share_basis_points=1),
    )
    for arms, words in (
        (too_many, "add up to 10001"),
        (same_name, "distinct"),
        (three, "2 arms"),
        ((control,), "at least 2"),
    ):
        with pytest.raises(ValidationError, match=words):
            ExperimentPolicy(id="e1", salt="s", arms=arms, tasks=(task(),))
    with pytest.raises(ValidationError, match="task of other"):
        ExperimentPolicy(id="e1", salt="s", arms=too_many[:1] + three[1:2], tasks=(task(experiment_id="other"),))
    with pytest.raises(ValidationError, match="reserve of guardrails"):
        ExperimentPolicy(id="e1", salt="s", arms=too_many[:1] + three[1:2], tasks=(task(is_guardrail=True),))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "0"},
        {"epsilon": "8.1"},
        {"epsilon": "-1"},
        {"epsilon": "1e3"},
        {"arm_count": 1},
        {"arm_count": 9},
        {"outcome_groups": ()},
        {"outcome_groups": ((),)},
        {"outcome_groups": ((0,), (8,))},
        {"outcome_groups": ((0, 1), (1,))},
        {"outcome_groups": ((1,), (0,))},
        {"outcome_groups": ((1, 0),)},
        {"outcome_groups": ((0, 1, 2), (3,)), "latency_edges_ms": (1.0,)},
        {"latency_edges_ms": (0.0, 1.0)},
        {"latency_edges_ms": (2.0, 1.0)},
        {"latency_edges_ms": (1.0, 1.0)},
        {"latency_edges_ms": (0.0001,)},
        {"latency_edges_ms": (float("nan"),)},
        {"latency_edges_ms": (float("inf"),)},
        {"latency_edges_ms": tuple(float(edge) for edge in range(1, 17))},
        {"arm_count": 8, "latency_edges_ms": (1.0, 2.0, 3.0, 4.0), "pre_edges": (0.1, 0.2)},
        {
            "arm_count": 8,
            "latency_edges_ms": (),
            "pre_edges": tuple(n / 8 for n in range(1, 8)) * 2,
        },
        {
            "arm_count": 8,
            "outcome_groups": FOUR,
            "latency_edges_ms": (),
            "pre_edges": tuple(n / 8 for n in range(1, 8)),
        },
        {"pre_edges": (0.0, 0.5)},
        {"pre_edges": (0.5, 1.0)},
        {"pre_edges": (0.8, 0.5)},
        {"pre_edges": (0.5, 0.5)},
        {"pre_edges": (0.00001,)},
        {"pre_edges": (float("nan"),)},
        {"pre_edges": ("x",)},
        {"window_s": 0},
        {"first_window_start_s": -1},
    ],
)
def test_task_out_of_bounds_is_refused(changes: dict[str, object]) -> None:
    """Every bound of a task holds."""
    with pytest.raises(ValidationError):
        task(**changes)


def test_task_id_is_the_digest_of_everything_else() -> None:
    """I3: any change of terms is another task, and a foreign id is refused."""
    base = task()
    others = [task(epsilon="1"), task(window_s=61), task(experiment_id="e2"), task(latency_edges_ms=(0.5,))]
    others += [task(is_guardrail=True), task(subset_size=3)]
    assert len({item.task_id for item in (base, *others)}) == 7
    with pytest.raises(ValidationError, match="digest of the task"):
        TaskPolicy.model_validate({**base.model_dump(), "task_id": others[0].task_id})
    # Frozen: a device and a server of different releases must agree.
    assert base.task_id == "afe9371f8ef2d39dd872bf6f83466a2e18074f7f7d7e72d14b228ca5654cbf6a"


def test_cells_are_a_bijection_and_edges_belong_to_the_upper_bin() -> None:
    """Arm x outcome x latency bin covers [0, cell_count) once."""
    terms = task(arm_count=3)
    cells = [terms.cell_index(arm, outcome, ms) for arm in range(3) for outcome in range(2) for ms in (0.0, 0.5, 20.0)]
    assert cells == list(range(terms.cell_count))
    assert terms.cell_index(0, 0, 0.499) == 0
    assert terms.cell_index(0, 0, float("inf")) == 2
    for arm, outcome, latency_ms in ((3, 0, 1.0), (-1, 0, 1.0), (0, 2, 1.0), (0, 0, -1.0), (0, 0, float("nan"))):
        with pytest.raises(ValueError, match="must be"):
            terms.cell_index(arm, outcome, latency_ms)


def test_earlier_share_is_the_innermost_part_of_the_cell() -> None:
    """Arm x outcome x latency x earlier share covers [0, cell_count) once; every cell tells its outcome."""
    terms = task(arm_count=3, pre_edges=(0.5, 0.8))
    assert terms.layout.covariate_bins == 4
    cells = [
        (terms.cell_index(arm, outcome, ms, pre_bin), outcome)
        for arm in range(3)
        for outcome in range(2)
        for ms in (0.0, 0.5, 20.0)
        for pre_bin in range(4)
    ]
    assert [cell for cell, _ in cells] == list(range(terms.cell_count))
    assert [terms.layout.axes(cell).outcome for cell, _ in cells] == [outcome for _, outcome in cells]
    assert [task().layout.axes(cell).outcome for cell in range(task().cell_count)] == [0, 0, 0, 1, 1, 1] * 2
    for pre_bin in (-1, 4):
        with pytest.raises(ValueError, match="must be"):
            terms.cell_index(0, 0, 1.0, pre_bin)
    with pytest.raises(ValueError, match="must be"):
        task().cell_index(0, 0, 1.0, 1)


@given(st.integers(0, 64), st.integers(0, 64), st.lists(st.integers(1, 9999), unique=True, min_size=1, max_size=7))
def test_bin_of_an_earlier_share_is_exact(first: int, second: int, edges: list[int]) -> None:
    """Counted in whole numbers: edges belong to the upper bin; fewer than five answers say nothing."""
    accepted, answers = sorted((first, second))
    terms = task(pre_edges=tuple(edge / 10_000 for edge in sorted(edges)), latency_edges_ms=())
    passed = sum(accepted * 10_000 >= edge * answers for edge in edges)
    assert terms.pre_bin(answers, accepted) == (0 if answers < 5 else passed + 1)
    assert task().pre_bin(answers, accepted) == 0
    with pytest.raises(ValueError, match="must be"):
        terms.pre_bin(answers, answers + 1)


def test_earlier_share_is_signed_as_decimal_text() -> None:
    """A task with edges has another id than one without; other spellings of an edge are refused."""
    plain, asked = task(), task(pre_edges=(0.05, 0.3333, 0.8))
    assert plain.model_dump(mode="json")["pre_edges"] == []
    assert asked.model_dump(mode="json")["pre_edges"] == ["0.05", "0.3333", "0.8"]
    assert asked.task_id != plain.task_id
    policies = [with_task(terms) for terms in (plain, asked)]
    for policy in policies:
        assert policy_from_bytes(policy.to_bytes()) == policy
    for spelled in (b'"0.050"', b"0.05"):
        with pytest.raises(DocumentError, match="canonical"):
            policy_from_bytes(policies[1].to_bytes().replace(b'"0.05"', spelled))


def with_task(terms: TaskPolicy) -> Policy:
    """A policy with one experiment that has a task."""
    arms = tuple(Arm(name=f"arm{n}", version=ref(f"1.{n}.0"), share_basis_points=5000) for n in range(2))
    experiment = ExperimentPolicy(id="e1", salt="s", arms=arms, tasks=(terms,))
    rules = FeaturePolicy(min_version="1.0.0", default=ref("1.0.0"), experiments=(experiment,))
    return Policy(app="messenger", serial=1, features={"language_id": rules})


def test_windows_count_from_the_first_start() -> None:
    """No window before the first; then one every window_s."""
    terms = task()
    assert [terms.window_at(now) for now in (999, 1000, 1059, 1060)] == [None, 0, 0, 1]
    assert task(epsilon="0.1").epsilon_fraction == Fraction(1, 10)


def test_halt_only_takes_away() -> None:
    """A later halt includes the earlier one; the canonical bytes round trip."""
    one = HaltedVersion(feature="language_id", version=ref())
    two = HaltedVersion(feature="language_id", version=ref("2.0.0"))
    first = Halt(app="messenger", serial=1, halted=(one,))
    second = Halt(app="messenger", serial=2, halted=(two, one), frozen=("language_id",))
    assert second.includes(first)
    assert not first.includes(second)
    assert halt_from_bytes(halt_to_bytes(second)) == second
    with pytest.raises(DocumentTooLargeError):
        halt_from_bytes(b" " * (limits.HALT_MAX_BYTES + 1))


def rollout_task(**changes: Any) -> TaskPolicy:
    """The task of rollout r1, two arms and four groups of outcomes."""
    terms: dict[str, Any] = {
        "experiment_id": "r1",
        "epsilon": "1",
        "arm_count": 2,
        "outcome_groups": FOUR,
        "latency_edges_ms": (1.0,),
        "window_s": 60,
        "first_window_start_s": 0,
        "is_guardrail": True,
    }
    return make_task(**(terms | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share_basis_points": 6000, "control_basis_points": 4001}, "add up to 10001"),
        ({"tasks": (rollout_task(experiment_id="r2"),)}, "of r2"),
        ({"tasks": (rollout_task(arm_count=3),)}, "3 arms"),
        ({"tasks": (rollout_task(is_guardrail=False),)}, "is_guardrail"),
        ({"tasks": (rollout_task(share_basis_points=9999),)}, "add up to 10000, got 9999"),
        ({"tasks": (rollout_task(share_basis_points=5000),) * 2}, "are distinct"),
        ({"tasks": tuple(rollout_task(epsilon=f"0.{n}", share_basis_points=2000) for n in range(1, 6))}, "at most 4"),
    ],
)
def test_rollout_that_makes_no_comparison_is_refused(changes: dict[str, Any], message: str) -> None:
    """Overlapping groups and a task of something else are named with their numbers."""
    fields: dict[str, Any] = {"id": "r1", "salt": "s1", "version": ref("1.1.0"), "share_basis_points": 500}
    with pytest.raises(ValidationError, match=message):
        RolloutPolicy(**(fields | changes))


def test_field_that_is_left_out_is_refused_wherever_it_stands() -> None:
    """I7: every field with a default is written, and without it the bytes are not canonical.

    The one that is not written, `aggregation`, has its own test in `test_policy_aggregation.py`.
    """
    full = RolloutPolicy(
        id="r1",
        salt="s1",
        version=ref("1.1.0"),
        share_basis_points=500,
        control_basis_points=500,
        tasks=(rollout_task(),),
    )
    rules = FeaturePolicy(min_version="1.0.0", default=ref("1.0.0"), rollout=full)
    policy = Policy(app="messenger", serial=1, features={"language_id": rules})
    assert policy_from_bytes(policy.to_bytes()) == policy
    written = policy.model_dump(mode="json")
    rules_written = written["features"]["language_id"]
    moving = rules_written["rollout"]
    places: list[tuple[type[BaseModel], dict[str, Any]]] = [
        (Policy, written),
        (FeaturePolicy, rules_written),
        (RolloutPolicy, moving),
        (TaskPolicy, moving["tasks"][0]),
    ]
    optional = [
        (at, field.serialization_alias or name)
        for model, at in places
        for name, field in model.model_fields.items()
        if not field.is_required() and field.exclude_if is None
    ]
    assert len(optional) == 14
    for at, name in optional:
        value = at.pop(name)
        with pytest.raises(DocumentError):
            policy_from_bytes(canonical_json(written))
        at[name] = value
    assert policy_from_bytes(canonical_json(written)) == policy
