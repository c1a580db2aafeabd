"""Lowers a torch graph to a graph of the runtime's operators.

Every torch node becomes nothing (shape arithmetic, assertions), a constant (whatever follows from parameters alone is
computed now), what its rule makes of it (`rules/`), or, if no rule takes it, a node with torch's own name, which
`legalize` reports unless nothing needs it.  Sizes that vary are lowered at given values: a graph knows numbers only.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
import sympy
import torch
from alcove.runtime.compiler.builder import FOLLOWER
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.cast import CAST_ADVICE
from alcove.runtime.compiler.control_flow import CONTROL_FLOW, Inline, Part, deciding_truth
from alcove.runtime.compiler.graph import Graph, Origin, Port, State, Value
from alcove.runtime.compiler.picks import (
    ADVICE,
    ELEMENTWISE,
    ROWS,
    Pick,
    broadcast,
    count_picked,
    is_same,
    keeps_places,
    over_places,
    pick,
    pick_rows,
    refuse_none,
    safe_arguments,
    write_back,
)
from alcove.runtime.compiler.rules import DTYPES, RULES, TEXT_ONLY, Call, Refused, Result
from alcove.runtime.compiler.rules.complex_numbers import COMPLEX_RULES, Pair, pair_of
from alcove.runtime.compiler.scripts import ScriptedModule, plain_name
from alcove.runtime.compiler.source import source_of_stack
from alcove.runtime.compiler.suggestions import is_listed
from alcove.runtime.compiler.symint_lowering import Origins, SizedBuilder, with_origins
from alcove.runtime.compiler.weights import COMPUTED, toggle_transposed
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType
from alcove.runtime.ops import LabelledTopK
from torch import Tensor, fx
from torch._ops import HigherOrderOperator, OpOverload
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
_ONE_PLACE: Final = ("aten.select.int", "aten.select_scatter.default")
"""They may take the number of a place from a tensor."""
_SELECT: Final = "aten.masked_select.default"
_PICKING: Final = ("aten.index.Tensor", _SELECT)
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

    prefix = ""  # of the names of values, where the graph is part of another

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
        self.numbers_of: dict[fx.Node, Any] = {}  # of nodes that give a number, which control flow decides
        self.several: dict[fx.Node, list[Part]] = {}  # results of control flow
        self.picks: dict[fx.Node, Pick] = {}  # of nodes whose results are what a mask picks, as the whole tensor
        self.counts: dict[Any, Pick] = {}  # by torch's symbol for how many a mask picks
        self.nonempty: list[Pick] = []  # masks of which the module asserts that they pick something
        self.asserted = ""  # why no output can be one: the module asserts what no program does
        self.counted: set[Any] = set()  # those that stand for all places at the moment
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
        self._constant(node, self._name_of(target), self._read_tensor(target))

    def _name_of(self, target: str) -> str:
        """Return what the user calls a parameter or buffer."""
        return plain_name(target) if isinstance(self.captured.module, ScriptedModule) else target

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
        name = self._name_of(target)
        start = self._as_value(tensor, name)
        value = self.builder.add(Value(node.name + ":state", name + ":state", start.dtype, start.shape))
        self.results[node] = (value,)
        self.states[target] = (value.key, start.key)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            self._pick(node)
            return
        fakes = _tensors(node)
        if isinstance(node.target, HigherOrderOperator):
            self._flow(node, fakes)
            return
        if not fakes:
            self._follow_number(node)
            return  # sizes, comparisons of sizes and assertions on them: bounds that the operators keep anyway
        if self.unsized.intersection(node.all_input_nodes):
            self._follow(node, fakes)
            return
        try:
            if not (
                self._picks(node, fakes)
                or self._absorb(node)
                or self._fold(node)
                or self._nothing(node, fakes)
                or self._complex(node, fakes)
            ):
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
        if source in self.several:
            self._bind_part(node, self.several[source][index])
            return
        if source in self.pairs:
            self.pairs[node] = (self.pairs[source][index],)
            return
        known = self.results.get(source, ())
        if source in self.unsized and any(self._is_ragged(fake) for fake in _tensors(node)):
            self.unsized.add(node)
        if index < len(known):
            self.results[node] = (known[index],)
            if source in self.picks and any(self._is_ragged(fake) for fake in _tensors(node)):
                self.picks[node] = self._moved_pick(self.picks[source], _tensors(node)[0])
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
        if node in self.numbers_of:
            return self._known_number(node)
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
        return COMPUTED + self.prefix + node.name

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
        name = str(node.target)
        name = f"higher_order.{name}" if isinstance(node.target, HigherOrderOperator) else name
        self.results[node] = self.builder.add_refused(name, inputs, outputs, numbers, refusal)

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
            if argument in self.picks:
                self.outputs.append(Port(name, "", refusal=f"it is what a mask picks; {ADVICE}"))
                continue
            labels = self.labels.get(value.key, ())
            refusal = ""
            if value.dtype is DType.TEXT:
                refusal = "a text cannot be an output"
            elif 0 in value.shape:
                refusal = f"it has no elements, its shape is {list(value.shape)}"
            elif not self._is_computed(value):
                value = self._copy(node, value, name)
            value = self._assert_picked(node, value)
            refusal = refusal or self.asserted or self._label_refusal(value, labels)
            self.outputs.append(Port(name, value.key, labels, refusal))

    def _assert_picked(self, node: fx.Node, value: Value) -> Value:
        """Return an output by what ends the run where a mask picks nothing, though the module asserts that it does."""
        if self.nonempty:
            self.builder.start(f"{node.name}:asserted", Origin("output"))
        while self.nonempty:
            value = refuse_none(self.builder, value, self.nonempty.pop())
        return value

    def _update(self, target: str, argument: fx.Node) -> None:
        kept, start = self.states[target]
        (value,) = self.results[argument]
        if not self._is_computed(value):
            value = self._copy(argument, value, target)
        self.updates.append(State(self._name_of(target), kept, start, value.key))

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
            read = self._read(value) if str(target) in _ONE_PLACE else None
            if name in {"self", "other"} and torch.Tag.pointwise in getattr(target, "tags", ()):
                read = self._picked_count(value)
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

    def _picked_count(self, argument: object) -> Value | None:
        """Return the tensor of a number of picked elements; None for anything else."""
        size = argument.meta.get("val") if isinstance(argument, fx.Node) else None
        picked = self.counts.get(size.node.expr) if isinstance(size, torch.SymInt) else None
        return None if picked is None else count_picked(self.builder, picked)

    def _argument(self, node: fx.Node) -> Any:
        if node in self.numbers_of:
            return self._known_number(node)
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
        if not is_shape and self.counted & size.node.expr.free_symbols:
            raise Refused(ADVICE)
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

    # -- control flow ---------------------------------------------------------------------------------------------

    def _flow(self, node: fx.Node, fakes: list[Tensor]) -> None:
        """Lower a call of torch's control flow."""
        try:
            if self.unsized.intersection(node.all_input_nodes):
                self._follow(node, fakes)
                return
            if str(node.target) not in CONTROL_FLOW:
                self._opaque(node, "")
                return
            arguments = [self._flow_argument(argument) for argument in node.args]
            self.several[node] = CONTROL_FLOW[str(node.target)](self.builder, arguments, self._run_inline(node))
        except Refused as refused:
            self._opaque(node, str(refused))

    def _flow_argument(self, argument: Any) -> Any:
        """Return a torch graph, a part, or a list of those."""
        if isinstance(argument, tuple | list):
            return [self._flow_argument(part) for part in argument]
        if isinstance(argument, fx.Node) and argument.op == "get_attr":
            return _attribute_of(argument)
        return self._part(argument)

    def _part(self, argument: Any) -> Part:
        if not isinstance(argument, fx.Node):
            return Part(number=argument)
        if argument in self.picks or argument in self.pairs:
            what = "what a mask picks" if argument in self.picks else "complex numbers"
            raise Refused(f"control flow over tensors; it takes {what}")
        if argument in self.several:
            raise Refused("control flow over tensors, one by one")
        if argument in self.numbers_of:
            return Part(number=self.numbers_of[argument])
        if not _tensors(argument):
            return Part(number=self._number(argument.meta["val"]))
        (value,) = self.results[argument]
        if value.is_ragged or value.dtype is DType.TEXT:
            raise Refused(TEXT_ONLY)
        return Part(value=value, constant=None if self.computes_sizes else self.constants.get(argument))

    def _run_inline(self, caller: fx.Node) -> Inline:
        def run(graph: fx.GraphModule, parts: Sequence[Part], step: str) -> list[Part]:
            prefix = f"{self.prefix}{caller.name}/{step}/" if step else f"{self.prefix}{caller.name}/"
            results = _Inner(self, origin_of(caller), prefix).run_graph(graph, parts)
            self.builder.start(f"{prefix}results", origin_of(caller))
            return results

        return run

    def _bind_part(self, node: fx.Node, part: Part) -> None:
        if part.value is None:
            self.numbers_of[node] = part.number
            return
        self.results[node] = (part.value,)
        if part.constant is not None:
            self.constants[node] = part.constant

    def _follow_number(self, node: fx.Node) -> None:
        """Compute a number that follows from one that control flow decides."""
        if not any(argument in self.numbers_of for argument in node.all_input_nodes) or isinstance(
            node.target, OpOverload
        ):
            return
        try:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._resolve)
            self.numbers_of[node] = cast("Any", node.target)(*args, **kwargs)
        except Refused:
            self.numbers_of[node] = None

    def _known_number(self, node: fx.Node) -> Any:
        if self.numbers_of[node] is None:
            raise Refused("a number that control flow decides in the run; carry it as a tensor")
        return self.numbers_of[node]

    def _absorb(self, node: fx.Node) -> bool:
        """Make a truth a constant that one constant operand decides; return whether it is."""
        values = [self.constants.get(argument) for argument in node.all_input_nodes]
        decided = None if all(value is None for value in values) else deciding_truth(str(node.target), values)
        if decided is None or any(fake.dim() for fake in _tensors(node)) or self.computes_sizes:
            return False
        self._constant(node, COMPUTED + self.prefix + node.name, torch.tensor(decided))
        return True

    # -- what masks pick ------------------------------------------------------------------------------------------

    def _picks(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        """Lower a call that picks by a mask, or takes what one picked; return whether it is one."""
        target = str(node.target)
        sources = {argument: self.picks[argument] for argument in node.all_input_nodes if argument in self.picks}
        if not sources:
            return target in _PICKING and self._begin_pick(node, fakes)
        picked = next(iter(sources.values()))
        if any(not is_same(self.builder, other.mask, picked.mask) for other in sources.values()):
            raise Refused(f"it takes what different masks pick; {ADVICE}")
        call = self._bind_picked(node, fakes, picked)
        named = {name: sources[value] for name, value in self._argument_nodes(node).items() if value in sources}
        if len(named) < len(sources) and (target != "aten.index.Tensor" or named):
            raise Refused(ADVICE)
        if target in {"aten.index_put.default", "aten._unsafe_index_put.default"} and set(named) == {"values"}:
            self.results[node] = (write_back(self.builder, call, call.tensor("values"), picked),)
            return True
        rule = RULES.get(target)
        if rule is None:
            self._opaque(node, "")
            return True
        if target == "aten.index.Tensor":
            self._keep_picked(node, fakes, picked, rule(pick_rows(self.builder, call, picked), self.builder))
            return True
        is_elementwise = target in ELEMENTWISE or torch.Tag.pointwise in getattr(node.target, "tags", ())
        ragged = [fake for fake in fakes if self._is_ragged(fake)]
        if is_elementwise and ragged:
            broadcast(call, named, len(ragged[0].shape), self._moved_pick(picked, ragged[0]).axis)
        elif not (target in ROWS and ROWS[target](call, named)):
            if set(named) != {"self"} or bool(ragged) != keeps_places(call):
                raise Refused(ADVICE)
            results = over_places(self.builder, call, named["self"], rule)
            self._keep_picked(node, fakes, picked, results)
            return True
        call = replace(call, arguments=safe_arguments(self.builder, call, named))
        self._keep_picked(node, fakes, picked, rule(call, self.builder))
        return True

    def _keep_picked(self, node: fx.Node, fakes: list[Tensor], picked: Pick, results: Any) -> None:
        self.results[node] = results if isinstance(results, tuple) else (results,)
        ragged = [fake for fake in fakes if self._is_ragged(fake)]
        if ragged:
            self.picks[node] = self._moved_pick(picked, ragged[0])

    def _begin_pick(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        arguments = self._argument_nodes(node)
        given = cast("Sequence[fx.Node | None]", node.args[1]) if "indices" in arguments or len(node.args) > 1 else ()
        masks = [node.args[1]] if str(node.target) == _SELECT else [one for one in given if one is not None]
        if len(masks) != 1 or not self._is_ragged(fakes[0]) or self._shape_of(node.args[0]) is None:
            return False
        (mask,) = self.results[cast("fx.Node", masks[0])]
        (x,) = self.results[cast("fx.Node", node.args[0])]
        if any(value.is_ragged or value.dtype is DType.TEXT for value in (x, mask)):
            return False
        indices: list[Any] = (
            [mask if one is not None else None for one in given] if str(node.target) != _SELECT else [mask]
        )
        if str(node.target) == _SELECT:
            shape = np.broadcast_shapes(x.shape, mask.shape)
            x, indices = self.builder.expand(x, shape), [self.builder.expand(mask, shape)]
        begun = pick(self.builder, x, indices)
        if begun is None:
            return False
        whole, picked = begun
        if self._least_picked(fakes[0], math.prod(mask.shape)):
            self.nonempty.append(picked)
        self.counts |= dict.fromkeys(_symbols_of(fakes[0]) - self.numbers.keys(), picked)
        self.results[node] = (whole,)
        self.picks[node] = self._moved_pick(picked, fakes[0])
        return True

    def _shape_of(self, argument: Any) -> Any:
        return self.results.get(argument)

    def _argument_nodes(self, node: fx.Node) -> dict[str, fx.Node]:
        """Return the arguments that are nodes, by name."""
        if not isinstance(node.target, OpOverload):
            return {}
        names = [parameter.name for parameter in node.target._schema.arguments]  # noqa: SLF001 - see `_bind`
        named = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        return {name: value for name, value in named.items() if isinstance(value, fx.Node)}

    def _bind_picked(self, node: fx.Node, fakes: list[Tensor], picked: Pick) -> Call:
        """Return the call as one of whole tensors."""
        known = self.numbers
        symbols = set().union(*(_symbols_of(fake) for fake in fakes)) - known.keys()
        self.counted = symbols
        self.numbers = known | dict.fromkeys(symbols, picked.mask.shape[0])
        try:
            return self._bind(node, fakes)
        finally:
            self.numbers = known
            self.counted = set()

    def _moved_pick(self, picked: Pick, fake: Tensor) -> Pick:
        """Return where the places count in a result."""
        sizes: list[Any] = list(fake.shape)
        ragged = [
            axis for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt) and not self._is_known(size)
        ]
        if len(ragged) != 1 or not sizes[ragged[0]].node.expr.is_Symbol:
            raise Refused(ADVICE)
        return Pick(picked.mask, ragged[0])

    def _least_picked(self, fake: Tensor, most: int) -> int:
        """Return the least number of elements, of 0 to `most`, that the module takes a mask to pick: 0 or 1.

        Raises:
            Refused: it asserts something else of that number.
        """
        symbols, least = _symbols_of(fake) - self.numbers.keys(), 0
        program = self.captured.program
        conditions = [
            node.args[0].meta.get("val")
            for node in program.graph.nodes
            if str(node.target) == "aten._assert_scalar.default" and isinstance(node.args[0], fx.Node)
        ]
        for symbol in symbols:
            bounds = program.range_constraints.get(symbol)
            if bounds is not None and (bounds.lower > 1 or bounds.upper < most):
                self.asserted = f"the module asserts how many elements a mask picks; {ADVICE}"
            least = max(least, 0 if bounds is None else int(bounds.lower))
        for value in conditions:
            if not isinstance(value, torch.SymBool) or not symbols & value.node.expr.free_symbols:
                continue
            condition = value.node.expr.subs(self.numbers)
            if isinstance(condition, sympy.Eq) and all(side.is_Symbol for side in condition.args):
                continue  # torch's own, of two masks: where both meet, they are compared
            holds = [bool(condition.subs(dict.fromkeys(symbols, count)) == True) for count in (0, 1, most)]  # noqa: E712 - sympy's
            if not isinstance(condition, sympy.Le | sympy.Ge | sympy.Gt | sympy.Ne) or not all(holds[1:]):
                self.asserted = f"the module asserts how many elements a mask picks; {ADVICE}"
            least = max(least, 0 if holds[0] else 1)
        return least

    def _is_known(self, size: torch.SymInt) -> bool:
        return not size.node.expr.subs(self.numbers).free_symbols

    def _is_ragged(self, fake: Tensor) -> bool:
        sizes: list[Any] = list(fake.shape)
        return any(isinstance(size, torch.SymInt) and not self._is_known(size) for size in sizes)


class _Inner(_Lowering):
    """A walk over a torch graph that another one calls, with the same builder."""

    def __init__(self, outer: _Lowering, origin: Origin, prefix: str) -> None:
        super().__init__(outer.captured, dict(outer.sizes), computes_sizes=outer.computes_sizes)
        self.builder = outer.builder
        self.labels = outer.labels
        self.caller = origin
        self.prefix = prefix

    def run_graph(self, graph: fx.GraphModule, parts: Sequence[Part]) -> list[Part]:
        """Lower `graph` with these arguments and return its results."""
        given = iter(parts)
        for node in graph.graph.nodes:
            origin = origin_of(node)
            origin = Origin(
                origin.op, origin.module_path or self.caller.module_path, origin.source or self.caller.source
            )
            self.builder.start(self.prefix + node.name, origin)
            if node.op == "placeholder":
                self._bind_part(node, next(given))
            elif node.op == "get_attr" and isinstance(_attribute_of(node), Tensor):
                self._constant(node, COMPUTED + self.prefix + node.name, _attribute_of(node))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                returned = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
                return [self._part(argument) for argument in returned]
        return []


def _attribute_of(node: fx.Node) -> Any:
    """Return what a node names in the module that holds its graph."""
    owner: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        owner = getattr(owner, name)
    return owner


def _symbols_of(fake: Tensor) -> set[Any]:
    sizes: list[Any] = list(fake.shape)
    return {symbol for size in sizes if isinstance(size, torch.SymInt) for symbol in size.node.expr.free_symbols}


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
        advice = f"pass float32, or {CAST_ADVICE}" if fake.dtype.is_floating_point else "pass int32 or int64"
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
