"""The sums of a window by Prio3 are kept once, and read as what statistics take."""

import asyncio
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from alcove.platform.domain.errors import WindowCollectedError
from alcove.platform.domain.reports import aggregate_of, estimate_reports
from alcove.platform.services.reports import read_reports
from alcove.platform.stats import IdleReports, aggregate_from_noised_histogram, pool
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.platform.store import Store
from alcove.platform.store.collected_windows import add_collected_window, collected_sums, collected_windows
from alcove.platform.store.reports import add_counts
from alcove.registry.policy import Aggregation, TaskPolicy, make_task

AGGREGATION = Aggregation(
    leader_url="https://leader.example", helper_url="https://helper.example", min_batch_size=100, local_epsilon=None
)


def make_terms(**changes: Any) -> TaskPolicy:
    """A task of four cells by Prio3, with some fields changed."""
    terms: dict[str, Any] = {
        "experiment_id": "ex-1",
        "epsilon": "1",
        "arm_count": 2,
        "latency_edges_ms": (),
        "window_s": 3600,
        "first_window_start_s": 3600,
        "aggregation": AGGREGATION,
    }
    return make_task(**(terms | changes))


async def collect(store: Store, task: TaskPolicy, window: int, counts: Sequence[int], reports: int = 100) -> bool:
    """Write a window in a transaction of its own."""
    async with store.write() as session:
        return await add_collected_window(session, task, window, reports=reports, counts=counts)


async def test_window_is_collected_once_and_read_as_a_sum(store: Store) -> None:
    """The same sums again change nothing; others are refused, and so is another number of reports."""
    task = make_terms()
    assert await collect(store, task, 0, (60, -3, 2, 41, 10))
    assert await collect(store, task, 5, (2**39, 0, -(2**39), 7, 300), 2000)
    assert not await collect(store, task, 0, (60, -3, 2, 41, 10))
    for counts, reports in (((60, -3, 2, 41, 11), 100), ((60, -3, 2, 41, 10), 101)):
        with pytest.raises(WindowCollectedError) as caught:
            await collect(store, task, 0, counts, reports)
        assert (caught.value.task_id, caught.value.window) == (task.task_id, 0)
    async with store.read() as session:
        sums = await collected_sums(session, task)
        assert await collected_windows(session, task.task_id) == {0, 5}
        assert await collected_windows(session, "0" * 64) == frozenset()
    assert sums.counts == (60 + 2**39, -3, 2 - 2**39, 48)
    assert (sums.idle, sums.reports, sums.released, sums.windows) == (310, 1790, 2100, 2)


async def test_devices_with_nothing_to_tell_are_no_reports_of_statistics(store: Store) -> None:
    """Each window's noised idle count is left out of its reports, which are none below 0 and none too many."""
    task = make_terms()
    for window, (idle, reports) in enumerate([(95, 5), (130, 0), (-20, 100)]):
        await collect(store, task, window, (1, 2, 3, 4, idle))
        async with store.read() as session:
            before = await read_reports(session, task)
        assert before.reports == sum((5, 0, 100)[: window + 1]), reports
        assert before.counts == tuple((window + 1) * n for n in (1, 2, 3, 4))
    assert aggregate_of(before).reports == 105


async def test_reports_of_a_task_with_tokens_are_attested(store: Store) -> None:
    """Each came from an enrolled device, once; without an issuer anybody can have sent them."""
    issuer = AGGREGATION.model_copy(update={"token_issuer": "https://issuer.example"})
    for aggregation, is_attested in ((AGGREGATION, False), (issuer, True)):
        task = make_terms(aggregation=aggregation)
        await collect(store, task, 0, (60, -3, 2, 41, 0))
        async with store.read() as session:
            assert aggregate_of(await read_reports(session, task)).is_attested is is_attested


async def test_window_that_two_collect_at_once_is_there_once(store: Store) -> None:
    """Of equal ones one is new; of unequal ones one is refused."""
    task = make_terms()
    assert sorted(await asyncio.gather(*(collect(store, task, 1, (1, 2, 3, 4, 0)) for _ in range(4)))) == [
        False
    ] * 3 + [True]
    found = await asyncio.gather(*(collect(store, task, 2, (n, 2, 3, 4, 0)) for n in range(3)), return_exceptions=True)
    assert found.count(True) == 1
    assert sum(isinstance(one, WindowCollectedError) for one in found) == 2


@pytest.mark.parametrize(
    ("window", "counts", "reports", "changes"),
    [
        (-1, (1,) * 5, 100, {}),
        (0, (1,) * 4, 100, {}),
        (0, (1,) * 6, 100, {}),
        (0, (1, 1, 1, 1, MAX_REPORTS + 1), 100, {}),
        (0, (1, 1, 1, -MAX_REPORTS - 1, 1), 100, {}),
        (0, (1,) * 5, 99, {}),
        (0, (1,) * 5, MAX_REPORTS + 1, {}),
        (0, (1,) * 5, 100, {"aggregation": None}),
    ],
)
async def test_window_out_of_bounds_is_refused(
    store: Store, window: int, counts: tuple[int, ...], reports: int, changes: dict[str, Any]
) -> None:
    """Another number of cells, a batch below the smallest, or a task without aggregators; nothing is written."""
    task = make_terms(**changes)
    with pytest.raises(ValueError, match=r"reports, got|cells by Prio3"):
        await collect(store, task, window, counts, reports)
    async with store.read() as session:
        assert await collected_windows(session, task.task_id) == frozenset()


async def test_reports_come_from_where_the_mechanism_puts_them(store: Store) -> None:
    """Cells that were counted are not read for a task by Prio3, and the other way round."""
    shared, randomized = make_terms(), make_terms(aggregation=None)
    await collect(store, shared, 0, (60, -3, 2, 41, 0))
    async with store.write() as session:
        await add_counts(session, {(shared.task_id, 0, 0): 5, (randomized.task_id, 0, 3): 7})
    async with store.read() as session:
        by_prio3, by_response = await read_reports(session, shared), await read_reports(session, randomized)
    assert (by_prio3.counts, by_prio3.reports, by_prio3.windows) == ((60, -3, 2, 41), 100, 1)
    assert (by_response.counts, by_response.reports, by_response.windows) == ((0, 0, 0, 7), 7, 1)
    aggregate = aggregate_of(by_prio3)
    assert aggregate.estimates.ravel().tolist() == [60, -3, 2, 41]
    assert aggregate.reports == 100
    assert aggregate_of(by_response).estimates.min() < 0


async def test_aggregate_of_windows_is_that_of_each_window_pooled(store: Store) -> None:
    """What is read at once has the estimates, the noise and the reports of the windows one by one; a floor included."""
    for task in (
        make_terms(latency_edges_ms=(1.0, 2.0), pre_edges=(0.5,)),
        make_terms(aggregation=AGGREGATION.model_copy(update={"local_epsilon": "3"})),
    ):
        assert task.aggregation is not None
        floor = task.aggregation.local_epsilon_fraction
        rng = np.random.default_rng(3)
        counts = rng.integers(-5, 300, (3, task.cell_count + 1))
        for window, of_window in enumerate(counts.tolist()):
            await collect(store, task, window, of_window, 1000 + window)
        async with store.read() as session:
            found = aggregate_of(await read_reports(session, task))
        pooled = pool(
            [
                aggregate_from_noised_histogram(
                    of_window[:-1].reshape(*task.layout.shape[:2], -1),
                    reports=estimate_reports(task, 1000 + window, int(of_window[-1])),
                    epsilon=Fraction(1),
                    local_epsilon=floor,
                    idle=IdleReports(int(of_window[-1]), 1000 + window),
                )
                for window, of_window in enumerate(counts)
            ]
        )
        np.testing.assert_allclose(found.estimates, pooled.estimates)
        if floor is None:
            np.testing.assert_allclose(found.noise_covariance, pooled.noise_covariance)
        assert 0 < found.reports == pooled.reports < 3003


async def test_sums_of_many_windows_are_exact(store: Store) -> None:
    """Eight bytes a cell hold every signed sum up to the bound, and their sums are those of whole numbers."""
    task, draw = make_terms(), random.Random(7)
    windows = [[draw.randint(-MAX_REPORTS, MAX_REPORTS) for _ in range(5)] for _ in range(20)]
    windows += [[MAX_REPORTS] * 5, [-MAX_REPORTS] * 5]
    async with store.write() as session:
        for window, counts in enumerate(windows):
            await add_collected_window(session, task, window, reports=MAX_REPORTS, counts=counts)
    async with store.read() as session:
        found = await collected_sums(session, task)
    assert (*found.counts, found.idle) == tuple(map(sum, zip(*windows, strict=True)))
    assert found.released == len(windows) * MAX_REPORTS
