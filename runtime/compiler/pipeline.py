"""In which order do the passes run?

capture → lower → tidy → legalise → quantise → pack → plan → emit → check → bytes → the verifier of the devices
"""

from collections.abc import Callable, Mapping, Sequence

from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.dynamic import generalise
from alcove.runtime.compiler.finish import finish, finish_dynamic
from alcove.runtime.compiler.graph import Graph, render
from alcove.runtime.compiler.legalise import legalise
from alcove.runtime.compiler.lower import lower
from alcove.runtime.compiler.pack import pack
from alcove.runtime.compiler.quantise import MODES, quantise
from alcove.runtime.compiler.tidy import tidy
from alcove.runtime.program import Program
from torch import nn

Seen = Callable[[str, Graph], Graph]


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

    def compile_at(sizes: Mapping[str, int], seen: Seen = _unseen) -> Graph:
        graph = seen("lower", lower(captured, sizes))
        graph = seen("tidy", tidy(graph))
        graph = legalise(graph)
        return seen("quantise", quantise(graph, quantize))

    if captured.symbols:
        compile_at(captured.largest(), seen)
        dynamic = generalise(captured, lambda sizes: pack(compile_at(sizes)))
        return Program(finish_dynamic(dynamic, lambda name, text: passes.append((name, text))), passes)
    graph = compile_at({}, seen)
    return Program(finish(graph, lambda name, text: passes.append((name, text))), passes)


def _unseen(_name: str, graph: Graph) -> Graph:
    return graph
