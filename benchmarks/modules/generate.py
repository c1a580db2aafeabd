"""Makes random modules that eager runs at every size of their ranges.

A template (`templates.py`) proposes a line; it stays if torch runs it at some sizes and its values are few and finite.
"""

from __future__ import annotations

import itertools
import random
import warnings
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.modules.source import NAMES, Input, Range, Source, Step, parse_size

MOST_ELEMENTS: Final = 6000
GREATEST: Final = 1e4
FEWEST_STEPS: Final = 3
MOST_STEPS: Final = 10
_WIDTHS: Final = (1, 2, 3, 4, 5, 6, 8, 12, 16, 17)


@dataclass
class Draft:
    """A module in the making: what a template may look at and add to.

    Attributes:
        rng: where choices come from.
        values: of each name, the tensors at some sizes.
        members: as in `Source`.
    """

    rng: random.Random
    values: dict[str, list[Tensor]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)

    def pick(self, fewest: int = 0, most: int = 5, kind: str = "float") -> str:
        """Return a value of a number of dimensions, recent ones more often; IndexError if there is none."""
        names = [
            name
            for name, at in self.values.items()
            if fewest <= at[0].ndim <= most and (kind == "any" or _kind(at[0]) == kind)
        ]
        return self.rng.choice(names[-3:] if self.rng.random() < 0.7 else names)

    def rank(self, name: str) -> int:
        """Return how many dimensions a value has."""
        return self.values[name][0].ndim

    def size(self, name: str, axis: int) -> int:
        """Return a size that does not vary; IndexError where it does."""
        found = {each.shape[axis] for each in self.values[name]}
        if len(found) > 1:
            raise IndexError(name)
        return found.pop()

    def least(self, name: str, axis: int) -> int:
        """Return the smallest size of a dimension."""
        return min(each.shape[axis] for each in self.values[name])

    def varies(self, name: str, axis: int) -> bool:
        """Return whether a size of a value varies."""
        return len({each.shape[axis] for each in self.values[name]}) > 1

    def axis(self, name: str) -> int:
        """Return a dimension, counted from either end."""
        rank = self.rank(name)
        return self.rng.randrange(-rank, rank)

    def member(self, expression: str) -> str:
        """Add a part of the module and return how `forward` calls it."""
        name = f"m{len(self.members)}"
        self.members[name] = expression
        return f"self.{name}"

    def choose(self, *options: Any) -> Any:
        """Return one of them."""
        return self.rng.choice(options)


def _kind(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "bool"
    return "float" if tensor.is_floating_point() else "ids"


def generate(seed: int, *, of_sizes: bool = False) -> Source:
    """Return the module of a seed; `of_sizes`: one that computes with sizes, of which one varies at least."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of lines that it then refuses
        for attempt in itertools.count():
            result = _try(random.Random(f"{'sizes/' if of_sizes else ''}{seed}/{attempt}"), of_sizes=of_sizes)
            if result is not None:
                return result
    raise AssertionError(seed)


def _ranges(rng: random.Random, *, of_sizes: bool) -> tuple[Range, ...]:
    results = []
    if of_sizes:
        count = rng.choice((1, 1, 2, 2, 3))
        return tuple(Range(name, rng.choice((1, 1, 1, 2, 4)), rng.randrange(6, 24 // count)) for name in "nmk"[:count])
    for name in ("n", "m")[: rng.choice((0, 1, 1, 1, 2, 2))]:
        least = rng.choice((1, 1, 2, 2, 3, 5))
        results.append(Range(name, least, least + rng.randrange(3, 14)))
    return tuple(results)


def _multiple(name: str, rng: random.Random, of_sizes: bool) -> str:
    return rng.choice((name,) * 12 + (f"2*{name}", f"3*{name}", f"2*{name}+1", f"{name}+1")) if of_sizes else name


def _inputs(rng: random.Random, ranges: tuple[Range, ...], *, of_sizes: bool) -> tuple[Input, ...]:
    results: list[Input] = []
    while len(results) < rng.choice((1, 1, 2, 3)) or {r.name for r in ranges} - _symbols(results):
        if results and rng.random() < 0.5:
            shape = results[-1].shape
        else:
            rank = rng.choice((1, 2, 2, 3, 3, 3, 4))
            shape = tuple(
                rng.choice([_multiple(each.name, rng, of_sizes) for each in ranges] * 2 + [rng.choice(_WIDTHS)] * 2)
                if ranges
                else rng.choice(_WIDTHS)
                for _ in range(rank)
            )
        results.append(Input(f"x{len(results)}", shape, rng.choice(("float",) * 7 + ("ids", "bool"))))
        if len(results) > 4:
            return ()
    return tuple(results)


def _symbols(inputs: list[Input]) -> set[str]:
    return {parse_size(size)[1] for each in inputs for size in each.shape if isinstance(size, str)}


def _some_sizes(source: Source, rng: random.Random) -> list[dict[str, int]]:
    every = source.all_sizes()
    return [every[0], source.examples(), every[-1], *rng.sample(every, min(3, len(every)))]


def _try(rng: random.Random, *, of_sizes: bool) -> Source | None:
    from benchmarks.modules.size_templates import SIZE_TEMPLATES
    from benchmarks.modules.templates import TEMPLATES

    ranges = _ranges(rng, of_sizes=of_sizes)
    inputs = _inputs(rng, ranges, of_sizes=of_sizes)
    if not inputs:
        return None
    bare = Source(ranges, inputs, (), (), ())
    points = [bare.arguments(sizes, seed=2) for sizes in _some_sizes(bare, rng)]
    draft = Draft(rng, {each.name: [point[at] for point in points] for at, each in enumerate(inputs)})
    steps: list[Step] = []
    templates, weights = zip(*(SIZE_TEMPLATES if of_sizes else TEMPLATES), strict=True)
    wanted = rng.randrange(FEWEST_STEPS, MOST_STEPS + 1)
    for _ in range(60):
        if len(steps) == wanted:
            break
        before = dict(draft.members)
        try:
            expression = rng.choices(templates, weights)[0](draft)
            results = _evaluate(draft, expression)
        except Exception:  # noqa: BLE001 - a template that does not fit: torch says so in many ways
            draft.members = before
            continue
        if not _is_usable(results):
            draft.members = before
            continue
        name = f"v{len(steps)}"
        steps.append(Step(name, expression))
        draft.values[name] = results
    if len(steps) < FEWEST_STEPS:
        return None
    used = set().union(*(step.uses() for step in steps))
    outputs = tuple(step.name for step in steps if step.name not in used)[-3:]
    source = Source(ranges, inputs, tuple(draft.members.items()), tuple(steps), outputs).cut(outputs)
    try:
        module = source.module()
        with torch.no_grad():
            for sizes in source.all_sizes():
                module(*source.arguments(sizes))
    except Exception:  # noqa: BLE001 - eager fails at some size: not a module of this range
        return None
    return source


def _evaluate(draft: Draft, expression: str) -> list[Tensor]:
    """Return what a line gives at each of the sizes."""
    space: dict[str, Any] = dict(NAMES)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(7)
        holder = torch.nn.Module()
        for name, result in draft.members.items():
            if f"self.{name}" in expression:
                setattr(holder, name, eval(result, space).eval())
        results = []
        for at in range(len(next(iter(draft.values.values())))):
            local = {name: each[at].clone() for name, each in draft.values.items()}
            results.append(eval(expression, {**space, "self": holder, **local}))
    return results


def _is_usable(results: list[Any]) -> bool:
    for each in results:
        if not isinstance(each, Tensor) or each.numel() == 0 or each.numel() > MOST_ELEMENTS or each.ndim > 5:
            return False
        if each.dtype not in {torch.float32, torch.int64, torch.bool, torch.int32}:
            return False
        if each.is_floating_point() and not bool((each.abs() < GREATEST).all()):
            return False
    return len({each.ndim for each in results}) == 1
