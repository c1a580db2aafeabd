"""Every section of an experiment's results is made and rendered, from a report that has them all."""

import pytest
from alcove.platform.client import (
    Adjustment,
    AllocationView,
    Arm,
    ArmRatio,
    ArmResult,
    Decision,
    DimensionView,
    Estimate,
    Experiment,
    ExperimentPlan,
    ExperimentReport,
    InterimAnalysis,
    PairDifference,
    Primary,
    PrimaryDifference,
    Results,
    SampleRatio,
    ShareChange,
    StratumDifference,
    StratumView,
)
from alcove.platform.client.rollout_models import Collection, UncollectedWindow
from alcove.platform.console.assets import Assets
from alcove.platform.console.pages.experiments.later_looks import list_later_looks
from alcove.platform.console.pages.experiments.reading import Reading, context_of
from alcove.platform.console.pages.experiments.sections import make_sections
from alcove.platform.console.rendering import Renderer
from alcove.platform.domain.experiments.analysis import ALPHA
from alcove.platform.stats.group_sequential import boundaries

KNOWN = Estimate(value=0.1, low=0.05, high=0.15)
HOLD = Decision(kind="inconclusive", code="interval_includes_zero", reason="arm 1 is not told from arm 0")


def made_report(*, is_mismatch: bool = False) -> ExperimentReport:
    """A stopped experiment by Prio3 with looks, CUPED, a bandit's shares and a dimension."""
    arms = (
        Arm(name="control", version="1.0.0", share_basis_points=5000),
        Arm(name="larger", version="1.0.0", share_basis_points=5000, values={"size": 3}),
    )
    pair = PairDifference(arm=1, versus=0, difference=KNOWN, p_value=0.03, noise_percent=40.0)
    look = InterimAnalysis(
        report_count=500, fraction=0.5, boundary=2.8, analyzed_at_s=90_000, decision=HOLD, pairs=(pair,)
    )
    experiment = Experiment(
        experiment_id="ex-1", app="app", feature="f", arms=arms, state="stopped", epsilon="1", latency_edges_ms=(),
        window_s=86_400, minimum_cohort=100, task_id="", created_at_s=1, started_at_s=1000, stopped_at_s=190_000,
        decision=HOLD, policy_serial=1, interim_analyses=(look,), pre_edges=(0.5,), mechanism="prio3",
        plan=ExperimentPlan(mde=0.1, interim_analyses=2, planned_reports=1000), dimension="os=android",
    )  # fmt: skip
    results = Results(
        report_count=1000, window_count=2, cell_counts=(), differences=(), decision=HOLD, alpha=0.05, pairs=(pair,),
        arms=tuple(
            ArmResult(name=arm.name, version=arm.version, devices=500.0, share=KNOWN, accepted=KNOWN,
                      latency_ms=Estimate(), median_latency_ms=Estimate()) for arm in arms
        ),
        primary=(PrimaryDifference(arm=1, difference=KNOWN, adjustment=Adjustment(
            unadjusted=KNOWN, theta=0.5, variance_reduction_percent=12.5)),),
        collection=Collection(collected_count=2, waiting_count=0, missing_count=1, next_at_s=0, uncollected=(
            UncollectedWindow(window=0, start_s=1000, is_missing=True, reason="too few reports"),)),
        allocation=AllocationView(
            changes=(ShareChange(changed_at_s=1000, shares_basis_points=(5000, 5000)),
                     ShareChange(changed_at_s=90_000, shares_basis_points=(4000, 6000))),
            held="arm 1 has none", expected_regret=0.1, regret_so_far=3.0, fixed_regret_so_far=4.0),
        dimension=DimensionView(dimension="os=android", strata=(
            StratumView(value="android", report_count=10, differences=(
                StratumDifference(arm=1, versus=0, difference=KNOWN, p=0.2, adjusted_p=0.4),)),
            StratumView(value="other", obstacle="arm 0 has no report"))),
        sample_ratio=SampleRatio(alpha=0.01, arms=(
            ArmRatio(expected=0.5, observed=KNOWN, is_mismatch=is_mismatch), ArmRatio(expected=0.5, observed=KNOWN))),
    )  # fmt: skip
    return ExperimentReport(experiment=experiment, results=results)


def render(report: ExperimentReport) -> str:
    """The results as the page has them."""
    context = context_of(Reading(report.experiment, "text", report, "", [], 200_000))
    return Renderer(Assets()).environment.get_template("experiments/results.html").render(context)


def test_every_section_that_an_experiment_can_have_is_shown() -> None:
    """Looks with their boundary, CUPED's effect, shares in steps with regret, values, windows and what noise takes."""
    page = render(made_report())
    for words in (
        "control",
        "2.800 standard errors",
        "+10 pp [5, 15]",
        "-12.5 %",
        "Shares by a bandit",
        "if the first shares had stayed",
        "control has no report",
        "larger has none",
        "given up: too few reports",
        "Prio3: two aggregators",
        "Privacy makes up 40 %",
        "larger is not told from control",
        "kept when it stopped",
        "size = 3",
    ):
        assert words in page, words


def test_a_sample_ratio_mismatch_is_said_with_its_arm_and_what_to_look_for() -> None:
    """The figures stand beside the sentence."""
    page = render(made_report(is_mismatch=True))
    assert "Mismatch at control" in page
    assert "10 % [5, 15]" in page
    assert "Sound" not in page


def test_the_looks_that_follow_are_listed_with_what_a_difference_must_reach() -> None:
    """At the steps of the plan, with the boundary of an analysis that is made on time; none after the end."""
    report = made_report()
    plan = ExperimentPlan(mde=0.1, interim_analyses=4, planned_reports=2000)
    running = report.experiment.model_copy(update={"state": "running", "plan": plan})
    later = list_later_looks(running)
    assert [(look.report_count, look.fraction) for look in later] == [(1000, 0.5), (1500, 0.75), (2000, 1.0)]
    whole = boundaries((0.25, 0.5, 0.75, 1.0), ALPHA)
    assert [look.boundary for look in later] == [pytest.approx(bound) for bound in whole[1:]]
    assert list_later_looks(report.experiment) == ()
    won = running.interim_analyses[0].model_copy(update={"decision": HOLD.model_copy(update={"kind": "winner"})})
    assert list_later_looks(running.model_copy(update={"interim_analyses": (won,)})) == ()
    late = running.interim_analyses[0].model_copy(update={"report_count": 900})
    late_looks = list_later_looks(running.model_copy(update={"interim_analyses": (late,)}))
    assert [look.report_count for look in late_looks] == [1150, 1500, 2000]
    looks = make_sections(report.model_copy(update={"experiment": running}), 200_000, later)["looks"]
    assert [row["said"].partition(":")[0] for row in looks.rows] == ["inconclusive", "planned", "planned", "planned"]
    assert looks.rows[3]["boundary"] == f"{whole[3]:.3f} standard errors"


def test_a_preference_is_said_in_words_above_the_pairs() -> None:
    """A difference of 10 points is 55 %; without a preference no such sentence is there."""
    report = made_report()
    assert "People prefer" not in render(report)
    primary = Primary(kind="metric", metric="preferred", metric_version=1, is_preference=True)
    arms = tuple(arm.model_copy(update={"own_metric": KNOWN}) for arm in report.results.arms)
    asked = report.model_copy(
        update={
            "experiment": report.experiment.model_copy(update={"primary": primary}),
            "results": report.results.model_copy(update={"arms": arms}),
        }
    )
    assert "People prefer larger to control in 55.0 % (52.5 to 57.5) of comparisons" in render(asked)
