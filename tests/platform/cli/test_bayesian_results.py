"""The Bayesian view in `alcove experiment results`, as people read it."""

from typing import Any

import pytest
from alcove.platform.cli.bayesian_results import show_bayesian
from alcove.platform.client import BayesianView, Experiment

VIEW: dict[str, Any] = {
    "arms": [
        {
            "arm": arm,
            "value": {"mean": mean, "standard_deviation": 0.01, "low": mean - 0.02, "high": mean + 0.02},
            "chance_best": chance,
            "expected_loss": loss,
        }
        for arm, mean, chance, loss in ((0, 0.50, 0.021, 0.0301), (1, 0.53, 0.979, 0.0001))
    ],
    "differences": [
        {
            "arm": 1,
            "versus": 0,
            "difference": {"mean": 0.03, "standard_deviation": 0.014, "low": 0.0025, "high": 0.0575},
            "chance_better": 0.979,
            "expected_loss": 0.0001,
        }
    ],
    "prior": "uniform on [0, 1] for each arm, independent of the others",
}


def experiment(kind: str) -> Experiment:
    """An experiment of two arms."""
    arms = [{"name": name, "version": "1.0.0", "share_basis_points": 5000} for name in ("old", "new")]
    return Experiment.model_validate(
        {
            "experiment_id": "ex-1", "app": "a", "feature": "f", "arms": arms, "state": "EXPERIMENT_STATE_RUNNING",
            "epsilon": "2", "latency_edges_ms": [], "window_s": 60, "minimum_cohort": 50, "task_id": "",
            "created_at_s": 1, "started_at_s": 2, "stopped_at_s": 0, "policy_serial": 1,
            "primary": {"kind": f"PRIMARY_KIND_{kind}"},
        }
    )  # fmt: skip


def test_posteriors_chances_and_losses_are_shown_with_the_prior(capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each arm and each difference; it says that it decides nothing."""
    show_bayesian(experiment("ACCEPTED"), BayesianView.model_validate(VIEW))
    shown = capsys.readouterr().out
    assert "Bayesian view, which decides nothing; prior: uniform on [0, 1] for each arm" in shown
    assert "53.00 % [51.00 %, 55.00 %]" in shown
    (row,) = [line for line in shown.splitlines() if "new - old" in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "new - old",
        "3.00 % [0.25 %, 5.75 %]",
        "97.9%",
        "0.01 %",
    ]


def test_milliseconds_are_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """By the primary metric's unit."""
    show_bayesian(experiment("LATENCY_MEAN"), BayesianView.model_validate(VIEW))
    assert "0.03 ms [0.0025 ms, 0.0575 ms]" in capsys.readouterr().out


def test_an_obstacle_is_said_and_an_older_servers_silence_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Without posteriors there is no table; the arm that is in the way has its name."""
    show_bayesian(experiment("ACCEPTED"), BayesianView(obstacle="arm 0 has no report that the metric reads"))
    assert capsys.readouterr().out == "no Bayesian view: arm old has no report that the metric reads\n"
    show_bayesian(experiment("ACCEPTED"), BayesianView())
    assert capsys.readouterr().out == ""
