"""Turns a legal graph into the bytes of a program, by the passes after everything that can be refused.

pack → plan → emit → check → bytes → the verifier of the devices
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from alcove.runtime.compiler.dynamic_shapes import Dynamic
from alcove.runtime.compiler.emit import emit
from alcove.runtime.compiler.graph import Graph, Node, Origin, render
from alcove.runtime.compiler.pack import pack
from alcove.runtime.compiler.plan import Plan, plan
from alcove.runtime.compiler.plan_check import check_plan
from alcove.runtime.errors import ExportError, Finding, ProgramError
from alcove.runtime.format.halves import narrow_constants
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import load

RecordText = Callable[[str, str], None]
"""Takes the name of a pass and the graph after it, as text."""


@dataclass(frozen=True)
class Emitted:
    """A program that is no bytes yet.

    Attributes:
        spec: what it will say.
        nodes: of the graph that it was made of, one for each step, to say where in the module a fault is.
    """

    spec: ProgramSpec
    nodes: Sequence[Node]

    def write(self) -> bytes:
        """Return the bytes, which the verifier of the devices accepts.

        Raises:
            ExportError: it is beyond a cap of the format, such as the steps of one run.
        """
        return _write_verified(self.spec, self.nodes)


def generate_program(graph: Graph) -> bytes:
    """Return the program of a legal graph.

    Raises:
        ExportError: it is beyond a cap of the format, such as the steps of one run.
    """
    return emit_program(graph).write()


def emit_program(graph: Graph, record: RecordText = lambda _name, _text: None, half: DType | None = None) -> Emitted:
    """Return the program of a legal graph, packed and planned.

    Args:
        graph: legal.
        record: takes the passes.
        half: what constants that lose nothing by it are stored in: F16 or BF16; None for float32.
    """
    graph = pack(graph)
    record("pack", render(graph))
    planned = plan(graph)
    record("plan", _render_plan(graph, planned))
    spec = emit(graph, [planned])
    check_plan(spec)
    return Emitted(spec if half is None else narrow_constants(spec, half), graph.nodes)


def generate_dynamic_program(
    dynamic: Dynamic, record: RecordText = lambda _name, _text: None, half: DType | None = None
) -> bytes:
    """Return the program of a packed graph whose sizes vary.

    Raises:
        ExportError: it is beyond a cap of the format, or a rule refuses it at the bounds of a bucket.
    """
    graphs = [graph for _, graph in dynamic.buckets]
    plans = [plan(graph, (dynamic.graph, *graphs)) for graph in graphs]
    order = sorted(range(len(plans)), key=lambda place: plans[place].arena_bytes)
    if order[-1] != len(plans) - 1:
        order.remove(len(plans) - 1)
        order.append(len(plans) - 1)
    plans = [plans[place] for place in order]
    dynamic = replace(dynamic, buckets=tuple(dynamic.buckets[place] for place in order))
    for (bounds, graph), planned in zip(dynamic.buckets, plans, strict=True):
        names = ", ".join(f"{s.name} <= {bound}" for s, bound in zip(dynamic.symbols, bounds, strict=True))
        record(f"plan, {names}", _render_plan(graph, planned))
    spec = emit(dynamic.graph, plans, dynamic)
    return _write_verified(spec if half is None else narrow_constants(spec, half), dynamic.graph.nodes)


def _write_verified(spec: ProgramSpec, nodes: Sequence[Node]) -> bytes:
    """Return the bytes of a program that the verifier of the devices accepts."""
    try:
        data = write_program(spec)
        load(data)
    except ValueError as error:  # a number that no record of the format holds
        raise ExportError([Finding(op="program", module_path="", source="", suggestion=str(error))]) from error
    except ProgramError as error:
        origin = nodes[error.op].origin if error.op is not None else Origin("program")
        finding = Finding(op=origin.op, module_path=origin.module_path, source=origin.source, suggestion=error.message)
        raise ExportError([finding]) from error
    return data


def _render_plan(graph: Graph, planned: Plan) -> str:
    lines = [f"arena: {planned.arena_bytes} bytes"]
    lines += [f"{offset:>8}  %{graph.values[key].name}" for key, offset in planned.offsets.items()]
    return "\n".join(lines)
