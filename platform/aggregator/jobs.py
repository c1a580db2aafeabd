"""Begins and finishes the leader's aggregation jobs: from reports to a request, from the answer to what is added.

No rows and no network here: `aggregation.py` stores what `begin_job` returns before it is sent, and reads it again with
`read_job` where the process was restarted meanwhile.

Source: draft-ietf-ppm-dap-18, sections 4.5.3.1 and 4.5.4.4.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import structlog
from alcove.platform.aggregator.batches import VerifiedReport
from alcove.platform.aggregator.tasks import OpenTask
from alcove.privacy.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    ReportError,
    Role,
    UploadedReport,
    VerifyResp,
    VerifyRespType,
    split_reports,
)
from alcove.privacy.dap.reports import open_uploaded_share
from alcove.privacy.dap.verification import encode_finish
from alcove.privacy.errors import DapMessageError, ReportRejectedError
from alcove.privacy.presentation import Opaque, Rest, Structure
from alcove.privacy.prio3 import Report as VdafReport
from alcove.privacy.prio3 import VerifyState

__all__ = ["BegunJob", "FinishedJob", "begin_job", "finish_job", "read_job"]

_CONTINUES: Final = bytes([VerifyRespType.CONTINUE])
_log = structlog.get_logger()


@dataclass(frozen=True)
class _State(Structure):
    """What the leader keeps of a report until the helper has answered."""

    output_share: Annotated[bytes, Opaque(4)]
    joint_rand_seed: Annotated[bytes, Opaque(1)]


@dataclass(frozen=True)
class _States(Structure):
    """The states of a job's reports, in their order."""

    states: Annotated[tuple[_State, ...], Rest(_State)]


@dataclass(frozen=True)
class _BegunReport:
    report_id: bytes
    time: int
    state: _State


@dataclass(frozen=True)
class BegunJob:
    """A job whose request can be sent.

    Attributes:
        request: the bytes that are sent.
        states: what the leader keeps until they are answered, as bytes.
        reports: what both hold, by report.
    """

    request: bytes
    states: bytes
    reports: tuple[_BegunReport, ...]


@dataclass(frozen=True)
class FinishedJob:
    """What becomes of a job's reports.

    Attributes:
        added: verified by both.
        early: ids of those that wait again.
        rejected: why the others are left out.
    """

    added: tuple[VerifiedReport, ...]
    early: frozenset[bytes]
    rejected: Counter[str]


def begin_job(
    opened: OpenTask, keys: Mapping[int, bytes], packets: Iterable[bytes]
) -> tuple[BegunJob | None, Counter[str]]:
    """Return the job of those reports that the leader opens and verifies, None of none; and why others are left out.

    Args:
        opened: the task.
        keys: the leader's private keys, by the id of their configuration.
        packets: reports as they were uploaded, one after the other.
    """
    rejected: Counter[str] = Counter()
    opened_reports: list[UploadedReport] = []
    payloads: list[VdafReport] = []
    for uploaded in (uploaded for packet in packets for uploaded in split_reports(packet)):
        report = uploaded.report
        sealed, metadata = report.leader_input_share, report.metadata
        try:
            share = open_uploaded_share(opened.task, Role.LEADER, keys, sealed, metadata=metadata, head=uploaded.head)
        except ReportRejectedError as error:
            rejected[error.label] += 1
            continue
        opened_reports.append(uploaded)
        payloads.append(VdafReport(metadata.report_id, report.public_share, share.payload))
    inits: list[bytes] = []
    begun: list[_BegunReport] = []
    for uploaded, found in zip(opened_reports, opened.verifier.begin_leader(payloads), strict=True):
        if isinstance(found, ReportRejectedError):
            rejected[found.label] += 1
            continue
        state, message = found
        inits.append(_encode_init(uploaded, message))
        metadata = uploaded.report.metadata
        kept = _State(state.output_share, state.joint_rand_seed)
        begun.append(_BegunReport(metadata.report_id, metadata.time, kept))
    if not begun:
        return None, rejected
    request = AggregationJobInitReq(0, b"", (), ()).to_bytes() + b"".join(inits)
    states = _States(tuple(each.state for each in begun)).to_bytes()
    return BegunJob(request, states, tuple(begun)), rejected


def _encode_init(uploaded: UploadedReport, message: bytes) -> bytes:
    """Return the bytes of `VerifyInit`, of which all but the message are those of the upload."""
    helper_share = uploaded.encoded[-uploaded.helper_bytes :]
    return b"".join((uploaded.head, helper_share, len(message).to_bytes(4, "big"), message))


def read_job(request: bytes, states: bytes) -> BegunJob:
    """Return a job from what was stored of it."""
    inits = AggregationJobInitReq.from_bytes(request).verify_inits
    metadata = [init.report_share.metadata for init in inits]
    kept = _States.from_bytes(states).states
    reports = [_BegunReport(each.report_id, each.time, state) for each, state in zip(metadata, kept, strict=True)]
    return BegunJob(request, states, tuple(reports))


def finish_job(opened: OpenTask, job: BegunJob, answer: bytes) -> FinishedJob:
    """Return what becomes of each report of a job, by the helper's answer; an answer that is none drops them all."""
    if answer == b"".join(map(_encode_success, job.reports)):  # the usual one: nothing else is to be found out
        added = [VerifiedReport(each.report_id, each.time, each.state.output_share) for each in job.reports]
        return FinishedJob(tuple(added), frozenset(), Counter())
    try:
        answers = _read_answers(job, answer)
    except DapMessageError as error:
        _log.error("an aggregation job is abandoned: the helper's answer is none", problem=str(error))
        dropped = ReportError.REPORT_DROPPED.name.lower()
        return FinishedJob((), frozenset(), Counter({dropped: len(job.reports)}))
    added = []
    early: list[bytes] = []
    rejected: Counter[str] = Counter()
    for report, found in zip(job.reports, answers, strict=True):
        if found.error is ReportError.REPORT_TOO_EARLY:
            early.append(report.report_id)
        elif found.error is not None:
            rejected[found.error.name.lower()] += 1
        else:
            kept = VerifyState(report.state.output_share, report.state.joint_rand_seed)
            try:
                output_share = opened.verifier.finish_leader(kept, found.payload)
            except ReportRejectedError as error:  # the helper has added it: its message was changed, or it is no helper
                _log.error("a report that the helper has added does not finish here", problem=error.reason)
                rejected[error.label] += 1
                continue
            added.append(VerifiedReport(report.report_id, report.time, output_share))
    return FinishedJob(tuple(added), frozenset(early), rejected)


def _encode_success(report: _BegunReport) -> bytes:
    """Return the answer by which the helper says that it has verified a report with the leader's joint randomness."""
    message = encode_finish(report.state.joint_rand_seed)
    return b"".join((report.report_id, _CONTINUES, len(message).to_bytes(4, "big"), message))


def _read_answers(job: BegunJob, answer: bytes) -> Sequence[VerifyResp]:
    """Return the helper's answers, one a report of the request, in its order.

    Raises:
        DapMessageError: they are not.
    """
    answers = AggregationJobResp.from_bytes(answer).verify_resps
    if [each.report_id for each in answers] != [report.report_id for report in job.reports]:
        raise DapMessageError("AggregationJobResp", "verify_resps", "the reports are not those of the request")
    if any(each.kind is VerifyRespType.FINISH for each in answers):
        raise DapMessageError("AggregationJobResp", "verify_resps", "Prio3 does not finish without a message")
    return answers
