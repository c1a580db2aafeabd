"""Reports that wait are claimed by jobs of a bounded size, the oldest first, and none is in two jobs."""

import asyncio
from pathlib import Path

import pytest
from alcove.platform.aggregator import tasks, uploads
from alcove.platform.aggregator.packets import claim_packets, count_waiting, drop_packets, insert_packets, read_packets
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.domain.errors import StoreBusyError
from alcove.privacy.dap.messages import AggregationJobInitReq, UploadRequest, split_reports
from alcove.privacy.dap.release import Release

from tests.platform.aggregator.pair import TASK, Seats
from tests.privacy.dap.party import TIME, make_task

COUNTS = (40, 0, 61, 3)
ID = TASK.task_id


async def test_packets_are_claimed_oldest_first_up_to_the_size_of_a_job(seats: Seats) -> None:
    """Seven reports of two times in packets of three; a job of five takes whole packets, and one at least."""
    reports = [(TIME - number % 2, seats.report(0, str(number), TIME - number % 2).to_bytes()) for number in range(7)]
    async with seats.leader_database.write() as session:
        await run_in(session, insert_packets, ID, reports, most=3)
        assert await run_in(session, count_waiting, ID, TIME - 1, TIME) == 3
        assert await run_in(session, count_waiting, ID, TIME, TIME + 1) == 4
        claims = [await run_in(session, claim_packets, ID, job, most=most, now_s=0) for job, most in enumerate((2, 5))]
        assert [(claim.reports, claim.has_more) for claim in claims] == [(3, True), (4, False)]
        assert (await run_in(session, claim_packets, ID, 3, most=9, now_s=0)).reports == 0
        held = [
            [report for packet in await run_in(session, read_packets, job) for report in split_reports(packet)]
            for job in (0, 1)
        ]
        assert {report.metadata.time for report, _ in held[0]} == {TIME - 1}
        assert sorted(encoded for part in held for _, encoded in part) == sorted(encoded for _, encoded in reports)
        await run_in(session, drop_packets, 0)
        assert await run_in(session, count_waiting, ID, 0, TIME + 1) == 4


async def test_packet_that_must_wait_is_claimed_when_its_time_has_come(files: Seats) -> None:
    """A report that was too early for the helper waits a minute; the other of its job is added."""
    early, other = files.report(1, "early", TIME), files.report(2, "other", TIME - 1)
    files.helper_clock.time_s -= 86_400
    assert await files.upload(early, other) == ()
    await files.aggregate()
    assert (files.aggregation.added, len(files.port.requests)) == (1, 1)
    files.helper_clock.time_s += 86_400
    await files.aggregate()
    assert files.aggregation.added == 1
    files.clock.time_s += 60
    await files.aggregate()
    assert files.aggregation.added == 2
    again = AggregationJobInitReq.from_bytes(files.port.requests[-1]).verify_inits
    assert [init.report_share.metadata.report_id for init in again] == [early.metadata.report_id]


async def test_jobs_of_long_sums_have_fewer_reports_and_longer_ones_are_refused(
    files: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both aggregators bound what a job takes of their memory, whatever the other one does."""
    opened = await files.book.find(ID)
    assert opened.job_reports == 512
    longest = tasks.OpenTask(make_task(cells=65_536), opened.verifier)
    assert longest.job_reports == 32
    monkeypatch.setattr(tasks, "JOB_ELEMENTS", 10 * TASK.circuit.output_length)
    await files.upload_counts(COUNTS)
    assert await files.collect() == Release(104, TIME, 1, COUNTS)
    sizes = [len(AggregationJobInitReq.from_bytes(job).verify_inits) for job in files.port.requests[:-1]]
    assert sizes == [10] * 10 + [4]
    monkeypatch.setattr(tasks, "JOB_ELEMENTS", 4 * TASK.circuit.output_length)
    with pytest.raises(DapProblem, match="at most 8 reports of 4 elements, not 10") as refused:
        await files.helper.aggregate(opened, files.port.requests[0])
    assert refused.value.kind is ProblemType.INVALID_MESSAGE


async def test_uploads_that_wait_are_bounded_in_bytes(files: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes when too many bytes wait is asked to come again; an upload alone is stored, however long."""
    size = len(files.report(0, "first").to_bytes())
    monkeypatch.setattr(uploads, "WAITING_BYTES", size)
    monkeypatch.setattr(uploads, "BYTES_AT_ONCE", size)
    opened = await files.book.find(ID)
    bodies = [UploadRequest((files.report(0, f"{number}"),)).to_bytes() for number in range(4)]
    answers = await asyncio.gather(*(files.uploads.take(opened, body) for body in bodies), return_exceptions=True)
    assert [type(answer) for answer in answers] == [tuple, StoreBusyError, StoreBusyError, StoreBusyError]
    two = UploadRequest((files.report(0, "a"), files.report(0, "b"))).to_bytes()
    assert await files.uploads.take(opened, two) == ()


async def test_writers_of_one_file_queue_and_another_process_is_waited_for(tmp_path: Path) -> None:
    """Two databases of one file, as two processes have them: each of twenty writers adds what it read."""
    first = await AggregatorDatabase.open(tmp_path / "aggregator.db")
    second = await AggregatorDatabase.open(tmp_path / "aggregator.db")

    async def add(database: AggregatorDatabase, number: int) -> None:
        async with database.write() as session:
            found = await run_in(session, count_waiting, ID, 0, 1)
            await asyncio.sleep(0)
            await run_in(session, insert_packets, ID, [(0, b"")] * (found + 1 if number else 1), most=10**6)

    try:
        await asyncio.gather(*(add(database, number) for number in range(1, 6) for database in (first, second)))
        async with first.read() as session:
            assert await run_in(session, count_waiting, ID, 0, 1) == 2**10 - 1
    finally:
        await first.close()
        await second.close()
