"""Prio3 gives the published vectors, byte for byte, and refuses the bad ones where they say.

Source of `vectors/`: the draft's own repository, cfrg/draft-irtf-cfrg-vdaf, folder test_vec/vdaf.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from alcove.privacy.errors import VdafError
from alcove.privacy.prio3 import (
    FIELD64,
    FIELD128,
    Circuit,
    Count,
    Histogram,
    MultihotCountVec,
    Prio3,
    Report,
    Sum,
    SumVec,
)
from alcove.privacy.prio3.circuits import Evaluation, PolynomialEvaluation
from alcove.privacy.prio3.native import NativePrio3
from alcove.privacy.prio3.xof import derive_seed, expand_into_vector

if TYPE_CHECKING:
    from alcove.privacy.prio3.vdaf import VerifyState

VECTORS = sorted((Path(__file__).parent / "vectors").glob("Prio3*.json"))
EXPERIMENTAL = 0xFFFFFFFF
Vector: TypeAlias = dict[str, Any]


class HigherDegree(Circuit[int, int]):
    """0, 1 or 2: the gadget is x (x - 1) (x - 2). The draft has it for its vectors alone."""

    algorithm_id = EXPERIMENTAL
    field = FIELD64
    calls = measurement_length = eval_output_length = output_length = 1
    joint_rand_length = 0

    def __init__(self) -> None:
        self.gadget = PolynomialEvaluation((0, 2, -3, 1))

    def encode(self, measurement: int) -> list[int]:
        """Return the one element."""
        return [measurement]

    def evaluate(self, encoded: Sequence[int], run: Evaluation) -> list[int]:
        """Return the gadget's output."""
        return [run.call(encoded)]

    def truncate(self, encoded: list[int]) -> list[int]:
        """Return the element."""
        return encoded

    def decode(self, output: list[int]) -> int:
        """Return the sum."""
        return output[0]


def prio3_of(form: type[Prio3[Any, Any]], name: str, vector: Vector) -> Prio3[Any, Any]:
    """The instance that a vector is of."""
    shares = vector["shares"]
    chunk = vector.get("chunk_length")
    match name.split("_", maxsplit=1)[0]:
        case "Prio3Count":
            circuit: Circuit[Any, Any] = Count()
        case "Prio3Sum":
            circuit = Sum(vector["max_measurement"])
        case "Prio3SumVec":
            circuit = SumVec(vector["length"], vector["max_measurement"], chunk)
        case "Prio3SumVecWithMultiproof":
            circuit = SumVec(vector["length"], vector["max_measurement"], chunk, FIELD64)
            return form(circuit, shares, proofs=3, algorithm_id=EXPERIMENTAL)
        case "Prio3Histogram":
            circuit = Histogram(vector["length"], chunk)
        case "Prio3MultihotCountVec":
            circuit = MultihotCountVec(vector["length"], vector["max_weight"], chunk)
        case "Prio3HigherDegree":
            circuit = HigherDegree()
        case other:
            raise AssertionError(other)
    return form(circuit, shares)


class Replay:
    """Runs a vector's operations, each with the vector's own messages as input."""

    def __init__(self, prio3: Prio3[Any, Any], vector: Vector) -> None:
        self.prio3 = prio3
        self.vector = vector
        self.context = bytes.fromhex(vector["ctx"])
        self.states: dict[tuple[int, int], VerifyState] = {}
        self.outputs: dict[int, list[bytes]] = {}

    def run(self, operation: Vector) -> tuple[object, object]:
        """Return what came, and what the vector says."""
        report = self.vector["reports"][operation.get("report_index", 0)]
        at: int = operation.get("aggregator_id", 0)
        prio3 = self.prio3
        match operation["operation"]:
            case "shard":
                nonce, rand = bytes.fromhex(report["nonce"]), bytes.fromhex(report["rand"])
                public, shares = prio3.shard(self.context, report["measurement"], nonce, rand)
                assert len(public) == prio3.public_share_bytes
                assert [len(share) for share in shares] == [prio3.input_share_bytes(i) for i in range(prio3.shares)]
                return (public.hex(), [each.hex() for each in shares]), (report["public_share"], report["input_shares"])
            case "verify_init":
                state, share = prio3.verify_init(
                    bytes.fromhex(self.vector["verify_key"]),
                    self.context,
                    at,
                    Report(
                        bytes.fromhex(report["nonce"]),
                        bytes.fromhex(report["public_share"]),
                        bytes.fromhex(report["input_shares"][at]),
                    ),
                )
                self.states[operation["report_index"], at] = state
                return share.hex(), report["verifier_shares"][0][at]
            case "verifier_shares_to_message":
                verifier_shares = [bytes.fromhex(share) for share in report["verifier_shares"][0]]
                message = prio3.verifier_shares_to_message(self.context, verifier_shares)
                return message.hex(), report["verifier_messages"][0]
            case "verify_next":
                message = bytes.fromhex(report["verifier_messages"][0])
                output = prio3.verify_next(self.states[operation["report_index"], at], message)
                self.outputs.setdefault(at, []).append(output)
                return output.hex(), report["out_shares"][at]
            case "aggregate":
                total = prio3.aggregate(self.outputs[at])
                return total.hex(), self.vector["agg_shares"][at]
            case "unshard":
                return prio3.unshard([bytes.fromhex(each) for each in self.vector["agg_shares"]]), self.vector[
                    "agg_result"
                ]
            case other:
                raise AssertionError(other)


@pytest.mark.parametrize("form", [Prio3, NativePrio3])
@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_published_vector_is_given_step_by_step(path: Path, form: type[Prio3[Any, Any]]) -> None:
    """Each operation succeeds with the vector's bytes, or fails where the vector says that it must."""
    if path.stem.startswith("Prio3HigherDegree"):
        form = Prio3  # its gadget has degree 3; the native form has those of the draft's circuits, of degree 2
    vector: Vector = json.loads(path.read_text(encoding="utf-8"))
    replay = Replay(prio3_of(form, path.stem, vector), vector)
    for operation in vector["operations"]:
        if operation["success"]:
            given, expected = replay.run(operation)
            assert given == expected, operation
        else:
            with pytest.raises(VdafError):
                replay.run(operation)


def test_all_published_vectors_are_here() -> None:
    """Nineteen of Prio3, seven of them bad, and one of the XOF."""
    assert len(VECTORS) == 19
    assert sum("_bad_" in path.stem for path in VECTORS) == 7


def test_xof_vector_is_given() -> None:
    """A derived seed, and a vector of field elements."""
    path = Path(__file__).parent / "vectors" / "XofTurboShake128.json"
    vector: Vector = json.loads(path.read_text(encoding="utf-8"))
    seed, tag, binder = (bytes.fromhex(vector[name]) for name in ("seed", "dst", "binder"))
    assert derive_seed(seed, tag, binder).hex() == vector["derived_seed"]
    expanded = expand_into_vector(FIELD128, seed, tag, binder, vector["length"])
    assert FIELD128.encode(expanded).hex() == vector["expanded_vec_field128"]
