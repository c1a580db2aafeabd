"""Makes buffers of tensors that a module keeps in lists and plain objects, such as a cache of keys and values.

Torch gives a trace stand-ins for parameters and buffers, which it finds in modules alone.  Elsewhere tensors stay what
they are, and what `forward` writes into them is lost, or an error of torch.  So the module gets those tensors as
buffers, and each call of `forward` begins by putting in their place what the buffers are: the tensors themselves in
eager mode, their stand-ins in a trace.
"""

import copy
import functools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any, Final

import torch
from alcove.runtime.compiler.python_snapshot import is_users_class
from torch import Tensor, nn
from torch.fx import Node

_DEPTH: Final = 6
_MOST: Final = 1000
"""Elements of a list that are looked at."""
_OWN: Final = frozenset(vars(nn.Module())) | {"_flat_weights", "_flat_weight_refs"}
"""Attributes that torch itself gives modules."""


@dataclass(frozen=True)
class _Held:
    """A tensor in an object, a list or a dictionary.

    Attributes:
        holder: whose attribute, item or entry it is.
        key: name, index or key.
        tensor: what was there.
        buffer: name of the buffer that it is.
    """

    holder: Any
    key: Any
    tensor: Tensor
    buffer: str

    def find(self) -> Any:
        """Return what is in its place."""
        is_container = isinstance(self.holder, list | dict)
        return self.holder[self.key] if is_container else getattr(self.holder, self.key, None)

    def set(self, tensor: Tensor) -> None:
        """Put a tensor in its place."""
        if isinstance(self.holder, list | dict):
            self.holder[self.key] = tensor
        else:
            setattr(self.holder, self.key, tensor)


class _Holding(nn.Module):
    """Is mixed into the class of a module: buffers are in their places while its own `forward` runs."""

    _alcove_held: list[_Held]
    _alcove_forward: Callable[..., Any]

    def _call_holding(self, *args: Any, **named: Any) -> Any:
        # Where forward itself put another tensor, that one stays: `refuse_python_state` looks for such changes.
        buffers = [(held, self.get_buffer(held.buffer)) for held in self._alcove_held if held.find() is held.tensor]
        for held, buffer in buffers:
            held.set(buffer)
        try:
            return self._alcove_forward(*args, **named)
        finally:
            for held, buffer in buffers:
                if held.find() is buffer:
                    held.set(held.tensor)


def hold_tensors(module: nn.Module) -> nn.Module:
    """Return a module whose buffers are also the tensors that lists and objects in its attributes hold.

    Submodules, parameters and tensors are those of `module`, which is not changed; it is returned as it is where there
    are no such tensors.  One that is a buffer already keeps its name; others are named after the way to them, as
    "cache_layers_0_keys".
    """
    known = {id(tensor): name for name, tensor in module.named_buffers(remove_duplicate=False)}
    parameters = {id(tensor) for tensor in module.parameters()}
    names = set(dir(module))
    held: list[_Held] = []
    added: dict[str, Tensor] = {}
    for path, holder, key, tensor in _walk(module):
        if id(tensor) in parameters or type(tensor) is not Tensor:
            continue
        if id(tensor) not in known:
            name = path
            while name in names:
                name += "_"
            names.add(name)
            known[id(tensor)], added[name] = name, tensor
        held.append(_Held(holder, key, tensor, known[id(tensor)]))
    if not held:
        return module
    holding = copy.copy(module)
    forward = holding.forward
    holding.__dict__["_buffers"] = {**module._buffers, **added}  # noqa: SLF001 - a copy shares it with its original
    holding.__dict__.pop("forward", None)
    holding.__dict__["_alcove_held"] = held
    # A bound method and no closure: a deep copy of the module calls itself.
    called = MethodType(forward.__func__, holding) if isinstance(forward, MethodType) else forward
    holding.__dict__["_alcove_forward"] = called
    kind = type(module)
    holding.__class__ = type(kind.__name__, (_Holding, kind), {"forward": _like(forward), "__module__": __name__})
    return holding


def _like(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method with the parameters of another."""
    return functools.wraps(getattr(forward, "__func__", forward))(
        lambda self, *args, **named: self._call_holding(*args, **named)
    )


def _walk(module: nn.Module) -> Iterator[tuple[str, Any, Any, Tensor]]:
    """Yield a name, holder, key and tensor for each tensor that an attribute of a module leads to."""
    seen: set[int] = set()
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _OWN:
                yield from _tensors("_".join([*path.split("."), name]).strip("_"), value, seen, 0)


def _tensors(path: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, Any, Any, Tensor]]:
    if depth > _DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    if type(value) is dict:
        parts: list[tuple[Any, Any]] = [(key, part) for key, part in value.items() if isinstance(key, str | int)]
    elif type(value) is list:
        parts = list(enumerate(value[:_MOST]))
    elif _is_object(value):
        parts = list(vars(value).items())
    else:
        return
    for key, part in parts:
        name = re.sub(r"\W", "_", f"{path}_{key}")
        if isinstance(part, Tensor):
            yield name, value, key, part
        else:
            yield from _tensors(name, part, seen, depth + 1)


def _is_object(value: object) -> bool:
    """Return whether a value is an object, no module, of a class that is neither torch's nor Python's."""
    is_other = isinstance(value, nn.Module | Tensor | type)
    return not is_other and is_users_class(type(value)) and hasattr(value, "__dict__")


def list_changed_constants(exported: torch.export.ExportedProgram) -> list[tuple[str, Node]]:
    """Return the tensors outside of buffers that a trace, not yet made functional, writes into, and where it does."""
    return list_changed(exported, exported.graph_signature.inputs_to_lifted_tensor_constants)


def list_changed(exported: torch.export.ExportedProgram, inputs: Collection[str]) -> list[tuple[str, Node]]:
    """Return which of the inputs of a graph, not yet made functional, it writes into, and where it does first."""
    found: dict[str, Node] = {}
    for node in exported.graph.nodes:
        for name in _list_writes(node):
            if name in inputs:
                found.setdefault(name, node)
    return list(found.items())


def _list_writes(node: Node) -> Iterator[str]:
    """Yield the names of the nodes whose memory an operator writes, through views of them."""
    for argument, given in zip(_arguments(node), node.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            place: Any = given
            while isinstance(place, Node):
                yield place.name
                viewed = [
                    each for of, each in zip(_arguments(place), place.args, strict=False) if of.alias_info is not None
                ]
                place = viewed[0] if viewed else None


def _arguments(node: Node) -> list[Any]:
    schema = getattr(node.target, "_schema", None)
    return [] if schema is None else list(schema.arguments)
