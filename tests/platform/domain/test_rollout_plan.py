"""Plans: everything that could not work later is refused when it is written, naming field, bound and value."""

import re
from dataclasses import replace

import pytest
from alcove.platform.domain.audience import validate_audience, validate_wider
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.limits import GUARDRAILS_MAX, MINIMUM_COHORT_DEFAULT, STAGE_MAX_S, STAGES_MAX
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, PlanAction, RolloutPlan, Stage
from alcove.platform.domain.rollouts.plan import validate_plan, validate_update

STAGES = (Stage(100, 3600, 500), Stage(1000, 3600, 500), Stage(5000, 3600, 500))
CRASH = GuardrailRecord("crash_fallback", 0.01)
SLOW = GuardrailRecord("latency", 20.0, 0.9)
SLOWER = GuardrailRecord("latency", 0.01, edge_ms=40.0)
PLAN = RolloutPlan(
    stages=STAGES, guardrails=(CRASH, SLOW), latency_edges_ms=(10.0, 20.0, 30.0, 40.0, 50.0), timeout_s=86_400
)

WRONG = {
    "stages that go down": (replace(PLAN, stages=(Stage(500, 0, 50), Stage(100, 0, 50))), "stages.share", "more than"),
    "a stage twice": (replace(PLAN, stages=(Stage(500, 0, 50), Stage(500, 0, 50))), "stages.share", "more than 500"),
    "a stage of nobody": (replace(PLAN, stages=(Stage(0, 0, 50),)), "stages.share", "1 to 10000"),
    "more than everybody": (replace(PLAN, stages=(Stage(10_001, 0, 50),)), "stages.share", "1 to 10000"),
    "too many stages": (
        replace(PLAN, stages=tuple(Stage(share, 0, 50) for share in range(1, STAGES_MAX + 2))),
        "plan.stages",
        "at most",
    ),
    "a stage of years": (replace(PLAN, stages=(Stage(5, STAGE_MAX_S + 1, 50),)), "minimum_s", f"0 to {STAGE_MAX_S}"),
    "a cohort of three": (replace(PLAN, stages=(Stage(5, 0, 3),)), "minimum_cohort", "50 to"),
    "guardrails without stages": (replace(PLAN, stages=()), "plan.guardrails", "none without stages"),
    "too many guardrails": (
        replace(PLAN, guardrails=(CRASH,) * (GUARDRAILS_MAX + 1)),
        "plan.guardrails",
        f"at most {GUARDRAILS_MAX}",
    ),
    "an unknown metric": (replace(PLAN, guardrails=(replace(CRASH, metric="mood"),)), "metric", r"crash_fallback \|"),
    "a margin of everything": (replace(PLAN, guardrails=(replace(CRASH, margin=1.0),)), "margin", r"\[0, 1\)"),
    "a margin below nothing": (replace(PLAN, guardrails=(replace(CRASH, margin=-0.1),)), "margin", r"\[0, 1\)"),
    "a margin that is no number": (
        replace(PLAN, guardrails=(replace(CRASH, margin=float("nan")),)),
        "margin",
        r"\[0, 1\)",
    ),
    "a quantile of a share": (replace(PLAN, guardrails=(replace(CRASH, quantile=0.5),)), "quantile", "none for"),
    "a quantile beyond one": (replace(PLAN, guardrails=(replace(SLOW, quantile=1.5),)), "quantile", r"\(0, 1\)"),
    "bins that nothing reads": (
        replace(PLAN, guardrails=(CRASH,)),
        "latency_edges_ms",
        "none without a guardrail of latency",
    ),
    "an edge of a share": (replace(PLAN, guardrails=(replace(CRASH, edge_ms=40.0), SLOW)), "edge_ms", "none for"),
    "an edge and a quantile": (replace(PLAN, guardrails=(replace(SLOWER, quantile=0.5),)), "quantile", "none beside"),
    "an edge between the bins": (
        replace(PLAN, guardrails=(replace(SLOWER, edge_ms=45.0),)),
        "edge_ms",
        "one of the latency edges 10, 20, 30, 40, 50",
    ),
    "a margin of a share in ms": (replace(PLAN, guardrails=(replace(SLOWER, margin=20.0),)), "margin", r"\[0, 1\)"),
    "a margin of no milliseconds": (replace(PLAN, guardrails=(replace(SLOW, margin=0.0),)), "margin", "above 0 ms"),
    "a margin finer than the bins": (
        replace(PLAN, guardrails=(replace(SLOW, margin=9.0),)),
        "plan.latency_edges_ms",
        "5 neighboring edges no further apart than 9 ms .* such as 12, 16.5, 21",
    ),
    "the audit's margin and bins": (
        replace(PLAN, guardrails=(replace(SLOW, margin=10.0),), latency_edges_ms=(10.0, 20.0, 40.0, 80.0, 160.0)),
        "plan.latency_edges_ms",
        "no further apart than 10 ms .* such as 20, 25, 30, 35, 40",
    ),
    "latency without bins": (replace(PLAN, latency_edges_ms=()), "latency_edges_ms", "at least one"),
    "edges that fall": (replace(PLAN, latency_edges_ms=(50.0, 10.0)), "plan", "rise"),
    "harm that is held": (replace(PLAN, on_harm=PlanAction.HOLD), "on_harm", r"pause \| rollback \| halt"),
    "a time-out that halts": (replace(PLAN, on_timeout=PlanAction.HALT), "on_timeout", r"hold \| pause \| rollback"),
    "a time-out of years": (replace(PLAN, timeout_s=STAGE_MAX_S + 1), "timeout_s", f"0 to {STAGE_MAX_S}"),
    "an auto-advance reason of a novel": (
        replace(PLAN, auto_advance_reason="x" * 501),
        "auto_advance_reason",
        "at most 500",
    ),
    "an auto-advance reason for nothing": (
        RolloutPlan(stages=STAGES, auto_advance_reason="trust me"),
        "auto_advance_reason",
        "guardrails",
    ),
    "no privacy": (replace(PLAN, epsilon="8.01"), "epsilon", "0.01 to 8"),
    "too much privacy": (replace(PLAN, epsilon="0.001"), "epsilon", "0.01 to 8"),
    "a privacy of words": (replace(PLAN, epsilon="much"), "plan", "epsilon"),
    "a window of minutes": (replace(PLAN, window_s=3599), "plan.window_s", "at least 3600"),
    "a window of years": (replace(PLAN, window_s=10**9), "plan", "window_s"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_plan_that_cannot_work_is_refused(name: str) -> None:
    """The error names the field and its bound."""
    plan, field, bound = WRONG[name]
    with pytest.raises(InvalidFieldError) as refusal:
        validate_plan(plan)
    assert field in str(refusal.value)
    assert re.search(bound, str(refusal.value))


def test_what_is_left_open_gets_its_default() -> None:
    """Cohort, window, epsilon and quantile are what the API says they are."""
    open_plan = replace(PLAN, stages=(Stage(5, 0, 0),), guardrails=(replace(SLOW, quantile=None),), window_s=0)
    plan = validate_plan(replace(open_plan, epsilon=""))
    assert plan.stages == (Stage(5, 0, MINIMUM_COHORT_DEFAULT),)
    assert (plan.guardrails[0].quantile, plan.window_s, plan.epsilon) == (0.95, 86_400, "2")
    assert validate_plan(RolloutPlan()) == RolloutPlan()
    slower = replace(PLAN, guardrails=(replace(SLOWER, quantile=0.0),))
    assert validate_plan(slower).guardrails == (SLOWER,)


def running(stage: int) -> RolloutRecord:
    """A rollout in one of its stages."""
    share = STAGES[stage - 1].share_basis_points
    return RolloutRecord(
        1, "ro-1", "app", "f", "1.0.0", "0" * 64, "salt", RolloutState.RUNNING, share, 1, 1, 1, plan=PLAN, stage=stage
    )


def test_a_begun_rollout_keeps_what_its_reports_are_compared_by() -> None:
    """Stages to come and actions may change; reached stages and terms of the reports may not; a draft may all."""
    before = running(2)
    later = replace(
        PLAN, stages=(*STAGES[:2], Stage(2000, 0, 50), Stage(9000, 0, 50)), timeout_s=5, auto_advance_reason="why"
    )
    validate_update(before, replace(later, on_harm=PlanAction.ROLL_BACK))
    for wrong in (
        replace(PLAN, stages=STAGES[1:]),
        replace(PLAN, stages=()),
        replace(PLAN, guardrails=(CRASH,)),
        replace(PLAN, epsilon="1"),
        replace(PLAN, latency_edges_ms=(10.0,)),
        replace(PLAN, window_s=60),
    ):
        with pytest.raises(InvalidFieldError, match="unchanged"):
            validate_update(before, wrong)
        validate_update(replace(before, state=RolloutState.DRAFT), wrong)


def test_an_audience_is_kept_in_its_one_spelling_or_refused() -> None:
    """Two spellings of one audience are the same text; what means nothing is named."""
    one, other = "os in (ios) and app_version >= 2.1", "app_version >= 2.1.0   and os == ios"
    assert validate_audience(one) == validate_audience(other) != ""
    assert validate_audience("  ") == ""
    for wrong, problem in (
        ("shoe_size == 46", "no device has the attribute 'shoe_size'"),
        ("os in (", "character 8"),
        ("memory_mb >= 4096 and memory_mb < 3072", "memory_mb"),
        ("memory_mb == 7683", "memory_mb from and below one of 512"),
        ("memory_mb >= 4096 and memory_mb < 4097", "memory_mb from and below one of 512"),
        ("os in (ios) and region in (AT) and locale in (de) and memory_mb >= 8192", "at most 3 attributes"),
    ):
        with pytest.raises(InvalidFieldError, match="audience") as refusal:
            validate_audience(wrong)
        assert problem in str(refusal.value)


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [
        ("os in (ios)", "", True),
        ("os in (ios)", "os in (android, ios)", True),
        ("os in (ios)", "os in (ios)", True),
        ("memory_mb >= 4096", "memory_mb >= 2048", True),
        ("os in (android, ios)", "os in (ios)", False),
        ("os in (ios)", "os in (android)", False),
        ("", "os in (ios)", False),
        ("os in (ios)", "os in (ios) and memory_mb >= 2048", False),
    ],
)
def test_the_audience_of_a_live_rollout_only_grows(before: str, after: str, is_allowed: bool) -> None:
    """No device that takes part is left out."""
    before, after = validate_audience(before), validate_audience(after)
    if is_allowed:
        validate_wider(before, after)
    else:
        with pytest.raises(InvalidFieldError, match="while the rollout is live"):
            validate_wider(before, after)
