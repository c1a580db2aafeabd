"""Decomposes an exported graph node by node, each kind of call once.

`ExportedProgram.run_decompositions` traces the whole module again, several times over, which takes twice as long as the
export itself.  Most nodes need nothing: they have a rule of their own.  The others are traced beside each other, equal
calls (same operator, same numbers, same shapes) once.  Where that could differ from tracing the whole, the graph is
left to torch: sizes that vary, tensors that change while something else shares their bytes, inputs and buffers that
change, higher-order operators, tensors that a decomposition makes itself.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeAlias

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

_Table: TypeAlias = Mapping[Any, Callable[..., Any]]

_PRESERVE: Final[Any] = import_module("torch.export.exported_program")._special_op_to_preserve_cia  # noqa: SLF001
"""What torch has in the table of composite operators for those that stay."""
_IDENTITIES: Final = frozenset({"aten::detach_"})
"""In-place operators that change no element."""
_BY_STRIDES: Final = frozenset({"aten::as_strided", "aten::set_", "aten::resize_"})
"""Operators whose result depends on how a tensor lies in memory."""


class NotLocal(Exception):  # noqa: N818 - no error: the graph is decomposed by torch then
    """A node that cannot be decomposed by itself."""


def decompose_locally(exported: torch.export.ExportedProgram, composites: _Table, others: _Table) -> None:
    """Replace the nodes of an exported graph, in place, by torch's decompositions.

    Args:
        exported: torch's, with composite operators and changes in place.
        composites: the decompositions of composite operators; they are in effect already.
        others: those of other operators.

    Raises:
        NotLocal: the graph must be traced whole; it is as it was.
    """
    nodes = list(exported.graph.nodes)
    _check(nodes)
    changes = _changes_in_place(nodes)
    calls = {}
    for node in nodes:
        target = changes.get(node, node.target)
        if isinstance(target, OpOverload) and _is_composed(target, composites, others):
            calls[node] = _call_of(node, target)
    try:
        steps = _trace({call: node for node, call in calls.items()}, others, _fake_mode(nodes))
    except Exception as error:  # torch says more where it traces the whole
        raise NotLocal(str(error)) from error
    _rewrite(exported, nodes, changes, {node: steps[call] for node, call in calls.items()})


def _is_composed(target: OpOverload, composites: _Table, others: _Table) -> bool:
    """Return whether torch makes other operators of `target`."""
    if target in composites:
        return composites[target] is not _PRESERVE
    operator_name = _name(target)
    composed: bool = torch._C._dispatch_has_kernel_for_dispatch_key(operator_name, "CompositeImplicitAutograd")  # noqa: SLF001
    kernels = {torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd} & target.py_kernels.keys()  # noqa: SLF001
    return composed or bool(kernels) or target in others


def _name(target: Any) -> str:
    """Return the name of an operator, as "aten::add.Tensor"."""
    name: str = target.name()
    return name


def _fake_mode(nodes: list[fx.Node]) -> Any:
    values = [value for node in nodes for value in pytree.tree_leaves(node.meta.get("val"))]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    if not modes or any(mode is not modes[0] for mode in modes):
        raise NotLocal("no tensors")
    return modes[0]


def _check(nodes: list[fx.Node]) -> None:
    for node in nodes:
        if node.op == "call_function":
            target: Any = node.target
            if target is not operator.getitem and not isinstance(target, OpOverload):
                raise NotLocal(str(target))
            if isinstance(target, OpOverload) and _name(target).partition(".")[0] in _BY_STRIDES:
                raise NotLocal(str(target))
        elif node.op not in {"placeholder", "output"}:
            raise NotLocal(node.op)
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                raise NotLocal("a number of the data")
            if isinstance(value, Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
                raise NotLocal("a size that varies")


def _changes_in_place(nodes: list[fx.Node]) -> dict[fx.Node, OpOverload | None]:
    """Return the operator without a change in place for each node that makes one; None for those that change nothing.

    Raises:
        NotLocal: the tensor that changes is an input, or something else may share its bytes.
    """
    changing = {node for node in nodes if _changes_something(node)}
    if not changing:
        return {}
    sharing: dict[int, list[fx.Node]] = {}
    result: dict[fx.Node, OpOverload | None] = {}
    for node in nodes:
        values = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, Tensor)]
        if node in changing:
            changed = node.args[0] if node.args else None
            before = sharing.get(values[0].untyped_storage()._cdata, []) if len(values) == 1 else []  # noqa: SLF001
            makers = [other for other in before if other not in result]
            # The result is seen to share the bytes of what changes: else the graph would not say what else does.
            is_alone = changed in before and len(makers) == 1 and makers[0].op == "call_function"
            if not is_alone or makers[0].target is operator.getitem:
                raise NotLocal(f"{node.target} of a tensor that others may share")
            result[node] = _without_change(node)
        for value in values:
            sharing.setdefault(value.untyped_storage()._cdata, []).append(node)  # noqa: SLF001 - its identity
    return result


def _changes_something(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable  # noqa: SLF001 - torch has no other way


def _without_change(node: fx.Node) -> OpOverload | None:
    target: Any = node.target
    if _name(target) in _IDENTITIES:
        return None
    schema = target._schema  # noqa: SLF001 - torch has no public way to ask
    writes = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    name = target._opname  # noqa: SLF001 - as above
    if writes != [True] + [False] * (len(writes) - 1) or not name.endswith("_") or target.namespace != "aten":
        raise NotLocal(str(target))
    packet = getattr(torch.ops.aten, name[:-1], None)
    plain = getattr(packet, target._overloadname, None)  # noqa: SLF001 - as above
    if plain is None or len(plain._schema.arguments) != len(schema.arguments):  # noqa: SLF001 - as above
        raise NotLocal(str(target))
    types = {value.meta["val"].dtype for value in node.all_input_nodes if isinstance(value.meta.get("val"), Tensor)}
    if types != {node.meta["val"].dtype} or any(
        value.meta["val"].shape != node.meta["val"].shape for value in node.all_input_nodes[:1]
    ):
        raise NotLocal(f"{target} of several types")  # the result has the type of what changes
    found: OpOverload = plain
    return found


@dataclass(frozen=True)
class _Call:
    """A call of an operator; equal calls have equal steps.

    Attributes:
        target: the operator.
        structure: of its arguments.
        leaves: what is in them, tensors by their shapes.
    """

    target: OpOverload
    structure: pytree.TreeSpec
    leaves: tuple[Any, ...]


@dataclass(frozen=True)
class _Steps:
    """What a call becomes.

    Attributes:
        inputs: stand for the nodes among the arguments, in order.
        nodes: the steps, in order.
        result: a node, or a list or tuple of them.
    """

    inputs: list[fx.Node]
    nodes: list[fx.Node]
    result: Any


def _call_of(node: fx.Node, target: OpOverload) -> _Call:
    leaves, structure = pytree.tree_flatten((node.args, dict(node.kwargs)))
    return _Call(target, structure, tuple(_describe(leaf) for leaf in leaves))


def _describe(leaf: Any) -> Any:
    if not isinstance(leaf, fx.Node):
        return (type(leaf), leaf)
    value = leaf.meta["val"]
    if not isinstance(value, FakeTensor) or value.is_complex():  # one may be a conjugate, which only its fake knows
        raise NotLocal("an argument that is no tensor of real numbers")
    return (value.dtype, tuple(value.shape), value.stride())


def _trace(calls: Mapping[_Call, fx.Node], decompositions: _Table, fake_mode: Any) -> dict[_Call, _Steps]:
    """Return the steps of each call, from one trace of all of them, with the arguments of one node each."""
    parts = [(call, *pytree.tree_flatten((node.args, dict(node.kwargs)))) for call, node in calls.items()]
    given = [leaf.meta["val"] for _, leaves, _ in parts for leaf in leaves if isinstance(leaf, fx.Node)]
    with fake_mode:  # tensors of their own: one that two calls read would be one input
        fakes = [torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) for value in given]

    def run(*tensors: Tensor) -> list[Any]:
        arguments, results = iter(tensors), []
        for call, leaves, structure in parts:
            args, kwargs = pytree.tree_unflatten(
                [next(arguments) if isinstance(leaf, fx.Node) else leaf for leaf in leaves], structure
            )
            results.append(call.target(*args, **kwargs))
        return results

    trace = make_fx(
        torch.func.functionalize(run, remove="mutations"),
        decomposition_table=dict(decompositions),
        tracing_mode="real",
        _allow_non_fake_inputs=True,
    )
    with fake_mode, enable_python_dispatcher():
        graph = trace(*fakes).graph
    if changing := [node for node in graph.nodes if _changes_something(node)]:
        # It changes a tensor that a decomposition made, and the result does not show that it is behind it.
        raise NotLocal(f"{changing[0].target} in a decomposition")
    inputs = iter([node for node in graph.nodes if node.op == "placeholder"])
    results: Any = graph.output_node().args[0]
    places = {node: place for place, node in enumerate(graph.nodes)}
    steps = {}
    for (call, leaves, _), result in zip(parts, results, strict=True):
        mine = [next(inputs) for leaf in leaves if isinstance(leaf, fx.Node)]
        nodes = sorted(_behind(result, mine), key=places.__getitem__)
        if not all(_is_plain(node) for node in nodes):
            raise NotLocal(f"{call.target} makes a constant, changes a tensor or draws numbers")
        steps[call] = _Steps(mine, nodes, result)
    return steps


def _is_plain(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return node.op == "call_function" and not _changes_something(node) and torch.Tag.nondeterministic_seeded not in tags


def _behind(result: Any, inputs: list[fx.Node]) -> set[fx.Node]:
    """Return the nodes that `result` is computed by, without `inputs`."""
    found: set[fx.Node] = set()
    waiting = [node for node in pytree.tree_leaves(result) if isinstance(node, fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in found and node not in inputs:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _rewrite(
    exported: torch.export.ExportedProgram,
    nodes: list[fx.Node],
    changes: Mapping[fx.Node, OpOverload | None],
    plans: Mapping[fx.Node, _Steps],
) -> None:
    """Put the steps in place of the nodes."""
    graph = exported.graph
    now: dict[fx.Node, Any] = {}
    """What stands for a node from here on: another node, or a list of them."""
    for node in nodes:
        arguments: Any = node.args
        if node.target is operator.getitem and isinstance(now.get(arguments[0]), list | tuple):
            now[node] = now[arguments[0]][arguments[1]]
            continue
        node.args, node.kwargs = _replace_nodes(node.args, now), _replace_nodes(node.kwargs, now)
        changed: Any = node.args[0] if node in changes else None
        if node in changes:
            target = changes[node]
            if target is None:
                now[node] = changed
                continue
            node.target = target
        if node in plans:
            with graph.inserting_before(node):
                now[node] = _inline(graph, node, plans[node])
        if node in changes:
            # Who reads the tensor after this reads what it is now.
            result = now.get(node, node)
            for earlier in [key for key, value in now.items() if value is changed] + [changed]:
                now[earlier] = result
    _rename_outputs(exported)
    for node in reversed(nodes):
        if node.op == "call_function" and not node.users and not node.is_impure():
            graph.erase_node(node)
    exported.graph_module.recompile()


def _rename_outputs(exported: torch.export.ExportedProgram) -> None:
    """Let the signature name the nodes that are the outputs now."""
    outputs: Any = exported.graph.output_node().args[0]
    for spec, output in zip(exported.graph_signature.output_specs, outputs, strict=True):
        if isinstance(output, fx.Node) and hasattr(spec.arg, "name"):
            spec.arg.name = output.name


def _replace_nodes(arguments: Any, now: Mapping[fx.Node, Any]) -> Any:
    return fx.map_arg(arguments, lambda node: now.get(node, node))


def _inline(graph: fx.Graph, node: fx.Node, steps: _Steps) -> Any:
    """Copy `steps` before `node` and return what stands for its value."""
    given = [leaf for leaf in pytree.tree_leaves((node.args, dict(node.kwargs))) if isinstance(leaf, fx.Node)]
    known: dict[fx.Node, fx.Node] = dict(zip(steps.inputs, given, strict=True))
    for step in steps.nodes:
        known[step] = graph.node_copy(step, known.__getitem__)
        known[step].meta = node.meta | {"val": step.meta["val"]}
    return fx.map_arg(steps.result, known.__getitem__)
