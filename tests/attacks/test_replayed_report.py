"""Attack: one report counted many times, or counted for a window that nobody watches any more.

A body had up to 1,024 reports, the same one 1,024 times if its sender liked; and window 0 of long ago was counted.  A
report sent again in a body of its own is counted again (docs/decisions/0021): what bounds that is how often an address
may ask.
"""

import asyncio
from pathlib import Path

import pytest
from alcove.platform.domain import limits
from alcove.platform.testing.ingress import ask, post, record, run_experiment, running_ingress
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.testing_seams import ManualClock

WINDOW_S = 3600
OPEN = 1 + limits.WINDOWS_OPEN + limits.WINDOW_OPEN_S // WINDOW_S


@pytest.mark.parametrize("count", [2, 3, 1023, 1024, 1025])
async def test_a_body_has_one_report(tmp_path: Path, count: int) -> None:
    """Two and more, the same or not: 413, and none of them is counted."""
    async with running_ingress(tmp_path) as attacked:
        same = record(attacked.task) * count
        different = b"".join(record(attacked.task, cell=number % 4) for number in range(count))
        for body in (same, different):
            assert (await ask(attacked.port, post(body)))[0] in (413, 0)  # 0: cut before all of it was sent
        assert await attacked.count_reports() == 0


async def test_a_body_that_is_longer_than_it_says_is_another_request(tmp_path: Path) -> None:
    """What follows 38 bytes is no report: it is no request either, and the connection closes."""
    async with running_ingress(tmp_path) as attacked:
        report = record(attacked.task)
        assert (await ask(attacked.port, post(report * 1024, length=len(report))))[0] in (204, 400)
        assert await attacked.count_reports() <= 1


async def test_each_window_closes_and_none_is_open_before_its_time(tmp_path: Path) -> None:
    """Of 60 windows, those that devices may still report are counted, the older ones are 410, those to come 400."""
    clock = ManualClock(SYSTEM_CLOCK.now_s())
    async with running_ingress(tmp_path, clock, behind_proxy="127.0.0.1") as attacked:
        task = await run_experiment(attacked.store, "old", begun_s=clock.time_s)
        clock.time_s += 50 * WINDOW_S
        last = task.window_at(clock.time_s)
        assert last is not None
        statuses = [(await ask(attacked.port, post(record(task, window=window))))[0] for window in range(60)]
        ahead = limits.WINDOW_SKEW_S // WINDOW_S
        closed = last - OPEN + 1
        assert statuses == [410] * closed + [204] * (OPEN + ahead) + [400] * (60 - last - 1 - ahead)
        assert closed > 0
        assert attacked.ingress.collector.refused["closed_window"] == closed


async def test_reports_of_one_address_are_counted_as_often_as_it_may_ask(tmp_path: Path) -> None:
    """The same report again and again: past the address's rate it is cut off, and another address is not."""
    async with running_ingress(tmp_path, requests_per_address=20) as attacked:
        asked = (ask(attacked.port, post(record(attacked.task)), source="127.0.0.2") for _ in range(300))
        statuses = [status for status, _ in await asyncio.gather(*asked)]
        assert set(statuses) <= {204, 429, 0}  # 0: not even accepted
        assert 0 < statuses.count(204) < 300
        assert (await ask(attacked.port, post(record(attacked.task)), source="127.0.0.3"))[0] == 204
        assert await attacked.count_reports() == statuses.count(204) + 1
