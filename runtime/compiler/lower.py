"""How does a torch graph become a graph of the runtime's operators?

Every torch node becomes nothing (shape arithmetic, assertions), a constant (whatever follows from parameters alone is
computed now), another name for a value (views that move nothing), one node of ours (`rules.py`), or, if no rule takes
it, a node with torch's own name, which `legalise` reports unless folding makes it disappear.
"""

import operator
from typing import Any, Final, cast

import torch
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.graph import Graph, Node, Origin, Port, Value
from alcove.runtime.compiler.rules import ALIASES, RULES, Call, Operand, Refused, alias_of, canonical_shape
from alcove.runtime.compiler.source import source_of_stack
from alcove.runtime.compiler.weights import COMPUTED, toggle_transposed
from alcove.runtime.format.spec import DType
from alcove.runtime.ops import LabelledTopK
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, OutputKind

DTYPES: Final = {
    torch.float32: DType.F32,
    torch.int8: DType.I8,
    torch.int32: DType.I32,
    torch.int64: DType.I64,
    torch.uint8: DType.U8,
    torch.bool: DType.BOOL,
}
# They read the shape and type of their tensor, not its elements.
_FACTORIES: Final = {
    f"aten.{name}.default" for name in ("full_like", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
}
_TRANSPOSES: Final = {"aten.t.default", "aten.permute.default", "aten.transpose.int", "aten.numpy_T.default"}


def lower(captured: Captured) -> Graph:
    """Return the graph of what was captured; nodes and ports that no rule took carry their refusal."""
    return _Lowering(captured).run()


class _Lowering:
    """One walk over a torch graph."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.keys: dict[fx.Node, tuple[str, ...]] = {}  # what each torch node gives, as keys of values
        self.constants: dict[fx.Node, Tensor] = {}
        self.labels: dict[str, tuple[str, ...]] = {}

    def run(self) -> Graph:
        """Walk the graph once, in order."""
        placeholders = iter(self.captured.program.graph_signature.input_specs)
        position = 0
        for node in self.captured.program.graph.nodes:
            if node.op == "placeholder":
                spec = next(placeholders)
                if spec.kind is InputKind.USER_INPUT:
                    self._input(node, position)
                    position += 1
                else:
                    self._parameter(node, spec.target)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(node)
        return Graph(self.values, tuple(self.nodes), tuple(self.inputs), tuple(self.outputs))

    def _input(self, node: fx.Node, position: int) -> None:
        fake = node.meta["val"]
        if position in self.captured.text_inputs:
            self._add(Value(node.name, node.name, DType.TEXT, ()))
            refusal = ""
        else:
            shape, is_ragged, refusal = self._shape(fake)
            dtype = DTYPES.get(fake.dtype, DType.F32)
            if dtype is DType.I64:
                refusal = refusal or "int64 numbers have no use in a program; pass ids as int32"
            elif fake.dtype not in DTYPES:
                refusal = refusal or f"{fake.dtype} has no place in a program; pass float32"
            if dtype is DType.F32 and canonical_shape(shape) != shape:
                refusal = refusal or (
                    f"its shape is {list(shape)}, but numbers come in as [rows, columns]: "
                    f"pass {list(canonical_shape(shape))}"
                )
            if dtype is DType.F32 and is_ragged:
                refusal = refusal or "its number of rows is dynamic; only ids (int32) and texts vary in length"
            self._add(Value(node.name, node.name, dtype, shape, is_ragged))
        self.keys[node] = (node.name,)
        self.inputs.append(Port(node.name, node.name, refusal=refusal))

    def _parameter(self, node: fx.Node, target: str) -> None:
        program = self.captured.program
        tensor = program.state_dict.get(target)
        if tensor is None:
            tensor = program.constants[target]
        self._constant(node, target, tensor.detach())

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source, index = cast("tuple[fx.Node, int]", node.args)
            if index < len(self.keys[source]):
                self.keys[node] = (self.keys[source][index],)
            else:
                self._opaque(node, f"only the first result of {source.target} is in a program")
            return
        if not _tensors(node):
            return  # sizes, comparisons of sizes and assertions on them: bounds that the operators keep anyway
        if self._fold(node):
            return
        target = str(node.target)
        call = self._bind(node)
        try:
            if target in ALIASES:
                self.keys[node] = (alias_of(call),)
                return
            rule = RULES.get(target)
            if rule is None:
                self._opaque(node, "")
                return
            emitted = rule(call)
        except Refused as refused:
            self._opaque(node, str(refused))
            return
        outputs = self._results(node, len(emitted.outputs))
        for (key, name), (dtype, shape, is_ragged) in zip(outputs, emitted.outputs, strict=True):
            self._add(Value(key, name, dtype, shape, is_ragged))
        for operand in emitted.inputs:
            self._add(operand)
        self.keys[node] = tuple(key for key, _ in outputs)
        inputs = tuple(operand.key for operand in emitted.inputs)
        self.nodes.append(Node(emitted.op, inputs, self.keys[node], emitted.attributes, self._origin(node)))
        if emitted.op == "topk":
            self._label(node)

    def _fold(self, node: fx.Node) -> bool:
        """Compute `node` now if it follows from constants alone; return whether it did."""
        target = node.target
        if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
            return False
        reads_elements = str(target) not in _FACTORIES
        if reads_elements and any(argument not in self.constants for argument in node.all_input_nodes):
            return False
        value = node.meta["val"]
        if not isinstance(value, Tensor) or any(not isinstance(size, int) for size in value.shape):
            return False
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._known)
        with torch.no_grad():
            result = target(*args, **kwargs)
        self._constant(node, self._constant_name(node, result), result)
        return True

    def _known(self, node: fx.Node) -> Tensor:
        """Return a constant's elements; for what a factory imitates, any tensor of its shape and type."""
        fake = node.meta["val"]
        shape = tuple(size if isinstance(size, int) else 0 for size in fake.shape)
        return self.constants.get(node, torch.empty(shape, dtype=fake.dtype))

    def _constant_name(self, node: fx.Node, result: Tensor) -> str:
        """Return the parameter's name where it can be found back in the program, else a name that says "computed"."""
        sources = node.all_input_nodes
        if len(sources) == 1 and sources[0] in self.constants:
            before, name = self.constants[sources[0]], self.values[sources[0].name].name
            if before.dtype == result.dtype and before.shape == result.shape and torch.equal(before, result):
                return name
            if str(node.target) in _TRANSPOSES and before.dim() == 2 and torch.equal(before.T, result):
                return toggle_transposed(name)
        return COMPUTED + node.name

    def _constant(self, node: fx.Node, name: str, tensor: Tensor) -> None:
        self.constants[node] = tensor
        dtype = DTYPES.get(tensor.dtype, DType.F32)
        array = tensor.detach().cpu().contiguous()
        if tensor.dtype not in DTYPES:
            array = array.to(torch.float32)  # never emitted: a rule refuses it by its torch type
        self._add(Value(node.name, name, dtype, tuple(tensor.shape), constant=array.numpy()))
        self.keys[node] = (node.name,)

    def _opaque(self, node: fx.Node, refusal: str) -> None:
        """Keep a node that no rule takes, under torch's name, with outputs of the shapes that torch knows."""
        fakes = _tensors(node)
        outputs = self._results(node, len(fakes))
        for (key, name), fake in zip(outputs, fakes, strict=True):
            shape, is_ragged, _ = self._shape(fake)
            dtype = DTYPES.get(fake.dtype, DType.F32)
            self._add(Value(key, name, dtype, canonical_shape(shape) if dtype is DType.F32 else shape, is_ragged))
        self.keys[node] = tuple(key for key, _ in outputs)
        inputs = tuple(key for argument in node.all_input_nodes for key in self.keys.get(argument, ()))
        numbers = tuple(
            argument for argument in (*node.args, *node.kwargs.values()) if isinstance(argument, int | float)
        )
        self.nodes.append(Node(str(node.target), inputs, self.keys[node], numbers, self._origin(node), refusal))

    def _label(self, node: fx.Node) -> None:
        """Remember the labels of a top-k that a `LabelledTopK` asked for."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        owner = self.captured.module.get_submodule(_plain_path(stack[-1][0])) if stack else None
        if isinstance(owner, LabelledTopK):
            self.labels[self.keys[node][1]] = owner.labels

    def _outputs(self, node: fx.Node) -> None:
        signature = self.captured.program.graph_signature.output_specs
        arguments = cast("tuple[object, ...]", node.args[0])
        names = iter(self.captured.output_names)
        for spec, argument in zip(signature, arguments, strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT:
                refusal = (
                    f"the module changes its {spec.target!r} while it runs; a program keeps no state between calls"
                )
                self.outputs.append(Port(f"(buffer {spec.target})", "", refusal=refusal))
                continue
            name = next(names)
            if not isinstance(argument, fx.Node) or argument not in self.keys:
                self.outputs.append(Port(name, "", refusal=f"only tensors can be outputs, not {argument!r}"))
                continue
            (key,) = self.keys[argument]
            self.outputs.append(Port(name, key, self.labels.get(key, ()), self._output_refusal(argument, key)))

    def _output_refusal(self, node: fx.Node, key: str) -> str:
        value = self.values[key]
        if value.constant is not None:
            return "it depends on no input"
        if any(port.value == key for port in self.inputs):
            return "it is an input, handed back as it came"
        shape, _, _ = self._shape(node.meta["val"])
        if shape != value.shape:
            return (
                f"the module gives shape {list(shape)} where a program gives {list(value.shape)}; "
                f"return {list(value.shape)} and reshape outside"
            )
        labels = self.labels.get(key, ())
        topk = next((n for n in self.nodes if key in n.outputs), None)
        if labels and topk is not None and len(labels) != self.values[topk.inputs[0]].shape[-1]:
            return f"LabelledTopK has {len(labels)} labels for {self.values[topk.inputs[0]].shape[-1]} scores"
        return ""

    def _bind(self, node: fx.Node) -> Call:
        """Return the call's arguments by name, with tensors as operands."""
        target = node.target
        arguments: dict[str, Any] = {}
        if isinstance(target, OpOverload):
            # Torch has no public name for an operator's parameters.
            for index, parameter in enumerate(target._schema.arguments):  # noqa: SLF001
                if index < len(node.args):
                    arguments[parameter.name] = node.args[index]
                elif parameter.name in node.kwargs:
                    arguments[parameter.name] = node.kwargs[parameter.name]
                elif parameter.has_default_value():
                    arguments[parameter.name] = parameter.default_value
        bound = {name: fx.node.map_arg(value, self._operand) for name, value in arguments.items()}
        first = _tensors(node)[0]
        return Call(bound, self._shape(first)[0], first.dtype)

    def _operand(self, node: fx.Node) -> Any:
        fake = node.meta["val"]
        if not isinstance(fake, Tensor):
            return fake  # a size
        (key,) = self.keys[node]
        return Operand(self.values[key], self._shape(fake)[0], fake.dtype)

    def _origin(self, node: fx.Node) -> Origin:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = _plain_path(stack[-1][0]) if stack else ""
        return Origin(str(node.target), path, source_of_stack(node.meta.get("stack_trace")))

    def _shape(self, fake: Tensor) -> tuple[tuple[int, ...], bool, str]:
        """Return the shape with upper bounds, whether the first dimension varies, and what keeps it from a program."""
        sizes: list[Any] = list(fake.shape)  # ints, and symbols where a size varies
        shape, refusal = [], ""
        for axis, size in enumerate(sizes):
            if isinstance(size, int):
                shape.append(size)
                continue
            bound = self._upper_bound(size)
            if axis > 0:
                refusal = "only the first dimension of a tensor can vary"
            if bound is None:
                refusal = refusal or "the first dimension varies without a bound: give its Dim a max"
            shape.append(bound or 1)
        return tuple(shape), bool(sizes) and not isinstance(sizes[0], int), refusal

    def _upper_bound(self, size: torch.SymInt) -> int | None:
        bounds = self.captured.program.range_constraints.get(size.node.expr)
        upper = str(getattr(bounds, "upper", ""))  # a sympy number, which may be infinite
        return int(upper) if upper.isdigit() and int(upper) < 2**31 else None

    def _results(self, node: fx.Node, count: int) -> list[tuple[str, str]]:
        if count == 1:
            return [(node.name, node.name)]
        return [(f"{node.name}.{index}", f"{node.name}.{index}") for index in range(count)]

    def _add(self, value: Value) -> None:
        self.values[value.key] = value


def _tensors(node: fx.Node) -> list[Tensor]:
    """Return what torch knows of the tensors that a node gives; empty for sizes and assertions."""
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part for part in parts if isinstance(part, Tensor)]


def _plain_path(path: str) -> str:
    """Return a module path without torch's mark for the second call of one module ("layer@1")."""
    return path.partition("@")[0]
