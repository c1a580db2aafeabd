"""What an app's tasks cost a device, what a report is made of, and who sees what."""

from fractions import Fraction
from typing import Any

import pytest
from alcove.platform.domain.observers import list_observers, trust_mode_of
from alcove.platform.domain.privacy_account import (
    MeasuredTask,
    cost_of,
    list_tasks,
    report_parts,
    report_size,
    total_cost,
)
from alcove.privacy.budget import BudgetLimits
from alcove.registry.policy import Aggregation, Outcome, TaskPolicy, make_task
from alcove.registry.policy.metric import MetricKind, MetricTerms

from tests.registry.policies import experiment, make_readout_policy, policy, rollout, rules

DAY = 86_400


def task(epsilon: str = "1", window_s: int = DAY, **terms: Any) -> TaskPolicy:
    """A task of two arms."""
    named = {"experiment_id": "ex-1", "arm_count": 2, "latency_edges_ms": (), "first_window_start_s": 0}
    return make_task(epsilon=epsilon, window_s=window_s, **{**named, **terms})


def aggregation(**terms: Any) -> Aggregation:
    """Two aggregators."""
    return Aggregation(
        leader_url="https://leader.example", helper_url="https://helper.example", min_batch_size=500, **terms
    )


@pytest.mark.parametrize(
    ("epsilon", "window_s", "is_guardrail", "spent"),
    [
        ("1", DAY, False, (1, 6, 30)),  # an experiment's, which leaves the reserve
        ("1", DAY, True, (1, 8, 30)),
        ("2", DAY, True, (2, 8, 60)),
        ("2", DAY, False, (2, 6, 60)),
        ("0.5", 3600, True, (2, 8, 360)),
        ("0.1", 10 * DAY, False, (Fraction(1, 10), Fraction(3, 10), Fraction(3, 10))),
        ("4", DAY, True, (0, 0, 120)),  # above a day's cap: no device of an app that allows no lone report pays
    ],
)
def test_a_device_spends_what_its_ledger_pays_for(
    epsilon: str, window_s: int, is_guardrail: bool, spent: tuple[Fraction, ...]
) -> None:
    """In any 24 hours and any 30 days, whatever windows there are."""
    found = cost_of(task(epsilon, window_s, is_guardrail=is_guardrail))
    assert (found.per_day, found.per_30_days, found.asked_per_30_days) == spent


def test_a_report_that_is_alone_in_its_day_is_paid_where_the_app_allows_it() -> None:
    """By the limits of such an app, and no other."""
    allowed = BudgetLimits(per_lone_report=Fraction(8))
    assert cost_of(task("4", DAY, is_guardrail=True), allowed).per_30_days == 8


def test_features_add_up_and_alternatives_do_not() -> None:
    """A device is in one experiment of a feature, or in its rollout; never above the caps."""
    small = policy(a=rules(experiment("ex-a", 5000, 5000)))
    (one,) = list_tasks(small)
    alone = cost_of(one.task)
    assert total_cost(small).experiments.asked_per_30_days == alone.asked_per_30_days
    layered = policy(a=rules(experiment("ex-a", 5000, 5000), moving=rollout(1000, 1000, has_task=True)))
    assert total_cost(layered).all.asked_per_30_days == alone.asked_per_30_days
    both = policy(a=rules(experiment("ex-a", 5000, 5000)), b=rules(experiment("ex-b", 5000, 5000)))
    found = total_cost(both)
    assert found.all.asked_per_30_days == 2 * alone.asked_per_30_days
    assert found.all.per_day <= found.day_cap == 2
    assert found.all.per_30_days <= found.month_cap == 8
    assert found.experiments.per_30_days <= found.experiments_month_cap == 6
    assert total_cost(policy(a=rules())).all.per_30_days == 0


def test_a_read_out_is_listed_and_spends_as_an_experiment() -> None:
    """With its two groups, before the tasks of features."""
    document = make_readout_policy()
    first = list_tasks(document)[0]
    assert (first.kind, first.part) == ("readout", "ro-1")
    assert first.arms == ("held out, keeps 0.8.0", "mirror group, runs what everybody runs")
    assert total_cost(document).experiments.per_30_days > 0


def test_a_report_is_made_of_what_its_cells_tell() -> None:
    """Arms, outcomes, latency and the earlier share; or the bins of a metric."""
    cells = task(
        outcome_groups=((Outcome.REFUSED, Outcome.ACCEPTED), (Outcome.ERROR,)),
        latency_edges_ms=(20.0, 50.0),
        pre_edges=(0.5,),
    )
    parts = report_parts(MeasuredTask("experiment", "ex-1", "f", cells, ("a", "b")))
    assert parts == [
        ("arm", ("a", "b")),
        (
            "outcome of one prediction in the window",
            ("the user did not keep the answer or the user kept the answer", "a prediction failed or was late"),
        ),
        ("latency of an answer", ("below 20 ms", "20 to 50 ms", "50 ms or more")),
        ("share of answers kept before the experiment", ("not known", "below 50 %", "50 % or more")),
    ]
    terms = MetricTerms(name="shares", version=2, kind=MetricKind.COUNT, edges=(3.0,))
    (_, (name, bins)) = report_parts(MeasuredTask("experiment", "ex-1", "f", task(metric=terms), ("a", "b")))
    assert name == "metric shares, version 2"
    assert bins == ("nothing recorded in the window", "below 3", "3 or more")
    assert len(bins) == terms.bin_count
    shared = report_parts(MeasuredTask("rollout", "r-1", "f", task(aggregation=aggregation()), ("a", "b")))
    assert shared[-1] == ("or, instead of all that", ("nothing to report of the window",))


def test_the_size_of_a_report_says_nothing() -> None:
    """One cell, a set of cells, or what aggregators take."""
    assert report_size(task()) == 38
    assert report_size(task(latency_edges_ms=(1.0, 2.0, 3.0), subset_size=3)) == 39
    assert report_size(task(aggregation=aggregation())) is None


def test_who_sees_what_changes_with_the_trust_mode() -> None:
    """The aggregators, what both together read, the issuer of tokens, the smallest batch."""
    plain = trust_mode_of(task())
    assert not plain.is_attested
    assert "never halts" in plain.evidence
    assert "was used" in plain.existence
    assert "no minimum" in " ".join(one.sees for one in list_observers(plain))
    pair = trust_mode_of(task(aggregation=aggregation()))
    shown = {one.party: one for one in list_observers(pair)}
    assert "Together the two read every cell." in shown["The leader, leader.example"].cannot
    assert "fewer than 500" in shown["The server's operator"].cannot
    assert not any("issuer" in party for party in shown)
    assert "used or not" in pair.existence
    local = trust_mode_of(task(aggregation=aggregation(local_epsilon="3", token_issuer="https://issuer.example")))
    named = {one.party: one for one in list_observers(local)}
    assert local.is_attested
    assert "halt it by itself" in local.evidence
    assert "up to ε = 3" in named["The helper, helper.example"].cannot
    assert "Which report is whose" in named["The issuer of tokens, issuer.example"].cannot
