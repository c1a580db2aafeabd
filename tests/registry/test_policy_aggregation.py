"""A task says whether two aggregators add its reports up; one without keeps the bytes and the id of before."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from alcove.privacy.dap.task import TaskInfo
from alcove.registry import limits
from alcove.registry.errors import DocumentError
from alcove.registry.policy import (
    Aggregation,
    Arm,
    ExperimentPolicy,
    Policy,
    TaskPolicy,
    make_task,
    policy_from_bytes,
    policy_to_bytes,
)
from alcove.registry.policy.dap import dap_time, idle_cell, make_dap_task
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.registry.policies import policy, ref, rules

VECTOR: dict[str, Any] = json.loads(
    (Path(__file__).parent / "vectors" / "aggregation.json").read_text(encoding="utf-8")
)

LEADER, HELPER = "https://leader.example/dap", "https://helper.example:8443"

labels = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True)
paths = st.lists(st.from_regex(r"[A-Za-z0-9_~-]{1,8}", fullmatch=True), max_size=3)
urls = st.builds(
    lambda scheme_host, port, path: f"{scheme_host}{port}" + "".join(f"/{part}" for part in path),
    st.one_of(
        st.lists(labels, min_size=1, max_size=4).map(lambda parts: "https://" + ".".join(parts)),
        st.sampled_from(["http://127.0.0.1", "http://[::1]", "http://localhost", "https://203.0.113.7"]),
    ),
    st.just("") | st.integers(1024, 65_535).map(lambda port: f":{port}"),
    paths,
)
aggregations = (
    st.tuples(urls, urls)
    .filter(lambda pair: pair[0].split("/")[2] != pair[1].split("/")[2])
    .flatmap(
        lambda pair: st.builds(
            Aggregation,
            leader_url=st.just(pair[0]),
            helper_url=st.just(pair[1]),
            min_batch_size=st.integers(limits.BATCH_MIN, limits.BATCH_MAX),
            local_epsilon=st.none() | st.sampled_from(["0.5", "3", "8"]),
            token_issuer=st.none() | st.just("https://issuer.example/tokens"),
        )
    )
)


def make_aggregation(**changes: Any) -> Aggregation:
    """Two aggregators, with some fields changed."""
    fields: dict[str, Any] = {"leader_url": LEADER, "helper_url": HELPER, "min_batch_size": 100}
    return Aggregation(**(fields | changes))


def make_aggregated_task(**changes: Any) -> TaskPolicy:
    """A small task, by Prio3 unless `changes` say otherwise."""
    fields: dict[str, Any] = {
        "experiment_id": "e1",
        "epsilon": "1",
        "arm_count": 2,
        "latency_edges_ms": (20.0,),
        "window_s": 3600,
        "first_window_start_s": 7200,
        "aggregation": make_aggregation(),
    }
    return make_task(**(fields | changes))


def make_policy(task: TaskPolicy) -> Policy:
    """A policy with one experiment of this task."""
    arms = tuple(Arm(name=f"arm{n}", version=ref(f"1.{n}.0"), share_basis_points=5000) for n in range(2))
    return policy(f=rules(ExperimentPolicy(id="e1", salt="s", arms=arms, tasks=(task,))))


def test_task_without_aggregators_has_the_bytes_of_before() -> None:
    """Nothing is written for None, and writing null is refused as a second spelling."""
    task = make_aggregated_task(aggregation=None)
    assert "aggregation" not in task.model_dump(mode="json")
    assert task.task_id == make_task(**task.model_dump(exclude={"task_id"})).task_id
    text = make_policy(task).to_bytes()
    assert b"aggregat" not in text
    spelled = text.replace(b'"arm_count":2', b'"aggregation":null,"arm_count":2')
    assert spelled != text
    with pytest.raises(DocumentError, match="canonical"):
        policy_from_bytes(spelled)


def test_frozen_task_by_prio3_is_what_is_built_today() -> None:
    """Its bytes and its id are those of the vector, and the policy reads back."""
    document = make_policy(make_aggregated_task())
    assert policy_to_bytes(document) == VECTOR["policy"].encode()
    read = policy_from_bytes(VECTOR["policy"].encode())
    assert read == document
    assert read.features["f"].experiments[0].tasks[0].task_id == VECTOR["task_id"]


@given(aggregations)
def test_aggregators_survive_the_signed_bytes(aggregation: Aggregation) -> None:
    """What was written is read, and gives the same bytes again."""
    document = make_policy(make_aggregated_task(aggregation=aggregation))
    again = policy_from_bytes(document.to_bytes())
    assert again == document
    assert again.features["f"].experiments[0].tasks[0].aggregation == aggregation
    assert again.to_bytes() == document.to_bytes()


@given(aggregations, aggregations)
def test_other_aggregators_are_another_task(one: Aggregation, other: Aggregation) -> None:
    """The id covers every field of the aggregators, and their being there."""
    ids = [make_aggregated_task(aggregation=each).task_id for each in (None, one, other)]
    assert ids[0] not in ids[1:]
    assert (ids[1] == ids[2]) == (one == other)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "leader.example",
        "ftp://leader.example",
        "HTTPS://leader.example",
        "https://Leader.example",
        "https://leader.example/",
        "https://leader.example/dap/",
        "https://leader.example//dap",
        "https://leader.example/./dap",
        "https://leader.example/../dap",
        "https://leader.example/a%20b",
        "https://leader.example?x=1",
        "https://leader.example#x",
        "https://user@leader.example",
        "https://leader.example.",
        "https://-leader.example",
        "https://leader..example",
        "https://leader.example:443",
        "http://127.0.0.1:80",
        "https://leader.example:0",
        "https://leader.example:08443",
        "https://leader.example:65536",
        "https://l\u00e9ader.example",
        "https://leader.example\n",
        "http://leader.example",
        "http://203.0.113.7",
        "http://[2001:db8::1]",
        "https://203.0.113.007",
        "https://203.0.113",
        "https://[2001:0db8::1]",
        "https://[::ffff:1.2.3.4:5]",
        "https://leader.example/" + "x" * (limits.AGGREGATOR_URL_LENGTH - 22),
    ],
)
def test_address_that_is_not_canonical_is_refused(url: str) -> None:
    """One address has one spelling, and plain HTTP reaches this machine only; of leader and helper alike."""
    for field in ("leader_url", "helper_url", "token_issuer"):
        with pytest.raises(ValidationError, match=field):
            make_aggregation(**{field: url})


def test_two_longest_addresses_are_accepted_here_and_by_dap() -> None:
    """The bound is the last length that is allowed, and both fit the largest configuration of a task."""
    leader, helper = (f"https://{name}.example/".ljust(limits.AGGREGATOR_URL_LENGTH, "x") for name in ("a", "b"))
    issuer = "https://c.example/".ljust(limits.TOKEN_ISSUER_LENGTH, "x")
    found = make_aggregation(leader_url=leader, helper_url=helper, min_batch_size=limits.BATCH_MAX, token_issuer=issuer)
    task = make_dap_task(make_aggregated_task(epsilon="0.99999", aggregation=found))
    assert task.configuration.leader_url == leader.encode()
    assert task.info.token_issuer == issuer


def test_task_in_dap_says_what_the_policy_says() -> None:
    """Addresses, window, smallest batch, cells, epsilon, the policy's task; and which time a window has."""
    policy_task = make_aggregated_task(epsilon="0.5", first_window_start_s=7200, window_s=3600)
    task = make_dap_task(policy_task)
    configuration = task.configuration
    assert (configuration.leader_url, configuration.helper_url) == (LEADER.encode(), HELPER.encode())
    assert (configuration.time_precision_s, configuration.min_batch_size) == (3600, 100)
    assert task.circuit.output_length == policy_task.cell_count + 1 == idle_cell(policy_task) + 1
    assert task.info == TaskInfo(Fraction(1, 2), bytes.fromhex(policy_task.task_id))
    for window in range(3):
        start_s = policy_task.first_window_start_s + window * 3600
        assert dap_time(policy_task, window) == task.time_at(start_s) == task.time_at(start_s + 3599.9)


def test_task_without_aggregators_has_no_form_in_dap() -> None:
    """Nor has a window before the first."""
    with pytest.raises(ValueError, match="names no aggregators"):
        make_dap_task(make_aggregated_task(aggregation=None))
    with pytest.raises(ValueError, match="numbered from 0, got -1"):
        dap_time(make_aggregated_task(), -1)


@pytest.mark.parametrize("helper", [LEADER, "https://leader.example", "https://leader.example/other"])
def test_aggregators_of_one_origin_are_refused(helper: str) -> None:
    """Two paths of one host are one operator."""
    with pytest.raises(ValidationError, match="different origins"):
        make_aggregation(helper_url=helper)
    make_aggregation(helper_url="https://leader.example:8443/dap")


@pytest.mark.parametrize(
    ("field", "accepted", "refused"),
    [
        (
            "min_batch_size",
            (limits.BATCH_MIN, limits.BATCH_MAX),
            (limits.BATCH_MIN - 1, limits.BATCH_MAX + 1, 100.0, "100", True),
        ),
        ("local_epsilon", (None, "0.01", "8"), ("0", "8.1", "1.0", "-1", "1e3", "", 1)),
    ],
)
def test_every_bound_of_the_aggregators_holds(
    field: str, accepted: tuple[object, ...], refused: tuple[object, ...]
) -> None:
    """The last value inside is accepted, the first outside refused by the field's name."""
    for value in accepted:
        assert getattr(make_aggregation(**{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValidationError, match=field):
            make_aggregation(**{field: value})


@pytest.mark.parametrize("start_s", [1, 3599, 3601, 7201])
def test_window_that_does_not_begin_at_a_multiple_is_refused_with_aggregators(start_s: int) -> None:
    """DAP counts windows from 1970; randomized response begins them anywhere."""
    with pytest.raises(ValidationError, match="multiple of 3600"):
        make_aggregated_task(first_window_start_s=start_s)
    assert make_aggregated_task(first_window_start_s=start_s, aggregation=None).first_window_start_s == start_s


def test_most_cells_are_as_many_with_aggregators() -> None:
    """`CELLS_MAX` holds for both mechanisms."""
    edges = tuple(float(edge) for edge in range(1, 16))
    assert make_aggregated_task(arm_count=8, latency_edges_ms=edges).cell_count == limits.CELLS_MAX
    with pytest.raises(ValidationError, match="at most 256 cells"):
        make_aggregated_task(arm_count=8, latency_edges_ms=edges, outcome_groups=((0,), (1,), (2,)))
