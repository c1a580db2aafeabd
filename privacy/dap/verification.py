"""Verifies reports between the two aggregators: the VDAF's ping-pong, for many reports of a task at a time.

    leader                                                    helper
    begin_leader ── INITIALIZE: own verifier share ──▶ finish_helper   output share, if both shares prove the report
    finish_leader ◀────── FINISH: verifier message ───┘

A report that fails at the leader's beginning is never sent; one that fails at the helper is added by neither.

Source: draft-irtf-cfrg-vdaf, section 5.7.1, for VDAFs of one round.
"""

from collections.abc import Sequence
from typing import Any

from alcove.privacy.dap.messages import PingPong, PingPongType, ReportError, Role
from alcove.privacy.dap.task import DapTask, derive_verify_key
from alcove.privacy.errors import DapMessageError, ReportRejectedError, VdafDecodeError, VdafError
from alcove.privacy.prio3 import Report, VerifyState
from alcove.privacy.prio3.native import NativePrio3

_LEADER, _HELPER = 0, 1
_INITIALIZE, _FINISH = (bytes([kind]) for kind in (PingPongType.INITIALIZE, PingPongType.FINISH))


class Verifier:
    """Verifies reports of one task.

    Args:
        task: what was measured.
        secret: from which both aggregators derive the tasks' verification keys.

    Raises:
        ParameterError: the secret has another size.
    """

    def __init__(self, task: DapTask, secret: bytes) -> None:
        self._context = task.context
        self._key = derive_verify_key(secret, task.task_id)
        self._vdaf: NativePrio3[Any, Any] = NativePrio3(task.circuit)

    @property
    def public_share_bytes(self) -> int:
        """Size of a report's public share."""
        return self._vdaf.public_share_bytes

    def input_share_bytes(self, role: Role) -> int:
        """Size of the input share of an aggregator, LEADER or HELPER."""
        return self._vdaf.input_share_bytes(_HELPER if role is Role.HELPER else _LEADER)

    def begin_leader(self, reports: Sequence[Report]) -> list[tuple[VerifyState, bytes] | ReportRejectedError]:
        """Return for each report what the leader keeps and the message for the helper, or why it is left out."""
        found = self._vdaf.verify_init_many(self._key, self._context, _LEADER, reports)
        return [_reject(each) if isinstance(each, VdafError) else (each[0], _initialize(each[1])) for each in found]

    def finish_helper(
        self, reports: Sequence[Report], messages: Sequence[bytes]
    ) -> list[tuple[bytes, bytes] | ReportRejectedError]:
        """Return for each report the helper's output share and the message for the leader, or why it is left out.

        Args:
            reports: with the helper's input shares.
            messages: the leader's, one a report.
        """
        own = self._vdaf.verify_init_many(self._key, self._context, _HELPER, reports)
        results: list[tuple[bytes, bytes] | ReportRejectedError | None] = [None] * len(reports)
        open_reports: list[tuple[int, VerifyState, tuple[bytes, bytes]]] = []
        for index, (begun, message) in enumerate(zip(own, messages, strict=True)):
            if isinstance(begun, VdafError):
                results[index] = _reject(begun)
                continue
            try:
                open_reports.append((index, begun[0], (_read(message, PingPongType.INITIALIZE), begun[1])))
            except ReportRejectedError as error:
                results[index] = error
        combined = self._vdaf.verifier_shares_to_message_many(self._context, [each[2] for each in open_reports])
        for (index, state, _), outcome in zip(open_reports, combined, strict=True):
            results[index] = _reject(outcome) if isinstance(outcome, VdafError) else self._finish(state, outcome)
        return [each for each in results if each is not None]

    def _finish(self, state: VerifyState, message: bytes) -> tuple[bytes, bytes] | ReportRejectedError:
        try:
            output_share = self._vdaf.verify_next(state, message)
        except VdafError as error:
            return _reject(error)
        return output_share, encode_finish(message)

    def finish_leader(self, state: VerifyState, message: bytes) -> bytes:
        """Return the leader's output share of a report that the helper has added.

        Raises:
            ReportRejectedError: the helper's message does not finish it.
        """
        try:
            return self._vdaf.verify_next(state, _read(message, PingPongType.FINISH))
        except VdafError as error:
            raise _reject(error) from None

    def add(self, shares: Sequence[bytes]) -> bytes:
        """Return the sum of output shares, or of sums of them; with none it is zero.

        Raises:
            VdafDecodeError: one is malformed.
        """
        return self._vdaf.aggregate(shares)


def encode_finish(verifier_message: bytes) -> bytes:
    """Return the helper's message for the leader: `PingPong` of FINISH."""
    return _FINISH + len(verifier_message).to_bytes(4, "big") + verifier_message


def _initialize(verifier_share: bytes) -> bytes:
    """Return the leader's message for the helper: `PingPong` of INITIALIZE."""
    return _INITIALIZE + len(verifier_share).to_bytes(4, "big") + verifier_share


def _read(message: bytes, kind: PingPongType) -> bytes:
    try:
        found = PingPong.from_bytes(message)
    except DapMessageError as error:
        raise ReportRejectedError(ReportError.VDAF_VERIFY_ERROR, str(error)) from None
    if found.kind is not kind:
        raise ReportRejectedError(ReportError.VDAF_VERIFY_ERROR, f"{found.kind.name} came in the place of {kind.name}")
    return found.verifier_share if kind is PingPongType.INITIALIZE else found.verifier_message


def _reject(error: VdafError) -> ReportRejectedError:
    kind = ReportError.INVALID_MESSAGE if isinstance(error, VdafDecodeError) else ReportError.VDAF_VERIFY_ERROR
    return ReportRejectedError(kind, str(error))
