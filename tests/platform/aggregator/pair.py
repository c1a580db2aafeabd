"""Runs a leader and a helper in one process, each with a database of its own, with time and faults by hand."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from alcove.platform.aggregator.aggregation import Aggregation, HelperPort
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.config import AggregatorConfig, CollectorKey, Seat
from alcove.platform.aggregator.helper import Helper
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.noise import NoiseSource
from alcove.platform.aggregator.problems import DapProblem
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.aggregator.uploads import Uploads
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    BatchMode,
    CollectionJobReq,
    CollectionJobResp,
    HpkeConfigList,
    Interval,
    Query,
    Report,
    ReportUploadStatus,
    UploadRequest,
)
from alcove.privacy.dap.release import Release, open_release
from alcove.privacy.dap.reports import make_config
from alcove.privacy.dap.task import DapTask
from alcove.privacy.tokens import TokenKey
from alcove.runtime.testing_seams import ManualClock
from pydantic import SecretStr

from tests.privacy.dap.party import SECRET, TIME, Parties, make_issuer, make_task, make_token_task

WINDOW_S = 86_400
LEADER_URL, HELPER_URL = "https://leader.example/dap", "https://helper.example"
TASK = make_task(cells=4)
TOKEN_TASK = make_token_task(cells=4)


def no_noise(_scale: Fraction, count: int) -> list[int]:
    """Draw zeros, so that sums can be compared."""
    return [0] * count


def make_configs(parties: Parties, **changes: object) -> tuple[AggregatorConfig, AggregatorConfig]:
    """Return the configurations of both seats; `changes` are in both."""
    public = base64.b64encode(hpke.derive_public_key(parties.collector_key)).decode()
    common = {
        "leader_url": LEADER_URL,
        "helper_url": HELPER_URL,
        "verify_secret": SecretStr(base64.b64encode(SECRET).decode()),
        "leader_token": SecretStr("leader" * 8),
        "collector": CollectorKey(config_id=9, public_key=public),
    } | changes
    leader = AggregatorConfig(seat=Seat.LEADER, collector_token=SecretStr("collector" * 8), **common)  # type: ignore[arg-type]
    return leader, AggregatorConfig(seat=Seat.HELPER, **common)  # type: ignore[arg-type]


def make_ring(private_key: bytes, config_id: int = 1) -> KeyRing:
    """Return a ring of one key."""
    config = make_config(config_id, hpke.derive_public_key(private_key))
    return KeyRing(HpkeConfigList((config,)), {config_id: private_key})


class DirectHelper:
    """The helper without a network between: each request may be stopped, before or after it is answered.

    Args:
        released: gets what leaves the helper of a batch; None: nobody asks.

    Attributes:
        fault: called with "before" or "after" and the resource's name; what it raises is what the leader sees.
        requests: what the leader sent, in order.
    """

    def __init__(self, helper: Helper, book: TaskBook, clock: ManualClock, released: set[bytes] | None = None) -> None:
        self._helper = helper
        self._book = book
        self._clock = clock
        self._released: set[bytes] = set() if released is None else released
        self.fault: Callable[[str, str], None] = lambda _when, _resource: None
        self.requests: list[bytes] = []

    async def aggregate(self, task: DapTask, request: bytes) -> bytes:
        """Answer an aggregation job."""
        return await self._ask(task, request, "job", self._helper.aggregate)

    async def release(self, task: DapTask, request: bytes) -> bytes:
        """Answer a request for a batch."""
        return await self._ask(task, request, "share", self._helper.release)

    async def _ask(
        self,
        task: DapTask,
        request: bytes,
        resource: str,
        answer: Callable[[OpenTask, bytes], Awaitable[tuple[bytes, bytes]]],
    ) -> bytes:
        self.requests.append(request)
        self.fault("before", resource)
        opened = await self._book.announce(task.task_id, task.encoded, self._clock.now_s())
        _, response = await answer(opened, request)
        if resource == "share":
            self._released.add(response)
        self.fault("after", resource)
        return response


class DirectIssuer:
    """The issuer of `make_issuer()` without a network between.

    Attributes:
        keys: by time; the others have its one key.
        asked: times that were asked for.
        problem: raised in the place of an answer.
    """

    def __init__(self) -> None:
        self.keys: dict[int, TokenKey | None] = {}
        self.asked: list[int] = []
        self.problem: Exception | None = None

    async def fetch_key(self, _task: DapTask, time: int) -> TokenKey | None:
        """Return the key."""
        self.asked.append(time)
        if self.problem is not None:
            raise self.problem
        return self.keys.get(time, make_issuer().key)


def be_away(_when: str, _resource: str) -> None:
    """Fail as a helper that is away does."""
    raise PeerUnavailableError(HELPER_URL, "away")


@dataclass
class Seats:
    """What the two aggregators are made of; `restart` makes all that is not a row anew.

    Attributes:
        released_by_helper: what left the helper of batches, under seals that differ each time.
        released_by_leader: what left the leader for the collector, with the same.
    """

    parties: Parties
    leader_database: AggregatorDatabase
    helper_database: AggregatorDatabase
    clock: ManualClock
    helper_clock: ManualClock
    noise: NoiseSource = no_noise
    task: DapTask = TASK
    issuer: DirectIssuer = field(default_factory=DirectIssuer)
    released_by_helper: set[bytes] = field(default_factory=set)
    released_by_leader: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything that is kept in memory alone, as a process does that is killed."""
        self.leader_config, self.helper_config = make_configs(self.parties, token_issuer=self.task.info.token_issuer)
        self.keys = make_ring(self.parties.leader_key)
        self.helper_keys = make_ring(self.parties.helper_key)
        self.gateway_keys = make_ring(hashlib.sha256(b"leader's gateway").digest(), 3)
        self.helper_gateway_keys = make_ring(hashlib.sha256(b"helper's gateway").digest(), 4)
        self.book = TaskBook(self.leader_database, self.leader_config)
        helper_book = TaskBook(self.helper_database, self.helper_config)
        self.token_keys = TokenKeys(self.leader_database, self.issuer, self.clock)
        self.helper_token_keys = TokenKeys(self.helper_database, self.issuer, self.helper_clock)
        self.helper = Helper(
            self.helper_database,
            self.helper_config,
            lambda: self.helper_keys,
            self.helper_token_keys,
            self.helper_clock,
            noise=self.noise,
        )
        self.port = DirectHelper(self.helper, helper_book, self.helper_clock, self.released_by_helper)
        self.uploads = Uploads(self.leader_database, lambda: self.keys, self.token_keys, self.clock)
        port: HelperPort = self.port
        self.aggregation = Aggregation(self.leader_database, self.book, lambda: self.keys, port, clock=self.clock)
        self.collection = Collection(
            self.leader_database, self.leader_config, self.book, port, clock=self.clock, noise=self.noise
        )

    async def announce(self, task: DapTask | None = None) -> OpenTask:
        """Let the leader take part in a task, `self.task` unless another is given."""
        task = task or self.task
        return await self.book.announce(task.task_id, task.encoded, self.clock.now_s())

    def report(self, cell: int, name: str, time: int = TIME) -> Report:
        """Return a device's report."""
        return self.parties.report(self.task, cell, name, time)

    async def upload(self, *reports: Report) -> tuple[ReportUploadStatus, ...]:
        """Upload reports in one request."""
        opened = await self.book.find(self.task.task_id)
        return await self.uploads.take(opened, UploadRequest(reports).to_bytes())

    async def upload_counts(self, counts: tuple[int, ...], time: int = TIME, name: str = "") -> None:
        """Upload as many reports of each cell as `counts` says."""
        reports = [
            self.report(cell, f"{name} {time} {cell} {index}", time)
            for cell, count in enumerate(counts)
            for index in range(count)
        ]
        assert await self.upload(*reports) == ()

    async def aggregate(self) -> None:
        """Run the leader's aggregation jobs until there is nothing to do now."""
        while await self.aggregation.run_job():
            pass

    async def collect(self, start: int = TIME, duration: int = 1) -> Release | DapProblem | None:
        """Ask for a batch, let the leader work, and return what the collector learns; None: it is under way."""
        request = make_request(start, duration)
        opened = await self.book.find(self.task.task_id)
        job_id = await self.collection.create(opened, request.to_bytes())
        for _ in range(5):
            await self.aggregate()
            await self.collection.run_job()
            self.clock.time_s += 1
        state = await self.collection.find(self.task.task_id, job_id)
        assert state is not None
        if state.response is None:
            return state.problem
        self.released_by_leader.add(state.response)
        response = CollectionJobResp.from_bytes(state.response)
        return open_release(self.task, self.parties.collector_key, request, response)


def make_request(start: int = TIME, duration: int = 1) -> CollectionJobReq:
    """Return a collector's request."""
    return CollectionJobReq(Query(BatchMode.TIME_INTERVAL, Interval(start, duration).to_bytes()), b"", ())


async def open_seats(leader: Path | str, helper: Path | str, task: DapTask = TASK) -> Seats:
    """Return both aggregators over fresh databases, at noon of the first window."""
    now_s = TIME * WINDOW_S + WINDOW_S // 2
    seats = Seats(
        Parties(),
        await AggregatorDatabase.open(leader),
        await AggregatorDatabase.open(helper),
        ManualClock(now_s),
        ManualClock(now_s),
        task=task,
    )
    await seats.announce()
    return seats
