"""Lowers a torch graph to a graph of the runtime's operators.

Every torch node becomes nothing (shape arithmetic, assertions), a constant (whatever follows from parameters alone is
computed now), what its rule makes of it (`rules/`), or, if no rule takes it, a node with torch's own name, which
`legalize` reports unless nothing needs it.  Sizes that vary are lowered at given values: a graph knows numbers only.
"""

import operator
from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from alcove.runtime.compiler.builder import FOLLOWER
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.graph import Graph, Origin, Port, State, Value
from alcove.runtime.compiler.rules import DTYPES, RULES, Call, Refused, Result
from alcove.runtime.compiler.rules.complex_numbers import COMPLEX_RULES, Pair, pair_of
from alcove.runtime.compiler.source import source_of_stack
from alcove.runtime.compiler.suggestions import is_listed
from alcove.runtime.compiler.symint_lowering import Origins, SizedBuilder, with_origins
from alcove.runtime.compiler.weights import COMPUTED, toggle_transposed
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType
from alcove.runtime.ops import LabelledTopK
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, OutputKind

# They read the shape and type of their tensor, not its elements.
FACTORIES: Final = {
    f"aten.{name}.default"
    for name in ("empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
}
UNWRITTEN: Final = ("aten.empty", "aten.new_empty")
"""What torch leaves in their memory is this process's; a program has zeros."""
_STORAGE_VIEWS: Final = {f"aten.as_strided{kind}.default" for kind in ("", "_copy", "_scatter")}
"""They count in torch's storage; a program's tensors are row-major."""
_TRANSPOSES: Final = {"aten.t.default", "aten.permute.default", "aten.transpose.int", "aten.numpy_T.default"}


def lower(captured: Captured, sizes: Mapping[str, int] | None = None, *, computes_sizes: bool = False) -> Graph:
    """Return the graph of what was captured; nodes, ports and states that no rule took carry their refusal.

    Args:
        captured: as `capture` gives it.
        sizes: a number for each of `captured.symbols` by name; None takes the largest.
        computes_sizes: whether the program computes what follows from sizes that vary, instead of holding constants.
    """
    return _Lowering(captured, captured.largest() if sizes is None else sizes, computes_sizes=computes_sizes).run()


def lower_with_taps(captured: Captured) -> tuple[Graph, dict[str, tuple[str, ...]]]:
    """Return the graph, and for each torch node that becomes steps of it the keys of its results, in order."""
    lowering = _Lowering(captured, captured.largest())
    graph = lowering.run()
    written = {key for node in graph.nodes for key in node.outputs}
    taps = {
        node.name: tuple(value.key for value in values)
        for node, values in lowering.results.items()
        if node.target is not operator.getitem and any(value.key in written for value in values)
    }
    return graph, taps


class _Lowering:
    """One walk over a torch graph."""

    def __init__(self, captured: Captured, sizes: Mapping[str, int], *, computes_sizes: bool = False) -> None:
        self.captured = captured
        self.sizes = tuple(sizes.items())
        self.numbers = captured.substitution(sizes)
        self.computes_sizes = computes_sizes
        self.builder = SizedBuilder()
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.states: dict[str, tuple[str, str]] = {}  # buffer -> what nodes read, what a session starts with
        self.updates: list[State] = []
        self.results: dict[fx.Node, tuple[Value, ...]] = {}
        self.pairs: dict[fx.Node, tuple[Pair, ...]] = {}  # of nodes that give complex tensors, in place of results
        self.constants: dict[fx.Node, Tensor] = {}
        self.folded: dict[fx.Node, tuple[Tensor, ...]] = {}  # of nodes with several results
        self.labels: dict[str, tuple[str, ...]] = {}
        self.unsized: set[fx.Node] = set()  # refused ones whose shapes depend on data: no rule can ask for those
        self.keeps = False  # whether the constants of the node at hand are not computed with now

    def run(self) -> Graph:
        """Walk the graph once, in order."""
        signature = self.captured.program.graph_signature
        placeholders = iter(signature.input_specs)
        changed = set(signature.buffers_to_mutate.values())
        position = 0
        for node in self.captured.program.graph.nodes:
            self.builder.start(node.name, origin_of(node))
            if node.op == "placeholder":
                spec = next(placeholders)
                if spec.kind is InputKind.TOKEN:
                    continue  # keeps the order of effects, such as checks of singular matrices
                if spec.kind is InputKind.USER_INPUT:
                    self._input(node, position)
                    position += 1
                elif spec.target in changed:
                    self._state(node, str(spec.target))
                else:
                    self._parameter(node, str(spec.target))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(node)
        builder = self.builder
        return Graph(builder.values, tuple(builder.nodes), tuple(self.inputs), tuple(self.outputs), tuple(self.updates))

    # -- what comes in --------------------------------------------------------------------------------------------

    def _input(self, node: fx.Node, position: int) -> None:
        fake = node.meta["val"]
        if not isinstance(fake, Tensor):
            return  # a number or None: part of the program
        if position in self.captured.text_inputs:
            value, refusal = Value(node.name, node.name, DType.TEXT, ()), ""
        else:
            refusal = _input_refusal(fake)
            try:
                shape = self._shape(fake)
            except Refused as add_refused:
                shape, refusal = (1,), str(add_refused)
            value = Value(node.name, node.name, DTYPES.get(fake.dtype, DType.F32), shape)
        self.results[node] = (self.builder.add(value),)
        self.inputs.append(Port(node.name, value.key, refusal=refusal))

    def _parameter(self, node: fx.Node, target: str) -> None:
        self._constant(node, target, self._read_tensor(target))

    def _read_tensor(self, target: str) -> Tensor:
        program = self.captured.program
        tensor = program.state_dict.get(target)
        if tensor is None:
            tensor = program.constants[target]
        if not isinstance(tensor, Tensor):
            reason = f"forward uses an object of the class {type(tensor).__name__}: only tensors are in a program"
            raise ExportError([Finding(op=f"object {target}", module_path="", source="", suggestion=reason)])
        return tensor.detach()

    def _state(self, node: fx.Node, target: str) -> None:
        """Add a buffer that the module changes: the nodes read what a session keeps."""
        tensor = self._read_tensor(target)
        start = self._as_value(tensor, target)
        value = self.builder.add(Value(node.name + ":state", target + ":state", start.dtype, start.shape))
        self.results[node] = (value,)
        self.states[target] = (value.key, start.key)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            self._pick(node)
            return
        fakes = _tensors(node)
        if not fakes:
            return  # sizes, comparisons of sizes and assertions on them: bounds that the operators keep anyway
        if self.unsized.intersection(node.all_input_nodes):
            self._follow(node, fakes)
            return
        try:
            if not (self._fold(node) or self._nothing(node, fakes) or self._complex(node, fakes)):
                self._apply_rule(node, fakes)
        except Refused as add_refused:
            self._opaque(node, str(add_refused))

    def _apply_rule(self, node: fx.Node, fakes: list[Tensor]) -> None:
        rule = RULES.get(str(node.target))
        if rule is None:
            self._opaque(node, "")
            return
        results = rule(self._bind(node, fakes), self.builder)
        self.results[node] = results if isinstance(results, tuple) else (results,)
        self._label(node)

    def _pick(self, node: fx.Node) -> None:
        """Take one of the results of an operator that has several."""
        source, index = cast("tuple[fx.Node, int]", node.args)
        if source in self.pairs:
            self.pairs[node] = (self.pairs[source][index],)
            return
        known = self.results.get(source, ())
        if source in self.unsized and any(self._is_ragged(fake) for fake in _tensors(node)):
            self.unsized.add(node)
        if index < len(known):
            self.results[node] = (known[index],)
            if source in self.folded:
                self.constants[node] = self.folded[source][index]
        else:
            self._opaque(node, f"only the first result of {source.target} is in a program")

    def _complex(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        """Apply the rule of an operator that takes or gives complex tensors; return whether `node` is one."""
        is_complex = any(fake.dtype is torch.complex64 for fake in fakes)
        if not is_complex and not any(argument in self.pairs for argument in node.all_input_nodes):
            return False
        rule = COMPLEX_RULES.get(str(node.target))
        if rule is None:
            raise Refused("no rule for it of complex numbers: torch.view_as_real gives both parts, compute with those")
        result = rule(self._bind(node, fakes), self.builder)
        several = result if isinstance(result, tuple) else (result,)
        if isinstance(several[0], Pair):
            self.pairs[node] = several
        else:
            self.results[node] = several
        return True

    def _fold(self, node: fx.Node) -> bool:
        """Compute `node` now if it follows from constants alone; return whether it did."""
        target = node.target
        if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
            return False
        tensors = [argument for argument in node.all_input_nodes if _tensors(argument)]
        if str(target) not in FACTORIES and any(argument not in self.constants for argument in tensors):
            return False
        if any(isinstance(part, torch.SymInt) and not self._is_known(part) for part in _sizes(node)):
            return False
        if self.computes_sizes and any(isinstance(part, torch.SymInt | torch.SymFloat) for part in _sizes(node)):
            return False
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._resolve)
        with torch.no_grad():
            result = target(*args, **kwargs)
            if str(target).startswith(UNWRITTEN):
                result.zero_()
        if isinstance(result, Tensor):
            self._constant(node, self._constant_name(node, result), result)
        else:
            self._constants(node, tuple(result))
        return True

    def _nothing(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        """Make results without elements constants: there is nothing to compute."""
        shapes = [self._shape(fake) for fake in fakes if not self._is_ragged(fake)]
        if len(shapes) != len(fakes) or not all(0 in shape for shape in shapes):
            return False
        parts = tuple(torch.empty(shape, dtype=fake.dtype) for shape, fake in zip(shapes, fakes, strict=True))
        if len(parts) == 1:
            self._constant(node, COMPUTED + node.name, parts[0])
        else:
            self._constants(node, parts)
        return True

    def _resolve(self, node: fx.Node) -> Any:
        """Return a constant's elements, a size, or for what a factory imitates any tensor of its shape and type."""
        fake = node.meta["val"]
        if not isinstance(fake, Tensor):
            return self._number(fake)
        if node in self.constants:
            return self.constants[node]
        shape = (1,) if self._is_ragged(fake) else self._shape(fake)
        return torch.empty(shape, dtype=fake.dtype)

    def _constant_name(self, node: fx.Node, result: Tensor) -> str:
        """Return the parameter's name where it can be found back in the program, else a name that says "computed"."""
        sources = node.all_input_nodes
        if len(sources) == 1 and sources[0] in self.constants and sources[0] in self.results:
            before, name = self.constants[sources[0]], self.results[sources[0]][0].name
            if before.dtype == result.dtype and before.shape == result.shape and torch.equal(before, result):
                return name
            if str(node.target) in _TRANSPOSES and before.dim() == 2 and torch.equal(before.T, result):
                return toggle_transposed(name)
        return COMPUTED + node.name

    def _constant(self, node: fx.Node, name: str, tensor: Tensor) -> None:
        self.constants[node] = tensor
        if tensor.is_complex():
            self.pairs[node] = (pair_of(self.builder, tensor.detach().resolve_conj().resolve_neg().numpy()),)
        else:
            self.results[node] = (self._as_value(tensor, name),)

    def _constants(self, node: fx.Node, tensors: tuple[Tensor, ...]) -> None:
        self.folded[node] = tensors
        self.results[node] = tuple(self._as_value(part, COMPUTED + node.name) for part in tensors)

    def _as_value(self, tensor: Tensor, name: str) -> Value:
        """Return a torch constant as a value; float64 becomes f32, as torch computes with it beside f32 tensors."""
        array = tensor.detach().cpu().contiguous().resolve_neg()
        if array.dtype not in DTYPES:
            array = array.to(torch.float32)  # a rule refuses results of other types; a scalar's type does not count
        return self.builder.constant(array.numpy(), name=name)

    def _opaque(self, node: fx.Node, refusal: str) -> None:
        """Keep a node that no rule takes, under torch's name, with outputs of the shapes that torch knows."""
        outputs = []
        for fake in _tensors(node):
            try:
                shape = self._shape(fake)
            except Refused as add_refused:
                shape = (1,)
                if not is_listed(str(node.target)):
                    refusal = refusal or str(add_refused)
            outputs.append((DTYPES.get(fake.dtype, DType.F32), shape))
        if any(self._is_ragged(fake) for fake in _tensors(node)):
            self.unsized.add(node)
        inputs = [value for argument in node.all_input_nodes for value in self.results.get(argument, ())]
        numbers = tuple(
            argument for argument in (*node.args, *node.kwargs.values()) if isinstance(argument, int | float)
        )
        self.results[node] = self.builder.add_refused(str(node.target), inputs, outputs, numbers, refusal)

    def _follow(self, node: fx.Node, fakes: list[Tensor]) -> None:
        """Keep a node for the sake of the refused one whose results it takes."""
        outputs = [
            (DTYPES.get(fake.dtype, DType.F32), (1,) if self._is_ragged(fake) else self._shape(fake)) for fake in fakes
        ]
        if any(self._is_ragged(fake) for fake in fakes):
            self.unsized.add(node)
        inputs = [value for argument in node.all_input_nodes for value in self.results.get(argument, ())]
        self.results[node] = self.builder.ops(FOLLOWER, inputs, outputs)

    def _label(self, node: fx.Node) -> None:
        """Remember the labels of a top-k that a `LabelledTopK` asked for."""
        if not str(node.target).startswith("aten.topk"):
            return
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        owner = self.captured.module.get_submodule(_plain_path(stack[-1][0])) if stack else None
        if isinstance(owner, LabelledTopK):
            self.labels[self.results[node][1].key] = owner.labels

    # -- what goes out --------------------------------------------------------------------------------------------

    def _outputs(self, node: fx.Node) -> None:
        signature = self.captured.program.graph_signature.output_specs
        arguments = cast("tuple[object, ...]", node.args[0])
        names = iter(self.captured.output_names)
        for spec, argument in zip(signature, arguments, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self._update(str(spec.target), cast("fx.Node", argument))
                continue
            if spec.kind is OutputKind.TOKEN:
                continue
            if spec.kind is not OutputKind.USER_OUTPUT:
                is_parameter = spec.kind is OutputKind.PARAMETER_MUTATION
                kind, advice = (
                    ("parameter", "a program changes buffers alone")
                    if is_parameter
                    else ("input", "return the changed tensor instead")
                )
                refusal = f"the module changes its {kind} {spec.target!r}; {advice}"
                self.outputs.append(Port(f"({kind} {spec.target})", "", refusal=refusal))
                continue
            name = next(names)
            if argument is None:
                continue
            if isinstance(argument, fx.Node) and argument in self.pairs:
                self.outputs.append(Port(name, "", refusal="it is complex; return torch.view_as_real of it"))
                continue
            if not isinstance(argument, fx.Node) or argument not in self.results:
                what = "a number read out of one" if isinstance(argument, fx.Node) else repr(argument)
                self.outputs.append(Port(name, "", refusal=f"only tensors can be outputs, not {what}"))
                continue
            (value,) = self.results[argument]
            labels = self.labels.get(value.key, ())
            refusal = ""
            if value.dtype is DType.TEXT:
                refusal = "a text cannot be an output"
            elif 0 in value.shape:
                refusal = f"it has no elements, its shape is {list(value.shape)}"
            elif not self._is_computed(value):
                value = self._copy(node, value, name)
            refusal = refusal or self._label_refusal(value, labels)
            self.outputs.append(Port(name, value.key, labels, refusal))

    def _update(self, target: str, argument: fx.Node) -> None:
        kept, start = self.states[target]
        (value,) = self.results[argument]
        if not self._is_computed(value):
            value = self._copy(argument, value, target)
        self.updates.append(State(target, kept, start, value.key))

    def _is_computed(self, value: Value) -> bool:
        """Return whether an op writes `value`: neither a constant, nor an input, nor a state."""
        return any(value.key in node.outputs for node in self.builder.nodes)

    def _copy(self, node: fx.Node, value: Value, name: str) -> Value:
        """Return a copy of what no op writes, so that it can leave the program."""
        self.builder.start(f"{node.name}:{name}", Origin("output"))
        return self.builder.op("reshape", [value], value.dtype, value.shape)

    def _label_refusal(self, value: Value, labels: tuple[str, ...]) -> str:
        topk = next((node for node in self.builder.nodes if value.key in node.outputs), None)
        if not labels or topk is None:
            return ""
        candidates = self.builder.values[topk.inputs[0]].shape[-1]
        return "" if len(labels) == candidates else f"LabelledTopK has {len(labels)} labels for {candidates} scores"

    # -- arguments and sizes --------------------------------------------------------------------------------------

    def _bind(self, node: fx.Node, fakes: list[Tensor]) -> Call:
        """Return the call's arguments by name, with tensors as values and sizes as numbers."""
        for fake in fakes:
            if not _has_place(fake):
                raise Refused(f"it gives {fake.dtype}, which has no place in a program; stay in float32")
        wrong = next((fake for argument in node.all_input_nodes for fake in self._stored_wrong(argument)), None)
        if wrong is not None:
            raise Refused(f"it takes {wrong.dtype}, which has no place in a program; call module.float() before export")
        target = node.target
        if str(target) in _STORAGE_VIEWS and not _is_row_major(node.args[0]):
            raise Refused("as_strided of a contiguous tensor: call contiguous() before it")
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
        bound: dict[str, Any] = {}
        tensors = [argument for argument in node.all_input_nodes if _tensors(argument)]
        self.keeps = self.computes_sizes and all(argument in self.constants for argument in tensors)
        for name, value in arguments.items():
            read = self._read(value) if str(target) == "aten.select.int" else None
            bound[name] = fx.node.map_arg(value, self._argument) if read is None else read
        results = tuple(
            Result(DTYPES.get(fake.dtype, DType.F32), (1,) if self._is_ragged(fake) else self._shape(fake))
            for fake in fakes
        )
        return Call(str(target), bound, results)

    def _stored_wrong(self, argument: fx.Node) -> list[Tensor]:
        """Return what torch knows of a constant whose type no program has; numbers take the type of their tensors."""
        known = _tensors(argument) if argument in self.constants else []
        return [fake for fake in known if fake.dim() and not _has_place(fake)]

    def _read(self, argument: object) -> Value | None:
        """Return the tensor of which `argument` is the one number, read in torch's run: `x[i]` for a tensor `i`."""
        if not isinstance(argument, fx.Node) or str(argument.target) != "aten._local_scalar_dense.default":
            return None
        (value,) = self.results[cast("fx.Node", argument.args[0])]
        return value

    def _argument(self, node: fx.Node) -> Any:
        fake = node.meta["val"]
        if not isinstance(fake, Tensor):
            number = self._number(fake)
            if self.computes_sizes and isinstance(fake, torch.SymInt | torch.SymFloat):
                return with_origins(fake, number, Origins(fake.node.expr, self.captured.symbols, self.sizes))
            return number
        if node in self.pairs:
            return self.pairs[node][0]
        (value,) = self.results[node]
        return self.builder.hide_constant(value) if self.keeps else value

    def _shape(self, fake: Tensor) -> tuple[int, ...]:
        return tuple(int(self._number(size, is_shape=True)) for size in fake.shape)

    def _number(self, size: Any, *, is_shape: bool = False) -> Any:
        """Return a size, or what was computed from sizes, as a number.

        Args:
            size: a number, or torch's symbol for one.
            is_shape: whether it is a dimension of a tensor; else an argument of an operator.

        Raises:
            Refused: it depends on data.
        """
        if not isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
            return size
        value = size.node.expr.subs(self.numbers)
        if value.free_symbols and (isinstance(size, torch.SymFloat) or not is_shape):
            raise Refused(
                "it takes a number that was read out of a tensor: leave out item(), int(), float() and tolist(), and "
                "compute with the tensor; a program's sizes follow from the sizes of its inputs alone"
            )
        if value.free_symbols:
            raise Refused("its size depends on data; a program's sizes follow from the sizes of its inputs")
        if isinstance(size, torch.SymBool):
            return bool(value)
        return int(value) if isinstance(size, torch.SymInt) else float(value)

    def _is_known(self, size: torch.SymInt) -> bool:
        return not size.node.expr.subs(self.numbers).free_symbols

    def _is_ragged(self, fake: Tensor) -> bool:
        sizes: list[Any] = list(fake.shape)
        return any(isinstance(size, torch.SymInt) and not self._is_known(size) for size in sizes)


def _has_place(fake: Tensor) -> bool:
    return fake.dtype in DTYPES or fake.dtype is torch.complex64


def _input_refusal(fake: Tensor) -> str:
    """Return why a program takes no tensor of this kind; "" if it does."""
    if fake.layout is not torch.strided:
        return f"it is sparse ({fake.layout}); pass it dense, to_dense()"
    if fake.dtype in DTYPES:
        return ""
    if fake.dtype.is_complex:
        advice = "pass its parts, torch.view_as_real(x), and take torch.view_as_complex of them"
    else:
        advice = "pass float32" if fake.dtype.is_floating_point else "pass int32 or int64"
    return f"{fake.dtype} has no place in a program; {advice}"


def origin_of(node: fx.Node) -> Origin:
    """Return where in the user's model a torch node comes from."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = _plain_path(stack[-1][0]) if stack else ""
    return Origin(str(node.target), path, source_of_stack(node.meta.get("stack_trace")))


def _tensors(node: fx.Node) -> list[Tensor]:
    """Return what torch knows of the tensors that a node gives; empty for sizes and assertions."""
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part for part in parts if isinstance(part, Tensor)]


def _is_row_major(argument: object) -> bool:
    """Return whether torch holds the tensor that `argument` stands for as a program does."""
    return isinstance(argument, fx.Node) and all(fake.is_contiguous() for fake in _tensors(argument))


def _sizes(node: fx.Node) -> list[Any]:
    """Return the sizes in the results and among the arguments of a node."""
    found: list[Any] = [size for fake in _tensors(node) for size in fake.shape]
    found += [argument.meta.get("val") for argument in node.all_input_nodes if not _tensors(argument)]
    return found


def _plain_path(path: str) -> str:
    """Return a module path without torch's suffix for the second call of one module ("layer@1")."""
    return path.partition("@")[0]
