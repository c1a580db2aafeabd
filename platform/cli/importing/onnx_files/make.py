"""Makes a torch module of a file in the ONNX format."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from alcove.platform.cli.importing.onnx_files.build import Builder, Scope
from alcove.platform.cli.importing.onnx_files.control_flow import CONTROL
from alcove.platform.cli.importing.onnx_files.cut import are_choices, describe_choice, find_cut, has_layers
from alcove.platform.cli.importing.onnx_files.errors import CUT, OnnxError
from alcove.platform.cli.importing.onnx_files.inputs import fix_constants, fix_inputs, is_setting
from alcove.platform.cli.importing.onnx_files.module import OnnxModule, make_module
from alcove.platform.cli.importing.onnx_files.node import Node, Value
from alcove.platform.cli.importing.onnx_files.reader import opsets_of, read_model, read_names, sort_nodes
from alcove.platform.cli.importing.onnx_files.tensors import DTYPES, WIDE
from onnx import GraphProto, ModelProto
from torch import Tensor

SHOWN: Final = 5


def read_onnx(
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = (),
    size: tuple[int, int] | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModule:
    """Return the module of a file, in float32.

    Where what is not supported lies behind all layers, such as a choice of boxes, the module ends before it.

    Args:
        path: of the file; tensors beside it are read from its own folder alone.
        shapes: of inputs whose sizes vary.
        outputs: names of the tensors to give; empty for the file's own outputs.
        size: height and width of pictures whose sizes vary.
        constants: inputs that are always the same, as numbers or nested lists of them.

    Raises:
        OnnxError: the file is damaged or too large, an input's size varies, there is no such output, or operators are
            not supported; all of these at once.
    """
    return module_of(read_model(path), path.parent, shapes or {}, outputs, size, constants=constants)


def module_of(
    model: ModelProto,
    folder: Path,
    shapes: Mapping[str, Sequence[int]],
    outputs: Sequence[str] = (),
    size: tuple[int, int] | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModule:
    """Return the module of a model, as `read_onnx` does.

    Raises:
        OnnxError: as there.
    """
    graph = model.graph
    wanted = _find_outputs(graph, outputs)
    held = {tensor.name for tensor in graph.initializer}
    inputs = [each for each in graph.input if each.name not in held]
    fixed = fix_constants(inputs, constants or {})
    ports = [each for each in inputs if each.name not in fixed]
    known = {*held, *(each.name for each in inputs)}
    needed = _names_needed(graph, known, wanted)
    examples = fix_inputs([each for each in ports if each.name in needed or each.name in shapes], shapes, size)
    builder = Builder(folder, CONTROL, {(each.domain, each.name): each for each in model.functions})
    scope: Scope = {name: builder.add_input(example) for name, example in examples.items()}
    scope |= {name: Value(tensor) for name, tensor in fixed.items()}
    builder.read_graph(graph, scope, opsets_of(model), wanted)
    if builder.problems:
        count = sum(len(names) for names in builder.problems.values())
        problems = builder.list_problems()
        whole = [each.name for each in ports if each.name in examples and is_setting(examples[each.name])]
        if whole:
            given = " ".join(f"--constant {name}=VALUE" for name in whole)
            problems.append(f"if an input is always the same, say so: {given}")
        cut = find_cut(graph, scope, wanted)
        if cut:
            behind = sort_nodes(graph.node, {*known, *cut}, wanted)
            if not outputs and are_choices(builder.problems) and not has_layers(behind, held):
                module = module_of(model, folder, shapes, cut, size, constants=constants)
                left = builder.list_problems() + describe_choice(behind, scope)
                module.left = tuple(each.removesuffix(f"; {CUT}") for each in left)
                module.replaced = tuple(wanted)
                return module
            problems = [each.removesuffix(f"; {CUT}") for each in problems]
            problems.append(f"or leave it to the app: --outputs {','.join(cut)}")
        raise OnnxError(f"{count} node{'s are' if count > 1 else ' is'} not supported:", problems)
    declared = {each.name: each.type.tensor_type.elem_type for each in graph.output}
    found = {name: _output(builder, name, scope, declared.get(name, 0)) for name in wanted}
    module = make_module(examples, builder.steps, found)
    module.is_quantized = builder.is_quantized
    module.fixed = {name: tensor.numpy() for name, tensor in fixed.items()}
    return module


def _find_outputs(graph: GraphProto, outputs: Sequence[str]) -> list[str]:
    """Return the names of the tensors to give.

    Raises:
        OnnxError: there is no such tensor, or none at all.
    """
    if not outputs:
        if not graph.output:
            raise OnnxError("the graph has no outputs; name some: --outputs NAME,NAME")
        return [each.name for each in graph.output]
    made = [name for node in graph.node for name in node.output if name]
    for name in outputs:
        if name not in made:
            near = difflib.get_close_matches(name, made, SHOWN) or [each.name for each in graph.output][:SHOWN]
            raise OnnxError(f"--outputs: no node makes {name!r}; near it: {', '.join(near)}")
    return list(dict.fromkeys(outputs))


def _names_needed(graph: GraphProto, known: set[str], wanted: Sequence[str]) -> set[str]:
    """Return the names that the outputs need."""
    return {name for node in sort_nodes(graph.node, known, wanted) for name in read_names(node)} | set(wanted)


def _output(builder: Builder, name: str, scope: Scope, declared: int) -> int | Tensor:
    """Return where an output lies; levels of quantization become whole numbers again.

    Raises:
        OnnxError: nothing makes it, or it is a sequence.
    """
    value = scope.get(name)
    if not isinstance(value, Value):
        raise OnnxError(f"output {name!r} is {'a sequence' if isinstance(value, list) else 'made by nothing'}")
    dtype = DTYPES.get(declared)
    if value.slot is None:
        return value.tensor.float() if value.tensor.dtype in WIDE else value.tensor
    if dtype is not None and not dtype.is_floating_point and value.tensor.is_floating_point():
        node = Node("Cast", f"{name}_levels", 1, {}, (value,))
        value = builder.compute(node, lambda x: x.to(dtype))[0] or value
    return value.slot if value.slot is not None else value.tensor
