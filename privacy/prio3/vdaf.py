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
class VerifyState:
    """What an aggregator keeps of a report between its two steps.

    Attributes:
        output_share: is added up once the report is valid.
        joint_rand_seed: as computed from the client's public share; None without joint randomness.
    """

    output_share: list[int]
    joint_rand_seed: bytes | None


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
        seeds = [rand[at : at + SEED_BYTES] for at in range(0, len(rand), SEED_BYTES)]
        encoded = self.circuit.encode(measurement)
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
        *,
        nonce: bytes,
        public_share: bytes,
        input_share: bytes,
    ) -> tuple[VerifyState, bytes]:
        """Return what to keep of a report and the verifier share to send to the other aggregators.

        Args:
            verify_key: `SEED_BYTES` bytes that all aggregators have and no client knows.
            context: as the client's.
            aggregator: in [0, shares).
            nonce: of the report.
            public_share: of the report.
            input_share: this aggregator's.

        Raises:
            ParameterError: an argument of the aggregator's own is out of its bound.
            VdafDecodeError: a share of the client's is malformed.
            VdafVerificationError: the report cannot be verified.
        """
        _check_size("verify_key", verify_key, SEED_BYTES)
        _check_size("nonce", nonce, NONCE_BYTES)
        if not 0 <= aggregator < self.shares:
            raise ParameterError(name="aggregator", bound=f"in [0, {self.shares})", value=aggregator)
        flp = self._flp
        parts = self._decode_seeds("public share", public_share, self.public_share_bytes)
        measurement, proofs, blind = self._decode_input_share(context, aggregator, input_share)
        joint_rand: list[int] = []
        seed: bytes | None = None
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
        return VerifyState(self.circuit.truncate(measurement), seed), self._field.encode(verifiers) + own_part

    def verifier_shares_to_message(self, context: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        """Return the message for `verify_next` from the verifier shares of all aggregators, in their order.

        Raises:
            ParameterError: there are not as many as aggregators.
            VdafDecodeError: a share is malformed.
            VdafVerificationError: a proof does not hold.
        """
        if len(verifier_shares) != self.shares:
            raise ParameterError(name="verifier_shares", bound=f"{self.shares} shares", value=len(verifier_shares))
        length = self._flp.verifier_length
        size = length * self.proofs * self._field.encoded_size
        verifiers = [0] * (length * self.proofs)
        parts = []
        for share in verifier_shares:
            elements, part = share[:size], share[size:]
            verifiers = self._field.add(verifiers, self._field.decode(elements, length * self.proofs))
            parts += self._decode_seeds("verifier share's end", part, SEED_BYTES if self._has_joint_rand else 0)
        for index in range(self.proofs):
            if not self._flp.decide(_part(verifiers, length, index)):
                raise VdafVerificationError(check="proof", reason=f"proof {index} does not hold")
        return self._joint_rand_seed(context, parts) if self._has_joint_rand else b""

    def verify_next(self, state: VerifyState, message: bytes) -> list[int]:
        """Return the output share of a report that is valid.

        Raises:
            VdafVerificationError: the client gave joint randomness that is not that of its shares.
        """
        if message != (state.joint_rand_seed or b""):
            raise VdafVerificationError(check="joint randomness", reason="it is not that of the shares")
        return state.output_share

    def aggregate(self, output_shares: Iterable[Sequence[int]]) -> list[int]:
        """Return the sum of output shares, `output_length` elements; with none it is zero."""
        total = [0] * self.circuit.output_length
        for share in output_shares:
            total = self._field.add(total, list(share))
        return total

    def encode_aggregate_share(self, share: Sequence[int]) -> bytes:
        """Return an aggregate share (or an output share) as it travels."""
        return self._field.encode(share)

    def decode_aggregate_share(self, encoded: bytes) -> list[int]:
        """Return an aggregate share.

        Raises:
            VdafDecodeError: the bytes are no such share.
        """
        return self._field.decode(encoded, self.circuit.output_length)

    # The collector.

    def unshard(self, aggregate_shares: Sequence[Sequence[int]]) -> Result:
        """Return the result of the aggregate shares of all aggregators.

        Raises:
            ParameterError: there are not as many as aggregators.
        """
        if len(aggregate_shares) != self.shares:
            raise ParameterError(name="aggregate_shares", bound=f"{self.shares} shares", value=len(aggregate_shares))
        return self.circuit.decode(self.aggregate(aggregate_shares))

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
        _check_message(f"input share of aggregator {aggregator}", input_share, self.input_share_bytes(aggregator))
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

    def _decode_seeds(self, what: str, encoded: bytes, size_bytes: int) -> list[bytes]:
        _check_message(what, encoded, size_bytes)
        return [encoded[at : at + SEED_BYTES] for at in range(0, size_bytes, SEED_BYTES)]


def _part(vector: list[int], length: int, index: int) -> list[int]:
    return vector[index * length : (index + 1) * length]


def _check_size(name: str, value: bytes, size_bytes: int) -> None:
    if len(value) != size_bytes:
        raise ParameterError(name=name, bound=f"{size_bytes} bytes", value=len(value))


def _check_message(what: str, encoded: bytes, size_bytes: int) -> None:
    if len(encoded) != size_bytes:
        raise VdafDecodeError(what=what, bound=f"of {size_bytes} bytes", value=len(encoded))
