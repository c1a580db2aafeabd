"""In which order do the passes run?

capture → lower → tidy → legalise → quantise → pack → plan → emit → check → bytes → the verifier of the devices
"""

from collections.abc import Sequence

from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.emit import emit
from alcove.runtime.compiler.graph import Graph, Node, Origin, render
from alcove.runtime.compiler.legalise import legalise
from alcove.runtime.compiler.lower import lower
from alcove.runtime.compiler.pack import pack
from alcove.runtime.compiler.plan import Plan, plan
from alcove.runtime.compiler.plan_check import check_plan
from alcove.runtime.compiler.quantise import MODES, quantise
from alcove.runtime.compiler.tidy import tidy
from alcove.runtime.errors import ExportError, Finding, ProgramError
from alcove.runtime.format.spec import ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import load
from alcove.runtime.program import Program
from torch import nn


def export(
    module: nn.Module,
    args: Sequence[object],
    *,
    dynamic_shapes: object = None,
    quantize: str | None = None,
    calibration: object = None,
) -> Program:
    """Compile a torch module to a program.

    Args:
        module: in eval mode, parameters in float32; it is not changed.
        args: one example for each argument of `forward`.  A `str` stands for a text: `forward` gets its UTF-8 bytes as
            a uint8 tensor of any length, the program takes a `str`.  Tensors may lie in tuples, lists and dictionaries;
            the program takes them one after the other.
        dynamic_shapes: as `torch.export.export` takes it, for ids of varying number: {"ids": {0: Dim("n", max=512)}}.
        quantize: None for f32, "int8" for int8 embedding tables with one scale a column.
        calibration: inputs for quantising activations; no mode needs any yet, so it must be None.

    Returns:
        The program; the same module gives the same bytes.

    Raises:
        ExportError: the module cannot become a program; every reason at once, each with its source line and the nearest
            supported form.
        TypeError: `args` or `dynamic_shapes` is not as above.
        ValueError: `quantize` or `calibration` is not as above.
    """
    if quantize not in MODES:
        raise ValueError(f"quantize must be one of {MODES}, not {quantize!r}")
    if calibration is not None:
        raise ValueError("calibration must be None: int8 tables need none, and nothing else is quantised")
    passes: list[tuple[str, str]] = []

    def seen(name: str, graph: Graph) -> Graph:
        passes.append((name, render(graph)))
        return graph

    captured = capture(module, args, dynamic_shapes)
    passes.append(("capture", str(captured.program.graph)))
    graph = seen("lower", lower(captured))
    graph = seen("tidy", tidy(graph))
    graph = legalise(graph)
    graph = seen("quantise", quantise(graph, quantize))
    graph = seen("pack", pack(graph))
    planned = plan(graph)
    passes.append(("plan", _render_plan(graph, planned)))
    spec = emit(graph, planned)
    check_plan(spec)
    return Program(_verified(spec, graph.nodes), passes)


def _verified(spec: ProgramSpec, nodes: Sequence[Node]) -> bytes:
    """Return the bytes of a program that the verifier of the devices accepts.

    Raises:
        ExportError: it is beyond a cap of the format, such as the steps of one run.
    """
    try:
        data = write_program(spec)
        load(data)
    except ValueError as error:  # a number that no record of the format holds
        raise ExportError([Finding(op="program", module_path="", source="", nearest=str(error))]) from error
    except ProgramError as error:
        origin = nodes[error.op].origin if error.op is not None else Origin("program")
        finding = Finding(op=origin.op, module_path=origin.module_path, source=origin.source, nearest=error.message)
        raise ExportError([finding]) from error
    return data


def _render_plan(graph: Graph, planned: Plan) -> str:
    lines = [f"arena: {planned.arena_bytes} bytes"]
    lines += [f"{offset:>8}  %{graph.values[key].name}" for key, offset in planned.offsets.items()]
    return "\n".join(lines)
