"""Work that a process has leased is taken up by another one when its time is over, and ended by one of them alone."""

import asyncio
import threading
from fractions import Fraction

import pytest
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.privacy.dap.release import Release

from tests.platform.aggregator.pair import WINDOW_S, Seats, be_away, make_request, no_noise
from tests.privacy.dap.party import TIME

COUNTS = (40, 0, 61, 3)
TEN_YEARS_S = 10 * 365 * 86_400


@pytest.mark.parametrize("waits", ["job", "share"])
async def test_clock_that_was_ten_years_ahead_leaves_no_work_for_later(files: Seats, waits: str) -> None:
    """What a process has leased, or put off, by a clock that was wrong is done when the clock is right again."""
    await files.upload_counts(COUNTS)
    if waits == "share":
        await files.aggregate()
    files.port.fault = be_away
    files.clock.time_s += TEN_YEARS_S
    assert await files.collect() is None
    files.clock.time_s -= TEN_YEARS_S
    files.port.fault = lambda _when, _resource: None
    found = await files.collect()
    assert isinstance(found, Release)
    assert found.sums == COUNTS


async def test_report_that_was_too_early_by_a_clock_ahead_is_tried_again(files: Seats) -> None:
    """The helper's clock is a day behind the leader's, which is ten years ahead; then both are right."""
    await files.upload_counts(COUNTS)
    files.helper_clock.time_s -= WINDOW_S
    files.clock.time_s += TEN_YEARS_S
    await files.aggregate()
    assert files.aggregation.added == 0
    files.clock.time_s -= TEN_YEARS_S
    files.helper_clock.time_s += WINDOW_S
    await files.aggregate()
    assert files.aggregation.added == sum(COUNTS)


async def test_batch_that_ends_while_another_process_takes_it_up_stays_released(seats: Seats) -> None:
    """A process that was slow ends a job between the look and the lock of the one that takes it up: it is done."""
    started, resumed = threading.Event(), threading.Event()

    def wait(scale: Fraction, count: int) -> list[int]:
        started.set()
        resumed.wait()
        return no_noise(scale, count)

    class WaitingBook(TaskBook):
        async def find(self, task_id: bytes) -> OpenTask:
            resumed.set()
            await slow
            return await super().find(task_id)

    def make(book: TaskBook) -> Collection:
        return Collection(seats.leader_database, seats.leader_config, book, seats.port, clock=seats.clock, noise=wait)

    await seats.upload_counts(COUNTS)
    await seats.aggregate()
    opened = await seats.book.find(seats.task.task_id)
    job_id = await seats.collection.create(opened, make_request().to_bytes())
    slow = asyncio.create_task(make(seats.book).run_job())
    await asyncio.to_thread(started.wait)
    seats.clock.time_s += 130  # its lease is over
    await make(WaitingBook(seats.leader_database, seats.leader_config)).run_job()
    state = await seats.collection.find(seats.task.task_id, job_id)
    assert state is not None
    assert state.problem is None
    assert state.response is not None
    late = seats.report(0, "late", TIME)
    assert len(await seats.upload(late)) == 1
