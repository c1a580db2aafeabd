"""Defines a random module as data: it can be run by torch, cut smaller, and printed as code to paste.

Each step is one line of Python that makes one value of earlier ones; members are what the module holds.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import Tensor, nn
from torch.export import Dim

NAMES: Final = {"torch": torch, "F": F, "nn": nn}
_NAME: Final = re.compile(r"\b(?:[vx]\d+|self\.m\d+)\b")
_MULTIPLE: Final = re.compile(r"(?:(\d+)\*)?([a-z])(?:\+(\d+))?")


def parse_size(size: str) -> tuple[int, str, int]:
    """Return factor, symbol and addend of a size such as "n", "2*n" or "2*n+1"."""
    found = _MULTIPLE.fullmatch(size)
    if found is None:
        raise ValueError(size)
    return int(found[1] or 1), found[2], int(found[3] or 0)


@dataclass(frozen=True)
class Range:
    """A size that varies.

    Attributes:
        name: of the symbol.
        least: smallest size.
        greatest: largest size.
    """

    name: str
    least: int
    greatest: int


@dataclass(frozen=True)
class Input:
    """An argument of `forward`.

    Attributes:
        name: "x0" and so on.
        shape: numbers, names of symbols, and multiples of these ("2*n+1").
        kind: "float", "ids" (0 to 7) or "bool".
    """

    name: str
    shape: tuple[int | str, ...]
    kind: str = "float"

    def tensor(self, sizes: dict[str, int], generator: torch.Generator) -> Tensor:
        """Return random values of this shape."""
        shape = [size if isinstance(size, int) else _evaluate(size, sizes) for size in self.shape]
        if self.kind == "ids":
            return torch.randint(0, 8, shape, generator=generator)
        if self.kind == "bool":
            return torch.rand(shape, generator=generator) < 0.5
        return torch.randn(shape, generator=generator)


@dataclass(frozen=True)
class Step:
    """One line of `forward`: `name = expression`."""

    name: str
    expression: str

    def uses(self) -> set[str]:
        """Return the values and members that the line needs."""
        return set(_NAME.findall(self.expression))


@dataclass(frozen=True)
class Source:
    """A module.

    Attributes:
        ranges: sizes that vary.
        inputs: arguments of `forward`.
        members: name without "self." and what it is, an expression.
        steps: lines of `forward`, in order.
        outputs: names of the values that it returns.
    """

    ranges: tuple[Range, ...]
    inputs: tuple[Input, ...]
    members: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def code(self) -> str:
        """Return the module as Python."""
        lines = ["class Found(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.{name} = {expression}" for name, expression in self.members]
        lines += ["", f"    def forward(self, {', '.join(each.name for each in self.inputs)}):"]
        lines += [f"        {step.name} = {step.expression}" for step in self.steps]
        lines += [f"        return ({', '.join(self.outputs)},)"]
        return "\n".join(lines)

    def module(self) -> nn.Module:
        """Return an instance in eval mode; the same weights every time."""
        space: dict[str, Any] = dict(NAMES)
        exec(self.code(), space)
        with torch.random.fork_rng():
            torch.manual_seed(7)
            result: nn.Module = space["Found"]()
        for name, value in result.named_buffers():
            if name.endswith("running_var"):
                value.fill_(0.7)
        return result.eval()

    def arguments(self, sizes: dict[str, int], seed: int = 0) -> tuple[Tensor, ...]:
        """Return inputs of these sizes."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(each.tensor(sizes, generator) for each in self.inputs)

    def dynamic_shapes(self) -> tuple[dict[int, Any] | None, ...] | None:
        """Return what `export` takes; None where no size varies."""
        if not self.ranges:
            return None
        dims = {each.name: Dim(each.name, min=each.least, max=each.greatest) for each in self.ranges}

        def dimension(size: str) -> Any:
            factor, name, addend = parse_size(size)
            result = dims[name] if factor == 1 else factor * dims[name]
            return result + addend if addend else result

        return tuple(
            {at: dimension(size) for at, size in enumerate(each.shape) if isinstance(size, str)} or None
            for each in self.inputs
        )

    def examples(self) -> dict[str, int]:
        """Return the sizes of the example: in the middle."""
        return {each.name: (each.least + each.greatest + 1) // 2 for each in self.ranges}

    def all_sizes(self) -> list[dict[str, int]]:
        """Return every combination of sizes; one without any where none varies."""
        spans = [range(each.least, each.greatest + 1) for each in self.ranges]
        names = [each.name for each in self.ranges]
        return [dict(zip(names, point, strict=True)) for point in itertools.product(*spans)]

    def cut(self, outputs: tuple[str, ...], steps: tuple[Step, ...] | None = None) -> Source:
        """Return the module with these outputs and without lines, members and inputs that they don't need."""
        needed, kept = set(outputs), []
        for step in reversed(self.steps if steps is None else steps):
            if step.name in needed:
                kept.append(step)
                needed |= step.uses()
        inputs = tuple(each for each in self.inputs if each.name in needed) or self.inputs[:1]
        used = {parse_size(size)[1] for each in inputs for size in each.shape if isinstance(size, str)}
        return Source(
            tuple(each for each in self.ranges if each.name in used),
            inputs,
            tuple(each for each in self.members if f"self.{each[0]}" in needed),
            tuple(reversed(kept)),
            outputs,
        )


def _evaluate(size: str, sizes: dict[str, int]) -> int:
    factor, name, addend = parse_size(size)
    return factor * sizes[name] + addend
