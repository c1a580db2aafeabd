"""Does what `Prio3` does, in native code and for many reports at a time: for aggregators, and for fleets of devices."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from alcove.privacy import _native
from alcove.privacy.errors import ParameterError, VdafDecodeError, VdafError, VdafVerificationError
from alcove.privacy.prio3.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from alcove.privacy.prio3.vdaf import Prio3, Report, VerifyState, check_message

Measurement = TypeVar("Measurement")
Result = TypeVar("Result")

_ERRORS: Final[dict[int, Callable[[], VdafError]]] = {
    1: lambda: VdafDecodeError(what="element", bound="below the modulus", value="a larger number"),
    2: lambda: VdafVerificationError(check="test point", reason="it is a root of unity"),
    3: lambda: VdafVerificationError(check="proof", reason="one does not hold"),
}
"""By the native core's outcome; 0 is none. Numbers are those of `Outcome` in privacy/native/prio3.h."""


class NativePrio3(Prio3[Measurement, Result]):
    """Prio3 of one of the draft's circuits: the same bytes and errors as `Prio3`.

    Raises:
        ParameterError: as `Prio3`; or the circuit is not one of the draft's.
    """

    def __init__(
        self,
        circuit: Circuit[Measurement, Result],
        shares: int = 2,
        proofs: int = 1,
        *,
        algorithm_id: int | None = None,
    ) -> None:
        super().__init__(circuit, shares, proofs, algorithm_id=algorithm_id)
        if not isinstance(circuit, Count | Sum | SumVec | Histogram | MultihotCountVec):
            raise ParameterError(name="circuit", bound="one of the draft's", value=type(circuit).__name__)
        integer = (
            circuit.weight
            if isinstance(circuit, MultihotCountVec)
            else circuit.range
            if isinstance(circuit, Sum | SumVec)
            else None
        )
        self._core = _native.NativePrio3(
            circuit.algorithm_id,
            self._id,
            self._field.encoded_size,
            shares,
            proofs,
            circuit.measurement_length,
            1 if isinstance(circuit, Count | Sum) else circuit.chunk_length,
            circuit.output_length,
            b"" if integer is None else self._field.encode(integer.weights),
        )

    def verify_init_many(
        self, verify_key: bytes, context: bytes, aggregator: int, reports: Sequence[Report]
    ) -> list[tuple[VerifyState, bytes] | VdafError]:
        """Return for each report what `verify_init` does, or the error that it raises.

        Raises:
            ParameterError: an argument of the aggregator's own is out of its bound.
        """
        errors: dict[int, VdafError] = {}
        for index, report in enumerate(reports):
            try:
                self._check_verify_init(verify_key, aggregator, report)
            except VdafError as error:
                errors[index] = error
        sound = [
            (report.nonce, report.public_share, report.input_share)
            for index, report in enumerate(reports)
            if index not in errors
        ]
        found = iter(self._core.verify_init(verify_key, context, aggregator, sound))
        results: list[tuple[VerifyState, bytes] | VdafError] = []
        for index in range(len(reports)):
            if index in errors:
                results.append(errors[index])
                continue
            outcome, output_share, seed, verifier_share = next(found)
            make = _ERRORS.get(outcome)
            results.append((VerifyState(output_share, seed), verifier_share) if make is None else make())
        return results

    def verifier_shares_to_message_many(
        self, context: bytes, reports: Sequence[Sequence[bytes]]
    ) -> list[bytes | VdafError]:
        """Return for each report what `verifier_shares_to_message` does, or the error that it raises.

        Raises:
            ParameterError: a report has not as many shares as there are aggregators.
        """
        errors: dict[int, VdafError] = {}
        for index, shares in enumerate(reports):
            try:
                self._check_verifier_shares(shares)
            except VdafError as error:
                errors[index] = error
        found = iter(
            self._core.combine(context, [list(each) for index, each in enumerate(reports) if index not in errors])
        )
        results: list[bytes | VdafError] = []
        for index in range(len(reports)):
            if index in errors:
                results.append(errors[index])
                continue
            outcome, message = next(found)
            make = _ERRORS.get(outcome)
            results.append(message if make is None else make())
        return results

    def aggregate(self, output_shares: Iterable[bytes]) -> bytes:
        """Return the sum of output shares, or of sums of them, encoded; with none it is zero.

        Raises:
            VdafDecodeError: one is malformed.
        """
        shares = list(output_shares)
        for share in shares:
            check_message("output share", share, self.circuit.output_length * self._field.encoded_size)
        outcome, total = self._core.aggregate(shares)
        _raise_unless_ok(outcome)
        return total

    def _shard(self, context: bytes, encoded: list[int], nonce: bytes, rand: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        return self._core.shard(context, bytes(encoded), nonce, rand)

    def _verify_init(
        self, verify_key: bytes, context: bytes, aggregator: int, report: Report
    ) -> tuple[VerifyState, bytes]:
        given = (report.nonce, report.public_share, report.input_share)
        ((outcome, output_share, seed, verifier_share),) = self._core.verify_init(
            verify_key, context, aggregator, [given]
        )
        _raise_unless_ok(outcome)
        return VerifyState(output_share, seed), verifier_share

    def _verifier_shares_to_message(self, context: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        ((outcome, message),) = self._core.combine(context, [list(verifier_shares)])
        _raise_unless_ok(outcome)
        return message


def _raise_unless_ok(outcome: int) -> None:
    error = _ERRORS.get(outcome)
    if error is not None:
        raise error()
