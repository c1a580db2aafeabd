"""Reports of an experiment as files: read back, they say what was shown; nothing is half written, loaded or run."""

import csv
import io
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.cli import experiment as command
from alcove.platform.cli import report as exports
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.experiment_results import sentence
from alcove.platform.cli.report import pictures, write_report
from alcove.platform.cli.report.cells import COLUMNS
from alcove.platform.client import ExperimentReport
from alcove.platform.client.models import value_of
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.experiments.views import make_views
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import bayesian_message, cells_message, secondary_view_message
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy import TaskPolicy

from tests.platform.cells import cells_of
from tests.platform.domain.test_experiment_plans import EDGES_MS, record

REPORTS = 200_000
HOSTILE = '=cmd()<script>alert("x")</script>&'
PLAN = ExperimentPlan(
    guardrails=(GuardrailRecord("error", 0.01, None),),
    secondary=(MetricRecord("latency_mean"), MetricRecord("ratio", numerator=("error",), less_is_better=True)),
)


def expect_counts(task: TaskPolicy, cells: list[list[list[float]]]) -> list[int]:
    """Counts that devices with these shares of cells are expected to give, by the task's own mechanism."""
    shares = cells_of(task, cells)
    single, size = task.subset_size == 1, task.cell_count
    mechanism = (
        RandomizedResponse(size, task.epsilon_fraction)
        if single
        else SubsetSelection(size, task.epsilon_fraction, task.subset_size)
    )
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    counts = [int(REPORTS * (other + (keep - other) * share)) for share in shares / shares.sum()]
    counts[0] += REPORTS * task.subset_size - sum(counts)
    return counts


def make_report(plan: ExperimentPlan = PLAN, *, name: str = "larger") -> ExperimentReport:
    """What a client gets of an experiment with reports by randomized response."""
    experiment = replace(record(plan, EDGES_MS), started_at_s=1_000)
    first, second = experiment.arms
    experiment = replace(experiment, arms=(first, replace(second, name=name)))
    slow, fast, failed = [20.0, 10.0, 10.0], [25.0, 10.0, 5.0], [1.0, 0.0, 0.0]
    nothing = [0.0, 0.0, 0.0]
    task = task_of(experiment)
    cells = [[slow, slow, failed, nothing], [slow, fast, failed, nothing]]
    reports = Reports.of_cells(task, expect_counts(task, cells), 1)
    results = results_message(experiment, evaluate(experiment, reports))
    views = make_views(experiment, reports, with_cells=True)
    assert views.cells is not None
    results.bayesian.CopyFrom(bayesian_message(views.bayesian))
    results.secondary.CopyFrom(secondary_view_message(views))
    results.cells.CopyFrom(cells_message(views.cells))
    return value_of(ExperimentReport, pb.GetResultsResponse(experiment=experiment_message(experiment), results=results))


@pytest.fixture(scope="module")
def report() -> ExperimentReport:
    """One with secondary metrics and a guardrail."""
    return make_report()


class Page(HTMLParser):
    """Elements and text of a page; each element that is opened must be closed in order."""

    VOID = frozenset({"meta", "line", "circle", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close what is open."""
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note it."""
        self.words.append(data)


def test_a_page_has_the_decision_all_tables_and_pictures_and_loads_nothing(
    report: ExperimentReport, tmp_path: Path
) -> None:
    """Read back: its policy forbids everything, and no element names an address."""
    path = tmp_path / "report.html"
    write_report(path, report)
    page = Page(path.read_text("utf-8"))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("table") == 6
    assert (tags.count("svg"), tags.count("figcaption")) == (3, 3)
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
        assert not {"src", "href", "action", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    (policy,) = [each["content"] for tag, each in page.elements if "http-equiv" in each]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "url(" not in path.read_text("utf-8")
    text = " ".join(page.words)
    assert sentence(report.experiment.arms, report.results.decision) in text
    assert f"{report.results.bayesian.arms[1].chance_best:.1%}" in text
    assert "They decide nothing" in text
    assert "It decides nothing" in text


def test_a_page_can_be_read_without_seeing_it(report: ExperimentReport, tmp_path: Path) -> None:
    """A language, one main heading, captions and heads of tables, and each picture in words."""
    path = tmp_path / "report.html"
    write_report(path, report)
    page = Page(path.read_text("utf-8"))
    assert ("html", {"lang": "en"}) in page.elements
    tags = [tag for tag, _ in page.elements]
    assert (tags.count("h1"), tags.count("main"), tags.count("caption")) == (1, 1, tags.count("table"))
    assert all(each.get("scope") in {"row", "col"} for tag, each in page.elements if tag == "th")
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    for _, each in (element for element in page.elements if element[0] == "svg"):
        assert each["role"] == "img"
        assert set((each["aria-labelledby"] or "").split()) <= set(ids)
    described = [word for word in page.words if "larger - control: " in word]
    assert any(" from " in word for word in described)


@pytest.mark.parametrize(("low", "high"), [(-2.99, 2.37), (0.4884, 0.5141), (-1e-9, 3e-9), (0.0, 1000.0), (7.0, 8.0)])
def test_an_axis_has_a_handful_of_round_numbers(low: float, high: float) -> None:
    """Inside of it, evenly apart."""
    ticks = pictures._ticks(low, high)
    assert 4 <= len(ticks) <= 9
    assert low <= min(ticks) < max(ticks) <= high * (1 + 1e-9)
    assert np.ptp(np.diff(ticks)) < 1e-9 * (high - low)


def test_names_that_others_chose_are_text_in_every_format(tmp_path: Path) -> None:
    """No element of a page, no formula of a spreadsheet, no code of a notebook."""
    hostile = make_report(name=HOSTILE)
    for suffix in ("html", "csv", "ipynb"):
        write_report(tmp_path / f"report.{suffix}", hostile)
    assert "script" not in {tag for tag, _ in Page((tmp_path / "report.html").read_text("utf-8")).elements}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "report.csv").read_text("utf-8"))))
    assert {row["arm"] for row in rows} == {"control", f"'{HOSTILE}"}
    assert run_notebook(tmp_path / "report.ipynb")["arms"] == ["control", f"'{HOSTILE}"]


def test_cells_as_csv_are_the_counts_and_estimates(report: ExperimentReport, tmp_path: Path) -> None:
    """Every number exactly; what a cell does not have is empty."""
    path = tmp_path / "cells.csv"
    write_report(path, report)
    data = path.read_bytes()
    assert data.startswith(",".join(COLUMNS).encode() + b"\r\n")
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert report.results.cells is not None
    assert [int(row["count"]) for row in rows] == list(report.results.cell_counts)
    for row, cell in zip(rows, report.results.cells.rows, strict=True):
        assert float(row["estimate"]) == cell.estimate
        assert float(row["noise_standard_error"]) == cell.noise_standard_error
        assert row["latency_below_ms"] == ("" if cell.latency_below_ms is None else str(cell.latency_below_ms))
    assert {row["outcomes"] for row in rows} >= {"refused", "accepted", "error"}
    assert sum(int(row["count"]) for row in rows) % REPORTS == 0
    assert report.results.report_count == REPORTS


def test_cells_as_parquet_are_those_of_the_csv(report: ExperimentReport, tmp_path: Path) -> None:
    """With pyarrow, which users install themselves: types, nulls and numbers."""
    parquet = import_module("pyarrow.parquet")
    write_report(tmp_path / "cells.parquet", report)
    write_report(tmp_path / "cells.csv", report)
    found = parquet.read_table(tmp_path / "cells.parquet").to_pylist()
    said = list(csv.DictReader(io.StringIO((tmp_path / "cells.csv").read_text("utf-8"))))
    assert [tuple(row) for row in found] == [COLUMNS] * len(said)
    for row, spelled in zip(found, said, strict=True):
        assert {name: "" if value is None else str(value) for name, value in row.items()} == spelled


def test_parquet_without_its_library_names_what_to_install(
    report: ExperimentReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a server is asked, and nothing is written."""
    monkeypatch.setattr(exports, "find_spec", lambda _: None)
    with pytest.raises(InvalidFieldError, match=r"pip install 'alcove-platform\[parquet\]'"):
        write_report(tmp_path / "cells.parquet", report)
    assert list(tmp_path.iterdir()) == []


def run_notebook(path: Path) -> dict[str, Any]:
    """Run the code of a notebook in order, as a kernel does."""
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    namespace: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
            exec("".join(cell["source"]), namespace)
    return namespace


def test_a_notebook_computes_the_shown_numbers_from_the_cells_inside(
    report: ExperimentReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The difference to the last digits, its standard error to a tenth of a per cent."""
    path = tmp_path / "report.ipynb"
    write_report(path, report)
    ((value, error),) = run_notebook(path)["computed"]
    assert value == pytest.approx(report.results.pairs[0].difference.value, rel=1e-9)
    posterior = report.results.bayesian.differences[0].difference
    assert error == pytest.approx(posterior.standard_deviation, rel=1e-3)
    shown = capsys.readouterr().out
    assert "larger - control: " in shown
    assert "always valid, as shown: [" in shown


def test_a_notebook_of_a_mean_latency_reads_its_own_weights(tmp_path: Path) -> None:
    """In milliseconds, from the bins' values."""
    plan = ExperimentPlan(primary="latency_mean")
    report = make_report(plan)
    write_report(tmp_path / "report.ipynb", report)
    ((value, _),) = run_notebook(tmp_path / "report.ipynb")["computed"]
    assert value == pytest.approx(report.results.pairs[0].difference.value, rel=1e-9)
    assert value < -0.5


@pytest.mark.parametrize(
    ("name", "why"), [("report.pdf", r"\.html, \.csv"), ("report", "ends in"), ("missing/report.html", "in a folder")]
)
def test_another_name_is_refused_before_a_server_is_asked(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the endings that there are, or the folder that is not there."""

    def refuse(_: CallOptions) -> None:
        raise AssertionError

    monkeypatch.setattr(CallOptions, "connect", refuse)
    with pytest.raises(InvalidFieldError, match=why):
        command.results(experiment_id="ex-1", export=tmp_path / name, call=CallOptions())


def test_the_command_asks_for_the_cells_and_says_what_it_wrote(
    *, report: ExperimentReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And without --export for none."""
    asked: list[bool] = []

    def answer(_: str, *, with_cells: bool) -> ExperimentReport:
        asked.append(with_cells)
        return report

    monkeypatch.setattr(CallOptions, "connect", lambda _: nullcontext(SimpleNamespace(results=answer, overrides=list)))
    command.results(experiment_id="ex-1", export=tmp_path / "cells.csv", call=CallOptions())
    assert f"cells.csv: {(tmp_path / 'cells.csv').stat().st_size:,} bytes" in capsys.readouterr().out
    command.results(experiment_id="ex-1", export=None, call=CallOptions())
    assert asked == [True, False]


def test_a_report_without_cells_is_refused_by_name(report: ExperimentReport, tmp_path: Path) -> None:
    """As an older server sends it."""
    bare = report.model_copy(update={"results": report.results.model_copy(update={"cells": None})})
    for suffix in ("csv", "ipynb"):
        with pytest.raises(InvalidFieldError, match=r"results\.cells"):
            write_report(tmp_path / f"report.{suffix}", bare)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(
    failing: str, *, report: ExperimentReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while syncing or renaming: the old file, and nothing beside it."""
    path = tmp_path / "report.html"
    path.write_text("before", encoding="utf-8")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    places: dict[str, tuple[Any, str]] = {"fsync": (os, "fsync"), "replace": (Path, "replace")}
    monkeypatch.setattr(*places[failing], fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, report)
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text("utf-8") == "before"
