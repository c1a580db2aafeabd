"""`alcove experiment`, as an operator types it: what it needs, what is changed, what is watched."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from alcove.platform.cli import experiment as command
from alcove.platform.cli.connection import CallOptions
from alcove.platform.client import ExperimentReport

from tests.platform.cli.terminal import Shop

ARMS = ("--arm", "old=1.0.0:50%", "--arm", "new=1.1.0:50%")


def test_an_experiment_is_planned_changed_watched_and_stopped(shop: Shop, programs: tuple[Path, Path]) -> None:
    """Devices and days are reported at creation and after each change; a stale etag and an empty change are refused."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = shop.folder / "card.md"
    card.write_text("# Planned\n")
    options = ("--feature", "planned", "--team", "writing", "--key", key, "--card", card)
    for version, program in zip(("1.0.0", "1.1.0"), programs, strict=True):
        shop.team("model", "push", f"f32={program}", "--version", version, *options, "--json")
    shop.release("1.0.0", "1.1.0", feature="planned")
    about = ("--app", "planned", "--feature", "planned", *ARMS, "--latency-edge-ms", "10")
    asked = ("--mde", "0.03", "--devices", "400000", "--base-rate", "0.8", "--guard", "crash_fallback:0.5%")
    tried = shop.operator("experiment", "create", *about, *asked, "--validate-only")
    assert tried.code == 0, tried.err
    assert "by randomized response, ε = 2, a difference of 0.03 needs" in tried.out
    shared = shop.operator("experiment", "create", *about, "--mechanism", "prio3", "--validate-only")
    assert (shared.code, "this server has none: ask for randomized response" in shared.err) == (1, True)
    assert shop.operator("experiment", "list", "--app", "planned", "--json").json == []
    (draft,) = shop.operator("experiment", "create", *about, *asked, "--json").json
    assert draft["plan"]["devices_needed"] > 1000
    assert draft["guardrails"] == [{"metric": "crash_fallback", "margin": 0.005, "quantile": 0.0, "edge_ms": 0.0}]
    name = draft["experiment_id"]
    small = shop.operator("experiment", "update", name, "--devices", "500", "--etag", draft["etag"])
    assert small.code == 0, small.err
    assert "500 devices don't find it in 30 days" in small.out
    stale = shop.operator("experiment", "update", name, "--epsilon", "1", "--etag", draft["etag"])
    assert (stale.code, "etag" in stale.err) == (1, True)
    corrected = shop.operator("experiment", "update", name, "--cuped", "0.5,0.8")
    assert "warning: CUPED widens the intervals to about" in corrected.out, corrected.err
    half = shop.operator("experiment", "update", name, "--cuped", "half")
    assert (half.code, "0.5,0.8" in half.err) == (2, True)
    (plain,) = shop.operator("experiment", "update", name, "--cuped", "", "--json").json
    assert (plain["pre_edges"], plain["plan"]["cuped_error_ratio"]) == ([], 0.0)
    nothing = shop.operator("experiment", "update", name)
    assert (nothing.code, "nothing to change" in nothing.err) == (2, True)
    (faster,) = shop.operator(
        "experiment", "update", name, "--primary", "latency_mean", "--base-rate", "0", "--audience", "os==ios", "--json"
    ).json
    assert faster["audience"] == "os in (ios)"
    secondary = ("--secondary", "error", "--secondary", "crash_fallback")
    (watched,) = shop.operator("experiment", "update", name, *secondary, "--json").json
    assert [each["numerator"] for each in watched["secondary"]] == [["error"], ["fallback"]]
    apart = shop.operator("experiment", "update", name, "--secondary", "refused")
    assert (apart.code, "refused or accepted or answered" in apart.err) == (1, True)
    unknown = shop.operator("experiment", "update", name, "--secondary", "revenue")
    assert (unknown.code, "crash_fallback" in unknown.err) == (2, True)
    (faster,) = shop.operator("experiment", "update", name, "--audience", "", "--json").json
    assert faster["audience"] == ""
    assert faster["primary"]["kind"] == "latency_mean"
    started = shop.operator("experiment", "start", name, "--etag", faster["etag"], "--json").json
    assert started[0]["state"] == "running"
    watched = shop.operator("experiment", "watch", name, "--for", "1s")
    assert (watched.code, watched.out.split()[:2]) == (0, [name, "running"])
    shown = shop.operator("experiment", "results", name)
    assert "latency_mean" in shown.out
    assert "an arm has no devices" in shown.out
    assert "randomized response: each report hides arm and outcome up to ε = 2" in shown.out
    assert shop.operator("experiment", "stop", name).code == 0
    assert shop.operator("experiment", "watch", name, "--json").json["state"] == "stopped"
    looked_at = ("--primary", "ratio", "--numerator", "accepted", "--denominator", "accepted,refused")
    planned = (
        "--interim-analyses",
        "5",
        "--horizon",
        "50000",
        "--mde",
        "0.05",
        "--start",
        "--json",
    )
    (ratio,) = shop.operator("experiment", "create", *about, *looked_at, *planned).json
    assert (ratio["primary"]["numerator"], ratio["primary"]["denominator"]) == (["accepted"], ["accepted", "refused"])
    assert (ratio["plan"]["interim_analyses"], ratio["plan"]["planned_reports"]) == (5, 50_000)
    shown = shop.operator("experiment", "results", ratio["experiment_id"])
    assert "0 of 5 interim analyses made; the next is due at 10,000 reports" in shown.out
    assert "intervals hold for all pairs together, each p-value for its own" in shown.out
    assert "none of 5 interim analyses was made" in shown.out
    output = shop.operator("experiment", "results", ratio["experiment_id"], "--json").json["results"]
    assert (output["next_analysis_reports"], output["pairs"][0]["p_value"]) == (10_000, None)
    for wrong in (("--numerator", "accepted"), ("--primary", "ratio", "--numerator", "kept")):
        refused = shop.operator("experiment", "create", *about, *wrong)
        assert refused.code == 2
        assert wrong[-2].lstrip("-") in refused.err or "ratio" in refused.err


def test_results_show_the_corrected_difference_and_what_the_correction_did(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Difference, slope and variance in one line for each arm that was corrected; none for another; lifts beside."""
    estimate = {"value": 0.021, "low": 0.004, "high": 0.038}
    arms = [{"name": name, "version": "1.0.0", "share_basis_points": 5000} for name in ("old", "new", "newer")]
    unknown: dict[str, object] = {}
    report = ExperimentReport.model_validate(
        {
            "experiment": {
                "experiment_id": "ex-1", "app": "a", "feature": "f", "arms": arms, "state": "EXPERIMENT_STATE_RUNNING",
                "epsilon": "2", "latency_edges_ms": [], "window_s": 60, "minimum_cohort": 50, "task_id": "",
                "created_at_s": 1, "started_at_s": 2, "stopped_at_s": 0, "policy_serial": 1,
            },
            "results": {
                "report_count": 9, "window_count": 1, "cell_counts": [], "alpha": 0.05,
                "differences": [
                    {"arm": 1, "accepted": estimate, "lift": {"value": 0.25, "low": 0.05, "high": 0.5}},
                    {"arm": 2, "accepted": estimate, "lift": {"value": 31.0}},
                ],
                "arms": [
                    {"name": arm["name"], "version": "1.0.0", "devices": 3, "share": unknown, "accepted": unknown,
                     "latency_ms": unknown, "median_latency_ms": unknown}
                    for arm in arms
                ],
                "decision": {"kind": "DECISION_KIND_INCONCLUSIVE", "code": "x", "reason": "because"},
                "primary": [
                    {"arm": 1, "difference": estimate,
                     "adjustment": {"unadjusted": estimate, "theta": 0.8123, "variance_reduction_percent": 31.26}},
                    {"arm": 2, "difference": unknown},
                ],
            },
        }
    )  # fmt: skip
    answering = nullcontext(SimpleNamespace(results=lambda _, **__: report, overrides=list))
    monkeypatch.setattr(CallOptions, "connect", lambda _: answering)
    command.results(experiment_id="ex-1", call=CallOptions())
    output = capsys.readouterr().out
    assert "new - old, CUPED: 2.1% [0.4, 3.8], theta 0.812, variance -31.3 %" in output
    assert "new - old: 2.1% [0.4, 3.8], relative +25.0% [5.0, 50.0]" in output
    assert "newer - old: 2.1% [0.4, 3.8], relative not distinguishable" in output
    assert "newer - old, CUPED" not in output
