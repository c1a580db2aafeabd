"""Registers lowering rules for torch operators, and defines what a rule sees of a call.

A rule is a function of a `Call` and a `Builder`: it emits nodes of the runtime and returns the call's results, or
raises `Refused` with the nearest form that it takes.  By the time a rule is asked, sizes are numbers, whatever follows
from constants alone is a constant, and only types that a program holds are left.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from alcove.runtime.compiler.graph import Value
from alcove.runtime.format.spec import DType

if TYPE_CHECKING:
    from alcove.runtime.compiler.builder import Builder

TEXT_ONLY: Final = (
    "a text can only be read, whole, by NgramHash (alcove.runtime.ops) or a tokenizer (alcove.runtime.tokenizers)"
)

DTYPES: Final[Mapping[torch.dtype, DType]] = {
    torch.float32: DType.F32,
    torch.int8: DType.I8,
    torch.int32: DType.I32,
    torch.int64: DType.I64,
    torch.uint8: DType.U8,
    torch.bool: DType.BOOL,
}
"""What torch's types are in a program; there are no others."""


class Refused(Exception):  # noqa: N818 - an answer of a rule, not an error of the exporter
    """A rule does not take a call; the text names the nearest form that it takes."""


@dataclass(frozen=True)
class Result:
    """Type and shape that torch gives one result of a call."""

    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a torch operator.

    Attributes:
        target: torch's name, such as "aten.add.Tensor".
        arguments: by name, defaults filled in; tensors as `Value`, sizes as `int`, all else as torch has it.
        results: what torch says of each tensor that comes out.
    """

    target: str
    arguments: Mapping[str, Any]
    results: tuple[Result, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first result."""
        return self.results[0].shape

    @property
    def dtype(self) -> DType:
        """Of the first result."""
        return self.results[0].dtype

    def __getitem__(self, name: str) -> Any:
        """Return the argument `name` as it is; for tensors use `tensor` and `optional`."""
        return self.arguments[name]

    def tensor(self, name: str) -> Value:
        """Return the tensor argument `name`.

        Raises:
            Refused: it is no tensor, a text, or of varying length (only a bag of embeddings takes those).
        """
        value = self.arguments[name]
        if not isinstance(value, Value):
            raise Refused(f"{name} must be a tensor")
        return usable(value)

    def optional(self, name: str) -> Value | None:
        """Return the tensor argument `name`, or None if the call has none."""
        return None if self.arguments.get(name) is None else self.tensor(name)

    def tensors(self, name: str) -> list[Value]:
        """Return the list of tensors `name`; None within it is refused."""
        return [usable(value) for value in self.arguments[name]]

    def axis(self, name: str, rank: int) -> int:
        """Return the dimension argument `name` in [0, rank); a scalar has the one dimension 0."""
        return int(self.arguments[name]) % max(rank, 1)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Return the dimensions `name`, rising, in [0, rank); None and an empty list mean all."""
        argument = self.arguments[name]
        if argument is None or (isinstance(argument, Sequence) and not argument):
            return tuple(range(rank))
        many = argument if isinstance(argument, Sequence) else (argument,)
        return tuple(sorted(int(axis) % max(rank, 1) for axis in many))


def usable(value: Any) -> Value:
    """Return `value` if rules can compute with it.

    Raises:
        Refused: it is a text, has a varying length, or is no tensor.
    """
    if not isinstance(value, Value):
        raise Refused("None has no place in this list of tensors")
    if value.dtype is DType.TEXT:
        raise Refused(TEXT_ONLY)
    if value.is_ragged:
        raise Refused("the ids of a text vary in number; only embedding_bag takes them")
    return value


Rule = Callable[[Call, "Builder"], "Value | tuple[Value, ...]"]

RULES: Final[dict[str, Rule]] = {}
KEPT: Final[set[str]] = set()


def rule(*targets: str, keep: bool = False) -> Callable[[Rule], Rule]:
    """Register the decorated function for torch operators.

    Args:
        targets: torch's names with namespace and overload, such as "aten.relu.default".
        keep: don't let torch decompose them before (its core table would).
    """

    def register(function: Rule) -> Rule:
        for target in targets:
            if target in RULES:
                raise ValueError(f"{target} has two rules")
            RULES[target] = function
            if keep:
                KEPT.add(target)
        return function

    return register
