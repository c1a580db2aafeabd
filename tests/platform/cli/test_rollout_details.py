"""`alcove rollout status ID` says what the evidence is, when it is looked next and until when."""

from typing import Any

import pytest
from alcove.platform.cli.output import when
from alcove.platform.cli.rollout_details import show_details
from alcove.platform.client import Rollout

NEXT_S, HORIZON_S = 1_800_000_000, 1_800_172_800


def rollout(**analysis: Any) -> Rollout:
    """A rollout at its second stage of three, with what its last analysis says."""
    return Rollout.model_validate(
        {
            "rollout_id": "ro-1", "app": "a", "feature": "f", "version": "2.0.0", "state": "ROLLOUT_STATE_RUNNING",
            "share_basis_points": 1000, "created_at_s": 1, "updated_at_s": 2, "policy_serial": 3, "stage": 2,
            "stage_started_at_s": 2,
            "plan": {
                "stages": [{"share_basis_points": share} for share in (100, 1000, 5000)],
                "guardrails": [{"metric": "GUARD_METRIC_CRASH_FALLBACK", "margin": 0.005}],
            },
            "analysis": {
                "analyzed_at_s": 1, "decision": "STAGE_DECISION_HOLD", "code": "inconclusive_crash_fallback",
                "reason": "it may be anything", "report_count": 1000, "devices": [500.0, 500.0],
                "verdicts": [{
                    "metric": "GUARD_METRIC_CRASH_FALLBACK", "kind": "GUARD_KIND_INCONCLUSIVE", "reason": "",
                    "difference": 0.001, "low": -0.002,
                }],
                "stage_count": 2, "pooled_report_count": 1_234_567,
            } | analysis,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("analysis", "sentence"),
    [
        (
            {"look_count": 1, "next_look_at_s": NEXT_S, "horizon_at_s": HORIZON_S},
            f"1 look at safety, the next is due {when(NEXT_S)}; horizon {when(HORIZON_S)}",
        ),
        (
            {"look_count": 4, "horizon_at_s": HORIZON_S},
            f"4 looks at safety, no other follows; horizon {when(HORIZON_S)}",
        ),
        ({}, "safe is asked at any time"),
    ],
)
def test_status_says_how_far_the_evidence_is(
    analysis: dict[str, int], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stages that are read together, looks that were made, and when the next and the last one are due."""
    show_details(rollout(**analysis))
    said = " ".join(capsys.readouterr().out.split())
    assert "evidence pooled over 2 of 3 stages (1,234,567 reports)" in said
    assert sentence in said


@pytest.mark.parametrize("state", ["rolled_back", "halted"])
def test_ended_rollout_says_where_why_and_by_whom(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No stage is "now" any more; the reason and the person are there."""
    running = rollout()
    show_details(running)
    assert f"now, since {when(2)}" in capsys.readouterr().out
    ending = {"principal": "operator/ann", "reason": "it crashes", "ended_at_s": NEXT_S}
    show_details(Rollout.model_validate(running.model_dump() | {"state": state, "ending": ending}))
    said = capsys.readouterr().out
    assert f"{state.replace('_', ' ')} {when(NEXT_S)} by operator/ann: it crashes" in said
    assert f"ended here, begun {when(2)}" in said
    assert "now, since" not in said
