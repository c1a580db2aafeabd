"""Proves and checks that an encoded measurement is valid, by linear queries alone, so that shares can be checked.

The prover gives, for the gadget of a circuit, the polynomial of its outputs over all calls. A verifier reads the
outputs from (a share of) it and compares the polynomials of wires and outputs at a random point.

Source: draft-irtf-cfrg-vdaf, section 7.3, after Boneh and others, "Zero-Knowledge Proofs on Secret-Shared Data via
Fully Linear PCPs" (2019).
"""

from collections.abc import Sequence
from typing import Any

from alcove.privacy.errors import VdafVerificationError
from alcove.privacy.prio3.circuits import Circuit, Evaluation
from alcove.privacy.prio3.polynomials import dot, extend_to_power_of_2, next_power_of_2, weights_at


class Flp:
    """The proof system of a circuit.

    Attributes:
        prove_rand_length, query_rand_length, joint_rand_length: elements of randomness: the prover's own, the
            verifiers' own, and the one that both have.
        proof_length, verifier_length: elements of a proof, and of what a verifier's query gives.
    """

    def __init__(self, circuit: Circuit[Any, Any]) -> None:
        self.circuit = circuit
        self.field = circuit.field
        self.wire_length = next_power_of_2(1 + circuit.calls)
        self.gadget_length = circuit.gadget.polynomial_length(self.wire_length)
        self.prove_rand_length = circuit.gadget.arity
        self.joint_rand_length = circuit.joint_rand_length
        self._reduced = circuit.eval_output_length if circuit.eval_output_length > 1 else 0
        self.query_rand_length = self._reduced + 1
        self.proof_length = circuit.gadget.arity + self.gadget_length
        self.verifier_length = circuit.gadget.arity + 2

    def prove(self, encoded: Sequence[int], prove_rand: Sequence[int], joint_rand: Sequence[int]) -> list[int]:
        """Return the proof: the seed of each wire and the polynomial of the gadget's outputs."""
        gadget = self.circuit.gadget
        wires = _Wires(prove_rand, self.wire_length)

        def call(inputs: Sequence[int]) -> int:
            wires.record(inputs)
            return gadget.evaluate(self.field, inputs)

        self.circuit.evaluate(encoded, Evaluation(joint_rand, 1, call))
        outputs = gadget.evaluate_polynomials(self.field, wires.values)
        return [*prove_rand, *outputs[: self.gadget_length]]

    def query(
        self,
        encoded: Sequence[int],
        proof: Sequence[int],
        query_rand: Sequence[int],
        joint_rand: Sequence[int],
        share_count: int,
    ) -> list[int]:
        """Return (a share of) what `decide` judges.

        Raises:
            VdafVerificationError: the random point is one at which the polynomials say what the measurement is; for a
                random key this happens practically never.
        """
        arity = self.circuit.gadget.arity
        modulus = self.field.modulus
        outputs = extend_to_power_of_2(self.field, proof[arity:])
        step = len(outputs) // self.wire_length
        wires = _Wires(proof[:arity], self.wire_length)

        def call(inputs: Sequence[int]) -> int:
            return outputs[wires.record(inputs) * step]

        checks = self.circuit.evaluate(encoded, Evaluation(joint_rand, share_count, call))
        *factors, point = query_rand
        if pow(point, self.wire_length, modulus) == 1 or pow(point, len(outputs), modulus) == 1:
            raise VdafVerificationError(check="test point", reason="it is a root of unity")
        reduced = dot(factors, checks) % modulus if self._reduced else checks[0]
        at_wires = weights_at(self.field, self.wire_length, point)
        at_outputs = weights_at(self.field, len(outputs), point)
        return [reduced, *(dot(at_wires, wire) % modulus for wire in wires.values), dot(at_outputs, outputs) % modulus]

    def decide(self, verifier: Sequence[int]) -> bool:
        """Return whether a verifier message, the sum of all shares, is that of a valid measurement."""
        reduced, *wires, output = verifier
        return reduced == 0 and self.circuit.gadget.evaluate(self.field, wires) == output


class _Wires:
    """The values on a gadget's input wires, call by call; value 0 of each is its seed, those past the last call 0."""

    def __init__(self, seeds: Sequence[int], length: int) -> None:
        self.values = [[seed, *([0] * (length - 1))] for seed in seeds]
        self._calls = 0

    def record(self, inputs: Sequence[int]) -> int:
        """Keep the inputs of the next call; return its number, from 1."""
        self._calls += 1
        for wire, value in zip(self.values, inputs, strict=True):
            wire[self._calls] = value
        return self._calls
