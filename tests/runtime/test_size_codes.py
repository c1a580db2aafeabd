"""Each rule about states, symbols, expressions and buckets is enforced, by its own code."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.compiler.plan_check import PlanError, check_plan
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import (
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    PortSpec,
    ProgramSpec,
)
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, counter, patch, reseal, rows, section

Change = Callable[[], bytes]

# Tensors of `counter`: each state after the constant that it begins as.
ONES, TOTAL, TWOS, BEFORE, X, SUMS, POSITIVE, ROW, KEPT = range(9)


def tensor(spec: ProgramSpec, index: int, **fields: Any) -> ProgramSpec:
    """Other fields of one tensor."""
    return replace(
        spec, tensors=(*spec.tensors[:index], replace(spec.tensors[index], **fields), *spec.tensors[index + 1 :])
    )


def state(index: int, **fields: Any) -> Change:
    """Other fields of one of the two states."""
    spec = counter()
    states = list(spec.states)
    states[index] = replace(states[index], **fields)
    return lambda: write_program(replace(spec, states=tuple(states)))


def change_counter(index: int, **fields: Any) -> Change:
    """Other fields of one tensor of `counter`."""
    return lambda: write_program(tensor(counter(), index, **fields))


def change_rows(**fields: Any) -> Change:
    """Other fields of `rows`."""
    return lambda: write_program(replace(rows(), **fields))


def dims(index: int, **fields: Any) -> Change:
    """Other fields of one tensor of `rows`: x is 0, y is 1, both is 2."""
    return lambda: write_program(tensor(rows(), index, **fields))


def symbol(index: int, **fields: Any) -> Change:
    """Other fields of n or m."""
    symbols = list(rows().symbols)
    symbols[index] = replace(symbols[index], **fields)
    return change_rows(symbols=tuple(symbols))


def expression(kind: ExpressionKind, a: int, b: int = 0) -> Change:
    """One more expression, which nothing needs."""
    return change_rows(expressions=(*rows().expressions, ExpressionSpec(kind, a, b)))


def bucket(index: int, **fields: Any) -> Change:
    """Other fields of one of the three buckets."""
    buckets = list(rows().buckets)
    buckets[index] = replace(buckets[index], **fields)
    return change_rows(buckets=tuple(buckets))


def place(index: int, offset: int, size: int) -> Change:
    """Another place of one tensor in the last bucket."""
    last = rows().buckets[-1]
    places = (*last.places[:index], (offset, size), *last.places[index + 1 :])
    return bucket(2, places=places)


def at(spec: ProgramSpec, after: int, record: str, value: int) -> Change:
    """A change of the bytes `after` the label records: states, symbols, expressions, buckets."""
    whole = write_program(spec)
    start = section(whole, SectionKind.PROGRAM)[0] + records.PROGRAM.size + len(spec.tensors) * records.TENSOR.size
    start += len(spec.ops) * records.OP.size + (len(spec.inputs) + len(spec.outputs)) * records.PORT.size
    return lambda: reseal(patch(whole, start + after, record, value))


def header(spec: ProgramSpec, offset: int, value: int) -> Change:
    """Another count in the program's header."""
    whole = write_program(spec)
    return lambda: reseal(patch(whole, section(whole, SectionKind.PROGRAM)[0] + offset, "I", value))


def spread() -> ProgramSpec:
    """A relu over a row that it widens, at one place of one planned size: in place only where shapes are the same."""
    build = Assembly()
    n = build.sizes.symbol("n", 1, 8)
    x = build.input("x", DType.F32, (n, 4))
    (one,) = build.op("as_strided_copy", [x], (DType.F32, (1, 4)), attributes=(0, 0, 1, *(0,) * 6))
    (wide,) = build.op("binary", [one, x], (DType.F32, (n, 4)), attributes=(1,))
    build.output("y", wide)
    spec = build.spec()
    (only,) = spec.buckets
    places = list(only.places)
    places[one] = places[wide]
    return replace(spec, buckets=(replace(only, places=tuple(places)),))


def constant_size(value: int) -> ProgramSpec:
    """A tensor with a constant expression for its size."""
    build = Assembly()
    n = build.sizes.symbol("n", 1, 8)
    x = build.input("x", DType.F32, (n,))
    zero = build.sizes.combine(ExpressionKind.SUB, 0, 0)
    build.output("y", build.op("fill", [], (DType.U8, (zero,)), attributes=(0,))[0])
    build.output("x", x)
    spec = build.spec()
    at_zero = spec.expressions.index(ExpressionSpec(ExpressionKind.CONSTANT, 0))
    numbers = list(spec.expressions)
    numbers[at_zero + 1] = constant(value)
    return replace(spec, expressions=tuple(numbers))


def many_symbols() -> bytes:
    """One more symbol than a record has slots, in a section of the right size."""
    spec = rows()
    whole = write_program(spec)
    start = section(whole, SectionKind.PROGRAM)[0]
    return reseal(patch(whole, start + 36, "I", 17))


def growing_bytes() -> ProgramSpec:
    """Bytes over the float32 that they are made of: an element's place is not its old one."""
    build = Assembly()
    n = build.sizes.symbol("n", 1, 8)
    x = build.input("x", DType.F32, (n,))
    (is_nan,) = build.op("unary", [x], (DType.BOOL, (n,)), attributes=(51, 0.0, 0.0, 0.0))
    build.output("y", is_nan)
    spec = build.spec()
    (only,) = spec.buckets
    places = list(only.places)
    places[is_nan] = places[x]
    return replace(spec, buckets=(replace(only, places=tuple(places), arena_bytes=64),), arena_bytes=64)


def more(*extra: ExpressionSpec) -> Change:
    """Expressions after those of `rows`, which nothing needs."""
    return change_rows(expressions=(*rows().expressions, *extra))


def constant(value: int) -> ExpressionSpec:
    """A number as an expression."""
    return ExpressionSpec(ExpressionKind.CONSTANT, value)


def add_state_port(side: str, index: int) -> Change:
    """A state as one more input or output."""
    spec = counter()
    ports: dict[str, Any] = {side: (*getattr(spec, side), PortSpec("state", index))}
    return lambda: write_program(replace(spec, **ports))


def change_op(op: int, **fields: Any) -> Change:
    """Other tensors of one op of `counter`."""
    spec = counter()
    ops = (*spec.ops[:op], replace(spec.ops[op], **fields), *spec.ops[op + 1 :])
    return lambda: write_program(replace(spec, ops=ops))


def moved_state() -> bytes:
    """The second state over the first."""
    whole = write_program(counter())
    start = section(whole, SectionKind.PROGRAM)[0] + records.PROGRAM.size + BEFORE * records.TENSOR.size
    return reseal(patch(whole, start + 16, "Q", 0))


COUNT = len(rows().expressions)
CASES: list[tuple[str, Change]] = [
    ("tensor_index", state(0, tensor=99)),
    ("tensor_index", state(0, initial=9)),
    ("tensor_index", state(0, update=2**32 - 1)),
    ("state_tensor", state(0, tensor=POSITIVE)),
    ("state_tensor", state(0, tensor=ONES)),
    ("state_tensor", state(1, tensor=TOTAL)),
    ("state_tensor", state(0, initial=TOTAL)),
    ("state_tensor", state(0, initial=TWOS)),
    ("state_tensor", state(0, update=ONES)),
    ("state_tensor", state(0, update=ROW)),
    ("state_tensor", change_counter(POSITIVE, is_ragged=True)),
    ("state_tensor", lambda: write_program(replace(counter(), states=counter().states[:1]))),
    ("tensor_storage", change_counter(TOTAL, dtype=DType.TEXT, shape=())),
    ("tensor_flags", change_counter(TOTAL, is_ragged=True)),
    ("tensor_flags", change_counter(TOTAL, dynamic_dims=1)),
    ("tensor_offset", moved_state),
    ("port_tensor", add_state_port("outputs", TOTAL)),
    ("tensor_redefined", add_state_port("inputs", TOTAL)),
    ("tensor_redefined", change_op(0, outputs=(TOTAL,))),
    ("tensor_unused", change_op(0, inputs=(X, X))),
    ("string_text", state(0, name="a\nb")),
    ("count_limit", header(counter(), 32, 1025)),
    ("count_limit", many_symbols),
    ("count_limit", header(rows(), 40, 16385)),
    ("count_limit", header(rows(), 44, 17)),
    ("program_size", header(rows(), 44, 2)),
    ("size_bucket", lambda: write_program(replace(counter(), expressions=(constant(1),)))),
    ("size_bucket", lambda: write_program(replace(counter(), buckets=(BucketSpec((), 0, ((0, 0),) * 9),)))),
    ("size_bucket", change_rows(buckets=())),
    ("size_symbol", symbol(0, min=0)),
    ("size_symbol", symbol(0, min=257)),
    ("size_symbol", symbol(0, max=2**31)),
    ("size_symbol", symbol(0, input=1)),
    ("size_symbol", symbol(0, input=2)),
    ("size_symbol", symbol(0, dim=1)),
    ("size_symbol", symbol(0, dim=8)),
    ("size_symbol", change_rows(symbols=rows().symbols[::-1])),
    ("string_text", symbol(0, name="\0")),
    ("padding", at(rows(), 20, "I", 1)),
    ("padding", at(rows(), 2 * records.SYMBOL.size + 1, "B", 1)),
    ("size_expression", at(rows(), 2 * records.SYMBOL.size, "B", 0)),
    ("size_expression", at(rows(), 2 * records.SYMBOL.size, "B", 10)),
    ("size_expression", expression(ExpressionKind.SYMBOL, 2)),
    ("size_expression", expression(ExpressionKind.SYMBOL, 0, 1)),
    ("size_expression", expression(ExpressionKind.CONSTANT, 5, 1)),
    ("size_expression", expression(ExpressionKind.ADD, 0, COUNT)),
    ("size_expression", expression(ExpressionKind.ADD, -1, 0)),
    ("size_expression", expression(ExpressionKind.MUL, COUNT + 1, 0)),
    ("size_expression", more(constant(2**62), ExpressionSpec(ExpressionKind.ADD, COUNT, COUNT))),
    ("size_expression", more(constant(-(2**63)), ExpressionSpec(ExpressionKind.SUB, COUNT, 0))),
    ("size_expression", more(constant(2**32), ExpressionSpec(ExpressionKind.MUL, COUNT, COUNT))),
    ("size_expression", more(constant(0), ExpressionSpec(ExpressionKind.FLOORDIV, 0, COUNT))),
    ("size_expression", more(constant(-1), ExpressionSpec(ExpressionKind.MOD, 0, COUNT))),
    ("size_expression", lambda: write_program(constant_size(0))),
    ("size_expression", lambda: write_program(constant_size(2**31))),
    ("size_expression", dims(0, shape=(COUNT, 4))),
    ("tensor_flags", dims(0, dynamic_dims=5)),
    ("tensor_flags", dims(0, is_ragged=True)),
    ("tensor_offset", dims(0, offset=64)),
    ("size_bucket", bucket(0, bounds=(0, 8))),
    ("size_bucket", bucket(0, bounds=(257, 8))),
    ("size_bucket", bucket(0, bounds=(16, 1))),
    ("size_bucket", bucket(2, bounds=(255, 64))),
    ("size_bucket", change_rows(buckets=(rows().buckets[1], rows().buckets[0], rows().buckets[2]))),
    ("size_bucket", change_rows(arena_bytes=rows().arena_bytes + 64)),
    ("size_bucket", place(0, 0, 256 * 16 - 1)),
    ("size_bucket", bucket(0, bounds=(17, 8))),
    ("padding", bucket(0, bounds=(16, 8, 1))),
    ("tensor_offset", place(0, 1, 4096)),
    ("tensor_size", place(0, 0, (512 << 20) + 1)),
    ("plan_size", place(0, 0, 512 << 20)),
    ("plan_size", bucket(0, arena_bytes=rows().buckets[0].arena_bytes - 64)),
    ("plan_overlap", place(1, 0, 64 * 16)),
    ("plan_overlap", lambda: write_program(spread())),
    ("plan_overlap", lambda: write_program(growing_bytes())),
]


@pytest.mark.parametrize(("code", "change"), CASES, ids=[f"{i}-{code}" for i, (code, _) in enumerate(CASES)])
def test_a_broken_rule_gives_its_code(code: str, change: Change) -> None:
    """The verifier names the rule."""
    with pytest.raises(ProgramError) as caught:
        load(change())
    assert caught.value.code == code, caught.value
    assert caught.value.message


def test_the_bases_of_all_cases_are_valid() -> None:
    """A test for the tests; one more expression that counts is fine."""
    for spec in (counter(), rows()):
        load(write_program(spec)).verify_weights()
        check_plan(spec)
    load(more(constant(7), ExpressionSpec(ExpressionKind.MOD, 0, COUNT))())


def test_the_checker_of_the_exporter_looks_at_every_bucket() -> None:
    """An overlap in the first bucket, and one in the last; a place beyond the arena."""
    spec = rows()
    for at_bucket in (0, 2):
        changed = spec.buckets[at_bucket]
        for wrong in (
            (changed.places[0], *changed.places[:1], *changed.places[2:]),
            ((0, 1 << 20), *changed.places[1:]),
        ):
            buckets = list(spec.buckets)
            buckets[at_bucket] = replace(changed, places=wrong)
            with pytest.raises(PlanError):
                check_plan(replace(spec, buckets=tuple(buckets)))
    for shared in (spread(), growing_bytes()):
        with pytest.raises(PlanError):
            check_plan(shared)


def test_a_program_that_some_bucket_cannot_run_is_refused() -> None:
    """A rule of an operator fails at the bounds of the first bucket: the code is the rule's."""
    build = Assembly()
    n = build.sizes.symbol("n", 1, 12)
    build.sizes.bounds.append((7,))
    x = build.input("x", DType.F32, (n,))
    third = build.sizes.combine(ExpressionKind.FLOORDIV, n, 3)
    build.output("rows", build.op("reshape", [x], (DType.F32, (third, 3)))[0])
    with pytest.raises(ProgramError, match="reshape") as caught:
        load(build.program())
    assert caught.value.code == "op_shape"


def test_the_writer_refuses_places_that_are_not_one_for_each_tensor() -> None:
    """A ValueError with both numbers."""
    spec = rows()
    with pytest.raises(ValueError, match=f"{len(spec.tensors) - 1} places for {len(spec.tensors)} tensors"):
        write_program(replace(spec, buckets=(replace(spec.buckets[0], places=spec.buckets[0].places[1:]),)))
    with pytest.raises(ValueError, match="a record holds 16"):
        write_program(replace(spec, buckets=(replace(spec.buckets[0], bounds=(1,) * 17),)))
