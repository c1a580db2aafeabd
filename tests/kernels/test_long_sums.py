"""Sums of more than 1,024 terms follow docs/format.md, with the same bits on every instruction set.

The rule is written again from that page, in numpy's float32, whose single steps round as IEEE 754 does. Factors are
powers of two wherever a product is fused with an addition, so that the product itself is exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LENGTHS = (1023, 1024, 1025, 1280, 1281, 4097, 5120, 8200)
FAR = 70_000
"""Reaches the third level of products."""


def floats(random: np.random.Generator, *shape: int) -> Floats:
    """Numbers of different sizes."""
    return (random.standard_normal(shape) * 2.0 ** random.integers(-4, 4, shape)).astype(np.float32)


def powers(random: np.random.Generator, *shape: int) -> Floats:
    """Factors that no product rounds with."""
    factors: Floats = (random.choice([-1.0, 1.0], shape) * 2.0 ** random.integers(-3, 3, shape)).astype(np.float32)
    return factors


def levels(blocks: list[Floats]) -> Floats:
    """The sum of blocks' sums: sixteen to a level, four levels, from the lowest up in the end."""
    held: list[list[Floats]] = [[], [], [], []]
    for block in blocks:
        carried = block
        for level in range(4):
            held[level].append(carried)
            if len(held[level]) < 16 or level == 3:
                break
            carried = in_order(held[level])
            held[level] = []
    sums = [in_order(each) for each in held if each]
    total = sums[0]
    for above in sums[1:]:
        total = above + total
    return total


def in_order(terms: Any) -> Floats:
    """One rounded addition after the other."""
    total = np.array(terms[0], np.float32)
    for term in terms[1:]:
        total = total + term
    return np.asarray(total, np.float32)


def chain(start: Floats, terms: Floats) -> Floats:
    """`start`, then each of axis 0 added; long ones in blocks."""
    if len(terms) <= 1024:
        return in_order([start, *terms])
    zero = np.zeros_like(start)
    starts = [start] + [zero] * (len(terms) // 256)
    blocks = zip(starts, range(0, len(terms), 256), strict=False)
    return levels([in_order([begin, *terms[at : at + 256]]) for begin, at in blocks])


def by_lanes(x: Floats) -> Floats:
    """A sum over axis 0 by sixteen lanes, which restart after each 1,024."""
    blocks = []
    for at in range(0, len(x), 1024):
        lanes = np.zeros((16, *x.shape[1:]), np.float32)
        for i, row in enumerate(x[at : at + 1024]):
            lanes[i % 16] += row
        blocks.append(lanes)
    lanes = levels(blocks)
    for width in (8, 4, 2, 1):
        lanes = lanes[:width] + lanes[width : 2 * width]
    return np.asarray(lanes[0], np.float32)


def linear_program(m: int, n: int, weight: Floats, bias: Floats) -> bytes:
    """One linear."""
    build = Assembly()
    x = build.input("x", DType.F32, (m, weight.shape[1]))
    panels = build.panels("weight", weight, bias)
    build.output("y", build.op("linear", [x, panels], (DType.F32, (m, n)), attributes=PLAIN_LINEAR)[0])
    return build.program()


def reduce_program(n: int, inner: int) -> bytes:
    """Sums of columns; of rows where `inner` is 1."""
    build = Assembly()
    x = build.input("x", DType.F32, (n, inner))
    build.output("y", build.op("reduce", [x], (DType.F32, (inner,)), attributes=(0, 0, 1))[0])
    return build.program()


def cases() -> dict[str, tuple[bytes, list[Any]]]:
    """Every kernel that has a chain or lanes of its own, around the ends of blocks and levels."""
    random = np.random.default_rng(90)
    results: dict[str, tuple[bytes, list[Any]]] = {}
    for k in LENGTHS:
        for m, n in ((1, 17), (1, 130), (5, 40), (13, 9), (29, 50)):
            program = linear_program(m, n, floats(random, n, k), floats(random, n))
            results[f"linear {m}x{n}x{k}"] = (program, [floats(random, m, k)])
        for inner in (1, 3, 64, 65):
            results[f"reduce {k}x{inner}"] = (reduce_program(k, inner), [floats(random, k, inner)])
        build = Assembly()
        x = build.input("x", DType.F32, (2, k))
        build.output("soft", build.op("softmax", [x], (DType.F32, (2, k)), attributes=(0,))[0])
        build.output("log", build.op("softmax", [x], (DType.F32, (2, k)), attributes=(1,))[0])
        results[f"softmax {k}"] = (build.program(), [floats(random, 2, k)])
        build = Assembly()
        x = build.input("x", DType.F32, (2, k))
        build.output("rms", build.op("layer_norm", [x], (DType.F32, (2, k)), attributes=(1, 1, 0, 0.1, 0, 0.0, 0.0))[0])
        results[f"rms {k}"] = (build.program(), [floats(random, 2, k)])
        for dim in (1, 9, 32, 70):
            build = Assembly()
            table = build.constant("table", floats(random, 11, dim))
            ids = build.input("ids", DType.I32, (k,), is_ragged=True)
            build.output("bag", build.op("text_embedding_bag", [ids, table], (DType.F32, (1, dim)), attributes=(1,))[0])
            results[f"bag {k}x{dim}"] = (build.program(), [random.integers(0, 11, k).astype(np.int32)])
            build = Assembly()
            table = build.constant("table", floats(random, 11, dim))
            ids = build.input("ids", DType.I32, (2, k))
            build.output(
                "bags",
                build.op("embedding_bag_offsets", [ids, table], (DType.F32, (2, dim)), attributes=(0, 3, 0, 0))[0],
            )
            results[f"bags {k}x{dim}"] = (build.program(), [random.integers(0, 11, (2, k)).astype(np.int32)])
    results["far linear"] = (
        linear_program(3, 20, floats(random, 20, FAR), floats(random, 20)),
        [floats(random, 3, FAR)],
    )
    return results


def test_products_follow_the_rule() -> None:
    """Around the ends of blocks and levels, and far beyond; bit for bit."""
    random = np.random.default_rng(91)
    for k in (*LENGTHS, FAR):
        weight, bias, x = powers(random, 3, k), floats(random, 3), floats(random, 2, k)
        (ours,) = load(linear_program(2, 3, weight, bias))(x)
        expected = chain(np.broadcast_to(bias, (2, 3)), (x[:, None] * weight).transpose(2, 0, 1))
        assert ours.tobytes() == expected.tobytes(), k


@pytest.mark.parametrize("inner", [1, 3, 65])
def test_sums_by_lanes_follow_the_rule(inner: int) -> None:
    """Rows and columns; bit for bit."""
    random = np.random.default_rng(92)
    for n in (*LENGTHS, 16 * 1024 + 5, 17 * 1024):
        x = floats(random, n, inner)
        assert load(reduce_program(n, inner))(x)[0].tobytes() == by_lanes(x).tobytes(), n


def test_a_chain_of_a_thousand_is_as_it_always_was() -> None:
    """A test for the test: one order up to 1,024 terms, another above."""
    terms = floats(np.random.default_rng(93), 1024, 50)
    start = np.zeros(50, np.float32)
    assert chain(start, terms).tobytes() == in_order([start, *terms]).tobytes()
    longer = np.concatenate([terms, terms])
    assert chain(start, longer).tobytes() != in_order([start, *longer]).tobytes()


def test_every_instruction_set_gives_the_bits_of_the_reference(run_with: Callable[..., Any]) -> None:
    """Bit for bit, for each instruction set that this machine has."""
    runs = cases()
    reference = run_with("scalar", runs)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, runs)
        differ = [name for name in runs if answers[name] != reference[name]]
        assert not differ, f"{isa}: {differ[:10]}"
