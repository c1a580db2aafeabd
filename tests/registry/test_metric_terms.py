"""Terms of a team's own metric: which bin a window's result is in, and what is refused."""

from typing import Any

import pytest
from alcove.registry import limits
from alcove.registry.canonical import canonical_json
from alcove.registry.policy import TaskPolicy, make_task
from alcove.registry.policy.metric import MetricKind, MetricTerms
from pydantic import ValidationError


def terms(kind: str, *edges: float) -> MetricTerms:
    """Terms of a metric."""
    return MetricTerms(name="undone_edits", version=1, kind=MetricKind(kind), edges=edges)


@pytest.mark.parametrize(
    ("kind", "edges", "cases"),
    [
        ("count", (), [((0, 0), 0), ((1, 0), 1), ((9, 0), 1)]),
        ("count", (2, 5), [((0, 0), 0), ((1, 0), 1), ((2, 0), 2), ((4, 0), 2), ((5, 0), 3), ((500, 0), 3)]),
        ("share", (0.5, 0.9), [((0, 0), 0), ((4, 0), 1), ((4, 2), 2), ((10, 9), 3), ((10, 10), 3)]),
        ("preference", (), [((0, 0), 0), ((1, 0.0), 1), ((3, 0.5), 2), ((9, 1.0), 3)]),
        ("value", (1.5, 10), [((0, 0), 0), ((3, 0), 0), ((1, 0.1), 1), ((2, 1.5), 2), ((2, 10), 3), ((2, 1e9), 3)]),
    ],
)
def test_a_result_falls_into_the_bin_that_the_edges_say(
    kind: str, edges: tuple[float, ...], cases: list[tuple[tuple[int, float], int]]
) -> None:
    """Bin 0 is for devices that recorded nothing; an edge begins the bin above it; the last bin has no end."""
    metric = terms(kind, *edges)
    assert metric.bin_count == (4 if kind == "preference" else len(edges) + 2)
    for (records, total), expected in cases:
        assert metric.bin_of(records, total) == expected, (records, total)


def test_a_count_or_sum_in_its_last_bin_needs_no_further_record() -> None:
    """It is saturated there and nowhere before; a share never is, for the next record may be false."""
    assert [terms("count", 2).is_saturated(records, 0) for records in (0, 1, 2)] == [False, False, True]
    assert [terms("value", 2.5).is_saturated(1, total) for total in (2.4, 2.5)] == [False, True]
    assert not terms("share", 0.5).is_saturated(9, 9)
    assert not terms("preference").is_saturated(9, 1.0)


@pytest.mark.parametrize(
    ("kind", "edges", "words"),
    [
        ("count", (1,), "at least 2"),
        ("count", (2.5,), "whole number"),
        ("count", (3, 3), "must rise"),
        ("count", (float("nan"),), "finite"),
        ("share", (), "at least one edge"),
        ("share", (1.0,), "below 1"),
        ("share", (0.0,), "above 0"),
        ("value", (), "at least one edge"),
        ("preference", (0.5,), "has no edges"),
        ("value", (0.0000001,), "millionths"),
        ("value", (1_000_000,), str(limits.METRIC_VALUE_MAX)),
        ("value", tuple(range(1, 16)), "at most 14"),
    ],
)
def test_edges_that_mean_nothing_are_refused(kind: str, edges: tuple[float, ...], words: str) -> None:
    """The message says what the kind allows."""
    with pytest.raises(ValidationError, match=words):
        terms(kind, *edges)


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a:b", "a b", "x" * 65])
def test_a_name_that_a_plan_could_not_write_is_refused(name: str) -> None:
    """A plan writes metric:NAME:MARGIN."""
    with pytest.raises(ValidationError):
        MetricTerms(name=name, version=1, kind=MetricKind.COUNT)


def test_terms_are_signed_without_floats() -> None:
    """Edges are decimal text in the document, and the same numbers when it is read again."""
    metric = terms("value", 0.25, 10, 1234.5)
    data = canonical_json(metric.model_dump(mode="json"))
    assert b'"edges":["0.25","10","1234.5"]' in data
    assert MetricTerms.model_validate_json(data) == metric


def make_metric_task(metric: MetricTerms | None, **changes: Any) -> TaskPolicy:
    """A task of two arms that asks for a metric."""
    fields: dict[str, Any] = {
        "experiment_id": "ex-1",
        "epsilon": "1",
        "arm_count": 2,
        "latency_edges_ms": (),
        "window_s": 86_400,
        "first_window_start_s": 0,
    }
    return make_task(**(fields | changes), metric=metric)


def test_a_task_of_a_metric_has_arms_times_bins_and_nothing_else() -> None:
    """Each arm's bins stand together, the bin of devices that recorded nothing first."""
    task = make_metric_task(terms("count", 3))
    assert task.cell_count == 2 * 3
    assert [task.metric_cell(arm, records, 0) for arm in (0, 1) for records in (0, 1, 3)] == list(range(6))
    with pytest.raises(ValueError, match="no metric"):
        make_metric_task(None).metric_cell(0, 1, 0)


def test_the_terms_of_a_metric_are_part_of_the_tasks_id() -> None:
    """Another version, edge, kind or name is another task; where outcomes are counted nothing is said of metrics."""
    task_terms = terms("value", 0.5, 60)
    task = make_metric_task(task_terms)
    signed = canonical_json(task.model_dump(mode="json"))
    assert b'"metric":{"edges":["0.5","60"],"kind":"value","name":"undone_edits","version":1}' in signed
    assert b'"outcome_groups":[]' in signed
    assert TaskPolicy.model_validate_json(task.model_dump_json()) == task
    others = [
        terms("value", 0.5, 61),
        terms("count", 60),
        terms("value", 60),
        MetricTerms(name="x", version=1, kind=MetricKind.VALUE, edges=(0.5, 60)),
        MetricTerms(name="undone_edits", version=2, kind=MetricKind.VALUE, edges=(0.5, 60)),
    ]
    ids = {task.task_id, make_metric_task(None).task_id, *(make_metric_task(other).task_id for other in others)}
    assert len(ids) == len(others) + 2
    assert b"metric" not in canonical_json(make_metric_task(None).model_dump(mode="json"))


@pytest.mark.parametrize(
    "changes",
    [{"latency_edges_ms": (1.0,)}, {"pre_edges": (0.5,)}, {"outcome_groups": ((0,), (1,))}, {"arm_count": 17}],
)
def test_a_task_that_asks_for_two_things_is_refused(changes: dict[str, Any]) -> None:
    """A device reports one cell: outcomes or a metric."""
    with pytest.raises(ValidationError):
        make_metric_task(terms("count", 3), **changes)
