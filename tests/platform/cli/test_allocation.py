"""A bandit's options, and what is printed of its shares."""

from pathlib import Path

import pytest
import typer
from alcove.platform.cli.allocation import bandit_of, show_allocation
from alcove.platform.cli.report import write_report
from alcove.platform.client import (
    AllocationView,
    Arm,
    Bandit,
    Decision,
    Experiment,
    ExperimentReport,
    Results,
    ShareChange,
)
from alcove.platform.domain.errors import InvalidFieldError

ARMS = (
    Arm(name="old", version="1.0.0", share_basis_points=4000),
    Arm(name="new", version="2.0.0", share_basis_points=6000),
)
EXPERIMENT = Experiment(
    experiment_id="ex-1", app="app", feature="f", arms=ARMS, state="running", epsilon="2", latency_edges_ms=(),
    window_s=86_400, minimum_cohort=1000, task_id="", created_at_s=0, started_at_s=0, stopped_at_s=0, policy_serial=1,
    bandit=Bandit(),
)  # fmt: skip


def test_options_make_a_bandit_or_none() -> None:
    """Bounds that are not given are the server's; a fixed split has none."""
    assert bandit_of("bandit", None, None) == Bandit()
    assert bandit_of("bandit", "5%", "20%") == Bandit(min_share_basis_points=500, max_step_basis_points=2000)
    assert bandit_of("fixed", None, None) is None
    assert bandit_of(None, None, None) is None
    for kind in (None, "fixed"):
        with pytest.raises(typer.BadParameter, match="belong to --allocation bandit"):
            bandit_of(kind, None, "5%")


def test_history_and_regret_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each change with the chances that moved it, why shares stay, and what a fixed split would have lost."""
    changes = (
        ShareChange(shares_basis_points=(5000, 5000)),
        ShareChange(first_window=4, shares_basis_points=(4000, 6000), report_count=12_345, chances=(0.02, 0.98)),
    )
    view = AllocationView(
        changes=changes, held="too few", expected_regret=0.004, regret_so_far=123.4, fixed_regret_so_far=250.0
    )
    show_allocation(EXPERIMENT, view)
    text = " ".join(capsys.readouterr().out.split())
    for part in ("names no winner", "2.0%, 98.0%", "12,345", "too few", "0.400 points", "123.4 reports; 250.0 if"):
        assert part in text


def test_a_notebook_of_a_bandit_is_refused_by_name(tmp_path: Path) -> None:
    """It would compute other numbers from the sums of all windows than the server did from each."""
    results = Results(
        report_count=0, window_count=0, cell_counts=(), arms=(), differences=(), alpha=0.05,
        decision=Decision(kind="inconclusive", code="no_reports", reason="none"), allocation=AllocationView(),
    )  # fmt: skip
    with pytest.raises(InvalidFieldError, match="where a bandit moves shares"):
        write_report(tmp_path / "report.ipynb", ExperimentReport(experiment=EXPERIMENT, results=results))
