"""Answers the leader: verifies the reports of aggregation jobs, and releases the helper's share of a batch once.

    job: request ─▶ opened and verified, in memory ─▶ one transaction: claim the id, add what is new, store the answer
    release: request ─▶ one transaction: batch summed, compared, noised, sealed, stored and forgotten

The same bytes asked again get the stored answer; nothing is computed again (A1, A3, A4 of `store.tables`).

Source: draft-ietf-ppm-dap-18, sections 4.5.3.2 and 4.6.4.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from alcove.platform.aggregator.batches import (
    VerifiedReport,
    add_reports,
    drop_batch,
    find_released,
    insert_report_ids,
    lock_task,
    spend_tokens,
    sum_batch,
)
from alcove.platform.aggregator.config import AggregatorConfig
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.noise import NoiseSource, draw_noise, replay
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.queries import MAX_TIME, check_collection, read_interval
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.aggregator.store.tables import AggregateShareRow, AnsweredJobRow, table_of
from alcove.platform.aggregator.tasks import OpenTask
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.store.dialects import insert
from alcove.privacy.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    ReportError,
    Role,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
)
from alcove.privacy.dap.release import add_noise, seal_aggregate_share
from alcove.privacy.dap.report_tokens import check_secret, check_token, read_nonce, refuse_spent
from alcove.privacy.dap.reports import check_time, open_input_share
from alcove.privacy.errors import DapMessageError, ReportRejectedError
from alcove.privacy.prio3 import Report
from alcove.privacy.tokens import TokenKey
from alcove.runtime.clock import Clock
from sqlalchemy import Connection, bindparam, delete, select, update

__all__ = ["Helper", "derive_resource_id"]

RESOURCE_ID_BYTES: Final = 16

JOBS_AT_MOST: Final = 2
"""Times the reports of our own leader's jobs that a job of another leader may have."""

_SHARES: Final = table_of(AggregateShareRow)
_JOBS: Final = table_of(AnsweredJobRow)
_STORED: Final = select(_SHARES.c.response).where(
    _SHARES.c.task_id == bindparam("of_task"), _SHARES.c.share_id == bindparam("of_share")
)
_OVERLAP: Final = select(_SHARES.c.share_id).where(
    _SHARES.c.task_id == bindparam("of_task"),
    _SHARES.c.start < bindparam("behind"),
    _SHARES.c.end > bindparam("first"),
)
_STORE: Final = _SHARES.insert()
_FORGET_JOBS: Final = delete(_JOBS).where(
    _JOBS.c.task_id == bindparam("of_task"),
    _JOBS.c.first_time >= bindparam("first"),
    _JOBS.c.last_time < bindparam("behind"),
)

_Outcome = tuple[VerifyInit, tuple[bytes, bytes] | ReportRejectedError]
"""A report's output share and the message for the leader, or why it is left out."""

_Answer = tuple[VerifyInit, bytes | ReportRejectedError]
"""The message for the leader, or why the report is left out."""


def derive_resource_id(request: bytes) -> bytes:
    """Return the id of what a request makes: the same for the same bytes, so that asking again makes nothing new."""
    return hashlib.sha256(request).digest()[:RESOURCE_ID_BYTES]


class Helper:
    """The helper's side of aggregation and collection.

    Args:
        database: its rows.
        config: of the helper.
        keys: gives its present HPKE keys.
        token_keys: verify the tokens of tasks with an issuer.
        clock: says which windows have begun.
        noise: draws the noise of a release.

    Attributes:
        rejected: reports left out since the start, by reason.
        added: reports added since the start.
        released: batches released since the start.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        config: AggregatorConfig,
        keys: Callable[[], KeyRing],
        token_keys: TokenKeys,
        clock: Clock,
        *,
        noise: NoiseSource = draw_noise,
    ) -> None:
        self._database = database
        self._config = config
        self._keys = keys
        self._token_keys = token_keys
        self._clock = clock
        self._noise = noise
        self.rejected: Counter[str] = Counter()
        self.added = 0
        self.released = 0

    async def aggregate(self, opened: OpenTask, body: bytes) -> tuple[bytes, bytes]:
        """Return the id of an aggregation job and the answer to it.

        Raises:
            DapProblem: the request cannot be answered; nothing was added.
            ServerError: the database does not take it now; asking again helps.
        """
        task_id = opened.task.task_id
        request = _read_job(body, opened)
        job_id = derive_resource_id(body)
        stored = await self.find_job(task_id, job_id)
        if stored is not None:
            return job_id, stored
        times = {min(_time(init), MAX_TIME) for init in request.verify_inits}
        token_keys = await self._token_keys.find(opened.task, times)
        outcomes = await asyncio.to_thread(self._verify, opened, request, token_keys)
        early = _reject_early(outcomes)
        if early is not None:
            self._count(early)
            return job_id, _respond(early)
        answers: list[_Answer] | None = None
        async with self._database.write() as session:
            await run_in(session, lock_task, task_id, is_exclusive=False)
            row = {
                "task_id": task_id,
                "job_id": job_id,
                "response": b"",
                "first_time": min(times, default=0),
                "last_time": max(times, default=0),
            }
            claim = insert(session, AnsweredJobRow).values(row).on_conflict_do_nothing()
            claimed = (await session.execute(claim.returning(AnsweredJobRow.job_id))).first()
            if claimed is not None:
                answers = await run_in(session, _add, opened, outcomes)
                key = (AnsweredJobRow.task_id == task_id) & (AnsweredJobRow.job_id == job_id)
                await session.execute(update(AnsweredJobRow).where(key).values(response=_respond(answers)))
        if answers is None:  # the same request, answered a moment ago
            stored = await self.find_job(task_id, job_id)
            if stored is None:
                raise RuntimeError("a job that was claimed is gone")
            return job_id, stored
        self._count(answers)
        return job_id, _respond(answers)

    async def find_job(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """Return the answer to an aggregation job; None: there is no such job."""
        query = select(AnsweredJobRow.response).where(
            AnsweredJobRow.task_id == task_id, AnsweredJobRow.job_id == job_id
        )
        async with self._database.read() as session:
            return (await session.scalars(query)).one_or_none()

    def _verify(
        self, opened: OpenTask, request: AggregationJobInitReq, token_keys: Mapping[int, TokenKey]
    ) -> list[_Outcome]:
        """Open and verify each report."""
        keys, now_s = self._keys().private, self._clock.now_s()
        outcomes: dict[int, tuple[bytes, bytes] | ReportRejectedError] = {}
        reports: list[Report] = []
        places: list[int] = []
        for index, init in enumerate(request.verify_inits):
            share = init.report_share
            try:
                check_time(opened.task, share.metadata.time, now_s)
                opened_share = open_input_share(opened.task, Role.HELPER, keys, share)
                if opened.task.info.token_issuer is not None:
                    check_secret(share.metadata, opened_share)
                    check_token(opened.task, share.metadata, token_keys.get(share.metadata.time))
            except ReportRejectedError as error:
                outcomes[index] = error
                continue
            places.append(index)
            reports.append(Report(share.metadata.report_id, share.public_share, opened_share.payload))
        verified = opened.verifier.finish_helper(reports, [request.verify_inits[place].payload for place in places])
        outcomes |= dict(zip(places, verified, strict=True))
        return [(init, outcomes[index]) for index, init in enumerate(request.verify_inits)]

    async def release(self, opened: OpenTask, body: bytes) -> tuple[bytes, bytes]:
        """Return the id of an aggregate share and the share, noised and sealed for the collector.

        Raises:
            DapProblem: the batch cannot be released; nothing was.
            ServerError: the database does not take it now; asking again helps.
        """
        task = opened.task
        try:
            request = AggregateShareReq.from_bytes(body)
        except DapMessageError as error:
            raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task.task_id) from None
        check_collection(request.collection_job_req, task.task_id)
        first, behind = read_interval(request.collection_job_req.query, task.task_id)
        start, end = read_interval(request.batch_selector, task.task_id)
        if start < first or end > behind:
            raise DapProblem(ProblemType.BATCH_INVALID, "the batch is not within the query", task.task_id)
        share_id = derive_resource_id(body)
        drawn = await asyncio.to_thread(self._noise, task.noise_scale, task.circuit.output_length)
        async with self._database.write() as session:
            response, is_new = await run_in(session, self._release_once, opened, request, share_id, drawn)
        self.released += is_new
        return share_id, response

    def _release_once(
        self,
        connection: Connection,
        opened: OpenTask,
        request: AggregateShareReq,
        share_id: bytes,
        drawn: list[int],
    ) -> tuple[bytes, bool]:
        """Return the share of a batch, and whether it was released now and not before: a step of one transaction."""
        task = opened.task
        start, end = read_interval(request.batch_selector, task.task_id)
        lock_task(connection, task.task_id, is_exclusive=True)
        key = {"of_task": task.task_id, "of_share": share_id}
        stored = connection.execute(_STORED, key).scalar_one_or_none()
        if stored is not None:
            return stored, False
        within = {"of_task": task.task_id, "first": start, "behind": end}
        if connection.execute(_OVERLAP, within).first() is not None:
            raise DapProblem(ProblemType.BATCH_OVERLAP, "a part of the batch was released before", task.task_id)
        batch = sum_batch(connection, opened.verifier, task.task_id, start, end)
        if batch.reports < task.configuration.min_batch_size:
            detail = f"fewer than {task.configuration.min_batch_size} reports"
            raise DapProblem(ProblemType.INVALID_BATCH_SIZE, detail, task.task_id)
        if (batch.reports, batch.checksum) != (request.report_count, request.checksum):
            detail = f"{batch.reports} reports here, {request.report_count} there, or others"
            raise DapProblem(ProblemType.BATCH_MISMATCH, detail, task.task_id)
        noised = add_noise(task, batch.aggregate_share, replay(drawn))
        collector = self._config.collector.config
        sealed = seal_aggregate_share(task, Role.HELPER, collector, request.collection_job_req, noised)
        response = AggregateShare(sealed).to_bytes()
        row = {"task_id": task.task_id, "share_id": share_id, "start": start, "end": end, "response": response}
        connection.execute(_STORE, row)
        drop_batch(connection, task.task_id, start, end)
        connection.execute(_FORGET_JOBS, within)
        return response, True

    async def find_share(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """Return an aggregate share that was released; None: there is no such share."""
        async with self._database.read() as session:
            row = await session.get(AggregateShareRow, (task_id, share_id))
        return None if row is None else row.response

    def _count(self, answers: list[_Answer]) -> None:
        for _, answer in answers:
            if isinstance(answer, ReportRejectedError):
                self.rejected[answer.label] += 1
            else:
                self.added += 1


def _add(connection: Connection, opened: OpenTask, outcomes: list[_Outcome]) -> list[_Answer]:
    """Add what is verified, new, of a window that is not collected and with a token of its own."""
    task = opened.task
    sound = [init for init, found in outcomes if not isinstance(found, ReportRejectedError)]
    released = find_released(connection, task.task_id, map(_time, sound))
    sound = [init for init in sound if _time(init) not in released]
    own = {_id(init) for init in sound}
    if task.info.token_issuer is not None:
        nonces = {_id(init): (_time(init), read_nonce(init.report_share.metadata)) for init in sound}
        own = spend_tokens(connection, task.task_id, nonces)
    ids = [(_id(init), _time(init)) for init in sound if _id(init) in own]
    new = insert_report_ids(connection, task.task_id, ids)
    answers: list[_Answer] = []
    added: list[VerifiedReport] = []
    for init, found in outcomes:
        if isinstance(found, ReportRejectedError):
            answers.append((init, found))
        elif _time(init) in released:
            answers.append((init, ReportRejectedError(ReportError.BATCH_COLLECTED, "its window was released")))
        elif _id(init) not in own:
            answers.append((init, refuse_spent()))
        elif _id(init) not in new:
            answers.append((init, ReportRejectedError(ReportError.REPORT_REPLAYED, "it was added before")))
        else:
            added.append(VerifiedReport(_id(init), _time(init), found[0]))
            answers.append((init, found[1]))
    add_reports(connection, opened.verifier, task.task_id, added)
    return answers


def _reject_early(outcomes: list[_Outcome]) -> list[_Answer] | None:
    """Return the answers to a job of reports that are all too early; None: it is another.

    They are not stored: the leader may send the reports again later, and then the bytes are the same.
    """
    early: list[_Answer] = [
        (init, found)
        for init, found in outcomes
        if isinstance(found, ReportRejectedError) and found.error is ReportError.REPORT_TOO_EARLY
    ]
    return early if len(early) == len(outcomes) else None


def _respond(answers: list[_Answer]) -> bytes:
    return AggregationJobResp(
        tuple(
            VerifyResp(_id(init), VerifyRespType.REJECT, error=answer.error)
            if isinstance(answer, ReportRejectedError)
            else VerifyResp(_id(init), VerifyRespType.CONTINUE, payload=answer)
            for init, answer in answers
        )
    ).to_bytes()


def _read_job(body: bytes, opened: OpenTask) -> AggregationJobInitReq:
    task_id = opened.task.task_id
    try:
        request = AggregationJobInitReq.from_bytes(body)
    except DapMessageError as error:
        raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task_id) from None
    if request.verification_key_id != 0:
        raise DapProblem(ProblemType.INVALID_MESSAGE, "the one verification key is 0", task_id)
    if request.agg_param:
        raise DapProblem(ProblemType.INVALID_AGGREGATION_PARAMETER, "Prio3 has none: expected no bytes", task_id)
    if request.extensions:
        raise DapProblem(ProblemType.UNSUPPORTED_EXTENSION, "no extension of jobs is supported", task_id)
    ids = [_id(init) for init in request.verify_inits]
    most = JOBS_AT_MOST * opened.job_reports
    if len(ids) > most:
        detail = f"a job has at most {most} reports of {opened.task.circuit.output_length} elements, not {len(ids)}"
        raise DapProblem(ProblemType.INVALID_MESSAGE, detail, task_id)
    if len(set(ids)) < len(ids):
        raise DapProblem(ProblemType.INVALID_MESSAGE, "a report is there twice", task_id)
    return request


def _id(init: VerifyInit) -> bytes:
    return init.report_share.metadata.report_id


def _time(init: VerifyInit) -> int:
    return init.report_share.metadata.time
