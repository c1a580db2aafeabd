"""Collects windows from the aggregators: announces tasks to the leader, asks for windows in time, stores releases.

    task ─▶ announced ─▶ a window is over, and the next one too ─▶ claimed ─▶ asked for ─▶ release stored, claim dropped
                                                                      ▲           │
                                                                      └─ later ◀──┴─ under way, too few, leader away

K1  A window is stored once: the leader gives the same release to the same question, and the store takes the first.
K2  All that is known between two passes is in rows, so that a server killed anywhere goes on where it was; a claim ends
    by itself.  What is kept in memory is only how long a leader that is away is left alone.
K3  Several servers of one database ask for each window in turn, by claims.
K4  Nothing of a release is logged, and nothing that an aggregator writes is stored or shown unless it is printable.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

import structlog
from alcove.platform.aggregator.leases import delay_after
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.domain import limits
from alcove.platform.domain.collection import Announcement, CollectedTask, is_due
from alcove.platform.domain.errors import PeerUnavailableError, WindowCollectedError
from alcove.platform.services.collection import collected_tasks, read_progress
from alcove.platform.store import Store
from alcove.platform.store.collected_windows import add_collected_window, collected_windows
from alcove.platform.store.window_requests import (
    claim_window,
    drop_request,
    postpone_window,
    save_announcement,
)
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapTaskError
from alcove.registry.policy import Aggregation
from alcove.registry.policy.dap import dap_time, make_dap_task
from alcove.runtime.clock import Clock

__all__ = ["Collector", "LeaderPort"]

UNDER_WAY: Final = "the aggregators are at it"
_PROBLEM_LENGTH: Final = 300
_T = TypeVar("_T")
_log = structlog.get_logger()


class LeaderPort(Protocol):
    """The leader, as the collector asks it (`CollectorClient`)."""

    async def announce(self, task: DapTask) -> None:
        """Let the leader take part in a task."""
        ...

    async def collect(self, task: DapTask, start: int, duration: int) -> Release | None:
        """Return what the aggregators release of the windows from `start`; None: they are at it."""
        ...


class Collector:
    """The collection of all tasks of a server.

    Args:
        store: of tasks, claims and releases.
        leader: is asked.
        aggregation: the aggregators that `leader` is one of; tasks of others are not asked for.
        clock: says which windows are over.

    Attributes:
        is_leader_away: whether the last call of the leader failed.
        answered_at_s: when the leader last answered, seconds since 1970-01-01 UTC; 0: not since the server started.
    """

    def __init__(self, store: Store, leader: LeaderPort, aggregation: Aggregation, clock: Clock) -> None:
        self._store = store
        self._leader = leader
        self._pair = (aggregation.leader_url, aggregation.helper_url)
        self._clock = clock
        self._calls = asyncio.Semaphore(limits.COLLECT_CALLS)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        self._failures = 0
        self._away_until_s = 0
        self._away_problem = ""
        self.answered_at_s = 0

    @property
    def is_leader_away(self) -> bool:
        """Whether the last call of the leader failed."""
        return self._failures > 0

    @property
    def away_problem(self) -> str:
        """Why the last call of the leader failed; "": it did not."""
        return self._away_problem if self.is_leader_away else ""

    async def run(self) -> None:
        """Announce the tasks and ask for the windows whose time has come.

        Raises:
            ServerError: the database does not take it now; nothing is lost, and repeating helps.
        """
        if self._is_silent():
            return
        now_s = self._clock.now_s()
        async with self._store.read() as session:
            found = [await read_progress(session, task) for task in await collected_tasks(session, now_s)]
        unannounced = [one for one in found if one.announcement is None or is_due(one.announcement.not_before_s, now_s)]
        announced = await _finish([self._announce(one.of) for one in unannounced])
        refused = {one.of.task.task_id for one in found if one.announcement is not None and one.announcement.problem}
        refused -= {one.of.task.task_id for one in unannounced}
        refused |= {one.of.task.task_id for one, is_known in zip(unannounced, announced, strict=True) if not is_known}
        wanted = [
            (one.of, window)
            for one in found
            if one.of.task.task_id not in refused
            for window in one.open_windows(now_s)
        ]
        wanted.sort(key=lambda each: each[0].collects_at_s(each[1]))
        while wanted and not self._is_silent():
            batch, wanted = wanted[: limits.COLLECT_WINDOWS], wanted[limits.COLLECT_WINDOWS :]
            await _finish([self._collect(*claimed) for claimed in await self._claim(batch, now_s)])

    async def stop(self) -> None:
        """End calls of the leader that are under way, and begin no other; what `run` does with rows goes on."""
        self._is_stopping = True
        for call in self._under_way:
            call.cancel()

    def _is_silent(self) -> bool:
        """Whether no call may begin now."""
        return self._is_stopping or not is_due(self._away_until_s, self._clock.now_s())

    async def _announce(self, of: CollectedTask) -> bool:
        """Announce a task; return whether the leader takes part in it."""
        task = of.task
        now_s = self._clock.now_s()
        problem = self._find_foreign(of)
        again_s = limits.ANNOUNCE_S
        if not problem:
            try:
                await self._call(self._leader.announce(make_dap_task(task)))
            except (DapProblem, DapTaskError) as refusal:
                problem, again_s = _printable(str(refusal)), limits.COLLECT_AGAIN_S[0]
            except PeerUnavailableError:
                if self._is_stopping:
                    return False
                problem, again_s = self._away_problem, max(1, self._away_until_s - now_s)
        if problem:
            _log.warning("a task is not announced", experiment=task.experiment_id, problem=problem)
        async with self._store.write() as session:
            await save_announcement(session, task.task_id, Announcement(now_s + again_s, problem))
        return not problem

    def _find_foreign(self, of: CollectedTask) -> str:
        """Return why a task is none of this collector's; "": it is."""
        aggregation = of.task.aggregation
        if aggregation is None or (aggregation.leader_url, aggregation.helper_url) == self._pair:
            return ""
        named = f"{aggregation.leader_url} and {aggregation.helper_url}"
        return f"its aggregators are {named}, this server's {' and '.join(self._pair)}"

    async def _claim(self, batch: list[tuple[CollectedTask, int]], now_s: int) -> list[tuple[CollectedTask, int, int]]:
        """Return those windows that no other server has, each with the number of the attempt."""
        claimed = []
        until_s = now_s + limits.COLLECT_LEASE_S
        async with self._store.write() as session:
            task_ids = {of.task.task_id for of, _ in batch}
            collected = {task_id: await collected_windows(session, task_id) for task_id in task_ids}
            for of, window in batch:
                task_id = of.task.task_id
                if window in collected[task_id]:
                    continue  # since this pass began
                attempt = await claim_window(session, task_id, window, now_s=now_s, until_s=until_s)
                if attempt:
                    claimed.append((of, window, attempt))
        return claimed

    async def _collect(self, of: CollectedTask, window: int, attempt: int) -> None:
        """Ask for a window and store what comes of it."""
        task = of.task
        time = dap_time(task, window)
        least_s, most_s = limits.COLLECT_AGAIN_S
        again_s = min(most_s, least_s << min(attempt - 1, 10))
        try:
            found = await self._call(self._leader.collect(make_dap_task(task), time, 1))
        except DapProblem as refusal:
            if refusal.kind is ProblemType.UNRECOGNIZED_TASK:  # the leader has lost its rows
                async with self._store.write() as session:
                    await save_announcement(session, task.task_id, Announcement(0, ""))
            await self._postpone(of, window, _printable(str(refusal)), again_s)
        except PeerUnavailableError:
            problem = "" if self._is_stopping else self._away_problem
            await self._postpone(of, window, problem, max(0, self._away_until_s - self._clock.now_s()))
        else:
            if found is None:
                await self._postpone(of, window, UNDER_WAY, delay_after(attempt) - 1)  # at first with the next pass
            elif found.start != time or found.duration != 1:
                await self._postpone(of, window, "a release of another window came", again_s)
            else:
                await self._keep(of, window, found, again_s)

    async def _keep(self, of: CollectedTask, window: int, found: Release, again_s: int) -> None:
        """Store a release; one that is none is asked for again."""
        task = of.task
        try:
            async with self._store.write() as session:
                await add_collected_window(session, task, window, reports=found.reports, counts=found.sums)
                await drop_request(session, task.task_id, window)
        except ValueError:
            await self._postpone(of, window, "what came is no release: its sums or its size are out of bounds", again_s)
        except WindowCollectedError:
            _log.error("a window was released with other sums", experiment=task.experiment_id, window=window)
            async with self._store.write() as session:
                await drop_request(session, task.task_id, window)
        else:
            _log.info("a window is collected", experiment=task.experiment_id, window=window)

    async def _postpone(self, of: CollectedTask, window: int, problem: str, again_s: int) -> None:
        task = of.task
        until_s = self._clock.now_s() + again_s
        is_last = until_s >= of.collects_at_s(window) + limits.COLLECT_FOR_S
        if is_last:
            _log.error("a window is given up", experiment=task.experiment_id, window=window, problem=problem)
        elif problem not in ("", UNDER_WAY):
            _log.warning("a window is not collected yet", experiment=task.experiment_id, window=window, problem=problem)
        async with self._store.write() as session:
            await postpone_window(session, task.task_id, window, until_s=until_s, problem=problem)

    async def _call(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Return what a call of the leader does; it is not begun while the leader is away or the server stops."""
        async with self._calls:
            if self._is_silent():
                call.close()
                raise PeerUnavailableError(self._pair[0], self._away_problem)
            under_way = asyncio.ensure_future(call)
            self._under_way.add(under_way)
            try:
                found = await under_way
            except asyncio.CancelledError:
                if not self._is_stopping:
                    raise
                raise PeerUnavailableError(self._pair[0], "the server stops") from None
            except PeerUnavailableError as error:
                self._failures += 1
                self._away_until_s = self._clock.now_s() + delay_after(self._failures)
                self._away_problem = _printable(str(error))
                raise
            finally:
                self._under_way.discard(under_way)
        self._failures = 0
        self.answered_at_s = self._clock.now_s()
        return found


async def _finish(works: list[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Return what all of them do, and raise the first error when all have ended: a call of the database is no half."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]


def _printable(text: str) -> str:
    """Return what an aggregator writes, for logs and terminals."""
    return "".join(character if character.isprintable() else "?" for character in text)[:_PROBLEM_LENGTH]
