"""Results as flat records and as figures: columns, units, history, and what a picture says."""

import builtins
import importlib.util
import io
from typing import Any

import numpy as np
import pytest
from alcove.platform.client import (
    Arm,
    AuditLine,
    Decision,
    Estimate,
    Experiment,
    ExperimentReport,
    KeptAnalysis,
    PairDifference,
    Primary,
    Results,
    Rollout,
)

PAIR = {"arm": 1, "versus": 0, "difference": {"value": 0.02, "low": 0.01, "high": 0.03}, "p_value": 0.004}


def report(kind: str = "accepted", **more: Any) -> ExperimentReport:
    """A report with an interim analysis, secondary metrics and a decision."""
    decision = {"kind": "winner", "winner": 1, "code": "better", "reason": "arm 1 is better than arm 0 by 0.01"}
    look = {"report_count": 5000, "fraction": 0.5, "analyzed_at_s": 1_800_000_000, "decision": decision}
    arms = [
        {"name": "control", "version": "1.0.0", "share_basis_points": 5000},
        {"name": "new", "version": "2.0.0", "share_basis_points": 5000},
    ]
    experiment = Experiment.model_validate(
        {
            "experiment_id": "ex-1", "app": "mail", "feature": "text", "arms": arms, "state": "running",
            "epsilon": "2", "latency_edges_ms": [5.0], "window_s": 86_400, "minimum_cohort": 1000, "task_id": "t",
            "created_at_s": 1, "started_at_s": 1, "stopped_at_s": 0, "policy_serial": 1,
            "primary": {"kind": kind} | more, "interim_analyses": [look | {"pairs": [PAIR]}],
            "secondary": [{"kind": "latency_mean"}], "plan": {"mde": 0.015},
        }
    )  # fmt: skip
    estimate = {"value": 0.6, "low": 0.5, "high": 0.7}
    shown = [
        {"name": name, "version": version, "devices": 100.0, "share": estimate, "accepted": estimate,
         "latency_ms": {"value": 7.5}, "median_latency_ms": {}}
        for name, version in (("control", "1.0.0"), ("new", "2.0.0"))
    ]  # fmt: skip
    other = {"metric": 0, "arm": 1, "versus": 0, "difference": {"value": 1.5, "low": None, "high": 2.0}, "p": 0.5}
    results = Results.model_validate(
        {
            "report_count": 10_000, "window_count": 3, "cell_counts": [1], "arms": shown, "differences": [],
            "decision": decision, "alpha": 0.05, "pairs": [PAIR], "secondary": {"differences": [other]},
        }
    )  # fmt: skip
    return ExperimentReport(experiment=experiment, results=results)


def rollout(analyzed_at_s: int = 1_800_086_400, difference: float | None = 0.002) -> Rollout:
    """A rollout with three guardrails and an analysis."""
    verdicts = [
        {"metric": "error", "kind": "safe", "difference": difference, "low": -0.001, "high": 0.003, "reason": "within"},
        {"metric": "latency", "kind": "inconclusive", "difference": 3.0, "low": None, "high": 9.0, "reason": "few"},
    ]
    own = [{"metric": "minutes", "kind": "safe", "difference": 0.1, "low": 0.0, "high": 0.2, "reason": "within"}]
    analysis = {
        "analyzed_at_s": analyzed_at_s, "decision": "wait", "code": "young", "reason": "it has lasted an hour",
        "report_count": 4000, "devices": [10.0, 10.0], "verdicts": verdicts, "own_verdicts": own,
    }  # fmt: skip
    plan = {
        "guardrails": [{"metric": "error", "margin": 0.01}, {"metric": "latency", "margin": 10.0, "quantile": 0.9}],
        "own_guardrails": [{"metric": "minutes", "margin": 0.5}],
    }
    return Rollout.model_validate(
        {
            "rollout_id": "ro-1", "app": "mail", "feature": "text", "version": "2.0.0", "state": "running",
            "share_basis_points": 1000, "created_at_s": 1, "updated_at_s": 1, "policy_serial": 1, "plan": plan,
            "analysis": analysis,
        }
    )  # fmt: skip


def make_line(analyzed_at_s: int, subject: str = "ro-1") -> AuditLine:
    """A line of the audit log with the analysis that led to it."""
    verdicts = [
        {"metric": name, "kind": "safe", "difference": 0.0, "low": -0.1, "high": 0.1, "reason": "within"}
        for name in ("error", "latency", "metric:minutes")
    ]
    held = {"analyzed_at_s": analyzed_at_s, "decision": "ready", "reports": 2000, "verdicts": verdicts}
    return AuditLine(at_s=1, who="p", action="advance rollout", subject=subject, details={"analysis": held})


def points_of(axes: Any) -> Any:
    """The points of the first series of a picture."""
    return axes.containers[0].lines[0].get_xydata()


def all_records() -> list[list[dict[str, Any]]]:
    """Every kind of records."""
    return [report().records(), report().arm_records(), rollout().records([make_line(1_800_000_000)])]


@pytest.mark.parametrize("records", all_records(), ids=["differences", "arms", "guardrails"])
def test_records_are_flat_and_alike(records: list[dict[str, Any]]) -> None:
    """One scalar in each column, the same columns in the same order; a frame is made where a library is there."""
    assert records
    assert {tuple(record) for record in records} == {tuple(records[0])}
    assert all(value is None or isinstance(value, str | int | float) for record in records for value in record.values())
    for library in ("pandas", "polars"):
        if importlib.util.find_spec(library) is not None:
            assert len(importlib.import_module(library).DataFrame(records)) == len(records)


def test_every_column_is_documented() -> None:
    """The methods name all their columns."""
    ends = ("_low", "_high")
    for records, method in zip(
        all_records(), (ExperimentReport.records, ExperimentReport.arm_records, Rollout.records), strict=True
    ):
        said = method.__doc__ or ""
        for column in records[0]:
            units = ("_share", "_ms", "_own") if column.startswith(("difference", "margin")) else ()
            stem = column
            for end in (*units, *ends):
                stem = stem.removesuffix(end)
            assert stem in said, column


@pytest.mark.parametrize(
    ("kind", "more", "unit"),
    [
        ("accepted", {}, "share"),
        ("latency_share", {"edge_ms": 20.0}, "share"),
        ("latency_mean", {}, "ms"),
        ("latency_quantile", {"quantile": 0.9}, "ms"),
        ("metric", {"metric": "minutes"}, "own"),
    ],
)
def test_a_difference_is_in_the_columns_of_its_unit(kind: str, more: dict[str, Any], unit: str) -> None:
    """And in no other; interim analyses come first, secondary metrics decide nothing."""
    first, now, secondary = report(kind, **more).records()
    for record in (first, now):
        filled = {name for name, value in record.items() if name.startswith("difference") and value is not None}
        assert filled == {f"difference_{unit}", f"difference_low_{unit}", f"difference_high_{unit}"}
    assert (first["analysis"], first["report_count"], first["analyzed_at_s"]) == (1, 5000, 1_800_000_000)
    assert (now["analysis"], now["report_count"], now["analyzed_at_s"]) == (0, 10_000, None)
    assert (first["arm"], first["versus"], first["decides"]) == ("new", "control", True)
    assert (secondary["metric"], secondary["difference_ms"], secondary["decides"]) == ("latency_mean", 1.5, False)


def test_a_rollout_s_history_is_each_analysis_once_in_order() -> None:
    """From what the server keeps, the audit log or what was watched; other rollouts and lines are left out."""
    other = AuditLine(at_s=1, who="p", action="pause rollout", subject="ro-1", details={})
    said = {"analysis": "the first stage, under guardrails"}
    first = AuditLine(at_s=1, who="p", action="advance rollout", subject="ro-1", details=said)
    watched = rollout(1_800_000_600)
    assert watched.analysis is not None
    history: list[AuditLine | KeptAnalysis | Rollout] = [
        KeptAnalysis(stage=1, share_basis_points=100, analysis=watched.analysis),
        make_line(1_800_000_000),
        other,
        first,
        make_line(5, "ro-2"),
        watched,
        rollout(),
    ]
    records = rollout().records(history)
    assert [record["analyzed_at_s"] for record in records[::3]] == [1_800_000_000, 1_800_000_600, 1_800_086_400]
    assert [record["guardrail"] for record in records[:3]] == ["error", "latency at 0.9", "minutes"]
    assert [record["margin_share"] for record in records[:3]] == [0.01, None, None]
    assert [record["margin_ms"] for record in records[:3]] == [None, 10.0, None]
    assert [record["margin_own"] for record in records[:3]] == [None, None, 0.5]


def test_an_experiment_s_figure_says_the_decision_and_shows_each_analysis() -> None:
    """The title is the decision with the arms' names; the points are the analyses and now, in per cent."""
    pytest.importorskip("matplotlib")
    figure = report().plot()
    title = figure.get_suptitle().replace("\n", " ")
    assert title == "ex-1: new wins: new is better than control by 0.01"
    (axes,) = figure.axes
    assert axes.get_xlabel() == "reports"
    assert "percentage points" in axes.get_ylabel()
    labels = axes.get_legend_handles_labels()[1]
    assert set(labels) == {"new − control", "no difference", "effect looked for"}
    points = points_of(axes)
    assert points.tolist() == [[5000.0, 2.0], [10_000.0, 2.0]]
    assert len(points_of(report().experiment.plot().axes[0])) == 1
    figure.savefig(io.BytesIO(), format="png")


def test_a_rollout_s_figure_has_a_margin_for_each_guardrail() -> None:
    """One picture a guardrail, each with its margin line, its verdict, and unbounded ends drawn to the edge."""
    pytest.importorskip("matplotlib")
    figure = rollout().plot([make_line(1_800_000_000)])
    assert figure.get_suptitle() == "ro-1: running at 10 %: it has lasted an hour"
    assert [axes.get_title("left") for axes in figure.axes] == [
        "error: safe",
        "latency at 0.9: inconclusive",
        "minutes: safe",
    ]
    for axes, margin in zip(figure.axes, (1.0, 10.0, 0.5), strict=True):
        (line,) = [each for each in axes.lines if each.get_label() == "margin"]
        assert set(np.asarray(line.get_ydata())) == {margin}
        assert len(points_of(axes)) == 2
    figure.savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("made", [rollout(difference=None), rollout().model_copy(update={"analysis": None})])
def test_a_figure_without_reports_says_so(made: Rollout) -> None:
    """Nothing to draw is no error."""
    pytest.importorskip("matplotlib")
    figure = made.plot()
    assert "no reports yet" in [text.get_text() for text in figure.axes[0].texts]
    figure.savefig(io.BytesIO(), format="svg")


def test_eight_arms_have_a_colour_and_a_marker_each() -> None:
    """No two series look alike; dollar signs in reasons are no formulas."""
    pytest.importorskip("matplotlib")
    whole = report()
    arms = tuple(Arm(name=f"arm{number}", version="1", share_basis_points=1) for number in range(8))
    pairs = tuple(
        PairDifference(arm=number, versus=0, difference=Estimate(value=0.1, low=0.0, high=0.2))
        for number in range(1, 8)
    )
    decision = Decision(kind="inconclusive", code="x", reason="costs $5 and $6")
    experiment = whole.experiment.model_copy(update={"arms": arms, "primary": Primary(), "interim_analyses": ()})
    results = whole.results.model_copy(update={"pairs": pairs, "decision": decision})
    figure = ExperimentReport(experiment=experiment, results=results).plot()
    containers: Any = figure.axes[0].containers
    lines = [container.lines[0] for container in containers]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 7
    figure.savefig(io.BytesIO(), format="svg")
    assert "undecided: costs" in figure.get_suptitle()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records need nothing; a figure names its extra."""
    real = builtins.__import__

    def refuse(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name, name="matplotlib")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert report().records()
    for thing in (report(), report().experiment, rollout()):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'alcove-platform\[plot\]'"):
            thing.plot()
