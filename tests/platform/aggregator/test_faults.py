"""An aggregator that fails, or is killed, at any storage call loses no acknowledged report and adds none twice."""

import functools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.domain.errors import ServerError, StoreFullError
from alcove.privacy.dap.messages import Report, UploadRequest
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.rules import TaskRules
from alcove.privacy.dap.task import DapTask
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.aggregator.pair import Seats, open_seats
from tests.privacy.dap.party import TIME, Parties, make_task, make_token_task
from tests.selection import quick_among

COUNTS = (4, 0, 3, 1)
SMALLEST_BATCH = 8
"""Below what the product allows: faults fall on storage calls, of which there are as many for a hundred reports."""

PARTIES = Parties()
FEW, FEW_WITH_TOKENS = (make(cells=4, min_batch_size=SMALLEST_BATCH) for make in (make_task, make_token_task))


@functools.cache
def _reports(task: DapTask) -> list[Report]:
    return [
        PARTIES.report(task, cell, f"{cell} {index}") for cell, count in enumerate(COUNTS) for index in range(count)
    ]


@dataclass
class FaultyDatabase(AggregatorDatabase):
    """A database whose nth storage call fails: as it begins, as it commits, or after it has committed."""

    inner: AggregatorDatabase
    fails_at: int
    when: str
    calls: int = 0

    @asynccontextmanager
    async def read(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Give a session, unless it is this call's turn to fail."""
        self.calls += 1
        if self.calls == self.fails_at:
            raise StoreFullError("the disk", "is full")
        async with self.inner.read(is_long=is_long) as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session, unless it is this call's turn to fail."""
        self.calls += 1
        is_turn = self.calls == self.fails_at
        if is_turn and self.when == "begins":
            raise StoreFullError("the disk", "is full")
        async with self.inner.write() as session:
            yield session
            if is_turn and self.when == "commits":
                raise StoreFullError("the disk", "is full")
        if is_turn:
            raise StoreFullError("the disk", "is full")


async def _run(seats: Seats) -> Release:
    """Upload, aggregate and collect; after each fault everything in memory is lost, and what was asked is repeated."""

    async def repeat(number: int) -> Release | None:
        if number:
            seats.restart()
            seats.clock.time_s += 600
        await seats.announce()
        reports = _reports(seats.task)
        for at in range(0, len(reports), 5):
            await _upload(seats, reports[at : at + 5])
        found = await seats.collect()
        return found if isinstance(found, Release) else None

    for number in range(4):
        try:
            found = await repeat(number)
        except ServerError:
            continue
        if found is not None:
            return found
    raise AssertionError("no release after four attempts")


async def _upload(seats: Seats, reports: list[Report]) -> None:
    """Upload reports; those of a window that is collected are acknowledged no more, which is right."""
    opened = await seats.book.find(seats.task.task_id)
    await seats.uploads.take(opened, UploadRequest(tuple(reports)).to_bytes())


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both aggregators take part in tasks of small batches."""
    monkeypatch.setattr(TaskRules, "check", lambda _self, _task: None)


@pytest.mark.parametrize(
    "task", [FEW_WITH_TOKENS, pytest.param(FEW, marks=pytest.mark.thorough)], ids=["tokens", "bare"]
)
@pytest.mark.parametrize("seat", ["leader", "helper"])
@pytest.mark.parametrize("when", quick_among(["begins", "commits", "has committed"], {"commits"}))
async def test_failure_at_every_storage_call_changes_no_count(
    template: Path, tmp_path: Path, seat: str, when: str, task: DapTask
) -> None:
    """The nth call fails, for every n until none is left; the release is the same each time, and no token is lost."""
    at = 0
    while True:
        at += 1
        places = [tmp_path / f"{name} {at}.db" for name in ("leader", "helper")]
        for place in places:
            shutil.copy(template, place)
        seats = await open_seats(places[0], places[1], task)
        seats.parties = PARTIES
        leader, helper = seats.leader_database, seats.helper_database
        faulty = FaultyDatabase(leader if seat == "leader" else helper, at, when)
        if seat == "leader":
            seats.leader_database = faulty
        else:
            seats.helper_database = faulty
        seats.restart()
        try:
            assert await _run(seats) == Release(sum(COUNTS), TIME, 1, COUNTS)
            assert len(seats.released_by_leader) == len(seats.released_by_helper) == 1  # with noise that was drawn once
        finally:
            await leader.close()
            await helper.close()
        if faulty.calls < at:
            break
    assert at > 4
