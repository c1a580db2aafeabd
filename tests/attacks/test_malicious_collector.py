"""Attack: a collector that asks for whatever batches it likes, as often as it likes, to have the noise drawn again.

Its token is real. Two releases that share a window could be averaged, or taken from each other, which would leave a
batch below the smallest.
"""

import random
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import pytest
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.privacy.dap.messages import CollectionJobReq, CollectionJobResp
from alcove.privacy.dap.release import Release, open_release

from tests.platform.aggregator.pair import TASK, Seats, make_request, open_seats
from tests.privacy.dap.party import TIME

WINDOWS = 6
REPORTS = (20, 15, 0, 5)
"""Of a window; three of them make a batch."""

ROUNDS = 60


class Collector:
    """What a malicious collector can do.

    Attributes:
        drawn: how often an aggregator has drawn noise.
        releases: the bytes of each release, by its request.
    """

    def __init__(self, seats: Seats) -> None:
        self.seats = seats
        self.drawn = 0
        self.releases: dict[bytes, set[bytes]] = {}
        seats.noise = self._draw
        seats.restart()

    def _draw(self, _scale: Fraction, count: int) -> list[int]:
        self.drawn += 1
        return [self.drawn] * count

    async def ask(self, start: int, duration: int, *, deletes: bool = False) -> Release | DapProblem | None:
        """Ask for a batch, let the leader work, and delete the job if that might help."""
        request = make_request(start, duration)
        opened = await self.seats.book.find(TASK.task_id)
        try:
            job_id = await self.seats.collection.create(opened, request.to_bytes())
        except DapProblem as problem:
            return problem
        if deletes:
            await self.seats.collection.forget(TASK.task_id, job_id)
        await self.seats.collection.run_job()
        self.seats.clock.time_s += 2
        state = await self.seats.collection.find(TASK.task_id, job_id)
        if state is None or state.response is None:
            return None if state is None else state.problem
        return self._open(request, state.response)

    def _open(self, request: CollectionJobReq, response: bytes) -> Release:
        self.releases.setdefault(request.to_bytes(), set()).add(response)
        key = self.seats.parties.collector_key
        return open_release(TASK, key, request, CollectionJobResp.from_bytes(response))


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Collector]:
    """A collector before windows of reports that both aggregators have added."""
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db")
    asked = Collector(seats)
    for time in range(TIME - WINDOWS + 1, TIME + 1):
        await seats.upload_counts(REPORTS, time)
    await seats.aggregate()
    yield asked
    await seats.leader_database.close()
    await seats.helper_database.close()


@pytest.mark.parametrize("seed", range(3))
async def test_no_series_of_requests_has_a_window_in_two_releases(collector: Collector, seed: int) -> None:
    """Intervals that grow, shrink and slide, jobs deleted between: disjoint batches, each with noise drawn once."""
    choice = random.Random(seed)
    windows: dict[tuple[int, int], Release] = {}
    for _ in range(ROUNDS):
        start, duration = TIME - choice.randrange(WINDOWS + 2), choice.randrange(1, WINDOWS + 2)
        found = await collector.ask(start, duration, deletes=choice.random() < 0.3)
        if isinstance(found, Release):
            assert windows.setdefault((start, duration), found) == found
    covered = [time for start, duration in windows for time in range(start, start + duration)]
    assert len(covered) == len(set(covered))
    assert windows
    assert all(found.reports >= 100 for found in windows.values())
    assert collector.drawn == 2 * len(windows)
    assert all(len(responses) == 1 for responses in collector.releases.values())


async def test_batch_that_is_too_small_looks_like_any_smaller_one(collector: Collector) -> None:
    """None, one and two windows of reports have the same answer, whatever interval they are asked for in."""
    answers = [await collector.ask(start, 1) for start in (TIME - 99, TIME, TIME - 1)]
    answers += [await collector.ask(TIME - 1, 2), await collector.ask(TIME, 1 << 40)]
    assert {each.detail for each in answers if isinstance(each, DapProblem)} == {"fewer than 100 reports"}
    assert {each.kind for each in answers if isinstance(each, DapProblem)} == {ProblemType.INVALID_BATCH_SIZE}
    assert len([each for each in answers if isinstance(each, DapProblem)]) == len(answers)
    assert collector.drawn == 0
