"""Programs with dynamic sizes answer correctly at every size within their bounds, and refuse those outside."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, Model, Session, load
from alcove.runtime.format.spec import DType, ExpressionKind
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, rows
from hypothesis import given, settings
from hypothesis import strategies as st

EDGES_N = (1, 2, 15, 16, 17, 255, 256)
EDGES_M = (2, 3, 7, 8, 9, 63, 64)


@pytest.fixture(scope="module")
def model() -> Model:
    """Two sizes, n and m; buckets up to (16, 8), (16, 64), (256, 64)."""
    return load(write_program(rows()))


def inputs(n: int, m: int) -> list[Any]:
    """Rows whose numbers follow from their place."""
    random = np.random.default_rng(1000 * n + m)
    return [random.standard_normal((count, 4)).astype(np.float32) for count in (n, m)]


def assert_right(session: Model | Session, n: int, m: int) -> None:
    """The answer at (n, m) is what numpy says, and has the shapes of these sizes."""
    x, y = inputs(n, m)
    both, flat, halves, backwards = session(x, y)
    assert both.tobytes() == np.concatenate([x, y]).tobytes()
    assert (both.shape, flat.shape, halves.shape) == ((n + m, 4), (1, 4 * n), (m // 2, 4))
    assert halves.tobytes() == y[: m // 2 * 2 : 2].tobytes()
    assert backwards.tobytes() == y[::-1].tobytes()
    shares = np.exp(x - x.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(flat.reshape(n, 4), shares, rtol=1e-5)


def test_every_edge_of_every_bucket_is_answered(model: Model) -> None:
    """Least, greatest, and both sides of each bucket's bounds, in separate sessions and in one reused session."""
    session = model.session()
    for n, m in product(EDGES_N, EDGES_M):
        assert_right(session, n, m)
        assert_right(model.session(), n, m)


@given(st.lists(st.tuples(st.integers(1, 256), st.integers(2, 64)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_walk_through_the_sizes_gives_the_bits_of_fresh_sessions(walk: list[tuple[int, int]]) -> None:
    """Growing and shrinking leave nothing behind."""
    model = load(write_program(rows()))
    session = model.session()
    for n, m in walk:
        ours = [out.tobytes() for out in session(*inputs(n, m))]
        assert ours == [out.tobytes() for out in model.session()(*inputs(n, m))]


def test_sizes_out_of_bounds_are_refused_by_name(model: Model) -> None:
    """Symbol, bound and value; the session continues at its old sizes."""
    session = model.session()
    assert_right(session, 5, 6)
    for n, m, port, words in [
        (0, 6, "x", r"dimension 0 \(n\) is 0, allowed are 1 to 256"),
        (257, 6, "x", r"\(n\) is 257, allowed are 1 to 256"),
        (5, 1, "y", r"\(m\) is 1, allowed are 2 to 64"),
        (5, 65, "y", r"\(m\) is 65, allowed are 2 to 64"),
    ]:
        x, y = np.zeros((n, 4), np.float32), np.zeros((m, 4), np.float32)
        with pytest.raises(InputError, match=words) as caught:
            session(x, y)
        assert caught.value.port == port
    for x_shape, y_shape, port in [((5, 3), (6, 4), "x"), ((5, 4, 1), (6, 4), "x"), ((5, 4), (6,), "y")]:
        with pytest.raises(InputError, match="dimension") as caught:
            session(np.zeros(x_shape, np.float32), np.zeros(y_shape, np.float32))
        assert caught.value.port == port
    assert_right(session, 5, 6)


def test_ports_show_the_bounds_of_their_dimensions(model: Model) -> None:
    """Greatest shape, and the range of each dimension for people."""
    assert [(p.name, p.shape, p.dims) for p in model.inputs] == [
        ("x", (256, 4), ("1..256", "4")),
        ("y", (64, 4), ("2..64", "4")),
    ]
    assert [(p.name, p.shape, p.dims) for p in model.outputs] == [
        ("both", (320, 4), ("3..320", "4")),
        ("flat", (1, 1024), ("1", "4..1024")),
        ("halves", (32, 4), ("1..32", "4")),
        ("backwards", (64, 4), ("2..64", "4")),
    ]


def test_memory_grows_with_the_sizes_and_not_beyond_the_ceiling(model: Model) -> None:
    """A session begins with the smallest bucket, grows when it must, and keeps what it has."""
    spec = rows()
    session = model.session()
    arenas = [bucket.arena_bytes for bucket in spec.buckets]
    kept = model.memory_ceiling_bytes - arenas[-1]
    seen = [session.memory_bytes]
    for n, m in [(16, 8), (1, 9), (3, 3), (17, 2), (1, 2)]:
        assert_right(session, n, m)
        seen.append(session.memory_bytes)
    assert [bytes_ - kept for bytes_ in seen] == [arenas[at] for at in (0, 0, 1, 1, 2, 2)]
    assert all(a <= b for a, b in pairwise(seen))
    assert seen[-1] == model.memory_ceiling_bytes


def test_a_session_with_a_limit_refuses_larger_sizes(model: Model) -> None:
    """Typed, with both numbers; smaller sizes work."""
    arenas = [bucket.arena_bytes for bucket in rows().buckets]
    kept = model.memory_ceiling_bytes - arenas[-1]
    session = model.session(memory_limit_bytes=kept + arenas[1])
    assert_right(session, 16, 64)
    with pytest.raises(InputError, match=f"takes {model.memory_ceiling_bytes} bytes, its limit is {kept + arenas[1]}"):
        session(*inputs(17, 2))
    assert session.memory_bytes == kept + arenas[1]
    assert_right(session, 4, 4)
    with pytest.raises(InputError, match="its limit is"):
        model.session(memory_limit_bytes=kept + arenas[0] - 1)


def make_shared_size(bound: int = 64) -> bytes:
    """Two inputs of one size: x [n, 2] and y [n, 2], added; and every row repeated."""
    build = Assembly()
    n = build.sizes.symbol("batch", 1, bound)
    x, y = build.input("x", DType.F32, (n, 2)), build.input("y", DType.F32, (n, 2))
    (sums,) = build.op("binary", [x, y], (DType.F32, (n, 2)), attributes=(1,))
    twice = build.sizes.combine(ExpressionKind.MUL, n, 2)
    build.output("twice", build.op("concat", [sums, sums], (DType.F32, (twice, 2)), attributes=(0,))[0])
    return build.program()


def test_a_size_that_two_inputs_share_is_compared() -> None:
    """The first input brings it; the second must have it."""
    session = load(make_shared_size()).session()
    for n in (64, 1, 7):
        x = np.full((n, 2), 1.5, np.float32)
        assert session(x, x)[0].tolist() == [[3.0, 3.0]] * (2 * n)
    with pytest.raises(InputError, match="dimension 0 is 6, expected 7") as caught:
        session(np.zeros((7, 2), np.float32), np.zeros((6, 2), np.float32))
    assert caught.value.port == "y"


def awkward() -> bytes:
    """A program that its buckets' bounds suit and some sizes below do not: rows of x by threes, as a whole number."""
    build = Assembly()
    sizes = build.sizes
    n = sizes.symbol("n", 1, 12)
    sizes.bounds.append((6,))
    x = build.input("x", DType.F32, (n,))
    third = sizes.combine(ExpressionKind.FLOORDIV, n, 3)
    build.output("rows", build.op("reshape", [x], (DType.F32, (third, 3)))[0])
    return build.program()


def test_sizes_that_an_operator_cannot_take_are_an_input_error() -> None:
    """The rules are asked again at every size: 4 values are no rows of 3, 2 no row at all; then all is as before."""
    session = load(awkward()).session()
    for n in (3, 6, 12, 9):
        x = np.arange(n, dtype=np.float32)
        assert session(x)[0].tolist() == x.reshape(-1, 3).tolist()
        for bad in (1, 2, 4, 11):
            with pytest.raises(InputError, match="no program of these sizes") as caught:
                session(np.zeros(bad, np.float32))
            assert caught.value.port == "x"
        assert session(x)[0].tolist() == x.reshape(-1, 3).tolist()


def test_every_kind_of_expression_counts_as_in_python() -> None:
    """Rounded down below zero too; sizes are clamped by min and max."""
    build = Assembly()
    sizes = build.sizes
    n = sizes.symbol("n", 1, 100)
    shifted = sizes.combine(ExpressionKind.SUB, n, 52)  # the remainder is greatest at the greatest n, as the plan needs
    kinds = {
        "add": sizes.combine(ExpressionKind.ADD, n, 3),
        "mod": sizes.combine(ExpressionKind.ADD, sizes.combine(ExpressionKind.MOD, shifted, 7), 1),
        "floor": sizes.combine(ExpressionKind.ADD, sizes.combine(ExpressionKind.FLOORDIV, shifted, 7), 10),
        "min": sizes.combine(ExpressionKind.MIN, n, 9),
        "max": sizes.combine(ExpressionKind.MAX, 20, n),
        "product": sizes.combine(ExpressionKind.MUL, n, n),
    }
    x = build.input("x", DType.U8, (n,))
    build.output("x", x)
    for name, size in kinds.items():
        build.output(name, build.op("fill", [], (DType.U8, (size,)), attributes=(1,))[0])
    session = load(build.program()).session()
    for n_ in (1, 2, 8, 9, 10, 20, 21, 43, 50, 57, 99, 100):
        expected = [n_, n_ + 3, (n_ - 52) % 7 + 1, (n_ - 52) // 7 + 10, min(n_, 9), max(20, n_), n_ * n_]
        assert [out.size for out in session(np.zeros(n_, np.uint8))] == expected
