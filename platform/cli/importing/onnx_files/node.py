"""Defines a node as rules see it: its attributes, what is known of its inputs, and the function that a rule makes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from torch import Tensor

Function = Callable[..., Any]
"""Takes the tensors of a node, None for one that is left out, and gives its output or a tuple of them."""


@dataclass(frozen=True)
class Call:
    """A function that takes tensors of its own after those of the node.

    Attributes:
        function: what is computed.
        extras: constants, such as weights in another order.
        without: positions of inputs that the function no longer needs; it gets None there.
        is_known: whether it needs none at all, such as a shape: its output is a constant.
    """

    function: Function
    extras: tuple[Tensor, ...] = ()
    without: frozenset[int] = frozenset()
    is_known: bool = False


@dataclass(frozen=True)
class Value:
    """What is known of a tensor while the graph is read.

    Attributes:
        tensor: the elements, if they depend on no input; else a tensor on torch's device `meta`, shape and type alone.
        slot: where it lies while the module runs; None for a constant.
    """

    tensor: Tensor
    slot: int | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.slot is None


@dataclass(frozen=True)
class Node:
    """One node of a graph.

    Attributes:
        kind: the operator, with its domain if that is another one than ONNX's own.
        name: of the node, or of its first output.
        opset: version of the operator's domain that the file asks for.
        attributes: by name, as Python's values; tensors as torch's.
        inputs: None for one that is left out.
        outputs: how many; False for one that nothing reads.
        is_folded: whether all inputs are constants, so that the function runs at once.
    """

    kind: str
    name: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[bool, ...] = (True,)
    is_folded: bool = field(default=False)

    def value(self, index: int) -> Value | None:
        """Return what is known of an input; None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return self.value(index) is not None

    def tensor(self, index: int) -> Tensor:
        """Return an input: its elements, or shape and type alone.

        Raises:
            UnsupportedError: it is left out.
        """
        value = self.value(index)
        if value is None:
            raise UnsupportedError(f"input {index} is missing")
        return value.tensor

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input."""
        return tuple(self.tensor(index).shape)

    def rank(self, index: int = 0) -> int:
        """Return the number of dimensions of an input."""
        return self.tensor(index).dim()

    def permute(self, order: list[int]) -> "Node":
        """Return the node as it is where the axes of its first input come in another order."""
        value = self.inputs[0]
        if value is None:
            return self
        return replace(self, inputs=(replace(value, tensor=value.tensor.permute(order)), *self.inputs[1:]))

    def constant(self, index: int, what: str) -> Tensor:
        """Return the elements of an input.

        Raises:
            UnsupportedError: they depend on the inputs of the graph.
        """
        value = self.value(index)
        if value is None or not value.is_constant:
            raise UnsupportedError(f"its {what} must not depend on the inputs of the graph")
        return value.tensor

    def integers(self, index: int, what: str) -> list[int]:
        """Return the elements of an input as Python's integers."""
        return [int(each) for each in self.constant(index, what).flatten().tolist()]

    def ints(self, name: str, default: list[int] | None = None) -> list[int]:
        """Return an attribute that is a list of integers."""
        found = self.attributes.get(name, default)
        if not isinstance(found, list):
            raise UnsupportedError(f"attribute {name!r} is missing")
        return [int(each) for each in found]

    def int_of(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        return int(self.attributes.get(name, default))

    def float_of(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number."""
        return float(self.attributes.get(name, default))

    def text_of(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        return str(self.attributes.get(name, default))

    def axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """Return the attribute `axis` counted from the front."""
        return normalize_axis(self.int_of(name, default), self.rank() if rank is None else rank)

    def axes(self, index: int) -> list[int] | None:
        """Return `axes`, an attribute in old files and an input in new ones; None if they are not given."""
        if self.has(index):
            return self.integers(index, "axes")
        return self.ints("axes") if "axes" in self.attributes else None


Rule = Callable[[Node], Function | Call]
RULES: Final[dict[str, Rule]] = {}
"""Makers of functions by operator."""


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a rule for some operators."""

    def register(made: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, made))
        return made

    return register


def normalize_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        UnsupportedError: there is no such axis.
    """
    if not -rank <= axis < max(rank, 1):
        raise UnsupportedError(f"axis {axis} of a tensor with {rank} dimensions")
    return axis + rank if axis < 0 else axis
