"""Results and a rollout's status say "too few reports" in words wherever there is no number to read."""

import csv
import io
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.cli import experiment as experiments
from alcove.platform.cli import rollout as rollouts
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.report.cells import table_of
from alcove.platform.client import ExperimentReport
from alcove.platform.client.models import value_of
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.experiments.views import make_views
from alcove.platform.domain.reports import Reports
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import cells_message
from alcove.registry.parameters import Setting

from tests.platform.domain.test_experiment_plans import EDGES_MS, record

from .test_rollout_details import rollout

FEW = "too few reports"


def report_of(arms: tuple[int, int]) -> ExperimentReport:
    """What a client gets of an experiment whose arms have so many accepted answers, as exact counts."""
    experiment = replace(record(ExperimentPlan(), EDGES_MS), started_at_s=1_000)
    first, second = experiment.arms
    valued = replace(second, values=(Setting(name="threshold", value="0.7"),))
    experiment = replace(experiment, arms=(first, valued), minimum_cohort=1000)
    task = task_of(experiment)
    counts = [0] * task.cell_count
    for arm, count in enumerate(arms):
        counts[arm * task.cell_count // 2 + task.cell_count // 4] = count
    reports = Reports.of_cells(task, counts, 1)
    results = results_message(experiment, evaluate(experiment, reports))
    cells = make_views(experiment, reports, with_cells=True).cells
    assert cells is not None
    results.cells.CopyFrom(cells_message(cells))
    return value_of(ExperimentReport, pb.GetResultsResponse(experiment=experiment_message(experiment), results=results))


def numbers_of(value: Any) -> list[float]:
    """Every number of a JSON value."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers_of(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers_of(each)]
    return [value] if isinstance(value, float) else []


def answer_with(monkeypatch: pytest.MonkeyPatch, **calls: Any) -> None:
    """Let the client answer so, with no override."""
    answering = nullcontext(SimpleNamespace(overrides=list, **calls))
    monkeypatch.setattr(CallOptions, "connect", lambda _: answering)


@pytest.mark.parametrize(
    ("arms", "noted"),
    [((0, 0), (True, True)), ((300, 200), (True, True)), ((0, 4000), (True, False)), ((4000, 0), (False, True))],
    ids=["no reports", "below the minimum", "the treatment alone", "the control alone"],
)
def test_results_say_of_each_arm_without_enough_reports_that_there_are_too_few(
    arms: tuple[int, int],
    noted: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the table, in JSON and in the CSV of cells; a dash alone, NaN and a zero that means nothing are nowhere."""
    report = report_of(arms)
    answer_with(monkeypatch, results=lambda _, **__: report)
    experiments.results(experiment_id="ex-1", call=CallOptions())
    said = capsys.readouterr().out
    for arm, is_noted in zip(report.results.arms, noted, strict=True):
        assert (f"{arm.name}: {FEW}: about " in said) == is_noted
        assert ("devices of at least 1000" in said) == any(noted)
    cells = [cell.strip() for line in said.splitlines() for cell in line.split("│")]
    assert "-" not in cells
    assert "nan" not in said.lower()
    if not any(arms):
        # Nothing was heard: every cell of an estimate says so.
        assert cells.count(FEW) >= 6
    assert "1.1.0 (threshold=0.7)" in said.replace("2.0.0", "1.1.0")

    experiments.results(experiment_id="ex-1", call=CallOptions(as_json=True))
    shown = json.loads(capsys.readouterr().out)
    assert [arm["note"].startswith(FEW) for arm in shown["results"]["arms"]] == list(noted)
    assert all(math.isfinite(number) for number in numbers_of(shown))
    assert shown["experiment"]["arms"][1]["values"] == {"threshold": "0.7"}
    assert "accuracy" not in json.dumps(shown)
    for arm, count in zip(shown["results"]["arms"], arms, strict=True):
        assert (arm["accepted"]["low"] is None) or count

    rows = list(csv.DictReader(io.StringIO(table_of(report))))
    for arm, is_noted in zip(report.results.arms, noted, strict=True):
        assert {row["note"].startswith(FEW) for row in rows if row["arm"] == arm.name} == {is_noted}


UNKNOWN = {"metric": "GUARD_METRIC_CRASH_FALLBACK", "kind": "GUARD_KIND_INCONCLUSIVE", "reason": "no reports"}


@pytest.mark.parametrize(
    ("devices", "groups"),
    [([], ("control", "treatment")), ([0.0, 0.0], ("control", "treatment")), ([800.0, 0.0], ("treatment",))],
    ids=["no analysis of reports", "no reports", "the control alone"],
)
def test_status_of_a_rollout_says_which_group_has_too_few_reports(
    devices: list[float],
    groups: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the table of guardrails, below it, and in JSON."""
    found = rollout(devices=devices, verdicts=[UNKNOWN], report_count=0)
    answer_with(monkeypatch, rollout=lambda _: found)
    rollouts.status(rollout_id="ro-1", call=CallOptions())
    said = capsys.readouterr().out
    cells = [cell.strip() for line in said.splitlines() for cell in line.split("│")]
    assert cells.count(FEW) == 2
    assert not {"?", "-", "? to ?", "nan"} & set(cells)
    for name in ("control", "treatment"):
        assert (f"{FEW}: the {name} group has about 0 devices of at least 1" in said) == (name in groups)
    rollouts.status(rollout_id="ro-1", call=CallOptions(as_json=True))
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["notes"] == [line for line in said.splitlines() if line.startswith(FEW)]
    assert shown["notes"][-1] == f"{FEW} for crash_fallback"


def test_status_of_a_rollout_with_reports_has_no_such_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An end of an interval that is not known is left open."""
    found = rollout()
    answer_with(monkeypatch, rollout=lambda _: found)
    rollouts.status(rollout_id="ro-1", call=CallOptions())
    said = capsys.readouterr().out
    assert FEW not in said
    assert "-0.2 % to …" in said
