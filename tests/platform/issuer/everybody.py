"""Plays devices, an issuer of tokens and both aggregators together, over databases of their own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.domain.errors import IssuanceRefusedError
from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.platform.store import Store
from alcove.privacy.dap.messages import Report
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.report_tokens import ReportToken, request_report_token
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.tokens import PendingToken, TokenKey, TokenResponse, finish_token
from alcove.privacy.tokens.enrollment import TokenOrder
from alcove.registry.policy import Aggregation, make_task
from alcove.registry.policy.dap import dap_time, make_dap_task
from alcove.runtime.testing_seams import ManualClock
from alcove.sdk.prio3_reports import make_window_report
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.platform.aggregator.pair import HELPER_URL, LEADER_URL, DirectIssuer, Seats
from tests.platform.issuer.test_issuer import TIME, URL, WINDOW_S, Desk, Device, FixedTasks
from tests.privacy.dap.party import Parties

POLICY_TASK = make_task(
    experiment_id="ex-1",
    epsilon="1",
    arm_count=2,
    latency_edges_ms=(),
    window_s=WINDOW_S,
    first_window_start_s=TIME * WINDOW_S,
    aggregation=Aggregation(leader_url=LEADER_URL, helper_url=HELPER_URL, min_batch_size=100, token_issuer=URL),
)
TASK = make_dap_task(POLICY_TASK)
assert dap_time(POLICY_TASK, 0) == TIME


class DeskPort(DirectIssuer):
    """The desk's issuer, as an aggregator reaches it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    async def fetch_key(self, task: DapTask, time: int) -> TokenKey | None:
        """Return the key."""
        try:
            return await self._desk.issuer.find_key(task.task_id, time)
        except IssuanceRefusedError:
            return None


@dataclass
class Everybody:
    """An issuer and both aggregators.

    Attributes:
        orders: all that the issuer was sent and answered, by installation.
        reports: all that the leader has.
    """

    desk: Desk
    seats: Seats
    orders: list[tuple[Device, TokenOrder, TokenResponse]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    async def get_token(
        self, device: Device, request: Callable[[TokenKey], tuple[PendingToken, bytes]] | None = None
    ) -> ReportToken:
        """Return a device's token of the window."""
        key = await self.desk.issuer.find_key(TASK.task_id, TIME)
        pending, secret = (request or request_honestly)(key)
        order = device.order(pending.request, task_id=TASK.task_id)
        answer = await self.desk.issuer.issue(TASK.task_id, TIME, order)
        self.orders.append((device, order, answer))
        return ReportToken(finish_token(pending, answer, key), secret)

    def report(self, cell: int, token: ReportToken | None) -> Report:
        """Return a report of the window."""
        recipients = self.seats.parties.recipients
        made = make_window_report(POLICY_TASK, TASK, 0, cell, recipients=recipients, entropy=OsEntropy(), token=token)
        self.reports.append(made)
        return made

    async def release(self) -> Release:
        """Return what the collector learns, a day later."""
        found = await self.seats.collect()
        assert isinstance(found, Release)
        return found


def request_honestly(key: TokenKey) -> tuple[PendingToken, bytes]:
    """Return what a device keeps of a new token."""
    return request_report_token(TASK, TIME, key, OsEntropy(), GmpArithmetic())


@asynccontextmanager
async def open_everybody(folder: Path) -> AsyncIterator[Everybody]:
    """Give all of them, at noon of the first window."""
    store = await Store.open(folder / "alcove.db")
    now_s = TIME * WINDOW_S + WINDOW_S // 2
    desk = Desk(store, ManualClock(now_s), Ed25519PrivateKey.generate(), FixedTasks(POLICY_TASK))
    leader, helper = [await AggregatorDatabase.open(folder / f"{seat}.db") for seat in ("leader", "helper")]
    seats = Seats(Parties(), leader, helper, ManualClock(now_s), ManualClock(now_s), task=TASK, issuer=DeskPort(desk))
    await seats.announce()
    yield Everybody(desk, seats)
    for database in (store, leader, helper):
        await database.close()
