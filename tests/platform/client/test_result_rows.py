"""Results as rows, which data frames take."""

import csv
import io

from alcove.platform.client import ExperimentReport


def test_a_report_is_a_row_for_each_arm() -> None:
    """Every row has the same columns; what is not known is None, and the first arm has no difference to itself."""
    arms = [{"name": name, "version": "12.0.0", "share_basis_points": 5000} for name in ("old", "new")]
    known = {"value": 0.5, "low": 0.4, "high": 0.6}
    report = ExperimentReport.model_validate(
        {
            "experiment": {
                "experiment_id": "ex-1", "app": "a", "feature": "f", "arms": arms, "state": "EXPERIMENT_STATE_RUNNING",
                "epsilon": "2", "latency_edges_ms": [], "window_s": 3600, "minimum_cohort": 50, "task_id": "",
                "created_at_s": 1, "started_at_s": 2, "stopped_at_s": 0, "policy_serial": 1,
            },
            "results": {
                "report_count": 9, "window_count": 1, "cell_counts": [], "alpha": 0.05, "differences": [],
                "arms": [
                    {"name": arm["name"], "version": "12.0.0", "devices": 3.5, "share": known, "accuracy": known,
                     "latency_ms": {}, "median_latency_ms": {}}
                    for arm in arms
                ],
                "decision": {"kind": "DECISION_KIND_INCONCLUSIVE", "code": "x", "reason": "because"},
                "primary": [{"arm": 1, "difference": {"value": 0.02, "low": -0.01}, "lift": {"value": 0.04}}],
            },
        }
    )  # fmt: skip
    first, second = report.to_rows()
    assert [first[name] for name in ("arm", "version", "devices")] == ["old", "12.0.0", 3.5]
    assert [first[name] for name in ("accuracy", "accuracy_low", "accuracy_high")] == [0.5, 0.4, 0.6]
    assert [first[name] for name in ("latency_ms", "own_metric", "difference", "lift_low")] == [None] * 4
    assert [second[name] for name in ("difference", "difference_low", "difference_high", "lift")] == [
        0.02,
        -0.01,
        None,
        0.04,
    ]
    table = csv.DictWriter(io.StringIO(), fieldnames=list(first))
    table.writerows([first, second])  # which refuses other columns
