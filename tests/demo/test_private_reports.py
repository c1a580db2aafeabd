"""The demo's reports through two aggregators: made in both forms, followed from device to server, and planned."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from alcove.features.language_id.contract import LanguageId, program_path
from alcove.platform.aggregator.collector import CollectorClient, read_collector_config
from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.provisioning import COLLECTOR_FILE
from alcove.platform.cli.demo import private_reports
from alcove.platform.cli.demo.actors import Person, load_sentences
from alcove.platform.cli.demo.aggregators import Aggregators
from alcove.platform.cli.demo.catalog import CUT_ROWS, LARGE, TRIMMED, Release, build_package
from alcove.platform.cli.demo.clock import BEHIND_S, WINDOW_S, DemoClock
from alcove.platform.cli.demo.private_reports import PYTHON_DEVICES, PrivateReporter
from alcove.platform.cli.demo.processes import DemoError
from alcove.platform.cli.demo.settings import DemoSettings
from alcove.platform.cli.demo.small_difference import EPSILON, MDE, POWER, detectable
from alcove.platform.stats import (
    GroupSequential,
    Metric,
    Rules,
    aggregate_from_noised_histogram,
    decide,
    estimate,
)
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.privacy.dap.messages import Report
from alcove.registry.policy import Aggregation, TaskPolicy, make_task
from alcove.registry.policy.dap import dap_time, make_dap_task
from alcove.runtime import load
from alcove.sdk.prio3_reports import make_window_report


@pytest.fixture(scope="module")
def aggregators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregators]:
    """A leader and a helper in processes of their own, that ask for no tokens."""
    folder = tmp_path_factory.mktemp("aggregators")
    DemoClock(folder / "clock")
    with Aggregators(folder, folder / "clock") as running:
        yield running


def _task(aggregators: Aggregators, name: str) -> TaskPolicy:
    now_s = int(time.time()) - BEHIND_S - 3 * WINDOW_S
    return make_task(
        experiment_id=name,
        epsilon="1",
        arm_count=2,
        latency_edges_ms=(),
        window_s=WINDOW_S,
        first_window_start_s=now_s - now_s % WINDOW_S,
        aggregation=Aggregation(
            leader_url=aggregators.leader_url, helper_url=aggregators.helper_url, min_batch_size=100
        ),
    )


def test_clock_begins_in_the_past_and_goes_from_window_to_window(tmp_path: Path) -> None:
    """All who read its file are in the same window; it stands still where it is told to, and never goes back."""
    clock, other = DemoClock(tmp_path / "clock"), DemoClock(tmp_path / "clock")
    assert BEHIND_S - WINDOW_S <= time.time() - clock.now_s() <= BEHIND_S + WINDOW_S
    first_s, first_ns = clock.now_s(), clock.monotonic_ns()
    other.stop_at_end()
    assert clock.now_s() == other.now_s() == first_s - first_s % WINDOW_S + WINDOW_S - 1
    other.pass_window()
    assert clock.now_s() // WINDOW_S == first_s // WINDOW_S + 1
    passed_s = clock.now_s() - first_s
    assert (clock.monotonic_ns() - first_ns) / 1e9 == pytest.approx(passed_s, abs=2)
    assert clock.boot_id() == other.boot_id()


@pytest.mark.thorough
async def test_reports_of_both_forms_reach_both_aggregators_once(aggregators: Aggregators) -> None:
    """Some made in Python, the others by the native core, with the leader killed between: each is added once."""
    task = _task(aggregators, "both-forms")
    async with aiohttp.ClientSession() as session:
        client = CollectorClient(session, read_collector_config(aggregators.folder / "collector" / COLLECTOR_FILE))
        await client.announce(make_dap_task(task))
    reporter = PrivateReporter(aggregators.leader_url, aggregators.helper_url, task, 0)
    killed: list[int] = []

    def kill(done: int) -> None:
        if done >= 60 and not killed:
            killed.append(aggregators.kill(Seat.LEADER))
            aggregators.start(Seat.LEADER)

    cells = [number % 5 for number in range(130)]
    await asyncio.to_thread(reporter.send_all, cells, kill)
    assert (reporter.acknowledged, reporter.compared) == (130, PYTHON_DEVICES)
    time_of_task = dap_time(task, 0)
    assert aggregators.count_acknowledged(make_dap_task(task), time_of_task) == 130
    leader, helper = await asyncio.to_thread(aggregators.wait_for_reports, make_dap_task(task), time_of_task, 130)
    modulus = make_dap_task(task).circuit.field.modulus
    assert [(one + other) % modulus for one, other in zip(leader.share, helper.share, strict=True)] == [26] * 5
    with pytest.raises(DemoError, match="expected that 3 reports without a token are refused; saw 0"):
        await asyncio.to_thread(reporter.forge, 3)  # these aggregators ask for no tokens, and take them


def test_forms_that_differ_are_found(aggregators: Aggregators, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native core that shares another cell than Python does not pass for the same."""
    reporter = PrivateReporter(aggregators.leader_url, aggregators.helper_url, _task(aggregators, "differ"), 0)

    def make_wrongly(task: TaskPolicy, *given: object, is_native: bool, **named: object) -> Report:
        dap_task, window, cell = given
        return make_window_report(task, dap_task, window, (cell + is_native) % 5, is_native=is_native, **named)  # type: ignore[arg-type,operator]

    monkeypatch.setattr(private_reports, "make_window_report", make_wrongly)
    with pytest.raises(DemoError, match="the same bytes"):
        reporter.send_all([1], lambda _done: None)


def test_report_that_is_lost_is_found(aggregators: Aggregators, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one of the aggregators holds fewer reports than were acknowledged, the demo does not go on."""
    monkeypatch.setattr("alcove.platform.cli.demo.aggregators.ANSWER_TIMEOUT_S", 0)
    task = _task(aggregators, "both-forms")
    with pytest.raises(DemoError, match="expected 131 reports at both"):
        aggregators.wait_for_reports(make_dap_task(task), dap_time(task, 0), 131)


@pytest.mark.thorough
def test_twenty_thousand_devices_find_two_points_where_randomized_response_finds_eight() -> None:
    """At the same plan; at the same epsilon randomized response finds ten times as little."""
    found = {name: math.inf if value is None else value for name, value in detectable(20_000, 3).items()}
    assert found["two aggregators, ε = 1"] <= MDE
    assert found["randomized response, ε = 2"] > 0.07
    assert found["randomized response, ε = 1"] > 10 * found["two aggregators, ε = 1"]


@pytest.mark.thorough
def test_small_difference_is_found_with_the_planned_power() -> None:
    """By the demo's own people, arms drawn as devices draw them, and the aggregators' noise: 500 runs."""
    sentences = load_sentences()
    typed = [Person(DemoSettings.seed + number, sentences).write() for number in range(DemoSettings.fleet)]
    trimmed = build_package(Release(TRIMMED, LARGE, cut_rows=CUT_ROWS), certificate_texts=8).program("int8")
    rights = []
    for program in (program_path(LARGE).read_bytes(), trimmed):
        session, feature = load(program).session(), LanguageId()
        rights.append([feature.decode(session(each.opening)).language == each.language for each in typed])
    accepted = np.asarray(rights, dtype=np.int64)
    rng = np.random.default_rng(45)
    decisions: Counter[int | None] = Counter()
    for _ in range(500):
        arm = rng.integers(0, 2, DemoSettings.fleet)
        counts = np.zeros((2, 2, 3), np.int64)
        for index in (0, 1):
            counts[index, :, 0] = np.bincount(accepted[index, arm == index], minlength=2)
        counts += draw_noise(rng, counts.shape, Fraction(EPSILON))
        aggregate = aggregate_from_noised_histogram(counts, reports=DemoSettings.fleet, epsilon=Fraction(EPSILON))
        test = GroupSequential((DemoSettings.fleet,), DemoSettings.fleet)
        decisions[decide(estimate(aggregate, Metric((1.0, 2.0, 3.0))), test, Rules()).decision.winner] += 1
    assert decisions[0] / 500 > POWER - 0.03  # three standard errors of 500 runs
    assert decisions[1] == 0
