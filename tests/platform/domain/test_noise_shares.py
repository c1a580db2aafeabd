"""Which part of a comparison's variance is privacy noise."""

import pytest
from alcove.platform.domain.noise_shares import noise_shares
from alcove.platform.domain.reports import Reports
from alcove.registry.policy import Outcome, make_task
from alcove.registry.policy.metric import MetricKind, MetricTerms


def reports(epsilon: str, count: int, **terms: object) -> Reports:
    """As many reports in each cell of a task of two arms."""
    named = {"experiment_id": "ex-1", "arm_count": 2, "latency_edges_ms": (50.0,), "window_s": 86_400}
    task = make_task(epsilon=epsilon, first_window_start_s=0, **{**named, **terms})  # type: ignore[arg-type]
    return Reports.of_cells(task, [count] * task.cell_count, 1)


def test_noise_falls_with_epsilon_and_not_with_reports() -> None:
    """Of randomized response each report has its own noise."""
    shares = [
        {one.quantity: one.share for one in noise_shares(reports(epsilon, 10_000))} for epsilon in ("0.5", "2", "8")
    ]
    assert [set(one) for one in shares] == [{"accepted", "latency"}] * 3
    for quantity in ("accepted", "latency"):
        low, middle, high = (one[quantity] for one in reversed(shares))
        assert 0 < low < middle < high < 1
    more = {one.quantity: one.share for one in noise_shares(reports("2", 100_000))}
    assert more["accepted"] == pytest.approx(shares[1]["accepted"], rel=1e-3)


def test_only_what_the_cells_tell_apart_is_compared() -> None:
    """Outcomes that are counted as one are none by themselves; a metric has its bins; no report says nothing."""
    grouped = reports(
        "2", 1000, latency_edges_ms=(), outcome_groups=((Outcome.REFUSED, Outcome.ACCEPTED), (Outcome.ERROR,))
    )
    assert {one.quantity for one in noise_shares(grouped)} == {"error"}
    metric = MetricTerms(name="shares", version=1, kind=MetricKind.COUNT, edges=(3.0,))
    assert {one.quantity for one in noise_shares(reports("2", 1000, latency_edges_ms=(), metric=metric))} == {"metric"}
    assert noise_shares(reports("2", 0)) == ()
