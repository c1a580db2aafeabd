"""Builds the module of a graph: walks its nodes, computes what depends on no input, and keeps the rest as steps.

Every node runs once while the graph is read: on torch's device `meta` where it depends on inputs, which gives shapes
and types, else on its elements.  So sizes, axes and indices are Python's integers when a rule makes its function.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch
from alcove.platform.cli.importing.onnx_files import rules
from alcove.platform.cli.importing.onnx_files.errors import CUT, OnnxError, UnsupportedError
from alcove.platform.cli.importing.onnx_files.limits import (
    MAX_CONSTANT_ELEMENTS,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NODES,
)
from alcove.platform.cli.importing.onnx_files.module import Step, as_computed, identifier, unique
from alcove.platform.cli.importing.onnx_files.node import RULES, Call, Function, Node, Value
from alcove.platform.cli.importing.onnx_files.reader import attributes_of, kind_of, name_of, read_names, sort_nodes
from alcove.platform.cli.importing.onnx_files.tensors import check_shape, read_tensor, type_of
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, defs
from torch import Tensor, nn

_ = rules.__all__  # importing it registers the rules
RESERVED: Final = frozenset(dir(nn.ModuleDict)) | frozenset(dir(Step))
"""Names that a step or a tensor in it must not have."""
QUANTIZED: Final = ("Quantize", "QLinear", "QGemm", "QAttention", "MatMulInteger")
"""In the names of operators that round to levels, or compute with them."""
ADVICE: Final = {
    "NonMaxSuppression": "how many boxes it keeps depends on the picture",
    "com.microsoft.NonMaxSuppression": "how many boxes it keeps depends on the picture",
    "Unique": "how many elements it keeps depends on the inputs",
    "RandomNormal": "a program gives the same answer every time",
    "RandomUniform": "a program gives the same answer every time",
    "RandomNormalLike": "a program gives the same answer every time",
    "RandomUniformLike": "a program gives the same answer every time",
    "Multinomial": "a program gives the same answer every time",
    "RoiAlign": "it reads regions that the graph itself proposes, as many as it finds",
    "MaxRoiPool": "it reads regions that the graph itself proposes, as many as it finds",
    "DeformConv": "each place of its kernel is moved by other numbers",
}
"""Why some operators have no rule."""
SHOWN: Final = 3
"""Names of nodes that have the same problem."""

Scope = dict[str, Value | list[Value] | None]
"""What is known by name; None for what a node that is not supported would make."""


@dataclass(frozen=True)
class Place:
    """Where nodes are read.

    Attributes:
        scope: what is known by name.
        opsets: version of each domain.
        given: attributes of the function that the nodes are in.
        depth: of graphs in graphs.
    """

    scope: Scope
    opsets: Mapping[str, int]
    given: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0

    def opset_of(self, kind: str) -> int:
        """Return the version of an operator's domain."""
        return self.opsets.get(kind.rpartition(".")[0], 1)

    def forget(self, proto: NodeProto) -> None:
        """Write down that nothing is known of the outputs of a node."""
        self.scope.update(dict.fromkeys(filter(None, proto.output)))


@dataclass
class Builder:
    """What is made of a graph while it is read.

    Attributes:
        folder: of the file.
        control: readers of operators with graphs or sequences, by operator.
        functions: the file's own, by domain and name.
        steps: by name, in order.
        problems: names of nodes by operator, its version, and why it is not supported.
        count: nodes that were read.
        is_quantized: whether one of the steps rounds to levels.
    """

    folder: Path
    control: "Mapping[str, Callable[[Builder, NodeProto, Place], None]]"
    functions: Mapping[tuple[str, str], FunctionProto] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    problems: dict[tuple[str, int, str], list[str]] = field(default_factory=dict)
    count: int = 0
    is_quantized: bool = False
    _slots: int = 0
    _names: set[str] = field(default_factory=lambda: set(RESERVED))
    _held: dict[tuple[str, torch.dtype, tuple[int, ...]], Tensor] = field(default_factory=dict)

    def list_problems(self) -> list[str]:
        """Return what is not supported, in words."""
        found = []
        for (kind, opset, why), names in self.problems.items():
            shown = ", ".join(repr(name) for name in names[:SHOWN])
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            found.append(f"{kind} (opset {opset}) of {'node' if len(names) == 1 else 'nodes'} {shown}{more}: {why}")
        return found

    def add_input(self, example: Tensor) -> Value:
        """Return the value of an input."""
        self._slots += 1
        return Value(example, self._slots - 1)

    def read_graph(self, graph: GraphProto, scope: Scope, opsets: Mapping[str, int], wanted: Sequence[str]) -> None:
        """Add the steps of a graph to its scope, which holds its inputs and what lies around it.

        Raises:
            OnnxError: the graph is damaged or too large.
        """
        if graph.sparse_initializer:
            raise OnnxError(f"{len(graph.sparse_initializer)} sparse initializers; only dense ones are read")
        nodes_read = {name for node in graph.node for name in read_names(node)} | set(wanted)
        for tensor in graph.initializer:
            if tensor.name in nodes_read:
                scope[tensor.name] = Value(read_tensor(tensor, self.folder))
        self.read_nodes(sort_nodes(graph.node, scope, wanted), Place(scope, opsets))

    def read_nodes(self, nodes: Sequence[NodeProto], place: Place) -> None:
        """Add the steps of nodes in order.

        Raises:
            OnnxError: there are too many, or one is damaged.
        """
        if place.depth > MAX_DEPTH:
            raise OnnxError(f"graphs in graphs, {place.depth} deep; at most {MAX_DEPTH} are read")
        for proto in nodes:
            self.count += 1
            if self.count > MAX_NODES:
                raise OnnxError(f"more than {MAX_NODES:,} nodes, loops unrolled")
            kind = kind_of(proto)
            try:
                if kind in self.control:
                    self.control[kind](self, proto, place)
                elif kind in RULES:
                    self._add(proto, kind, place)
                else:
                    self._add_function(proto, kind, place)
            except UnsupportedError as error:
                self.problems.setdefault((kind, place.opset_of(kind), str(error)), []).append(name_of(proto))
                place.forget(proto)

    def _add(self, proto: NodeProto, kind: str, place: Place) -> None:
        values = self.inputs_of(proto, place.scope)
        if values is None:
            place.forget(proto)
            return
        node = Node(
            kind,
            name_of(proto),
            place.opset_of(kind),
            attributes_of(proto, self.folder, place.given),
            values,
            tuple(bool(name) for name in proto.output),
            all(value is None or value.is_constant for value in values),
        )
        made = self.compute(node, _guard(RULES[kind], node))
        for name, value in zip(proto.output, made, strict=False):
            if name:
                place.scope[name] = value

    def inputs_of(self, proto: NodeProto, scope: Scope) -> tuple[Value | None, ...] | None:
        """Return the inputs of a node; None if one of them is not known."""
        found: list[Value | None] = []
        for name in proto.input:
            if not name:
                found.append(None)
                continue
            if name not in scope:
                raise OnnxError(f"node {name_of(proto)!r} reads {name!r}, which nothing in the file makes")
            value = scope[name]
            if value is None:
                return None
            if isinstance(value, list):
                raise UnsupportedError(f"{name!r} is a sequence")
            found.append(value)
        return tuple(found)

    def compute(self, node: Node, made: Function | Call) -> list[Value | None]:
        """Return the outputs of a node: constants if all its inputs are, else those of a new step."""
        call = made if isinstance(made, Call) else Call(made)
        if call.is_known:
            node, call = replace(node, inputs=(), is_folded=True), replace(call, without=frozenset())
        tensors = [
            None if value is None or index in call.without else value.tensor for index, value in enumerate(node.inputs)
        ]
        shapes = _outputs(node, call.function, [*tensors, *call.extras], is_meta=True)
        most = MAX_CONSTANT_ELEMENTS if node.is_folded else MAX_ELEMENTS
        for shape in (each for each in shapes or () if each is not None):
            check_shape(tuple(shape.shape), f"the output of node {node.name!r}", most)
        if node.is_folded:
            found = _outputs(node, call.function, [*tensors, *call.extras], is_meta=False) or []
            return [None if tensor is None else Value(tensor.detach()) for tensor in found]
        if shapes is None:
            raise UnsupportedError("the shape of its output depends on the inputs")
        return self._add_step(node, call, tensors, shapes)

    def _add_step(
        self, node: Node, call: Call, tensors: Sequence[Tensor | None], shapes: Sequence[Tensor | None]
    ) -> list[Value | None]:
        self.is_quantized |= any(word in node.kind for word in QUANTIZED)
        sources: list[int | str | None] = []
        held: dict[str, Tensor] = {}
        used = set(RESERVED)
        words = _input_words(node)
        for index, tensor in enumerate([*tensors, *call.extras]):
            value = node.inputs[index] if index < len(tensors) else None
            if tensor is None:
                sources.append(None)
            elif value is not None and value.slot is not None:
                sources.append(value.slot)
            else:
                word = unique(words[index] if index < len(tensors) else f"weight_{index - len(tensors)}", used)
                sources.append(word)
                held[word] = self._hold(tensor)
        made: list[Value | None] = []
        for index, shape in enumerate(shapes):
            is_read = shape is not None and (index >= len(node.outputs) or node.outputs[index])
            made.append(Value(as_computed(shape), self._slots) if is_read and shape is not None else None)
            self._slots += int(is_read)
        name = unique(identifier(node.name), self._names)
        self.steps[name] = Step(call.function, sources, held, [None if each is None else each.slot for each in made])
        return made

    def _hold(self, tensor: Tensor) -> Tensor:
        """Return a constant as steps hold it: one parameter for equal tensors, as turns of a loop make them."""
        key = _key_of(tensor)
        if key not in self._held:
            computed = as_computed(tensor)
            is_weight = computed.dtype is torch.float32
            self._held[key] = nn.Parameter(computed, requires_grad=False) if is_weight else computed
        return self._held[key]

    def _add_function(self, proto: NodeProto, kind: str, place: Place) -> None:
        """Put the nodes in place of an operator that ONNX defines by others.

        Raises:
            UnsupportedError: it defines it by none.
        """
        values = self.inputs_of(proto, place.scope)
        proto = _with_attributes(proto, place.given)
        own = self.functions.get((proto.domain, proto.op_type))
        body = _body_of(proto, place.opsets, values) if own is None else own
        if body is None:
            why = ADVICE.get(kind, "")
            raise UnsupportedError(f"{why}; {CUT}" if why else "not supported")
        if values is None:
            place.forget(proto)
            return
        inner: Scope = {}
        for index, name in enumerate(body.input):
            value = values[index] if index < len(values) else None
            if value is not None:
                inner[name] = value
        attributes = _defaults_of(proto, place.opsets) if own is None else {}
        attributes |= {each.name: each for each in body.attribute_proto}
        attributes |= {each.name: each for each in proto.attribute}
        versions = {**place.opsets, **{each.domain: int(each.version) for each in body.opset_import}}
        self.read_nodes(_with_optional(body, inner), Place(inner, versions, attributes, place.depth + 1))
        for name, outer in zip(body.output, proto.output, strict=False):
            if outer:
                place.scope[outer] = inner.get(name)


def _key_of(tensor: Tensor) -> tuple[str, torch.dtype, tuple[int, ...]]:
    """Return what only equal tensors share."""
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return hashlib.sha256(data).hexdigest(), tensor.dtype, tuple(tensor.shape)


def _with_attributes(proto: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a node with the attributes of the function it is in, where its own are those."""
    if not any(each.ref_attr_name for each in proto.attribute):
        return proto
    found = NodeProto()
    found.CopyFrom(proto)
    del found.attribute[:]
    for each in proto.attribute:
        if not each.ref_attr_name:
            found.attribute.append(each)
        elif each.ref_attr_name in given:
            found.attribute.append(given[each.ref_attr_name])
            found.attribute[-1].name = each.name
    return found


def _with_optional(body: FunctionProto, inner: Scope) -> list[NodeProto]:
    """Return the nodes of a function without the names of inputs that are left out."""
    missing = {name for name in body.input if name not in inner}
    nodes = []
    for each in body.node:
        node = NodeProto()
        node.CopyFrom(each)
        for index, name in enumerate(node.input):
            if name in missing:
                node.input[index] = ""
        nodes.append(node)
    return nodes


def _defaults_of(proto: NodeProto, opsets: Mapping[str, int]) -> dict[str, AttributeProto]:
    """Return what attributes of an operator are where they are not given."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    schema: Any = defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    return {name: each.default_value for name, each in schema.attributes.items() if each.default_value.name}


def _body_of(
    proto: NodeProto, opsets: Mapping[str, int], values: Sequence[Value | None] | None
) -> FunctionProto | None:
    """Return the function by which ONNX defines an operator, or None."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema: Any = defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        body: Any = schema.function_body
        return body if isinstance(body, FunctionProto) else None
    if not schema.has_context_dependent_function or values is None:
        return None
    types = [_type_of(value) for value in values]
    try:
        data = schema.get_context_dependent_function(proto.SerializeToString(), types)
    except Exception as error:  # noqa: BLE001 - onnx raises what its checks raise
        raise UnsupportedError(str(error).strip().partition("\n")[0]) from None
    found = FunctionProto()
    found.ParseFromString(data)
    return found


def _type_of(value: Value | None) -> bytes:
    return b"" if value is None else type_of(value.tensor).SerializeToString()


def _guard(rule: Any, node: Node) -> Function | Call:
    """Return what a rule makes; what it stumbles over is the node's fault."""
    try:
        made: Function | Call = rule(node)
    except (UnsupportedError, OnnxError):
        raise
    except (ValueError, TypeError, IndexError, RuntimeError, KeyError, AttributeError, OverflowError) as error:
        words = str(error).strip().partition("\n")[0]
        raise UnsupportedError(f"attributes or inputs that do not fit ({words})") from error
    return made


def _outputs(
    node: Node, function: Function, tensors: Sequence[Tensor | None], *, is_meta: bool
) -> list[Tensor | None] | None:
    """Return what a function gives; None where torch can't find shapes without the elements."""
    device = "meta" if is_meta else "cpu"
    arguments = [tensor if tensor is None or not is_meta else tensor.to("meta") for tensor in tensors]
    if not node.is_folded:
        arguments = [as_computed(tensor) for tensor in arguments]
    try:
        with torch.no_grad(), torch.device(device):
            found = function(*arguments)
    except NotImplementedError:
        return None
    except UnsupportedError:
        raise
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise UnsupportedError(f"its inputs do not fit ({words})") from error
    return list(found) if isinstance(found, tuple | list) else [found]


def _input_words(node: Node) -> list[str]:
    """Return what the inputs of a node are called in the module."""
    kind = node.kind.rpartition(".")[2]
    known = _WORDS.get(kind, ())
    return [known[index] if index < len(known) else f"input_{index}" for index in range(len(node.inputs))]


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "BatchNormalization": ("input", "weight", "bias", "running_mean", "running_var"),
    **dict.fromkeys(
        ("Conv", "ConvTranspose", "FusedConv", "Gemm", "InstanceNormalization", "LayerNormalization", "PRelu"),
        ("input", "weight", "bias"),
    ),
    "MatMul": ("left", "weight"),
}
"""Names of inputs, as torch's layers call them."""
