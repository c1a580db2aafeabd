"""A report of two aggregators is made of one cell, for tasks that the app and the device's own rules allow."""

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from alcove.privacy.dap.messages import Report, Role
from alcove.privacy.errors import DapTaskError, ParameterError
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import TaskPolicy, make_task
from alcove.registry.policy.aggregation import Aggregation
from alcove.registry.policy.dap import dap_time, make_dap_task
from alcove.sdk.aggregators import AggregatorPair
from alcove.sdk.errors import InsecureServerError
from alcove.sdk.prio3_reports import SeedEntropy, check_task, make_window_report

from tests.privacy.dap.party import Parties

WINDOW_S = 3600
START_S = 1_800_000_000 // WINDOW_S * WINDOW_S
PAIR = AggregatorPair("https://leader.example/dap", "https://helper.example")
PARTIES = Parties()


def aggregated_task(*, epsilon: str = "1", window_s: int = WINDOW_S, **changes: Any) -> TaskPolicy:
    """Return a policy's task of two aggregators; `changes` are of its aggregation."""
    fields: dict[str, Any] = {"leader_url": PAIR.leader_url, "helper_url": PAIR.helper_url, "min_batch_size": 100}
    return make_task(
        experiment_id="exp",
        epsilon=epsilon,
        arm_count=2,
        latency_edges_ms=(1.0, 10.0),
        window_s=window_s,
        first_window_start_s=START_S // window_s * window_s,
        aggregation=Aggregation(**(fields | changes)),
    )


def count(task: TaskPolicy, report: Report) -> list[int]:
    """Return what both aggregators, put together, read in a report that they have verified."""
    dap_task = make_dap_task(task)
    vdaf = dap_task.make_vdaf()
    parts = (PARTIES.open(dap_task, Role.LEADER, report), PARTIES.open(dap_task, Role.HELPER, report))
    steps = [vdaf.verify_init(bytes(32), dap_task.context, seat, part) for seat, part in enumerate(parts)]
    message = vdaf.verifier_shares_to_message(dap_task.context, [share for _, share in steps])
    counted: list[int] = vdaf.unshard([vdaf.verify_next(state, message) for state, _ in steps])
    return counted


TASK = aggregated_task()


def make(cell: int | None, seed: int = 1, task: TaskPolicy = TASK, *, is_native: bool = True) -> Report:
    """Return a device's report of window 7."""
    entropy = SeedEntropy(seed.to_bytes(32, "big"))
    return make_window_report(
        task, make_dap_task(task), 7, cell, recipients=PARTIES.recipients, entropy=entropy, is_native=is_native
    )


@pytest.mark.parametrize("cell", [None, *range(TASK.cell_count)])
def test_report_counts_one_cell_and_the_idle_one_where_nothing_happened(cell: int | None) -> None:
    """Every cell of the task, and none: both aggregators together count exactly that, in the window's time of DAP."""
    report = make(cell)
    expected = [0] * (TASK.cell_count + 1)
    expected[TASK.cell_count if cell is None else cell] = 1
    assert count(TASK, report) == expected
    assert report.metadata.time == dap_time(TASK, 7)


def test_reports_of_every_cell_have_the_same_size() -> None:
    """The size says nothing."""
    assert len({len(make(cell, seed).to_bytes()) for seed, cell in enumerate([None, *range(TASK.cell_count)])}) == 1


@pytest.mark.parametrize("cell", [-1, TASK.cell_count + 1])
def test_cell_that_is_none_of_the_task_is_refused(cell: int) -> None:
    """No report of it is made."""
    with pytest.raises(ParameterError):
        make(cell)


def test_python_form_and_native_core_make_the_same_shares() -> None:
    """A device without the native core reports the same."""
    native, plain = make(3), make(3, is_native=False)
    assert (native.metadata, native.public_share) == (plain.metadata, plain.public_share)
    dap_task = make_dap_task(TASK)
    for role in (Role.LEADER, Role.HELPER):
        assert PARTIES.open(dap_task, role, native) == PARTIES.open(dap_task, role, plain)


def test_report_sealed_again_is_the_same_report_to_both_aggregators() -> None:
    """P2: one seed gives one id and the same shares under any keys, randomization included; another seed does not."""
    task = aggregated_task(local_epsilon="0.5")
    dap_task = make_dap_task(task)
    for seed in range(20):
        first, again = make(3, seed, task), make(3, seed, task)
        assert first != again  # sealed anew
        assert (first.metadata, first.public_share) == (again.metadata, again.public_share)
        for role in (Role.LEADER, Role.HELPER):
            assert PARTIES.open(dap_task, role, first) == PARTIES.open(dap_task, role, again)
    assert len({make(3, seed).metadata.report_id for seed in range(20)}) == 20


def test_local_epsilon_randomizes_the_cell_before_it_is_shared() -> None:
    """Over many reports of one cell, the idle one included, the shared cells have the mechanism's distribution."""
    task = aggregated_task(local_epsilon="1")
    mechanism = RandomizedResponse(task.cell_count + 1, Fraction(1))
    for true_cell in (None, 0):
        reports = 400
        seen = Counter(count(task, make(true_cell, seed, task)).index(1) for seed in range(reports))
        keep = float(mechanism.keep_probability)
        kept = seen[task.cell_count if true_cell is None else true_cell]
        assert abs(kept - reports * keep) < 4 * (reports * keep * (1 - keep)) ** 0.5
        assert len(seen) == task.cell_count + 1


def test_without_local_epsilon_the_cell_is_shared_as_it_is() -> None:
    """Exact counts: nothing is randomized where the task does not ask for it."""
    assert {tuple(count(TASK, make(2, seed))) for seed in range(50)} == {tuple(int(cell == 2) for cell in range(13))}


def test_seeds_expand_to_independent_bytes() -> None:
    """Each call gives other bytes, each seed too, and the same seed the same."""
    streams = [[SeedEntropy(bytes([seed]) * 32).random_bytes(16) for _ in range(1)] for seed in range(4)]
    assert len({part for stream in streams for part in stream}) == 4
    entropy, again = SeedEntropy(bytes(32)), SeedEntropy(bytes(32))
    drawn = [entropy.random_bytes(16) for _ in range(4)]
    assert len(set(drawn)) == 4
    assert drawn == [again.random_bytes(16) for _ in range(4)]


def test_task_of_the_apps_aggregators_is_carried_out() -> None:
    """With other pairs beside it, and the device's cap at its epsilon."""
    other = AggregatorPair("https://a.example", "https://b.example")
    assert check_task(TASK, (other, PAIR), Fraction(1)).task_id == make_dap_task(TASK).task_id


OTHERS = {
    "another leader": {"leader_url": "https://thief.example"},
    "another helper": {"helper_url": "https://thief.example"},
    "two others": {"leader_url": "https://one.thief.example", "helper_url": "https://two.thief.example"},
    "swapped seats": {"leader_url": PAIR.helper_url, "helper_url": PAIR.leader_url},
    "another path": {"leader_url": "https://leader.example/other"},
    "another port": {"helper_url": "https://helper.example:444"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS.keys())
def test_task_of_aggregators_that_the_app_does_not_name_is_refused(changes: dict[str, Any]) -> None:
    """P1: whoever signed it; an app that names none takes part in no such task."""
    hostile = aggregated_task(**changes)
    second = AggregatorPair("https://a.example", "https://b.example")
    for trusted in ((), (PAIR,), (second, PAIR)):
        with pytest.raises(DapTaskError) as caught:
            check_task(hostile, trusted, Fraction(2))
        assert caught.value.what == "aggregators"


def test_leader_of_one_pair_with_the_helper_of_another_is_refused() -> None:
    """Pairs are trusted, not aggregators: the two of a mixed pair may be one party's."""
    mixed = aggregated_task(helper_url="https://b.example")
    with pytest.raises(DapTaskError):
        check_task(mixed, (PAIR, AggregatorPair("https://a.example", "https://b.example")), Fraction(2))


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (aggregated_task(window_s=1800), "time_precision"),
        (aggregated_task(window_s=1), "time_precision"),
        (aggregated_task(epsilon="2.5"), "epsilon"),
        (aggregated_task(epsilon="8"), "epsilon"),
    ],
)
def test_task_that_breaks_a_rule_of_the_device_is_refused(task: TaskPolicy, what: str) -> None:
    """P1: short windows and large epsilon, though their aggregators are the app's; small batches no policy can name."""
    with pytest.raises(DapTaskError) as caught:
        check_task(task, (PAIR,), Fraction(2))
    assert caught.value.what == what


def test_small_batch_is_refused_by_the_policy_and_by_the_device() -> None:
    """A policy of another make, without the bound of ours, is refused by the device's rules."""
    with pytest.raises(ValueError, match="min_batch_size"):
        aggregated_task(min_batch_size=99)
    assert TASK.aggregation is not None
    small = TASK.aggregation.model_copy(update={"min_batch_size": 99})
    with pytest.raises(DapTaskError) as caught:
        check_task(TASK.model_copy(update={"aggregation": small}), (PAIR,), Fraction(2))
    assert caught.value.what == "min_batch_size"


@pytest.mark.parametrize(
    "url",
    [
        "https://leader.example/",
        "http://leader.example",
        "leader.example",
        "",
        "https://Leader.example",
        "https://leader.example:443",
        "http://127.0.0.1:80",
    ],
)
def test_pair_whose_address_is_none_is_refused_when_it_is_made(url: str) -> None:
    """The mistake shows at the app's start, not as reports that never come."""
    for urls in ((url, PAIR.helper_url), (PAIR.leader_url, url)):
        with pytest.raises(InsecureServerError):
            AggregatorPair(*urls)
