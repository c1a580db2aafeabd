"""Reads files in the ONNX format: the protocol buffer, the attributes of nodes, and the order of nodes."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from alcove.platform.cli.importing.onnx_files.errors import OnnxError
from alcove.platform.cli.importing.onnx_files.limits import MAX_FILE_BYTES, MAX_NODES
from alcove.platform.cli.importing.onnx_files.tensors import read_tensor
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

DOMAINS: Final = {"ai.onnx": ""}
"""Other names of domains."""
SHOWN: Final = 4


def read_model(path: Path) -> ModelProto:
    """Return what is in a file; tensors beside it are not read yet.

    Raises:
        OnnxError: it is too large, or holds something else.
    """
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise OnnxError(f"{path}: {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
    model = ModelProto()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError, RuntimeError) as error:
        raise OnnxError(f"{path}: no ONNX file, or a part of one ({str(error).strip()})") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise OnnxError(f"{path}: no ONNX file: it holds no graph")
    check_names(model.graph)
    for function in model.functions:
        check_nodes(function.node)
    return model


def check_names(graph: GraphProto) -> None:
    """Find out that the names in a graph are texts; protocol buffers give bytes for what is no UTF-8.

    Raises:
        OnnxError: one is none.
    """
    for name in [each.name for each in graph.initializer]:
        _check_text(name)
    for each in (*graph.input, *graph.output):
        _check_text(each.name)
    for port in graph.input:
        for dim in port.type.tensor_type.shape.dim:
            _check_text(dim.dim_param)
    check_nodes(graph.node)


def check_nodes(nodes: Iterable[NodeProto]) -> None:
    """Find out that the names in nodes and in their graphs are texts.

    Raises:
        OnnxError: one is none.
    """
    for node in nodes:
        for text in (node.name, node.op_type, node.domain, *node.input, *node.output):
            _check_text(text)
        for attribute in node.attribute:
            _check_text(attribute.name)
            _check_text(attribute.ref_attr_name)
            if attribute.type in _GRAPHS:
                for graph in (attribute.g, *attribute.graphs):
                    check_names(graph)


def _check_text(text: str | bytes) -> None:
    if isinstance(text, bytes):
        raise OnnxError(f"a name is no UTF-8: {text!r:.60}")


def opsets_of(model: ModelProto) -> dict[str, int]:
    """Return the version of each domain that the file asks for."""
    found = {DOMAINS.get(each.domain, each.domain): int(each.version) for each in model.opset_import}
    found.setdefault("", 1)
    return found


def attributes_of(node: NodeProto, folder: Path, given: Mapping[str, AttributeProto]) -> dict[str, Any]:
    """Return the attributes of a node by name, as Python's values; `given` are those of the function it is in.

    Raises:
        OnnxError: one is of a kind that is not read, or its tensor is damaged.
    """
    found: dict[str, Any] = {}
    for each in node.attribute:
        attribute = each
        if each.ref_attr_name:
            if each.ref_attr_name not in given:
                continue
            attribute = given[each.ref_attr_name]
        if attribute.type == AttributeProto.TENSOR:
            value: Any = read_tensor(attribute.t, folder)
        elif attribute.type in {AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS}:
            raise OnnxError(f"attribute {each.name!r} of node {name_of(node)!r} is a sparse tensor")
        else:
            value = helper.get_attribute_value(attribute)
        found[each.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def name_of(node: NodeProto) -> str:
    """Return the name of a node, or of its first output."""
    return node.name or next((name for name in node.output if name), node.op_type)


def kind_of(node: NodeProto) -> str:
    """Return the operator, with its domain if that is another one than ONNX's own."""
    domain = DOMAINS.get(node.domain, node.domain)
    return f"{domain}.{node.op_type}" if domain else node.op_type


def read_names(node: NodeProto) -> set[str]:
    """Return the names that a node reads, those in its graphs included."""
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.type in _GRAPHS:
            for graph in (attribute.g, *attribute.graphs):
                found |= outer_names(graph)
    return found


_GRAPHS: Final = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def outer_names(graph: GraphProto) -> set[str]:
    """Return the names that a graph reads of those around it."""
    own = {each.name for each in graph.input} | {each.name for each in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    read = {name for node in graph.node for name in read_names(node)} | {each.name for each in graph.output}
    return read - own


def sort_nodes(nodes: Iterable[NodeProto], known: Iterable[str], wanted: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that `wanted` names need, each after those that it reads.

    Raises:
        OnnxError: nodes read each other in a circle, a name has no node, or two nodes make one name.
    """
    nodes = list(nodes)
    if len(nodes) > MAX_NODES:
        raise OnnxError(f"{len(nodes):,} nodes; at most {MAX_NODES:,} are read")
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                raise OnnxError(f"two nodes make {name!r}: {name_of(nodes[makers[name]])!r} and {name_of(node)!r}")
            makers[name] = index
    there = set(known)
    needs = [read_names(node) for node in nodes]
    state = [0] * len(nodes)  # 1 while what a node reads is visited, 2 when it is in its place
    found: list[NodeProto] = []
    stack = [(makers[name], False) for name in reversed(list(wanted)) if name in makers and name not in there]
    while stack:
        index, is_ready = stack.pop()
        if is_ready:
            state[index] = 2
            found.append(nodes[index])
            continue
        if state[index]:
            continue
        state[index] = 1
        stack.append((index, True))
        for name in sorted(needs[index], reverse=True):
            if name in there:
                continue
            if name not in makers:
                raise OnnxError(f"node {name_of(nodes[index])!r} reads {name!r}, which nothing in the file makes")
            if state[makers[name]] == 1:
                circle = [name_of(nodes[each]) for each in range(len(nodes)) if state[each] == 1]
                raise OnnxError(f"nodes read each other in a circle: {', '.join(circle[:SHOWN])}")
            stack.append((makers[name], False))
    return sorted(found, key=_Places(nodes)) if _is_sorted(found, nodes, needs, makers, there) else found


class _Places:
    """Where each node stands in the file."""

    def __init__(self, nodes: Sequence[NodeProto]) -> None:
        self._places = {id(node): index for index, node in enumerate(nodes)}

    def __call__(self, node: NodeProto) -> int:
        return self._places[id(node)]


def _is_sorted(
    found: Sequence[NodeProto],
    nodes: Sequence[NodeProto],
    needs: Sequence[set[str]],
    makers: Mapping[str, int],
    known: set[str],
) -> bool:
    """Return whether the file's own order will do: it is the one that people know."""
    place = _Places(nodes)
    return all(makers[name] < place(node) for node in found for name in needs[place(node)] if name not in known)
