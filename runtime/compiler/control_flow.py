"""Lowers torch's control flow: cond, while_loop, map and scan.

A program has no jumps.  Both sides of a `cond` are computed, and `where` chooses; a loop is written out.  How often one
runs must follow from the module: `map` and `scan` run once for each slice, `while_loop` until its condition is false
whatever the data are.  Steps that eager would not have run get places that lie in their tables (`Builder.guard`), so
that they raise nothing, and what they compute is left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules import Refused
from alcove.runtime.format.spec import DType
from torch import Tensor, fx

MAX_STEPS: Final = 256
"""Steps of one loop: each is written out."""

_UNBOUNDED: Final = (
    f"a loop that ends within {MAX_STEPS} steps whatever the data are: count the steps in a carried tensor that starts "
    "as a constant, and let the condition be (step < n) & (...)"
)


@dataclass(frozen=True, eq=False)
class Part:
    """One argument or result of a torch graph: a tensor, or a number.

    Attributes:
        value: of a tensor.
        constant: its elements, where they follow from constants alone.
        number: of what is no tensor; None for a number that depends on data.
    """

    value: Value | None = None
    constant: Tensor | None = None
    number: Any = None


Inline: TypeAlias = Callable[[fx.GraphModule, Sequence[Part], str], list[Part]]
"""Lowers a torch graph with these arguments under a prefix of its own and returns its results."""


def lower_cond(b: Builder, arguments: Any, run: Inline) -> list[Part]:
    """Return what the side gives that the predicate chooses; the first is that of True.

    Raises:
        Refused: the sides give something that `where` cannot choose from.
    """
    predicate, *sides, parts = arguments
    known = _known_truth(predicate)
    if known is not None:
        return run(sides[0 if known else 1], parts, "")
    condition = _truth(b, predicate)
    with b.guard(condition):
        first = run(sides[0], parts, "true")
    with b.guard(b.unary("logical_not", condition)):
        second = run(sides[1], parts, "false")
    return [_choose(b, condition, x, y) for x, y in zip(first, second, strict=True)]


def lower_while(b: Builder, arguments: Any, run: Inline) -> list[Part]:
    """Return what a loop carries out of itself.

    Each step computes as if all before it had run, so that what counts them stays a constant; the last one that did is
    chosen in the end.

    Raises:
        Refused: nothing bounds the number of steps.
    """
    condition, body, carried, extra = arguments
    steps: list[tuple[Value | None, list[Part]]] = []  # what decides (None for surely), and what is carried till then
    running: Value | None = None
    for step in range(MAX_STEPS + 1):
        with b.guard(running):
            (decides,) = run(condition, [*carried, *extra], f"{step}.condition")
        known = _known_truth(decides)
        if known is False:
            break
        if step == MAX_STEPS:
            raise Refused(_UNBOUNDED)
        choice = None if known else _truth(b, decides)
        if choice is not None:
            running = choice if running is None else b.binary("bitwise_and", running, choice)
        steps.append((choice, carried))
        with b.guard(running):
            carried = run(body, [*carried, *extra], f"{step}.body")
    results: list[Part] = carried
    for choice, before in reversed(steps):
        if choice is not None:
            results = [_choose(b, choice, after, part) for after, part in zip(results, before, strict=True)]
    return results


def lower_map(b: Builder, arguments: Any, run: Inline) -> list[Part]:
    """Return the results of a body for each slice of tensors along their first dimension, stacked."""
    body, over, extra = arguments
    rows = [run(body, [*slices, *extra], str(step)) for step, slices in enumerate(_slices(b, over))]
    return [_stack(b, column) for column in zip(*rows, strict=True)]


def lower_scan(b: Builder, arguments: Any, run: Inline) -> list[Part]:
    """Return what a body carries through slices of tensors, and what it gives for each, stacked."""
    body, carried, over, extra = arguments
    count = len(carried)
    rows = []
    for step, slices in enumerate(_slices(b, over)):
        results = run(body, [*carried, *slices, *extra], str(step))
        carried = results[:count]
        rows.append(results[count:])
    return [*carried, *(_stack(b, column) for column in zip(*rows, strict=True))]


def deciding_truth(target: str, values: Iterable[Tensor | None]) -> bool | None:
    """Return what `and` or `or` of truths gives whatever the unknown one (None) is; None if that decides."""
    deciding = {
        "aten.bitwise_and.Tensor": False,
        "aten.logical_and.default": False,
        "aten.bitwise_or.Tensor": True,
        "aten.logical_or.default": True,
    }.get(target)
    if deciding is None:
        return None
    known = [bool(value) for value in values if value is not None and value.numel() == 1 and value.dtype is torch.bool]
    return deciding if deciding in known else None


def _known_truth(part: Part) -> bool | None:
    if part.value is None:
        if part.number is None:
            raise Refused(_UNBOUNDED)
        return bool(part.number)
    return None if part.constant is None else bool(part.constant)


def _truth(b: Builder, part: Part) -> Value:
    if part.value is None:
        raise Refused("a condition that is a tensor of one element")
    return b.reshape(b.cast(part.value, DType.BOOL), ())


def _choose(b: Builder, condition: Value, x: Part, y: Part) -> Part:
    if x.value is None or y.value is None:
        return Part(number=x.number if x.number == y.number else None)
    if x.value.shape != y.value.shape or x.value.dtype is not y.value.dtype:
        raise Refused("results of the same shape and type on both ways")
    return Part(value=x.value if x.value is y.value else b.where(condition, x.value, y.value))


def _slices(b: Builder, over: Sequence[Part]) -> list[list[Part]]:
    values = [part.value for part in over if part.value is not None]
    steps = values[0].shape[0]
    if steps > MAX_STEPS:
        raise Refused(f"a loop of at most {MAX_STEPS} steps, not {steps}: each is written out; use whole tensors")
    return [[_slice(b, part, step) for part in over] for step in range(steps)]


def _slice(b: Builder, part: Part, step: int) -> Part:
    if part.value is None:
        raise Refused("a loop over tensors")
    row = b.reshape(b.slice(part.value, 0, step, step + 1), part.value.shape[1:])
    return Part(value=row, constant=None if part.constant is None else part.constant[step])


def _stack(b: Builder, column: Sequence[Part]) -> Part:
    values = [part.value for part in column if part.value is not None]
    if len(values) != len(column):
        raise Refused("a loop whose steps give tensors")
    return Part(value=b.concat([b.reshape(value, (1, *value.shape)) for value in values], 0))


CONTROL_FLOW: Final[Mapping[str, Callable[[Builder, Any, Inline], list[Part]]]] = {
    "cond": lower_cond,
    "while_loop": lower_while,
    "map_impl": lower_map,
    "scan": lower_scan,
}
"""By torch's name; each takes the arguments as torch has them."""
