"""Attack: a leader that sends the helper whatever jobs and requests it likes, to count a report twice or see one alone.

It reads every message between the parties, knows the verification keys and its own shares, and may work with the
collector and with devices of its own making.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest
from alcove.platform.aggregator.problems import DapProblem
from alcove.platform.aggregator.store.tables import AggregateShareRow
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    AggregateShare,
    AggregateShareAad,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    BatchSelector,
    CollectionJobReq,
    Interval,
    Report,
    ReportError,
    Role,
    VerifyInit,
)
from alcove.privacy.dap.task import VERSION, DapTask
from sqlalchemy import func, select

from tests.platform.aggregator.pair import TASK, TOKEN_TASK, Seats, be_away, make_request, open_seats
from tests.privacy.dap.party import TIME

FAKES = (99, 0, 0, 0)
NOISE = (5, -3, 0, 17)


class Leader:
    """What a malicious leader has in its hands.

    Args:
        seats: its helper, and its own honest half, which makes requests to be changed.
    """

    def __init__(self, seats: Seats) -> None:
        self.seats = seats
        self.drawn: list[tuple[Fraction, int]] = []
        seats.noise = self._draw
        seats.restart()

    def _draw(self, scale: Fraction, count: int) -> list[int]:
        self.drawn.append((scale, count))
        return list(NOISE)

    async def open(self) -> OpenTask:
        """Return the task, which the helper takes part in."""
        task = self.seats.task
        return await TaskBook(self.seats.helper_database, self.seats.helper_config).announce(
            task.task_id, task.encoded, 0
        )

    async def make_inits(self, name: str, counts: tuple[int, ...] = FAKES, time: int = TIME) -> tuple[VerifyInit, ...]:
        """Return reports as an honest leader would send them."""
        self.seats.port.fault = be_away
        before = len(self.seats.port.requests)
        await self.seats.upload_counts(counts, time, name)
        await self.seats.aggregate()
        (body,) = set(self.seats.port.requests[before:])
        return AggregationJobInitReq.from_bytes(body).verify_inits

    async def send(self, *inits: VerifyInit) -> list[ReportError | None]:
        """Send a job, and return the error of each report; None: it was added."""
        request = AggregationJobInitReq(0, b"", (), inits)
        _, answer = await self.seats.helper.aggregate(await self.open(), request.to_bytes())
        return [each.error for each in AggregationJobResp.from_bytes(answer).verify_resps]

    async def ask(
        self, count: int, checksum: bytes, start: int = TIME, duration: int = 1, query: CollectionJobReq | None = None
    ) -> bytes:
        """Ask for the helper's share of a batch."""
        selector = BatchSelector(BatchMode.TIME_INTERVAL, Interval(start, duration).to_bytes())
        request = AggregateShareReq(query or make_request(start, duration), selector, count, checksum)
        _, answer = await self.seats.helper.release(await self.open(), request.to_bytes())
        return answer

    def open_share(self, answer: bytes, request: CollectionJobReq) -> list[int]:
        """Return the helper's share, as the collector that works with this leader opens it."""
        task = self.seats.task
        sealed = AggregateShare.from_bytes(answer).encrypted_aggregate_share
        aad = AggregateShareAad(task.task_id, task.configuration, request).to_bytes()
        info = VERSION + b" aggregate share" + bytes([Role.HELPER, Role.COLLECTOR])
        key = self.seats.parties.collector_key
        share = hpke.open_sealed(key, sealed.encapsulated_key, info, aad, sealed.payload)
        return task.circuit.field.decode(share, task.circuit.output_length)

    def sum_own(self, reports: Iterable[Report]) -> list[int]:
        """Return the sum of the leader's shares of reports."""
        task = self.seats.task
        length = task.circuit.output_length
        size = length * task.circuit.field.encoded_size
        total = [0] * length
        for report in reports:
            opened = self.seats.parties.open(task, Role.LEADER, report)
            total = task.circuit.field.add(total, task.circuit.field.decode(opened.input_share[:size], length))
        return total

    async def count_releases(self) -> int:
        """Return how many shares the helper has released."""
        async with self.seats.helper_database.read() as session:
            return int(await session.scalar(select(func.count()).select_from(AggregateShareRow)) or 0)


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    """A leader with a fresh helper."""
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db")
    yield Leader(seats)
    await seats.leader_database.close()
    await seats.helper_database.close()


def compute_checksum(inits: tuple[VerifyInit, ...]) -> bytes:
    """Return the checksum of reports, as the draft has it."""
    total = 0
    for init in inits:
        total ^= int.from_bytes(sha256(init.report_share.metadata.report_id).digest(), "big")
    return total.to_bytes(32, "big")


async def test_report_is_added_once_however_jobs_are_cut(leader: Leader) -> None:
    """Alone, in another order, with others, in a job of all: after the first time it is a replay."""
    inits = await leader.make_inits("a", (5, 0, 0, 0))
    assert await leader.send(inits[0]) == [None]
    assert await leader.send(*inits) == [ReportError.REPORT_REPLAYED, None, None, None, None]
    assert await leader.send(*reversed(inits)) == [ReportError.REPORT_REPLAYED] * 5
    for each in inits[1:]:
        assert await leader.send(each) == [ReportError.REPORT_REPLAYED]
    with pytest.raises(DapProblem, match="invalidMessage"):
        await leader.send(inits[0], inits[0])
    assert leader.seats.helper.added == 5


async def test_report_is_of_its_time_task_and_id_alone(leader: Leader) -> None:
    """Moved to another window to be seen beside others, given a new id, or cut out of its public share."""
    (init, *_) = await leader.make_inits("a", (2, 0, 0, 0))
    share = init.report_share
    for metadata in (
        replace(share.metadata, time=TIME - 1),
        replace(share.metadata, report_id=bytes(16)),
        replace(share.metadata, time=0),
    ):
        assert await leader.send(replace(init, report_share=replace(share, metadata=metadata))) == [
            ReportError.HPKE_DECRYPT_ERROR
        ]
    public_share = share.public_share[:32] + bytes(32)
    assert await leader.send(replace(init, report_share=replace(share, public_share=public_share))) == [
        ReportError.HPKE_DECRYPT_ERROR
    ]
    assert leader.seats.helper.added == 0


@pytest.mark.parametrize("task", [TASK, TOKEN_TASK], ids=["no tokens", "tokens"])
async def test_times_that_no_row_can_hold_are_answered_by_type(tmp_path: Path, task: DapTask) -> None:
    """The largest numbers of the wire, with tokens and without."""
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", task=task)
    try:
        leader = Leader(seats)
        (init, other) = await leader.make_inits("a", (2, 0, 0, 0))
        share = init.report_share
        for time in ((1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            moved = replace(init, report_share=replace(share, metadata=replace(share.metadata, time=time)))
            assert await leader.send(moved) == [ReportError.REPORT_TOO_EARLY]
        moved = replace(init, report_share=replace(share, metadata=replace(share.metadata, time=1 << 63)))
        assert await leader.send(moved, other) == [ReportError.REPORT_TOO_EARLY, None]
    finally:
        await seats.leader_database.close()
        await seats.helper_database.close()


async def test_batch_is_released_once_whatever_is_asked_before_and_after(leader: Leader) -> None:
    """Other counts, checksums and intervals before and after get nothing; the same bytes get the same, noised once."""
    inits = await leader.make_inits("a")
    later = await leader.make_inits("b", (60, 60, 0, 0), TIME - 1)
    assert {*await leader.send(*inits), *await leader.send(*later)} == {None}
    checksum, both = compute_checksum(inits), compute_checksum((*inits, *later))
    wrong = [(99, checksum), (100, checksum), (219, checksum), (218, both), (0, bytes(32)), ((1 << 64) - 1, both)]
    for count, each in wrong:
        for start, duration in ((TIME, 1), (TIME - 1, 2), (0, TIME + 5)):
            with pytest.raises(DapProblem, match=r"invalidBatchSize|batchMismatch"):
                await leader.ask(count, each, start, duration)
    with pytest.raises(DapProblem, match="batchInvalid"):
        await leader.ask(219, both, TIME - 1, 2, make_request(TIME, 1))
    assert await leader.count_releases() == 0
    released = await leader.ask(219, both, TIME - 1, 2)
    assert await leader.ask(219, both, TIME - 1, 2) == released
    for start, duration in ((TIME, 1), (TIME - 1, 1), (TIME - 2, 4), (TIME - 1, 3), (0, 1 << 61)):
        for count, each in (*wrong, (219, both), (120, compute_checksum(later))):
            with pytest.raises(DapProblem, match="batchOverlap"):
                await leader.ask(count, each, start, duration)
    for count, each in wrong:
        with pytest.raises(DapProblem, match="batchOverlap"):
            await leader.ask(count, each, TIME - 1, 2)
    assert await leader.count_releases() == 1
    assert set(await leader.send(*await leader.make_inits("c", (9, 0, 0, 0)))) == {ReportError.BATCH_COLLECTED}


async def test_victim_among_reports_of_the_leaders_own_has_the_helpers_noise(leader: Leader) -> None:
    """99 fakes and one device: the smallest batch hides nothing, for the leader knows the fakes; the noise does.

    With the collector's key and the leader's own sum, what is left is the victim's cell and the helper's noise of the
    whole scale, drawn for this batch alone.
    """
    fakes = await leader.make_inits("fake")
    (victim,) = await leader.make_inits("victim", (0, 0, 1, 0))
    assert set(await leader.send(*fakes, victim)) == {None}
    answer = await leader.ask(100, compute_checksum((*fakes, victim)))
    share = leader.open_share(answer, make_request())
    field = leader.seats.task.circuit.field
    names = [*((0, f"fake {TIME} 0 {index}") for index in range(99)), (2, f"victim {TIME} 2 0")]
    own = leader.sum_own(leader.seats.report(cell, name) for cell, name in names)
    left = [(each - fake) % field.modulus for each, fake in zip(field.add(own, share), FAKES, strict=True)]
    assert left == [(noise + (cell == 2)) % field.modulus for cell, noise in enumerate(NOISE)]
    assert leader.drawn[-1] == (leader.seats.task.sensitivity / leader.seats.task.info.epsilon, len(NOISE))
