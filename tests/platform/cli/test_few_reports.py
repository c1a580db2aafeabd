"""`alcove experiment results` where reports are too few to say much."""

from typing import Any

import pytest
from alcove.platform.cli.experiment_results import show_results
from alcove.platform.client import ExperimentReport

ARMS = [{"name": name, "version": "1.0.0", "share_basis_points": 3333} for name in ("old", "new", "newer")]
EXPERIMENT: dict[str, Any] = {
    "experiment_id": "ex-1",
    "app": "a",
    "feature": "f",
    "arms": ARMS,
    "state": "EXPERIMENT_STATE_RUNNING",
    "epsilon": "2",
    "latency_edges_ms": [],
    "window_s": 3600,
    "minimum_cohort": 50,
    "task_id": "",
    "created_at_s": 1,
    "started_at_s": 2,
    "stopped_at_s": 0,
    "policy_serial": 1,
}


def test_nothing_is_shown_that_few_reports_do_not_say(capsys: pytest.CaptureFixture[str]) -> None:
    """A share without an interval, a latency that nobody asked for, an arm by its number: none of the three."""
    arm = {
        "version": "1.0.0",
        "devices": 13,
        "share": {},
        "accepted": {"value": 1.377},
        "latency_ms": {"value": 0.0, "low": 0.0, "high": 0.0},
        "median_latency_ms": {},
    }
    results = {
        "report_count": 40,
        "window_count": 1,
        "cell_counts": [],
        "alpha": 0.05,
        "differences": [{"arm": 1, "accepted": {"value": 1.377}, "lift": {}}],
        "arms": [{"name": each["name"], **arm} for each in ARMS],
        "decision": {
            "kind": "DECISION_KIND_INCONCLUSIVE",
            "code": "interval_includes_zero",
            "reason": "arm 2 minus arm 1 may be anything in [-0.1, 0.3]",
        },
        "bayesian": {"obstacle": "arm 1 has no report that the metric reads"},
    }
    show_results(ExperimentReport.model_validate({"experiment": EXPERIMENT, "results": results}))
    said = capsys.readouterr().out
    assert "new - old: too few reports" in said
    assert "137" not in said
    assert "0 ms" not in said
    assert "inconclusive, hold: arm newer minus arm new may be anything in [-0.1, 0.3]" in said
    assert "no Bayesian view: arm new has no report that the metric reads" in said
