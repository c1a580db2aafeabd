"""Two aggregators add what both prove, and nothing else; what they release adds up to the sums with both noises."""

from dataclasses import replace

import pytest
from alcove.privacy.dap.messages import (
    BatchMode,
    CollectionJobReq,
    CollectionJobResp,
    Interval,
    PingPong,
    PingPongType,
    Query,
    ReportError,
    Role,
)
from alcove.privacy.dap.release import add_noise, open_release, seal_aggregate_share
from alcove.privacy.dap.verification import Verifier
from alcove.privacy.errors import HpkeError, ReportRejectedError, VdafDecodeError

from tests.privacy.dap.party import SECRET, TIME, Parties, make_task

TASK = make_task()
PARTIES = Parties()
CELLS = (3, 3, 0, 7)
REPORTS = [PARTIES.report(TASK, cell, str(index)) for index, cell in enumerate(CELLS)]
LEADER = [PARTIES.open(TASK, Role.LEADER, each) for each in REPORTS]
HELPER = [PARTIES.open(TASK, Role.HELPER, each) for each in REPORTS]
QUERY = CollectionJobReq(Query(BatchMode.TIME_INTERVAL, Interval(TIME, 1).to_bytes()), b"", ())


def _sums() -> tuple[bytes, bytes]:
    """Return both aggregators' sums of the reports."""
    leader, helper = Verifier(TASK, SECRET), Verifier(TASK, SECRET)
    begun = [each for each in leader.begin_leader(LEADER) if not isinstance(each, ReportRejectedError)]
    ended = [
        each
        for each in helper.finish_helper(HELPER, [message for _, message in begun])
        if not isinstance(each, ReportRejectedError)
    ]
    shares = [leader.finish_leader(state, message) for (state, _), (_, message) in zip(begun, ended, strict=True)]
    return leader.add(shares), helper.add([share for share, _ in ended])


def _respond(leader: bytes, helper: bytes, **changes: object) -> CollectionJobResp:
    sealed = [
        seal_aggregate_share(TASK, role, PARTIES.collector, QUERY, share)
        for role, share in ((Role.LEADER, leader), (Role.HELPER, helper))
    ]
    return replace(CollectionJobResp(len(CELLS), Interval(TIME, 1), *sealed), **changes)  # type: ignore[arg-type]


def test_collector_gets_the_counts_with_the_noise_of_both() -> None:
    """Sums are exact without noise; each aggregator's noise shifts them by what it drew, negative sums included."""
    leader, helper = _sums()
    exact = open_release(TASK, PARTIES.collector_key, QUERY, _respond(leader, helper))
    assert exact.sums == (1, 0, 0, 2, 0, 0, 0, 1)
    assert (exact.reports, exact.start, exact.duration) == (4, TIME, 1)
    draws = iter([5, -7, 0, 1, 0, 0, 0, -9])
    noised = add_noise(TASK, leader, lambda: next(draws))
    both = open_release(TASK, PARTIES.collector_key, QUERY, _respond(noised, add_noise(TASK, helper, lambda: -1)))
    assert both.sums == (5, -8, -1, 2, -1, -1, -1, -9)


def test_release_opens_for_its_request_task_role_and_key_alone() -> None:
    """What is bound: who sent it, to whom, for which request."""
    leader, helper = _sums()
    response = _respond(leader, helper)
    swapped = replace(
        response,
        leader_aggregate_share=response.helper_aggregate_share,
        helper_aggregate_share=response.leader_aggregate_share,
    )
    with pytest.raises(HpkeError, match="leader"):
        open_release(TASK, PARTIES.collector_key, QUERY, swapped)
    with pytest.raises(HpkeError, match="leader"):
        open_release(TASK, PARTIES.leader_key, QUERY, response)
    with pytest.raises(HpkeError, match="leader"):
        open_release(TASK, PARTIES.collector_key, replace(QUERY, agg_param=b"x"), response)
    with pytest.raises(HpkeError, match="leader"):
        open_release(make_task(min_batch_size=101), PARTIES.collector_key, QUERY, response)
    with pytest.raises(VdafDecodeError):
        open_release(TASK, PARTIES.collector_key, QUERY, _respond(leader[:-1], helper))


def test_report_with_a_wrong_share_is_added_by_neither() -> None:
    """Each byte of either share, changed: the leader's is caught by the helper, the others still count."""
    for at in range(0, len(LEADER[0].input_share), 7):
        share = bytearray(LEADER[0].input_share)
        share[at] ^= 1
        wrong = [replace(LEADER[0], input_share=bytes(share)), *LEADER[1:]]
        begun = Verifier(TASK, SECRET).begin_leader(wrong)
        messages = [b"" if isinstance(each, ReportRejectedError) else each[1] for each in begun]
        ended = Verifier(TASK, SECRET).finish_helper(HELPER, messages)
        assert isinstance(ended[0], ReportRejectedError)
        assert ended[0].error is ReportError.VDAF_VERIFY_ERROR
        assert not any(isinstance(each, ReportRejectedError) for each in ended[1:])


def test_shares_of_wrong_size_are_rejected_as_invalid_messages() -> None:
    """The rest of the batch is verified all the same."""
    short = [replace(LEADER[0], input_share=b"x"), *LEADER[1:]]
    begun = Verifier(TASK, SECRET).begin_leader(short)
    assert isinstance(begun[0], ReportRejectedError)
    assert begun[0].error is ReportError.INVALID_MESSAGE
    ended = Verifier(TASK, SECRET).finish_helper([replace(HELPER[0], input_share=b"x"), HELPER[1]], [b"", b""])
    assert all(isinstance(each, ReportRejectedError) for each in ended)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x03",
        b"\0\0\0\0\1x",
        PingPong(PingPongType.FINISH, verifier_message=b"m").to_bytes(),
        PingPong(PingPongType.CONTINUE, b"m", b"s").to_bytes(),
        PingPong(PingPongType.INITIALIZE, verifier_share=b"s").to_bytes() + b"x",
    ],
)
def test_helper_rejects_what_is_no_beginning(message: bytes) -> None:
    """Another step's message, another size, no message."""
    (result,) = Verifier(TASK, SECRET).finish_helper(HELPER[:1], [message])
    assert isinstance(result, ReportRejectedError)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        PingPong(PingPongType.INITIALIZE, verifier_share=b"s").to_bytes(),
        PingPong(PingPongType.FINISH, verifier_message=bytes(32)).to_bytes(),
        PingPong(PingPongType.FINISH, verifier_message=b"").to_bytes(),
    ],
)
def test_leader_adds_nothing_without_the_helpers_message(message: bytes) -> None:
    """A message that is none, or that of another report."""
    leader = Verifier(TASK, SECRET)
    (begun,) = leader.begin_leader(LEADER[:1])
    assert not isinstance(begun, ReportRejectedError)
    with pytest.raises(ReportRejectedError):
        leader.finish_leader(begun[0], message)


def test_aggregators_with_different_secrets_add_nothing() -> None:
    """The verification key is the same on both sides, or no report is valid."""
    begun = Verifier(TASK, SECRET).begin_leader(LEADER)
    messages = [each[1] for each in begun if not isinstance(each, ReportRejectedError)]
    ended = Verifier(TASK, bytes(32)).finish_helper(HELPER, messages)
    assert all(isinstance(each, ReportRejectedError) for each in ended)
