"""Lowers a torch graph to a graph of the runtime's operators.

Every torch node becomes nothing (shape arithmetic, assertions), a constant (whatever follows from parameters alone is
computed now), what its rule makes of it (`rules/`), or, if no rule takes it, a node with torch's own name, which
`legalize` reports unless nothing needs it.  Sizes that vary are lowered at given values: a graph knows numbers only.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Final, cast

import torch
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.control_flow import Part
from alcove.runtime.compiler.graph import Graph, Origin, Port, State, Value
from alcove.runtime.compiler.lowering.flow import FlowLowering
from alcove.runtime.compiler.lowering.nodes import (
    attribute_of,
    input_refusal,
    origin_of,
    plain_path,
    sizes_of,
    tensors_of,
)
from alcove.runtime.compiler.picks import (
    ADVICE,
    refuse_none,
)
from alcove.runtime.compiler.rules import DTYPES, RULES, Refused
from alcove.runtime.compiler.rules.complex_numbers import COMPLEX_RULES, Pair
from alcove.runtime.compiler.scripts import ScriptedModule, plain_name
from alcove.runtime.compiler.weights import COMPUTED
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
_SINGULAR: Final[type[Exception]] = getattr(torch.linalg, "LinAlgError")  # noqa: B009 - torch does not list it
UNWRITTEN: Final = ("aten.empty", "aten.new_empty")
"""What torch leaves in their memory is this process's; a program has zeros."""


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


class _Lowering(FlowLowering):
    """One walk over a torch graph."""

    def run(self) -> Graph:
        """Walk the graph once, in order."""
        signature = self.captured.program.graph_signature
        placeholders = iter(signature.input_specs)
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
                elif spec.target in self.captured.states and (node.users or spec.target not in self.captured.kept):
                    self._state(node, str(spec.target))
                else:
                    self._parameter(node, str(spec.target))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(node)
        changed = set(signature.buffers_to_mutate.values())
        for target, (kept, start) in self.states.items():
            if target not in changed:  # it stays what another method made it
                self.updates.append(State(self._name_of(target), kept, start, kept))
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
            refusal = input_refusal(fake)
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
        fakes = tensors_of(node)
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
        if source in self.unsized and any(self._is_ragged(fake) for fake in tensors_of(node)):
            self.unsized.add(node)
        if index < len(known):
            self.results[node] = (known[index],)
            if source in self.picks and any(self._is_ragged(fake) for fake in tensors_of(node)):
                self.picks[node] = self._moved_pick(self.picks[source], tensors_of(node)[0])
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
        tensors = [argument for argument in node.all_input_nodes if tensors_of(argument)]
        if str(target) not in FACTORIES and any(argument not in self.constants for argument in tensors):
            return False
        if any(isinstance(part, torch.SymInt) and not self._is_known(part) for part in sizes_of(node)):
            return False
        if self.computes_sizes and any(isinstance(part, torch.SymInt | torch.SymFloat) for part in sizes_of(node)):
            return False
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._resolve)
        with torch.no_grad():
            try:
                result = target(*args, **kwargs)
            except _SINGULAR as error:
                raise Refused(f"torch refuses these constants: {error}") from None
            if str(target).startswith(UNWRITTEN):
                result.zero_()
        if isinstance(result, Tensor):
            self._constant(node, self._constant_name(node, result), result, self._shape(tensors_of(node)[0]))
        else:
            self._constants(node, tuple(result))
        return True

    def _nothing(self, node: fx.Node, fakes: list[Tensor]) -> bool:
        """Make results without elements constants: there is nothing to compute."""
        shapes = [self._shape(fake) for fake in fakes if not self._is_ragged(fake)]
        if len(shapes) != len(fakes) or not all(0 in shape for shape in shapes):
            return False
        parts = tuple(
            torch.empty([int(size) for size in shape], dtype=fake.dtype)
            for shape, fake in zip(shapes, fakes, strict=True)
        )
        if len(parts) == 1:
            self._constant(node, COMPUTED + node.name, parts[0])
        else:
            self._constants(node, parts)
        return True

    def _label(self, node: fx.Node) -> None:
        """Remember the labels of a top-k that a `LabelledTopK` asked for."""
        if not str(node.target).startswith("aten.topk"):
            return
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        owner = self.captured.module.get_submodule(plain_path(stack[-1][0])) if stack else None
        if isinstance(owner, LabelledTopK):
            self.labels[self.results[node][1].key] = owner.labels

    def _run_part(self, graph: fx.GraphModule, parts: Sequence[Part], origin: Origin, prefix: str) -> list[Part]:
        return _Inner(self, origin, prefix).run_graph(graph, parts)

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
            source = origin_of(argument).source if isinstance(argument, fx.Node) else ""
            if isinstance(argument, fx.Node) and argument in self.pairs:
                refusal = "it is complex; return torch.view_as_real of it"
                self.outputs.append(Port(name, "", refusal=refusal, source=source))
                continue
            if not isinstance(argument, fx.Node) or argument not in self.results:
                what = "a number read out of one" if isinstance(argument, fx.Node) else repr(argument)
                self.outputs.append(Port(name, "", refusal=f"only tensors can be outputs, not {what}", source=source))
                continue
            (value,) = self.results[argument]
            if argument in self.picks:
                self.outputs.append(Port(name, "", refusal=f"it is what a mask picks; {ADVICE}", source=source))
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
            self.outputs.append(Port(name, value.key, labels, refusal, source if refusal else ""))

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
            elif node.op == "get_attr" and isinstance(attribute_of(node), Tensor):
                self._constant(node, COMPUTED + self.prefix + node.name, attribute_of(node))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                returned = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
                return [self._part(argument) for argument in returned]
        return []
