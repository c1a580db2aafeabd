"""Live pages: streams say that something changed, end with what they are for, and are bounded; nothing stays behind."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.client import CallerInfo, ClientError, DeadlineError, NotFoundError, UnauthenticatedError
from alcove.platform.console import live
from alcove.platform.console.app import create_console
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.services.auth.local import create_local_token, revoke_local_token
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.conftest import stranger

if TYPE_CHECKING:
    from alcove.platform.console.calls import Calls

PATIENCE_S = 120.0
Console = TestClient[web.Request, web.Application]


@dataclass
class StagedWatches:
    """Watches of a server that a test plays: each says "1" at once; further etags and ends come from a queue."""

    refusal: ClientError | None = None
    news: asyncio.Queue[str | ClientError | None] = field(default_factory=asyncio.Queue)
    open: int = 0
    asked: int = 0
    judgements: int = 0

    def watches(self, _token: str) -> "StagedWatches":
        """As `Calls` does."""
        return self

    async def run(self, token: str, work: Callable[[Any], object]) -> object:
        """Answer who asks: each token is a session of its own."""
        watches = self

        class Client:
            def caller(self, *, is_idle: bool = False) -> CallerInfo:
                watches.judgements += 1
                return CallerInfo(role="reader", principal="p", name="anna", session_id=token, expires_at_s=1 << 40)

        return work(Client())

    async def rollout(self, _rollout_id: str) -> AsyncIterator[str]:
        """Yield what the test puts into the queue; None ends it."""
        if self.refusal is not None:
            raise self.refusal
        self.open += 1
        try:
            yield "1"
            while True:
                news = await self.news.get()
                self.asked += 1
                if isinstance(news, ClientError):
                    raise news
                if news is None:
                    return
                yield news
        finally:
            self.open -= 1


@asynccontextmanager
async def console(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Console, StagedWatches]]:
    """A console of a staged server, whose streams look around all the time."""
    for name in ("TICK_S", "GAP_S"):
        monkeypatch.setattr(live, name, 0.01)
    staged = StagedWatches()
    app = create_console(ConsoleSettings(grpc_target="unix:/nowhere"), cast("Calls", staged))
    async with TestClient(TestServer(app)) as client:
        yield client, staged


async def open_stream(client: Console, session: str = "one") -> aiohttp.ClientResponse:
    """Ask for the stream of a rollout."""
    headers = {"Cookie": f"alcove-session={session}", "Accept": "application/json, text/event-stream"}
    return await client.get("/rollouts/x/live", headers=headers)


async def event(answer: aiohttp.ClientResponse) -> tuple[str, dict[str, str]]:
    """The next event of a stream; comments are passed over."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            text = (await answer.content.readuntil(b"\n\n")).decode()
            if not text.startswith(":"):
                kind, data = text.strip().split("\n")
                return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of a console that knows no test
            await asyncio.sleep(0.01)


async def test_a_stream_says_that_something_changed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The etag; what changed is asked for by the page, with the viewer's rights."""
    async with console(monkeypatch) as (client, staged), await open_stream(client) as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Security-Policy"]
        assert await event(answer) == ("changed", {"etag": "1"})
        staged.news.put_nowait("2")
        assert await event(answer) == ("changed", {"etag": "2"})


async def test_an_open_stream_answers_for_its_session_when_its_own_page_loads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for what a person asks, for another page or session, nor once the server has ended it (L6)."""
    async with console(monkeypatch) as (client, staged):

        async def is_judged(session: str = "one", path: str = "/rollouts/x", *, by_itself: bool = True) -> bool:
            before = staged.judgements
            headers = {"Cookie": f"alcove-session={session}"} | ({"X-Alcove-Idle": "1"} if by_itself else {})
            async with client.get(path, headers=headers):
                return staged.judgements > before

        assert await is_judged()
        async with await open_stream(client) as answer:
            await event(answer)
            assert not await is_judged()
            assert await is_judged(by_itself=False)
            assert await is_judged("two")
            assert await is_judged(path="/rollouts/y")
            staged.news.put_nowait(UnauthenticatedError("UNAUTHENTICATED", "", ""))
            assert await event(answer) == ("end", {"why": "signed_out"})
            assert await is_judged()


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (None, "ended"),
        (UnauthenticatedError("UNAUTHENTICATED", "", ""), "signed_out"),
        (NotFoundError("NOT_FOUND", "", ""), "gone"),
        (DeadlineError("DEADLINE_EXCEEDED", "", ""), "again"),
        (ClientError("UNAVAILABLE", "", ""), "unavailable"),
    ],
)
async def test_a_stream_ends_with_its_subject_or_session_and_says_why(
    monkeypatch: pytest.MonkeyPatch, end: ClientError | None, why: str
) -> None:
    """So that the page knows whether to ask again."""
    async with console(monkeypatch) as (client, staged):
        async with await open_stream(client) as answer:
            await event(answer)
            staged.news.put_nowait(end)
            assert await event(answer) == ("end", {"why": why})
            assert await answer.content.read() == b""
        assert staged.open == 0


async def test_what_is_refused_at_once_is_an_answer_as_of_any_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """404 and 401 with words for programs, and no stream."""
    async with console(monkeypatch) as (client, staged):
        staged.refusal = NotFoundError("NOT_FOUND", "ResourceNotFoundError", "no rollout x")
        async with await open_stream(client) as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["detail"] == "no rollout x"
        async with client.get("/rollouts/x/live", headers={"Accept": "application/json"}) as answer:
            assert answer.status == 401
        assert staged.open == 0


async def test_a_page_that_goes_leaves_no_call_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it says so or its connection breaks; nothing needs to change for that to be noticed."""
    async with console(monkeypatch) as (client, staged):
        for _ in range(3):
            answer = await open_stream(client)
            await event(answer)
            assert staged.open == 1
            answer.close()
            await until(lambda: staged.open == 0)


async def test_of_one_session_the_oldest_stream_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser has six connections to a host: if streams held them all, no page would load any more."""
    async with console(monkeypatch) as (client, staged):
        answers = []
        for _ in range(live.MOST_OF_SESSION + 1):
            answers.append(await open_stream(client))
            assert (await event(answers[-1]))[0] == "changed"
        other = await open_stream(client, "two")
        assert await event(answers[0]) == ("end", {"why": "gave_way"})
        await until(lambda: staged.open == live.MOST_OF_SESSION + 1)
        for answer in (*answers, other):
            answer.close()


async def test_too_many_streams_in_all_are_refused_with_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so and asks again later."""
    monkeypatch.setattr(live, "MOST", 2)
    async with console(monkeypatch) as (client, staged):
        answers = [await open_stream(client, session) for session in ("one", "two")]
        async with await open_stream(client, "three") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
            assert (await refused.json())["error"]["kind"] == "TooManyLivePagesError"
        assert staged.open == 2
        for answer in answers:
            answer.close()


async def test_changes_that_come_close_together_become_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing queues for a page that is slow: the last etag is told."""
    async with console(monkeypatch) as (client, staged):
        monkeypatch.setattr(live, "GAP_S", 1e9)
        async with await open_stream(client) as answer:
            assert (await event(answer))[1] == {"etag": "1"}
            for number in range(1, 1001):
                staged.news.put_nowait(str(number))
            await until(lambda: staged.asked == 1000)
            staged.news.put_nowait(None)
            assert await event(answer) == ("changed", {"etag": "1000"})
            assert await event(answer) == ("end", {"why": "ended"})


async def test_a_stream_with_nothing_to_say_shows_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then, so that proxies do not cut it and pages notice when it is gone."""
    async with console(monkeypatch) as (client, _staged):
        monkeypatch.setattr(live, "HEARTBEAT_S", 0.01)
        async with await open_stream(client) as answer:
            await event(answer)
            assert await answer.content.readuntil(b"\n\n") == b": live\n\n"


async def test_a_console_that_stops_ends_its_streams_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would hold it up for as long as pages are open."""
    async with console(monkeypatch) as (client, staged):
        answer = await open_stream(client)
        await event(answer)
        stopping = asyncio.create_task(client.server.close())
        assert await event(answer) == ("end", {"why": "stopping"})
        await stopping
        assert staged.open == 0


async def test_a_change_by_another_process_reaches_the_page_and_a_revoked_token_ends_its_stream(
    world: ServerWorld, served: Served
) -> None:
    """Through the console's process, the server's watch and its database; nobody loads a page for it."""
    text, record = await asyncio.to_thread(create_local_token, world.data_dir, "reader", name="leaver")

    def begin() -> str:
        with world.client(served, "team:speech") as team, world.client(served, "operator") as operator:
            world.publish(team, "speech_00", "7.0.0")
            return operator.create_rollout("live", "speech_00", "7.0.0").rollout_id

    def change() -> None:
        with world.client(served, "operator") as operator:
            operator.update_rollout(rollout_id, fields=("audience",), audience="memory_mb>=3072")

    rollout_id = await asyncio.to_thread(begin)
    async with stranger(served) as one:
        await one.post("/sign-in", {"token": text})
        async with one.http.get(f"{one.url}/rollouts/{rollout_id}/live") as answer:
            first = await event(answer)
            await asyncio.to_thread(change)
            second = await event(answer)
            assert [first[0], second[0]] == ["changed", "changed"]
            assert first != second
            await asyncio.to_thread(revoke_local_token, world.data_dir, record.token_id)
            assert await event(answer) == ("end", {"why": "signed_out"})
        async with one.http.get(f"{one.url}/rollouts/{rollout_id}/live", allow_redirects=False) as answer:
            assert answer.status == 303


async def test_pages_hear_of_a_change_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """By lot, so that a hundred pages do not load at once; what changes while one waits is told with it."""
    lots = iter([0.0, 1e9])
    async with console(monkeypatch) as (client, staged):
        monkeypatch.setattr(random, "random", lambda: next(lots))
        monkeypatch.setattr(live, "GAP_S", 0.0)
        async with await open_stream(client) as answer:
            assert (await event(answer))[1] == {"etag": "1"}
            staged.news.put_nowait("2")
            assert (await event(answer))[1] == {"etag": "2"}
            for etag in ("3", "4"):
                staged.news.put_nowait(etag)
            await until(lambda: staged.asked == 3)
            staged.news.put_nowait(None)  # a stream that ends tells what it has
            assert (await event(answer))[1] == {"etag": "4"}
