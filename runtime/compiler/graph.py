"""Defines the exporter's intermediate representation, a graph that passes hand to each other.

A `Graph`: values, nodes in the order in which they run, ports and states.  All of it is frozen; a pass returns a new
graph.  Types and shapes are torch's own, sizes are numbers; activations are row-major in their shape.  A node whose
`op` is none of the runtime's carries torch's own name, until `eliminate_dead_code` has made it disappear or `legalize`
reports it.

Until `pack.py`, a product reads its weight row-major and its bias apart (linear: x, weight [n, k], bias [n]);
afterwards one constant that the kernels read as it lies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.spec import DType, Layout
from numpy.typing import NDArray

Array = NDArray[Any]
A = TypeVar("A", bound=Attributes)

NONE: Final = Attributes()
"""The attributes of an operator that takes none."""

WRITE_ROWS: Final = "write_rows"
"""The operator that writes rows of a state in place; nothing reads its output, and it is never unused."""


class TorchNumbers(Attributes):
    """The numbers that a call of torch's, which no rule takes, was given."""

    given: tuple[int | float, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor of a graph.

    Attributes:
        key: unique in the graph.
        name: what the program calls it; a constant's is its parameter's name with the suffixes of `weights.py`.
        dtype: element type, torch's own; only the ids of a text are I32 where torch has int64.
        shape: logical shape; a ragged leading dimension is its upper bound.
        is_ragged: whether the leading dimension is an upper bound.
        constant: elements in `layout`, for what is known at export; None for everything else.
        layout: order of the elements of a constant.
    """

    key: str
    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_ragged: bool = False
    constant: Array | None = None
    layout: Layout = Layout.ROW_MAJOR

    @property
    def array(self) -> Array:
        """The elements of a constant.

        Raises:
            ValueError: the value is computed on the device.
        """
        if self.constant is None:
            raise ValueError(f"{self.name} is no constant")
        return self.constant


@dataclass(frozen=True)
class Origin:
    """Where in the user's model a node comes from.

    Attributes:
        op: torch's name, such as "aten.linear.default".
        module_path: as in `named_modules()`; "" for the root.
        source: "path/file.py:line" of the innermost frame that belongs to the user; may be "".
    """

    op: str
    module_path: str = ""
    source: str = ""


@dataclass(frozen=True)
class Node:
    """One step: `outputs` become what `op` makes of `inputs`.

    Attributes:
        op: the runtime's name, or torch's where there is none (yet).
        inputs: keys of values.
        outputs: keys of values.
        attributes: of the class that `format/attributes.py` has for `op`.
        origin: for errors and the program's source notes.
        refusal: why a rule for this op did not take it; empty if it did or if there is no rule.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes = NONE
    origin: Origin = Origin("")
    refusal: str = ""

    def read(self, kind: type[A]) -> A:
        """Return the attributes of a node whose `op` has attributes of class `kind`.

        Raises:
            TypeError: they are of another class.
        """
        if not isinstance(self.attributes, kind):
            raise TypeError(f"{self.op} has {type(self.attributes).__name__}, not {kind.__name__}")
        return self.attributes


@dataclass(frozen=True)
class Port:
    """A named input or output.

    Attributes:
        name: unique among the inputs, and among the outputs.
        value: key of its value; "" for an output that is refused because it is no tensor.
        labels: for indices that name things.
        refusal: why this port cannot be one of a program; usually empty.
        source: "file.py:line" of what computes an output that is refused; usually empty.
    """

    name: str
    value: str
    labels: tuple[str, ...] = ()
    refusal: str = ""
    source: str = ""


@dataclass(frozen=True)
class State:
    """What a session keeps from one run to the next: a buffer that the module changes.

    Attributes:
        name: the buffer's, as in `named_buffers()`.
        value: key of what the nodes read.
        initial: key of the constant with which a session starts.
        update: key of what a run leaves for the next; the state's own where operators write rows of it in place.
        refusal: why a program cannot keep it; usually empty.
    """

    name: str
    value: str
    initial: str
    update: str
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """A model between two passes; `values` holds at least all that nodes, ports and states name."""

    values: Mapping[str, Value]
    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[State, ...] = ()

    def consumers(self, key: str) -> tuple[Node, ...]:
        """Return the nodes that read value `key`."""
        return tuple(node for node in self.nodes if key in node.inputs)

    def is_output(self, key: str) -> bool:
        """Return whether value `key` leaves the graph: through a port, or as what a state becomes."""
        return any(port.value == key for port in self.outputs) or any(state.update == key for state in self.states)

    def producer(self, key: str) -> Node | None:
        """Return the node that writes value `key`; None for constants, inputs and states."""
        return next((node for node in self.nodes if key in node.outputs), None)


def as_f32(array: Array) -> NDArray[np.float32]:
    """Return `array` as contiguous little-endian f32; it must be f32 already."""
    return np.ascontiguousarray(array, dtype="<f4")


def render(graph: Graph) -> str:
    """Return the graph as text, one line a port and a node; the same graph gives the same text."""
    lines = [f"input  {port.name}: {_render_type(graph.values[port.value])}" for port in graph.inputs]
    for node in graph.nodes:
        outputs = ", ".join(_render_type(graph.values[key]) for key in node.outputs)
        inputs = ", ".join(_operand(graph.values[key]) for key in node.inputs)
        attributes = "".join(f", {value}" for value in node.attributes.numbers())
        note = f"   # {node.origin.source}" if node.origin.source else ""
        lines.append(f"{outputs} = {node.op}({inputs}{attributes}){note}")
    for state in graph.states:
        update = graph.values[state.update].name
        lines += [f"state  {state.name}: {_render_type(graph.values[state.value])} becomes %{update}"]
    for port in graph.outputs:
        labels = f", {len(port.labels)} labels" if port.labels else ""
        value = f"%{graph.values[port.value].name}" if port.value in graph.values else "nothing"
        refusal = f"   # refused: {port.refusal}" if port.refusal else ""
        lines.append(f"output {port.name}: {value}{labels}{refusal}")
    return "\n".join(lines)


def _render_type(value: Value) -> str:
    shape = ", ".join(str(size) for size in value.shape)
    bound = "≤" if value.is_ragged else ""
    return f"%{value.name}: {value.dtype.name.lower()}[{bound}{shape}]"


def _operand(value: Value) -> str:
    if value.constant is None:
        return f"%{value.name}"
    layout = "" if value.layout is Layout.ROW_MAJOR else f" {value.layout.name.lower()}"
    return f"{_render_type(value)[1:]}{layout}"
