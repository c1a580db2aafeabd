"""Experiments that a preference decides: what may be created, what its task asks, and which words results have."""

from dataclasses import replace

import pytest
from alcove.platform.client import (
    Arm,
    ArmResult,
    Decision,
    Estimate,
    Experiment,
    ExperimentReport,
    PairDifference,
    Primary,
    Results,
    SampleRatio,
)
from alcove.platform.client.preferences import preference_sentences
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.metric_definitions import MetricDefinition, validate_metric
from alcove.platform.domain.metric_presets import METRIC_PRESETS, preset_of
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.platform.services.metric_definitions import create_metric
from alcove.platform.store import Store
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy.metric import MetricKind

from tests.platform.services.test_own_primary_metrics import start
from tests.platform.versions import add_released

PREFERRED = MetricDefinition(0, "f", "preferred", 0, MetricKind.PREFERENCE, (), 0.0, True, "calls", "which is better")
BY_PREFERENCE = ExperimentPlan(primary="metric", own_primary=OwnMetric("preferred", 0))


async def test_a_preference_is_between_two_versions(store: Store) -> None:
    """Its task has four bins in each of two arms; three arms are refused."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0", "3.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        await create_metric(UnitOfWork(session, "team/t", 1), PREFERRED)
    record = await start(store, BY_PREFERENCE)
    assert task_of(record).cell_count == 2 * 4
    with pytest.raises(InvalidFieldError, match="between two versions"):
        await start(store, BY_PREFERENCE, arms=3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"more_is_better": False}, "the version shown first was preferred"),
        ({"edges": (0.5,)}, "has no edges"),
        ({"cap": 2.0}, "for a preference"),
    ],
)
def test_a_preference_that_means_nothing_is_refused(changes: dict[str, object], words: str) -> None:
    """Its bins and its direction are given."""
    with pytest.raises(InvalidFieldError, match=words):
        validate_metric(replace(PREFERRED, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METRIC_PRESETS)
def test_every_preset_is_a_metric_that_can_be_created(name: str) -> None:
    """With two bins of results or three preferences, and a way to record it that names it."""
    preset = preset_of(name)
    made = validate_metric(
        MetricDefinition(
            0, "f", name, 0, preset.kind, preset.edges, 0.0, preset.more_is_better, "a team", preset.description
        )
    )
    expected = {MetricKind.PREFERENCE: (0.0, 0.0, 0.5, 1.0), MetricKind.SHARE: (0.0, 0.25, 0.75)}
    assert made.bin_values == expected[preset.kind]
    assert f'"{name}"' in preset.call


def test_a_preset_that_there_is_none_of_names_those_there_are() -> None:
    """The message has the list."""
    with pytest.raises(InvalidFieldError, match="preferred, sticker_kept"):
        preset_of("stars")


def report_of(difference: Estimate, *means: Estimate, is_preference: bool = True) -> ExperimentReport:
    """Results of an experiment of two arms by an own metric."""
    names = ("old", "new")
    pair = PairDifference(arm=1, versus=0, difference=difference)
    hold = Decision(kind="inconclusive", code="interval_includes_zero", reason="")
    experiment = Experiment(
        experiment_id="ex-1", app="app", feature="f", state="running", epsilon="2", latency_edges_ms=(),
        arms=tuple(Arm(name=name, version="1.0.0", share_basis_points=5000) for name in names), window_s=86_400,
        minimum_cohort=1, task_id="", created_at_s=1, started_at_s=1, stopped_at_s=0, decision=None, policy_serial=1,
        primary=Primary(kind="metric", metric="preferred", metric_version=1, is_preference=is_preference),
    )  # fmt: skip
    arms = tuple(
        ArmResult(name=name, version="1.0.0", devices=1.0, share=Estimate(), accepted=Estimate(), own_metric=mean,
                  latency_ms=Estimate(), median_latency_ms=Estimate()) for name, mean in zip(names, means, strict=True)
    )  # fmt: skip
    results = Results(report_count=9, window_count=1, cell_counts=(), differences=(), decision=hold, alpha=0.05,
                      pairs=(pair,), arms=arms, primary=(), sample_ratio=SampleRatio(alpha=0.01))  # fmt: skip
    return ExperimentReport(experiment=experiment, results=results)


def test_results_say_what_people_prefer_and_what_the_order_did() -> None:
    """56 % is half of the difference of 12 points around 50 %; the mean of both arms is the order's."""
    known = (Estimate(value=0.47, low=0.44, high=0.5), Estimate(value=0.59, low=0.55, high=0.63))
    says = preference_sentences(report_of(Estimate(value=0.12, low=0.04, high=0.2), *known))
    assert says[0].startswith("people prefer new to old in 56.0 % (52.0 to 60.0) of comparisons")
    assert says[1].startswith("what is shown first is preferred +3.0 (+0.5 to +5.5) points more than by chance")


def test_results_without_what_is_needed_say_less() -> None:
    """No interval, no arm's mean, too few reports, or a metric that is no preference."""
    unknown = (Estimate(), Estimate())
    (line,) = preference_sentences(report_of(Estimate(value=0.12), *unknown))
    assert "56.0 % (any part is possible)" in line
    assert preference_sentences(report_of(Estimate(), *unknown)) == ()
    assert preference_sentences(report_of(Estimate(value=0.12), *unknown, is_preference=False)) == ()
