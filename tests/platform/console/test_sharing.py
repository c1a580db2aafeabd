"""Reads that are shared: one for all who ask at once, none older than a question, none with another's rights."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from alcove.platform.client import ClientError, UnauthenticatedError
from alcove.platform.console.sharing import SharedReads


def reader(log: list[str], name: str, error: ClientError | None = None) -> Callable[[], Awaitable[str]]:
    """A read that notes who made it."""

    async def read() -> str:
        log.append(name)
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return name

    return read


async def test_who_asks_at_once_gets_one_read_and_other_rights_another() -> None:
    """A hundred viewers of one role cost the server one read."""
    shared, log = SharedReads(gather_s=0), list[str]()
    asked = [shared.read(("reader", "ro-1"), reader(log, f"reader-{number}")) for number in range(100)]
    asked += [
        shared.read(("operator", "ro-1"), reader(log, "operator")),
        shared.read(("reader", "ro-2"), reader(log, "b")),
    ]
    found = await asyncio.gather(*asked)
    assert found == ["reader-0"] * 100 + ["operator", "b"]
    assert log == ["reader-0", "operator", "b"]


async def test_a_question_is_never_answered_by_a_read_that_began_before_it() -> None:
    """What changed between the two would be missed until the next change."""
    shared, log = SharedReads(gather_s=0), list[str]()
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        began.set()
        await go_on.wait()
        return "slow"

    first = asyncio.create_task(shared.read("key", slow))
    await began.wait()
    second = asyncio.create_task(shared.read("key", reader(log, "later")))
    assert await second == "later"
    go_on.set()
    assert await first == "slow"


async def test_the_end_of_one_session_is_not_the_end_of_the_others() -> None:
    """Whoever's read failed gets the error; the others read for themselves."""
    shared, log = SharedReads(gather_s=0), list[str]()
    ended = UnauthenticatedError("UNAUTHENTICATED", "", "")
    asked = [shared.read("key", reader(log, "ended", ended)), shared.read("key", reader(log, "other"))]
    first, second = await asyncio.gather(*asked, return_exceptions=True)
    assert (first, second) == (ended, "other")


async def test_who_goes_away_takes_nothing_from_the_others() -> None:
    """A page that is closed while it loads cancels its own wait alone."""
    shared, log = SharedReads(gather_s=0), list[str]()
    first = asyncio.create_task(shared.read("key", reader(log, "first")))
    second = asyncio.create_task(shared.read("key", reader(log, "second")))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "first"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert log == ["first"]
