"""Shards measurements, verifies shares and adds them up: the VDAF Prio3.

States of a report at one aggregator: input share -> (`verify_init`) verifying -> (`verify_next`) output share, or out
by `VdafVerificationError`. An output share is added to the aggregate share only in the last state.

Source: draft-irtf-cfrg-vdaf, section 7.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from alcove.privacy.errors import ParameterError, VdafDecodeError, VdafVerificationError
from alcove.privacy.prio3.circuits import Circuit
from alcove.privacy.prio3.flp import Flp
from alcove.privacy.prio3.xof import SEED_BYTES, derive_seed, expand_into_vector

VERSION: Final = 18
"""Of the draft's algorithms, in every domain separation tag."""

NONCE_BYTES: Final = 16
"""Size of a report's nonce, which is its id."""

_MEASUREMENT_SHARE: Final = 1
_PROOF_SHARE: Final = 2
_JOINT_RANDOMNESS: Final = 3
_PROVE_RANDOMNESS: Final = 4
_QUERY_RANDOMNESS: Final = 5
_JOINT_RAND_SEED: Final = 6
_JOINT_RAND_PART: Final = 7

Measurement = TypeVar("Measurement")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Report:
    """What an aggregator has of a report: its nonce, the public share, and the aggregator's own input share."""

    nonce: bytes
    public_share: bytes
    input_share: bytes


@dataclass(frozen=True)
class VerifyState:
    """What an aggregator keeps of a report between its two steps.

    Attributes:
        output_share: encoded; is added up once the report is valid.
        joint_rand_seed: as computed from the client's public share; empty without joint randomness.
    """

    output_share: bytes
    joint_rand_seed: bytes


class Prio3(Generic[Measurement, Result]):
    """Prio3 of a circuit; immutable.

    Attributes:
        circuit: what is measured.
        shares: number of aggregators, in [2, 255]; aggregator 0 is the leader, the others are helpers.
        proofs: how many proofs each report has, in [1, 255].
        rand_bytes: size of the randomness that `shard` takes.

    Raises:
        ParameterError: `shares` or `proofs` is out of its bound.
    """

    def __init__(
        self,
        circuit: Circuit[Measurement, Result],
        shares: int = 2,
        proofs: int = 1,
        *,
        algorithm_id: int | None = None,
    ) -> None:
        if not 2 <= shares <= 255:
            raise ParameterError(name="shares", bound="in [2, 255]", value=shares)
        if not 1 <= proofs <= 255:
            raise ParameterError(name="proofs", bound="in [1, 255]", value=proofs)
        self.circuit = circuit
        self.shares = shares
        self.proofs = proofs
        self._flp = Flp(circuit)
        self._field = circuit.field
        self._has_joint_rand = circuit.joint_rand_length > 0
        self._id = circuit.algorithm_id if algorithm_id is None else algorithm_id
        self.rand_bytes = SEED_BYTES * shares * (2 if self._has_joint_rand else 1)

    # Sizes on the wire, in bytes.

    @property
    def public_share_bytes(self) -> int:
        """Size of a public share."""
        return SEED_BYTES * self.shares if self._has_joint_rand else 0

    def input_share_bytes(self, aggregator: int) -> int:
        """Size of the input share of an aggregator."""
        blind = SEED_BYTES if self._has_joint_rand else 0
        if aggregator > 0:
            return SEED_BYTES + blind
        elements = self.circuit.measurement_length + self._flp.proof_length * self.proofs
        return elements * self._field.encoded_size + blind

    @property
    def verifier_share_bytes(self) -> int:
        """Size of a verifier share."""
        elements = self._flp.verifier_length * self.proofs
        return elements * self._field.encoded_size + (SEED_BYTES if self._has_joint_rand else 0)

    # The client.

    def shard(
        self, context: bytes, measurement: Measurement, nonce: bytes, rand: bytes
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the public share and an input share for each aggregator.

        Args:
            context: of the application; both aggregators must use the same.
            measurement: as the circuit takes it.
            nonce: `NONCE_BYTES` bytes, never used twice.
            rand: `rand_bytes` unpredictable bytes, never used twice.

        Raises:
            ParameterError: a size or the measurement is out of its bound.
        """
        _check_size("nonce", nonce, NONCE_BYTES)
        _check_size("rand", rand, self.rand_bytes)
        return self._shard(context, self.circuit.encode(measurement), nonce, rand)

    def _shard(self, context: bytes, encoded: list[int], nonce: bytes, rand: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        seeds = [rand[at : at + SEED_BYTES] for at in range(0, len(rand), SEED_BYTES)]
        # With joint randomness each helper has a share's seed and a blind, one after the other; the leader has a blind.
        stride = 2 if self._has_joint_rand else 1
        helper_seeds = seeds[0 : (self.shares - 1) * stride : stride]
        helper_blinds = seeds[1 : (self.shares - 1) * stride : stride] if self._has_joint_rand else []
        leader_blind = seeds[-2] if self._has_joint_rand else b""
        prove_seed = seeds[-1]

        helper_shares = [
            self._expand_measurement(context, index, seed) for index, seed in enumerate(helper_seeds, start=1)
        ]
        leader_share = encoded
        for share in helper_shares:
            leader_share = self._field.subtract(leader_share, share)
        parts: list[bytes] = []
        joint_rand: list[int] = []
        if self._has_joint_rand:
            blinds = [leader_blind, *helper_blinds]
            parts = [
                self._joint_rand_part(context, index, blind, share, nonce)
                for index, (blind, share) in enumerate(zip(blinds, [leader_share, *helper_shares], strict=True))
            ]
            joint_rand = self._joint_rands(context, self._joint_rand_seed(context, parts))
        leader_proofs = self._prove(context, encoded, prove_seed, joint_rand)
        for index, seed in enumerate(helper_seeds, start=1):
            leader_proofs = self._field.subtract(leader_proofs, self._expand_proofs(context, index, seed))
        leader = self._field.encode(leader_share) + self._field.encode(leader_proofs) + leader_blind
        if self._has_joint_rand:
            helpers = [seed + blind for seed, blind in zip(helper_seeds, helper_blinds, strict=True)]
        else:
            helpers = helper_seeds
        return b"".join(parts), (leader, *helpers)

    def _prove(self, context: bytes, encoded: list[int], prove_seed: bytes, joint_rand: list[int]) -> list[int]:
        flp = self._flp
        rand = self._expand(
            prove_seed, context, _PROVE_RANDOMNESS, bytes([self.proofs]), flp.prove_rand_length * self.proofs
        )
        proofs: list[int] = []
        for index in range(self.proofs):
            proofs += flp.prove(
                encoded,
                _part(rand, flp.prove_rand_length, index),
                _part(joint_rand, flp.joint_rand_length, index),
            )
        return proofs

    # The aggregators.

    def verify_init(
        self,
        verify_key: bytes,
        context: bytes,
        aggregator: int,
        report: Report,
    ) -> tuple[VerifyState, bytes]:
        """Return what to keep of a report and the verifier share to send to the other aggregators.

        Args:
            verify_key: `SEED_BYTES` bytes that all aggregators have and no client knows.
            context: as the client's.
            aggregator: in [0, shares).
            report: with this aggregator's input share.

        Raises:
            ParameterError: an argument of the aggregator's own is out of its bound.
            VdafDecodeError: a share of the client's is malformed.
            VdafVerificationError: the report cannot be verified.
        """
        self._check_verify_init(verify_key, aggregator, report)
        return self._verify_init(verify_key, context, aggregator, report)

    def _check_verify_init(self, verify_key: bytes, aggregator: int, report: Report) -> None:
        _check_size("verify_key", verify_key, SEED_BYTES)
        _check_size("nonce", report.nonce, NONCE_BYTES)
        if not 0 <= aggregator < self.shares:
            raise ParameterError(name="aggregator", bound=f"in [0, {self.shares})", value=aggregator)
        check_message("public share", report.public_share, self.public_share_bytes)
        name = f"input share of aggregator {aggregator}"
        check_message(name, report.input_share, self.input_share_bytes(aggregator))

    def _verify_init(
        self, verify_key: bytes, context: bytes, aggregator: int, report: Report
    ) -> tuple[VerifyState, bytes]:
        flp = self._flp
        nonce = report.nonce
        parts = _split_seeds(report.public_share)
        measurement, proofs, blind = self._decode_input_share(context, aggregator, report.input_share)
        joint_rand: list[int] = []
        seed = b""
        if self._has_joint_rand:
            # The own part is computed, never taken from the client; the others' parts are checked by `verify_next`.
            parts[aggregator] = self._joint_rand_part(context, aggregator, blind, measurement, nonce)
            seed = self._joint_rand_seed(context, parts)
            joint_rand = self._joint_rands(context, seed)
        query_rand = self._expand(
            verify_key,
            context,
            _QUERY_RANDOMNESS,
            bytes([self.proofs]) + nonce,
            flp.query_rand_length * self.proofs,
        )
        verifiers: list[int] = []
        for index in range(self.proofs):
            verifiers += flp.query(
                measurement,
                _part(proofs, flp.proof_length, index),
                _part(query_rand, flp.query_rand_length, index),
                _part(joint_rand, flp.joint_rand_length, index),
                self.shares,
            )
        own_part = parts[aggregator] if self._has_joint_rand else b""
        output_share = self._field.encode(self.circuit.truncate(measurement))
        return VerifyState(output_share, seed), self._field.encode(verifiers) + own_part

    def verifier_shares_to_message(self, context: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        """Return the message for `verify_next` from the verifier shares of all aggregators, in their order.

        Raises:
            ParameterError: there are not as many as aggregators.
            VdafDecodeError: a share is malformed.
            VdafVerificationError: a proof does not hold.
        """
        self._check_verifier_shares(verifier_shares)
        return self._verifier_shares_to_message(context, verifier_shares)

    def _check_verifier_shares(self, verifier_shares: Sequence[bytes]) -> None:
        if len(verifier_shares) != self.shares:
            raise ParameterError(name="verifier_shares", bound=f"{self.shares} shares", value=len(verifier_shares))
        for share in verifier_shares:
            check_message("verifier share", share, self.verifier_share_bytes)

    def _verifier_shares_to_message(self, context: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        length = self._flp.verifier_length
        size = length * self.proofs * self._field.encoded_size
        verifiers = [0] * (length * self.proofs)
        parts = []
        for share in verifier_shares:
            elements, part = share[:size], share[size:]
            verifiers = self._field.add(verifiers, self._field.decode(elements, length * self.proofs))
            parts += _split_seeds(part)
        for index in range(self.proofs):
            if not self._flp.decide(_part(verifiers, length, index)):
                raise VdafVerificationError(check="proof", reason=f"proof {index} does not hold")
        return self._joint_rand_seed(context, parts) if self._has_joint_rand else b""

    def verify_next(self, state: VerifyState, message: bytes) -> bytes:
        """Return the output share of a report that is valid, encoded.

        Raises:
            VdafVerificationError: the client gave joint randomness that is not that of its shares.
        """
        if message != state.joint_rand_seed:
            raise VdafVerificationError(check="joint randomness", reason="it is not that of the shares")
        return state.output_share

    def aggregate(self, output_shares: Iterable[bytes]) -> bytes:
        """Return the sum of output shares, or of sums of them, encoded; with none it is zero.

        Raises:
            VdafDecodeError: one is malformed.
        """
        length = self.circuit.output_length
        total = [0] * length
        for share in output_shares:
            total = self._field.add(total, self._field.decode(share, length))
        return self._field.encode(total)

    # The collector.

    def unshard(self, aggregate_shares: Sequence[bytes]) -> Result:
        """Return the result of the aggregate shares of all aggregators.

        Raises:
            ParameterError: there are not as many as aggregators.
            VdafDecodeError: one is malformed.
        """
        if len(aggregate_shares) != self.shares:
            raise ParameterError(name="aggregate_shares", bound=f"{self.shares} shares", value=len(aggregate_shares))
        return self.circuit.decode(self._field.decode(self.aggregate(aggregate_shares), self.circuit.output_length))

    # Seeds and what they expand to.

    def _tag(self, usage: int, context: bytes) -> bytes:
        # Class 0 is that of VDAFs.
        return bytes([VERSION, 0]) + self._id.to_bytes(4, "big") + usage.to_bytes(2, "big") + context

    def _expand(self, seed: bytes, context: bytes, usage: int, binder: bytes, length: int) -> list[int]:
        return expand_into_vector(self._field, seed, self._tag(usage, context), binder, length)

    def _expand_measurement(self, context: bytes, aggregator: int, seed: bytes) -> list[int]:
        return self._expand(seed, context, _MEASUREMENT_SHARE, bytes([aggregator]), self.circuit.measurement_length)

    def _expand_proofs(self, context: bytes, aggregator: int, seed: bytes) -> list[int]:
        binder = bytes([self.proofs, aggregator])
        return self._expand(seed, context, _PROOF_SHARE, binder, self._flp.proof_length * self.proofs)

    def _joint_rand_part(self, context: bytes, aggregator: int, blind: bytes, share: list[int], nonce: bytes) -> bytes:
        binder = bytes([aggregator]) + nonce + self._field.encode(share)
        return derive_seed(blind, self._tag(_JOINT_RAND_PART, context), binder)

    def _joint_rand_seed(self, context: bytes, parts: Sequence[bytes]) -> bytes:
        return derive_seed(bytes(SEED_BYTES), self._tag(_JOINT_RAND_SEED, context), b"".join(parts))

    def _joint_rands(self, context: bytes, seed: bytes) -> list[int]:
        length = self._flp.joint_rand_length * self.proofs
        return self._expand(seed, context, _JOINT_RANDOMNESS, bytes([self.proofs]), length)

    # What the client sent.

    def _decode_input_share(
        self, context: bytes, aggregator: int, input_share: bytes
    ) -> tuple[list[int], list[int], bytes]:
        """Return the share of the measurement, those of the proofs, and the blind."""
        if aggregator > 0:
            seed, blind = input_share[:SEED_BYTES], input_share[SEED_BYTES:]
            return (
                self._expand_measurement(context, aggregator, seed),
                self._expand_proofs(context, aggregator, seed),
                blind,
            )
        elements = self.circuit.measurement_length + self._flp.proof_length * self.proofs
        size = elements * self._field.encoded_size
        decoded = self._field.decode(input_share[:size], elements)
        length = self.circuit.measurement_length
        return decoded[:length], decoded[length:], input_share[size:]


def _split_seeds(encoded: bytes) -> list[bytes]:
    return [encoded[at : at + SEED_BYTES] for at in range(0, len(encoded), SEED_BYTES)]


def _part(vector: list[int], length: int, index: int) -> list[int]:
    return vector[index * length : (index + 1) * length]


def _check_size(name: str, value: bytes, size_bytes: int) -> None:
    if len(value) != size_bytes:
        raise ParameterError(name=name, bound=f"{size_bytes} bytes", value=len(value))


def check_message(what: str, encoded: bytes, size_bytes: int) -> None:
    """Check the size of a message that came from outside.

    Raises:
        VdafDecodeError: it is another.
    """
    if len(encoded) != size_bytes:
        raise VdafDecodeError(what=what, bound=f"of {size_bytes} bytes", value=len(encoded))
