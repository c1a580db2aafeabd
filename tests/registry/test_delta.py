"""A delta makes the next program from the one before; damaged, forged and oversized deltas are refused."""

import struct

import numpy as np
import pytest
from alcove.registry import delta, limits
from alcove.registry.delta import DIFFERENCES, LARGE_BYTES, REFERENCES, WORTH, apply_delta, can_win, make_delta
from alcove.registry.errors import DeltaError
from alcove.registry.package import create_package
from alcove.registry.testing import FakeVerifier
from alcove.registry.zstd import zstd
from hypothesis import given
from hypothesis import strategies as st

SIZE = 40_000


def weights(seed: int, size: int = SIZE) -> np.ndarray:
    """Return bytes that look like int8 weights."""
    return np.clip(np.random.default_rng(seed).normal(0, 30, size), -127, 127).astype(np.int8).view(np.uint8)


def trained_further() -> tuple[bytes, bytes]:
    """Return weights, and the same after a few steps: one in ten is another by one."""
    base, rng = weights(1), np.random.default_rng(2)
    return base.tobytes(), (base + (rng.random(SIZE) < 0.1).astype(np.uint8)).tobytes()


def one_layer_replaced() -> tuple[bytes, bytes]:
    """Return weights, and the same with a piece in front, and another piece in the middle."""
    base = weights(1).tobytes()
    return base, weights(7, 500).tobytes() + base[:20_000] + weights(8, 1000).tobytes() + base[21_000:]


def method_of(delta: bytes) -> int:
    """Return the method that a delta names."""
    return int(struct.unpack_from("<4sHHQ", delta)[2])


@pytest.mark.parametrize(("pair", "method"), [(trained_further(), DIFFERENCES), (one_layer_replaced(), REFERENCES)])
def test_delta_is_a_fraction_of_the_program_and_makes_it(pair: tuple[bytes, bytes], method: int) -> None:
    """The smaller of the two methods is kept; either has a case in which it wins."""
    base, program = pair
    delta = make_delta(base, program)
    assert method_of(delta) == method
    assert len(delta) < 0.2 * len(program)
    assert apply_delta(base, delta, len(program)) == program
    assert make_delta(base, program) == delta


@given(st.binary(min_size=1, max_size=300), st.binary(min_size=1, max_size=300))
def test_any_two_programs_have_a_delta(base: bytes, program: bytes) -> None:
    """Of any lengths, alike or not."""
    assert apply_delta(base, make_delta(base, program), len(program)) == program


@pytest.mark.parametrize("pair", [trained_further(), one_layer_replaced()])
def test_delta_cut_anywhere_is_refused(pair: tuple[bytes, bytes]) -> None:
    """Every length below its own, near both ends, and some between."""
    base, program = pair
    delta = make_delta(base, program)
    for length in [*range(64), *range(64, len(delta) - 64, 97), *range(len(delta) - 64, len(delta))]:
        with pytest.raises(DeltaError):
            apply_delta(base, delta[:length], len(program))


@pytest.mark.parametrize("pair", [trained_further(), one_layer_replaced()])
def test_changed_delta_is_refused_or_makes_as_many_bytes(pair: tuple[bytes, bytes]) -> None:
    """Every bit of the head, and one of every 50th byte: an error, or the signed size; the digest comes after."""
    base, program = pair
    delta = make_delta(base, program)
    for at in [*range(16), *range(16, len(delta), 50)]:
        for bit in range(8) if at < 16 else (at % 8,):
            changed = bytearray(delta)
            changed[at] ^= 1 << bit
            try:
                made = apply_delta(base, bytes(changed), len(program))
            except DeltaError:
                continue
            assert at >= 16
            assert len(made) == len(program)


def test_other_base_never_makes_the_program() -> None:
    """What comes of it is refused here or has another digest."""
    for base, program in (trained_further(), one_layer_replaced()):
        delta = make_delta(base, program)
        for other in (b"", base[:-1], base[1:], bytes(len(base)), weights(9).tobytes()):
            try:
                assert apply_delta(other, delta, len(program)) != program
            except DeltaError:
                continue


def test_frame_that_promises_more_than_was_signed_is_refused_before_memory_is_taken() -> None:
    """A gigabyte of zeros in 32 kB, a frame that hides its size, and a head that agrees with them."""
    zeros = zstd.compress(bytes(1 << 26), 19)
    hidden = zstd.compress(bytes(1 << 20), options={zstd.CompressionParameter.content_size_flag: 0})
    for method in (REFERENCES, DIFFERENCES):
        for frame in (zeros, hidden):
            head = struct.pack("<4sHHQ", b"ALCD", 1, method, 1000)
            with pytest.raises(DeltaError, match="does not hold 1000 bytes"):
                apply_delta(b"base", head + frame, 1000)
            with pytest.raises(DeltaError, match="makes 1000 bytes; 999 were signed"):
                apply_delta(b"base", head + frame, 999)


@pytest.mark.parametrize(
    ("delta", "why"),
    [
        (b"", "at least 16 bytes, not 0"),
        (b"ALCX" + bytes(12), "begins with"),
        (struct.pack("<4sHHQ", b"ALCD", 2, 1, 5), "version 1, not .* 2"),
        (struct.pack("<4sHHQ", b"ALCD", 1, 3, 5), "method is 1 or 2, not 3"),
        (struct.pack("<4sHHQ", b"ALCD", 1, 1, 5), "damaged"),
        (struct.pack("<4sHHQ", b"ALCD", 1, 1, 1 << 60), "makes 1152921504606846976 bytes; 5 were signed"),
    ],
)
def test_bytes_that_are_no_delta_are_refused_by_name(delta: bytes, why: str) -> None:
    """The message has the bound and the value."""
    with pytest.raises(DeltaError, match=why):
        apply_delta(b"base", delta, 5)


def test_size_beyond_any_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made or applied."""
    monkeypatch.setattr(limits, "PROGRAM_MAX_BYTES", 4)
    with pytest.raises(ValueError, match="base has 1 to 4 bytes, not 5"):
        make_delta(b"12345", b"1")
    with pytest.raises(ValueError, match="program has 1 to 4 bytes, not 0"):
        make_delta(b"1", b"")
    with pytest.raises(DeltaError, match="makes 5 bytes; 4 were signed"):
        apply_delta(b"1234", struct.pack("<4sHHQ", b"ALCD", 1, 1, 5) + b"x", 5)


@pytest.mark.parametrize("part", [0.0001, 0.1, 0.3, 0.45, 0.55, 0.8, 1.0, 2.0])
@pytest.mark.parametrize("step", [1, 16])
def test_base_is_passed_over_only_where_its_delta_would_not_be_kept(part: float, step: int) -> None:
    """Of weights and of bytes that pack well: no base is lost that wins; one that is far too short is not tried."""
    program = (weights(1) // step).tobytes()
    base = (program * 2)[: max(1, int(part * SIZE))]
    is_kept = len(make_delta(base, program)) < WORTH * len(program)
    assert can_win(base, program) >= is_kept


def test_package_makes_no_delta_from_bases_that_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large program after small ones: none is tried, and the ones that can win are not crowded out by them."""
    tried: list[int] = []

    def make(base: bytes, _program: bytes) -> bytes:
        tried.append(len(base))
        return bytes(SIZE)

    monkeypatch.setattr(delta, "make_delta", make)
    program = weights(1).tobytes()
    small = [weights(seed, 500).tobytes() for seed in range(2, 2 + limits.DELTAS_MAX)]
    create_package(
        feature="greeting",
        team="hello",
        version="2.0.0",
        programs={"f32": b"program " + program},
        card="# Card\n",
        bases={"f32": [*small, program]},
        verifier=FakeVerifier(),
    )
    assert tried == [len(program)]


def test_delta_of_a_large_program_finds_what_it_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are packed at a lower level, which still finds stretches that have moved."""
    monkeypatch.setattr(delta, "LARGE_BYTES", SIZE)
    base, program = one_layer_replaced()
    made = make_delta(base, program)
    assert len(made) < 0.2 * len(program)
    assert apply_delta(base, made, len(program)) == program
    assert LARGE_BYTES > SIZE
