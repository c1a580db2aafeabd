"""Simulated experiments: what devices did before narrows intervals as the closed form says, and noise widens them."""

import json
from statistics import fmean

import pytest
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.simulation.experiment import ExperimentScenario, simulate_experiment
from alcove.platform.simulation.experiment_summary import expected_ratio, summarize_experiment
from alcove.platform.stats import Mechanism
from pydantic import ValidationError

from tests.platform.cli.terminal import alcove

EDGES = (0.5, 0.8)


def scenario(**changes: object) -> ExperimentScenario:
    """Two arms of 5,000 devices that accept 60 %, through two aggregators."""
    values: dict[str, object] = {"devices": 10_000, "rate": 0.6, "epsilon": "1", "mechanism": Mechanism.PRIO3}
    return ExperimentScenario.model_validate(values | changes)


def error_ratio(about: ExperimentScenario) -> float:
    """Standard error of the first window relative to that of reports without the earlier share."""
    fine, plain = (
        summarize_experiment(list(simulate_experiment(each))).standard_errors[0]
        for each in (about, about.without_earlier_share())
    )
    assert fine is not None
    assert plain is not None
    return fine / plain


@pytest.mark.parametrize(
    ("changes", "pays"),
    [
        ({}, True),
        ({"devices": 1_000, "correlation": 0.3}, False),
        ({"mechanism": Mechanism.RANDOMIZED_RESPONSE, "epsilon": "2"}, False),
    ],
)
def test_earlier_answers_narrow_intervals_as_the_closed_form_says(changes: dict[str, object], *, pays: bool) -> None:
    """Where correlation beats the noise of more cells, and where it does not; six runs of either kind of reports."""
    about = scenario(pre_edges=EDGES, runs=6, **changes)
    expected = expected_ratio(about)
    assert (expected < 1.0) is pays
    assert error_ratio(about) == pytest.approx(expected, rel=0.03)


def test_devices_without_earlier_answers_gain_nothing() -> None:
    """All of them are in the bin of the unknown: the cells cost, and nothing is explained."""
    about = scenario(pre_edges=EDGES, runs=3)
    assert error_ratio(about) < 0.88
    assert error_ratio(about.model_copy(update={"unknown": 1.0})) >= 1.0
    assert error_ratio(about.model_copy(update={"answers": 4})) >= 1.0


def test_corrected_differences_are_the_true_one_and_better_arms_win() -> None:
    """Five points: the mean of 15 runs lies where it should, most are won; of equal arms hardly any is."""
    runs = list(simulate_experiment(scenario(pre_edges=EDGES, effect=0.05, runs=15)))
    differences = [run.windows[0].difference for run in runs]
    errors = [run.windows[0].standard_error for run in runs]
    known = [each for each in differences if each is not None]
    assert len(known) == 15
    assert abs(fmean(known) - 0.05) < 4 * fmean(each or 0.0 for each in errors) / 15**0.5
    assert summarize_experiment(runs).won.share > 0.9
    equal = summarize_experiment(list(simulate_experiment(scenario(pre_edges=EDGES, runs=15))))
    assert equal.won.share + equal.lost.share <= 0.1


def test_reports_are_those_that_budgets_and_feedback_leave() -> None:
    """Three of epsilon 2 in six days, for a rollout keeps the rest; none where others spent it; half without notes."""
    response: dict[str, object] = {"mechanism": Mechanism.RANDOMIZED_RESPONSE, "epsilon": "2", "devices": 1_000}
    (run,) = simulate_experiment(scenario(**response, windows=6))
    assert [each.reports for each in run.windows][-1] == 3_000
    assert run.epsilon_max == 6.0
    (run,) = simulate_experiment(scenario(**response, windows=2, spent=6.0))
    assert [each.reports for each in run.windows] == [0, 0]
    assert run.windows[0].difference is None
    (run,) = simulate_experiment(scenario(**response, feedback=0.5))
    assert 400 < run.windows[0].reports < 600


def test_what_no_experiment_can_have_is_refused() -> None:
    """Typed, before anything is simulated."""
    for changes in ({"mechanism": Mechanism.EXACT}, {"effect": 0.5}, {"devices": 1}, {"correlation": 1.0}):
        with pytest.raises(ValidationError):
            scenario(**changes)
    with pytest.raises((ValidationError, InvalidFieldError)):
        list(simulate_experiment(scenario(pre_edges=(0.8, 0.5))))


def test_the_command_says_whether_the_earlier_share_pays() -> None:
    """A table and JSON of the same simulation; wrong edges say how they are written."""
    options = ("experiment", "simulate", "--devices", "2000", "--runs", "2", "--mechanism", "prio3")
    said = alcove(*options, "--cuped", "0.5,0.8", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["expected_error_ratio"] == pytest.approx(found["error_ratio"], rel=0.1)
    assert len(found["without_earlier_share"]["standard_errors"]) == 1
    table = alcove(*options, "--effect", "0.3", "--base-rate", "0.5")
    assert "the treatment won in 100.0% of 2 runs" in table.out
    assert "it pays" in alcove(*options, "--cuped", "0.5,0.8", "--base-rate", "0.6", "--devices", "20000").out
    for wrong in (("--cuped", "half"), ("--cuped", "0.8,0.5"), ("--devices", "1")):
        assert alcove(*options, *wrong).code == 2
