"""Two aggregators release what devices sent, once and for all of it, whatever fails between and whoever asks twice."""

import asyncio
import traceback
from dataclasses import replace

import pytest
from alcove.platform.aggregator.aggregation import Aggregation
from alcove.platform.aggregator.batches import sum_batch
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.leases import end_leases
from alcove.platform.aggregator.packets import count_waiting
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.aggregator.store.tables import (
    AggregationJobRow,
    AnsweredJobRow,
    Base,
    BucketRow,
    CollectionJobRow,
    PacketReportsRow,
    PacketRow,
    ReportIdRow,
    TaskRow,
)
from alcove.platform.aggregator.tasks import TaskBook
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.messages import (
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    BatchSelector,
    Extension,
    Interval,
    ReportError,
)
from alcove.privacy.dap.release import Release
from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from tests.platform.aggregator.pair import HELPER_URL, TASK, WINDOW_S, Seats, be_away, make_configs, make_request
from tests.privacy.dap.party import TIME, make_task

COUNTS = (40, 0, 61, 3)


async def _rows(seats: Seats, table: type[Base], *, at_helper: bool = False) -> int:
    database = seats.helper_database if at_helper else seats.leader_database
    async with database.read() as session:
        return int((await session.scalar(select(func.count()).select_from(table))) or 0)


async def _waiting(seats: Seats) -> int:
    """Return how many reports wait at the leader, or are in its jobs."""
    async with seats.leader_database.read() as session:
        return await run_in(session, count_waiting, seats.task.task_id, 0, TIME + 2)


async def test_batch_is_released_with_the_counts_of_all_reports(seats: Seats) -> None:
    """Uploaded over two windows, collected over both; nothing of a report is left at either aggregator."""
    await seats.upload_counts(COUNTS)
    await seats.upload_counts((1, 2, 3, 4), TIME - 3)
    found = await seats.collect(TIME - 5, 6)
    assert found == Release(114, TIME - 3, 4, (41, 2, 64, 7))
    assert (seats.aggregation.added, seats.helper.added, seats.collection.released) == (114, 114, 1)
    for table in (PacketRow, PacketReportsRow, AggregationJobRow, BucketRow, ReportIdRow, AnsweredJobRow):
        assert await _rows(seats, table) == await _rows(seats, table, at_helper=True) == 0


async def test_each_aggregator_adds_its_own_noise_once(files: Seats) -> None:
    """Both shares are noised, with the scale of the task; who asks again gets the same release."""
    scales = []

    def draw(scale: object, count: int) -> list[int]:
        scales.append(scale)
        return [len(scales) * 1000] * count

    files.noise = draw
    files.restart()
    await files.upload_counts(COUNTS)
    first = await files.collect()
    assert first == Release(104, TIME, 1, (3040, 3000, 3061, 3003))
    assert scales == [TASK.noise_scale] * 2
    assert await files.collect() == first
    assert len(scales) == 2


async def test_small_batch_is_not_released_until_there_are_enough(seats: Seats) -> None:
    """The collector is told that some are missing and not how many; it may ask again, and gets all once there are."""
    await seats.upload_counts((40, 0, 59, 0))
    refused = await seats.collect()
    assert isinstance(refused, DapProblem)
    assert (refused.kind, refused.detail) == (ProblemType.INVALID_BATCH_SIZE, "fewer than 100 reports")
    await seats.upload_counts((0, 1, 0, 0), name="late")
    found = await seats.collect()
    assert isinstance(found, Release)
    assert found.sums == (40, 1, 59, 0)


async def test_collected_window_takes_no_report_and_is_not_released_again(seats: Seats) -> None:
    """Late reports are refused at upload, an overlapping batch at the leader, and by the helper alone as well."""
    await seats.upload_counts(COUNTS)
    assert isinstance(await seats.collect(), Release)
    (status,) = await seats.upload(seats.report(0, "late"))
    assert status.error is ReportError.REPORT_REPLAYED
    with pytest.raises(DapProblem, match="batchOverlap"):
        await seats.collect(TIME - 1, 2)
    await seats.leader_database.close()
    again = await _reopen(seats)
    await again.upload_counts(COUNTS, name="other")
    await again.aggregate()  # a leader that has forgotten everything
    refused = await again.collect()
    assert isinstance(refused, DapProblem)
    assert refused.kind is ProblemType.INVALID_BATCH_SIZE
    assert again.aggregation.rejected == {"batch_collected": 104}


async def _reopen(seats: Seats) -> Seats:
    """Return the seats with a leader whose database is a new one."""
    where = seats.leader_database.where
    if not seats.leader_database.is_shared:
        fresh = await AggregatorDatabase.open(f"{where}.new")
    else:
        fresh = seats.leader_database
        async with fresh.write() as session:
            await session.execute(delete(CollectionJobRow))
    seats.leader_database = fresh
    seats.restart()
    await seats.announce()
    return seats


async def test_job_that_the_collector_deleted_is_gone_and_its_window_stays_collected(files: Seats) -> None:
    """It is not under way for ever: there is no such job, however often the same is asked; an overlap is refused."""
    await files.upload_counts(COUNTS)
    assert isinstance(await files.collect(), Release)
    opened = await files.book.find(TASK.task_id)
    job_id = await files.collection.create(opened, make_request().to_bytes())
    await files.collection.forget(TASK.task_id, job_id)
    assert await files.collection.find(TASK.task_id, job_id) is None
    assert await files.collection.create(opened, make_request().to_bytes()) == job_id
    assert not await files.collection.run_job()
    assert await files.collection.find(TASK.task_id, job_id) is None
    with pytest.raises(DapProblem, match="batchOverlap"):
        await files.collection.create(opened, make_request(TIME, 2).to_bytes())


async def test_helper_refuses_a_batch_that_is_too_small_whatever_the_leader_says(files: Seats) -> None:
    """The helper counts for itself."""
    await files.upload_counts((99, 0, 0, 0))
    await files.aggregate()
    small = make_task(cells=4, min_batch_size=100)
    opened = await files.book.find(small.task_id)
    async with files.leader_database.read() as session:
        batch = await run_in(session, sum_batch, opened.verifier, TASK.task_id, TIME, TIME + 1)
    selector = BatchSelector(BatchMode.TIME_INTERVAL, Interval(TIME, 1).to_bytes())
    for count in (99, 100):
        request = AggregateShareReq(make_request(), selector, count, batch.checksum)
        with pytest.raises(DapProblem, match="invalidBatchSize"):
            await files.helper.release(opened, request.to_bytes())


async def test_report_uploaded_twice_counts_once(seats: Seats) -> None:
    """The same bytes are acknowledged again, before and after they were added: the device may have lost the answer."""
    await seats.upload_counts(COUNTS)
    report = seats.report(1, "twice")
    assert await seats.upload(report, report) == ()
    assert await seats.upload(report) == ()
    await seats.aggregate()
    assert await seats.upload(report) == ()
    found = await seats.collect()
    assert isinstance(found, Release)
    assert found.sums == (40, 1, 61, 3)


async def test_helper_that_answers_late_or_never_loses_nothing(seats: Seats) -> None:
    """Away before and after it has added the reports, then there: all counts once, and requests never change."""
    await seats.upload_counts(COUNTS)
    faults = iter(["before", "after"] * 2)
    left = next(faults, None)

    def fail(when: str, _resource: str) -> None:
        nonlocal left
        if when == left:
            left = next(faults, None)
            raise PeerUnavailableError(HELPER_URL, "away")

    seats.port.fault = fail
    for _ in range(6):
        await seats.aggregate()
        seats.clock.time_s += 600
    found = await seats.collect()
    assert found == Release(104, TIME, 1, COUNTS)
    assert len(set(seats.port.requests)) == 2  # one job, one batch


async def test_reports_are_taken_while_the_helper_is_away(files: Seats) -> None:
    """For an hour; afterwards all of them are added."""
    files.port.fault = be_away
    for minute in range(0, 60, 20):
        await files.upload_counts((20, 20, 20, 0), name=str(minute))
        await files.aggregate()
        files.clock.time_s += 1200
    assert files.aggregation.is_helper_away
    assert await files.collect() is None
    files.port.fault = lambda _when, _resource: None
    files.clock.time_s += 600
    found = await files.collect()
    assert isinstance(found, Release)
    assert found.sums == (60, 60, 60, 0)
    assert not files.aggregation.is_helper_away


async def test_job_of_a_killed_leader_is_taken_up_at_the_next_start(seats: Seats) -> None:
    """Its lease would last two minutes more; the one process of a database does not wait for itself."""
    await seats.upload_counts(COUNTS)

    def be_killed(_when: str, _resource: str) -> None:
        raise KeyboardInterrupt

    seats.port.fault = be_killed
    with pytest.raises(KeyboardInterrupt):
        await seats.aggregate()
    seats.restart()
    await seats.aggregate()
    assert seats.aggregation.added == 0
    await end_leases(seats.leader_database)
    await seats.aggregate()
    assert seats.aggregation.added == sum(COUNTS)
    assert await seats.collect() == Release(104, TIME, 1, COUNTS)


async def test_report_that_is_too_early_for_the_helper_waits(files: Seats) -> None:
    """A helper whose clock is a day behind rejects today's reports; they are added when its day has come."""
    files.helper_clock.time_s -= WINDOW_S
    await files.upload_counts(COUNTS)
    await files.aggregate()
    assert (files.aggregation.added, await _waiting(files)) == (0, 104)
    files.helper_clock.time_s += WINDOW_S
    files.clock.time_s += 120
    found = await files.collect()
    assert isinstance(found, Release)
    assert found.sums == COUNTS


async def test_forged_and_damaged_reports_are_left_out_and_the_others_count(seats: Seats) -> None:
    """Shares that were changed, sealed for another key, or sealed to prove nothing."""
    await seats.upload_counts(COUNTS)
    good = seats.report(0, "good")
    changed = [
        replace(
            seats.report(0, f"leader {at}"),
            leader_input_share=replace(good.leader_input_share, payload=good.leader_input_share.payload),
        )
        for at in range(3)
    ]
    swapped = [replace(seats.report(0, f"helper {at}"), helper_input_share=good.helper_input_share) for at in range(2)]
    assert await seats.upload(*changed, *swapped) == ()
    found = await seats.collect()
    assert found == Release(104, TIME, 1, COUNTS)
    assert seats.aggregation.rejected == {"hpke_decrypt_error": 5}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"time": TIME + 2}, ReportError.REPORT_TOO_EARLY),
        ({"public_extensions": (Extension(7, b""),)}, ReportError.INVALID_MESSAGE),
    ],
)
async def test_upload_refuses_by_metadata(files: Seats, change: dict[str, object], error: ReportError) -> None:
    """Each with the reason that the draft has for it; the sound report beside it is taken."""
    report = files.report(0, "x")
    wrong = replace(report, metadata=replace(report.metadata, report_id=bytes(16), **change))  # type: ignore[arg-type]
    (status,) = await files.upload(wrong, report)
    assert (status.report_id, status.error) == (bytes(16), error)
    assert await _waiting(files) == 1


async def test_report_sealed_to_a_key_that_is_gone_is_refused_at_upload(files: Seats) -> None:
    """The device is told that its list of keys is old."""
    report = files.report(0, "old")
    old = replace(report, leader_input_share=replace(report.leader_input_share, config_id=2))
    (status,) = await files.upload(old)
    assert status.error is ReportError.OUTDATED_CONFIG


async def test_shares_of_wrong_sizes_are_refused_at_upload(files: Seats) -> None:
    """What could not be a share is not stored."""
    report = files.report(0, "x")
    sealed = report.leader_input_share
    for wrong in (
        replace(report, public_share=b""),
        replace(report, leader_input_share=replace(sealed, encapsulated_key=b"x")),
        replace(report, leader_input_share=replace(sealed, payload=bytes(100_000))),
        replace(report, helper_input_share=replace(sealed, payload=bytes(100_000))),
    ):
        (status,) = await files.upload(wrong)
        assert status.error is ReportError.INVALID_MESSAGE
    assert await _waiting(files) == 0


async def test_job_asked_twice_is_answered_with_the_same_bytes_and_added_once(seats: Seats) -> None:
    """At the same time, and later."""
    await seats.upload_counts(COUNTS)
    seats.port.fault = be_away
    await seats.aggregate()
    (request,) = seats.port.requests
    opened = await seats.book.find(TASK.task_id)
    async with seats.helper_database.write() as session:
        session.add(TaskRow(task_id=TASK.task_id, configuration=TASK.encoded, created_at_s=0))
    answers = await asyncio.gather(*(seats.helper.aggregate(opened, request) for _ in range(4)))
    assert len(set(answers)) == 1
    assert seats.helper.added == 104
    assert await _rows(seats, AnsweredJobRow, at_helper=True) == 1
    assert await _rows(seats, ReportIdRow, at_helper=True) == 104


async def test_leader_that_sends_a_report_in_two_jobs_gets_it_rejected(files: Seats) -> None:
    """The helper adds a report once, whoever asks."""
    await files.upload_counts((3, 0, 0, 0))
    await files.aggregate()
    (body,) = files.port.requests
    request = AggregationJobInitReq.from_bytes(body)
    fewer = replace(request, verify_inits=request.verify_inits[1:])
    opened = await files.book.find(TASK.task_id)
    _, answer = await files.helper.aggregate(opened, fewer.to_bytes())
    assert [each.error for each in AggregationJobResp.from_bytes(answer).verify_resps] == [
        ReportError.REPORT_REPLAYED
    ] * 2
    double = replace(request, verify_inits=(*request.verify_inits, request.verify_inits[0]))
    for wrong, kind in (
        (double, "invalidMessage"),
        (replace(request, agg_param=b"x"), "invalidAggregationParameter"),
        (replace(request, extensions=(Extension(1, b""),)), "unsupportedExtension"),
        (replace(request, verification_key_id=1), "invalidMessage"),
    ):
        with pytest.raises(DapProblem, match=kind):
            await files.helper.aggregate(opened, wrong.to_bytes())
    with pytest.raises(DapProblem, match="invalidMessage"):
        await files.helper.aggregate(opened, body[:-1])


async def test_rules_that_were_made_stricter_hold_for_tasks_that_are_there(files: Seats) -> None:
    """After a restart both seats refuse such a task, whoever asks and however; other tasks' batches are not held up."""
    other = make_task(cells=4, min_batch_size=200)
    await files.announce(other)
    await files.upload_counts(COUNTS)
    await files.aggregate()
    await files.upload_counts((1, 0, 0, 0), name="waits")
    asked = []
    for task in (TASK, other):
        opened = await files.book.find(task.task_id)
        asked.append((task.task_id, await files.collection.create(opened, make_request().to_bytes())))
    stricter = make_configs(files.parties, min_batch_size=200)
    for database, config in zip((files.leader_database, files.helper_database), stricter, strict=True):
        with pytest.raises(DapProblem, match="invalidTask"):
            await TaskBook(database, config).find(TASK.task_id)
    book = TaskBook(files.leader_database, stricter[0])
    aggregation = Aggregation(files.leader_database, book, lambda: files.keys, files.port, clock=files.clock)
    assert await aggregation.run_job()
    assert not await aggregation.run_job()  # it waits, until the rules allow it again
    collection = Collection(files.leader_database, stricter[0], book, files.port, clock=files.clock)
    for _ in asked:
        assert await collection.run_job()
    problems = [await collection.find(task_id, job_id) for task_id, job_id in asked]
    assert [state and state.problem and state.problem.kind for state in problems] == [
        ProblemType.INVALID_TASK,
        ProblemType.INVALID_BATCH_SIZE,
    ]
    assert await files.collect() == Release(105, TIME, 1, (41, 0, 61, 3))  # by the old rules


async def test_error_of_the_database_says_nothing_of_what_was_written(seats: Seats) -> None:
    """What nobody expected goes to the log with its traceback: the statement, and no share or configuration in it."""
    with pytest.raises(IntegrityError) as caught:
        async with seats.leader_database.write() as session:
            session.add(TaskRow(task_id=TASK.task_id, configuration=b"a secret share", created_at_s=1))
    text = "".join(traceback.format_exception(caught.value))
    assert "INSERT INTO tasks" in text
    assert "a secret share" not in text
