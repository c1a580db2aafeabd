"""The native form gives the bytes of the readable one, and refuses what it refuses."""

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest
from alcove.privacy import _native
from alcove.privacy.errors import ParameterError, VdafDecodeError, VdafError
from alcove.privacy.prio3 import Circuit, Count, Histogram, MultihotCountVec, Prio3, Report, Sum, SumVec
from alcove.privacy.prio3.native import NativePrio3
from alcove.privacy.prio3.vdaf import VerifyState
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.privacy.prio3.test_vectors import HigherDegree

KEY, CONTEXT = bytes(range(32)), b"alcove test"
Verified = list[tuple[VerifyState, bytes]]


@st.composite
def measurements(draw: st.DrawFn) -> tuple[Circuit[Any, Any], Any]:
    """A circuit, and a measurement for it."""
    length, chunk, most = draw(st.integers(1, 20)), draw(st.none() | st.integers(1, 12)), draw(st.integers(1, 2**40))
    match draw(st.sampled_from(["count", "sum", "sum_vec", "histogram", "multihot"])):
        case "count":
            return Count(), draw(st.integers(0, 1))
        case "sum":
            return Sum(most), draw(st.integers(0, most))
        case "sum_vec":
            length = min(length, 4)
            return SumVec(length, most, chunk), draw(st.lists(st.integers(0, most), min_size=length, max_size=length))
        case "histogram":
            return Histogram(length, chunk), draw(st.integers(0, length - 1))
        case _:
            weight = draw(st.integers(1, length))
            places = draw(st.sets(st.integers(0, length - 1), max_size=weight))
            return MultihotCountVec(length, weight, chunk), [place in places for place in range(length)]


def verify(form: Prio3[Any, Any], nonce: bytes, public: bytes, shares: Sequence[bytes]) -> tuple[object, ...]:
    """Everything that a form says of a report, or the kind of its error."""
    try:
        found: Verified = [
            form.verify_init(KEY, CONTEXT, index, Report(nonce, public, share)) for index, share in enumerate(shares)
        ]
        message = form.verifier_shares_to_message(CONTEXT, [share for _, share in found])
        outputs = [form.verify_next(state, message) for state, _ in found]
    except VdafError as error:
        return (type(error),)
    return (found, message, outputs, form.aggregate(outputs))


@settings(max_examples=40)
@example(case=(SumVec(1, 1), [0]), shares=2, proofs=1, seed=0)
@example(case=(Histogram(1), 0), shares=2, proofs=1, seed=0)
@given(case=measurements(), shares=st.integers(2, 4), proofs=st.integers(1, 2), seed=st.integers(0, 2**32))
def test_both_forms_give_the_same_bytes(
    case: tuple[Circuit[Any, Any], Any], shares: int, proofs: int, seed: int
) -> None:
    """Shares, messages and sums of any circuit; and of the same report with one bit changed the same verdict."""
    circuit, measurement = case
    readable, native = Prio3(circuit, shares, proofs), NativePrio3(circuit, shares, proofs)
    source = random.Random(seed)
    nonce, rand = source.randbytes(16), source.randbytes(readable.rand_bytes)
    public, inputs = readable.shard(CONTEXT, measurement, nonce, rand)
    assert native.shard(CONTEXT, measurement, nonce, rand) == (public, inputs)
    assert verify(native, nonce, public, inputs) == verify(readable, nonce, public, inputs)
    parts = [nonce, public, *inputs]
    index = source.choice([index for index, part in enumerate(parts) if part])
    changed = bytearray(parts[index])
    changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    parts[index] = bytes(changed)
    assert verify(native, parts[0], parts[1], parts[2:]) == verify(readable, parts[0], parts[1], parts[2:])


def test_many_reports_are_verified_as_one_by_one() -> None:
    """Good ones, one of another size, one with an element above the modulus, one whose proof does not hold."""
    prio3 = NativePrio3(Histogram(8))
    nonces = [os.urandom(16) for _ in range(6)]
    sharded = [prio3.shard(CONTEXT, cell, nonce, os.urandom(prio3.rand_bytes)) for cell, nonce in enumerate(nonces)]
    leaders = [Report(nonce, public, shares[0]) for nonce, (public, shares) in zip(nonces, sharded, strict=True)]
    helpers = [Report(nonce, public, shares[1]) for nonce, (public, shares) in zip(nonces, sharded, strict=True)]
    leaders[1] = Report(nonces[1], leaders[1].public_share, leaders[1].input_share[:-1])
    leaders[3] = Report(nonces[3], leaders[3].public_share, b"\xff" * 16 + leaders[3].input_share[16:])
    helpers[4] = Report(nonces[4], helpers[4].public_share, helpers[5].input_share)
    found = [prio3.verify_init_many(KEY, CONTEXT, index, each) for index, each in enumerate((leaders, helpers))]
    for index, reports in enumerate((leaders, helpers)):
        for report, one in zip(reports, found[index], strict=True):
            if isinstance(one, VdafError):
                with pytest.raises(type(one)):
                    prio3.verify_init(KEY, CONTEXT, index, report)
            else:
                assert one == prio3.verify_init(KEY, CONTEXT, index, report)
    assert [place for place, one in enumerate(found[0]) if isinstance(one, VdafDecodeError)] == [1, 3]
    pairs = [
        [one[1], other[1]] for one, other in zip(*found, strict=True) if not isinstance(one, VdafError)
        and not isinstance(other, VdafError)
    ]  # fmt: skip
    messages = prio3.verifier_shares_to_message_many(CONTEXT, [*pairs, [b"", b""]])
    assert [isinstance(each, VdafError) for each in messages] == [False, False, True, False, True]
    assert messages[0] == prio3.verifier_shares_to_message(CONTEXT, pairs[0])


def test_a_circuit_of_ones_own_is_refused() -> None:
    """The native form knows those of the draft."""
    with pytest.raises(ParameterError, match="one of the draft's"):
        NativePrio3(HigherDegree())


def test_sums_are_of_shares_of_the_right_size_and_range() -> None:
    """Both forms; nothing is added that is none."""
    for form in (Prio3(Histogram(4)), NativePrio3(Histogram(4))):
        for wrong in (bytes(63), bytes(65), b"\xff" * 64):
            with pytest.raises(VdafDecodeError):
                form.aggregate([bytes(64), wrong])
        assert form.aggregate([]) == bytes(64)


def test_the_module_itself_reads_nothing_beyond_what_it_gets() -> None:
    """Without the wrapper's checks: messages of any size, and an aggregator that is none."""
    core = _native.NativePrio3(4, 4, 16, 2, 1, 4, 2, 4, b"")
    for size in (0, 15, 17):
        with pytest.raises(ValueError, match="another size"):
            core.shard(b"", bytes(4), bytes(size), bytes(128))
        with pytest.raises(ValueError, match="another size"):
            core.verify_init(KEY, b"", 0, [(bytes(16), bytes(64), bytes(size))])
        with pytest.raises(ValueError, match="another size"):
            core.combine(b"", [[bytes(size), bytes(size)]])
        with pytest.raises(ValueError, match="another size"):
            core.aggregate([bytes(size)])
    with pytest.raises(ValueError, match="no such aggregator"):
        core.verify_init(KEY, b"", 2, [])


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(4))
def test_no_mutant_of_a_million_is_accepted(block: int) -> None:
    """Bits flipped, bytes drawn anew, elements off by one, parts of two reports exchanged: four blocks of 250,000."""
    source = random.Random(block)
    circuits: list[Circuit[Any, Any]] = [Histogram(8, 3), MultihotCountVec(6, 2, 3), SumVec(2, 6, 2), Sum(200)]
    prio3 = NativePrio3(circuits[block])
    measurement: Any = [3, [True, *[False] * 5], [6, 2], 77][block]
    reports: list[list[bytes]] = []
    for _ in range(2):
        nonce = source.randbytes(16)
        public, shares = prio3.shard(CONTEXT, measurement, nonce, source.randbytes(prio3.rand_bytes))
        reports.append([nonce, public, *shares])
    accepted = 0
    for _ in range(250):
        mutants = [mutate(source, reports, bool(public)) for _ in range(1000)]
        found = [
            prio3.verify_init_many(KEY, CONTEXT, index, [Report(each[0], each[1], each[2 + index]) for each in mutants])
            for index in range(2)
        ]
        both = [
            (one, other)
            for one, other in zip(*found, strict=True)
            if not isinstance(one, VdafError) and not isinstance(other, VdafError)
        ]
        messages = prio3.verifier_shares_to_message_many(CONTEXT, [[one[1], other[1]] for one, other in both])
        for pair, message in zip(both, messages, strict=True):
            accepted += isinstance(message, bytes) and all(state.joint_rand_seed == message for state, _ in pair)
    assert accepted == 0


def mutate(source: random.Random, reports: list[list[bytes]], has_public_share: bool) -> list[bytes]:
    """A changed report: never the report itself, nor another valid one."""
    original, other = reports
    parts = list(original)
    # Without joint randomness the nonce is no part of the proof.
    index = source.choice([0, 1, 2, 3] if has_public_share else [2, 3])
    part = bytearray(parts[index])
    at = source.randrange(len(part))
    match source.randrange(4):
        case 0:
            part[at] ^= 1 << source.randrange(8)
        case 1:
            part[at] ^= source.randrange(1, 256)
        case 2:
            start = at // 8 * 8
            word = int.from_bytes(part[start : start + 8], "little")
            part[start : start + 8] = ((word + source.choice([1, -1])) % 2**64).to_bytes(8, "little")
        case _:
            part = bytearray(other[index])
    parts[index] = bytes(part)
    return parts
