"""A job's request is the draft's message, and its answer is read alike whether it is the usual one or not."""

from dataclasses import replace

from alcove.platform.aggregator.jobs import begin_job, finish_job, read_job
from alcove.platform.aggregator.tasks import OpenTask
from alcove.privacy.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    ReportError,
    ReportShare,
    Role,
    UploadRequest,
    VerifyResp,
    VerifyRespType,
)
from alcove.privacy.dap.verification import Verifier
from alcove.privacy.prio3 import Report as VdafReport

from tests.platform.aggregator.pair import TASK
from tests.privacy.dap.party import SECRET, Parties

PARTIES = Parties()
OPENED = OpenTask(TASK, Verifier(TASK, SECRET))
REPORTS = [PARTIES.report(TASK, cell, str(cell)) for cell in range(4)]


def _answer(request: bytes) -> list[VerifyResp]:
    """Return what an honest helper answers."""
    inits = AggregationJobInitReq.from_bytes(request).verify_inits
    by_id = {report.metadata.report_id: report for report in REPORTS}
    opened = [PARTIES.open(TASK, Role.HELPER, by_id[init.report_share.metadata.report_id]) for init in inits]
    results = OPENED.verifier.finish_helper(opened, [init.payload for init in inits])
    answers = []
    for report, found in zip(opened, results, strict=True):
        assert isinstance(report, VdafReport)
        assert isinstance(found, tuple)
        answers.append(VerifyResp(report.nonce, VerifyRespType.CONTINUE, payload=found[1]))
    return answers


def _begin(*reports: Report) -> bytes:
    packets = [UploadRequest(reports[:1]).to_bytes(), UploadRequest(reports[1:]).to_bytes()]
    job, rejected = begin_job(OPENED, {1: PARTIES.leader_key}, packets)
    assert not rejected
    assert job is not None
    assert read_job(job.request, job.states) == job
    return job.request


def test_request_has_the_shares_as_they_were_uploaded() -> None:
    """Head and helper's share of each report, in the order in which the reports came."""
    shares = [init.report_share for init in AggregationJobInitReq.from_bytes(_begin(*REPORTS)).verify_inits]
    assert shares == [ReportShare(each.metadata, each.public_share, each.helper_input_share) for each in REPORTS]


def test_report_that_one_answer_refuses_is_left_out_and_the_others_are_added() -> None:
    """The answer that accepts all and the one that does not give the same output shares for the accepted."""
    packets = [UploadRequest(tuple(REPORTS)).to_bytes()]
    job, _ = begin_job(OPENED, {1: PARTIES.leader_key}, packets)
    assert job is not None
    answers = _answer(job.request)
    whole = finish_job(OPENED, job, AggregationJobResp(tuple(answers)).to_bytes())
    assert [each.report_id for each in whole.added] == [each.metadata.report_id for each in REPORTS]
    errors = (ReportError.REPORT_REPLAYED, ReportError.REPORT_TOO_EARLY)
    for place, error in enumerate(errors):
        answers[place] = VerifyResp(answers[place].report_id, VerifyRespType.REJECT, error=error)
    answers[2] = replace(answers[2], payload=answers[2].payload[:-1] + bytes([answers[2].payload[-1] ^ 1]))
    part = finish_job(OPENED, job, AggregationJobResp(tuple(answers)).to_bytes())
    assert part.added == whole.added[3:]
    assert part.early == {REPORTS[1].metadata.report_id}
    assert part.rejected == {"report_replayed": 1, "vdaf_verify_error": 1}
    for wrong in (b"", b"\x00", AggregationJobResp(tuple(answers[::-1])).to_bytes()):
        dropped = finish_job(OPENED, job, wrong)
        assert (dropped.added, dropped.rejected) == ((), {"report_dropped": 4})
