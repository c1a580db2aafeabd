"""Lists what Python keeps for a module between calls: attributes, and globals and closures that its code names."""

import itertools
import math
import operator
import pickle
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final, Literal

import numpy as np
import torch
from alcove.runtime.compiler.source import is_users
from torch import Tensor, nn

_DEPTH: Final = 6
_MOST: Final = 10_000
"""Elements of one container that are compared."""
_OWN: Final = ("_parameters", "_buffers", "_modules", "_flat_weights", "_flat_weight_refs")
"""Attributes by which torch keeps tensors and modules: the trace itself follows those."""
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS: Final = {list, dict, set, deque, OrderedDict, defaultdict, Counter}
_RANDOM: Final = (random.Random, np.random.RandomState, np.random.Generator)
_KEEPING: Final = (torch.distributions.Distribution, torch.distributions.Transform)
"""Objects of torch's own that keep results as attributes."""
_WATCHED: Final = (*_PLAIN, list, dict, set, deque, *_RANDOM, itertools.count, itertools.cycle)
"""What is looked at under a global name: all else is code, or belongs to a library."""


@dataclass(frozen=True)
class Place:
    """Where something lies that Python code may change.

    Attributes:
        kind: what it is.
        module_path: of the module that holds it, or whose code names it.
        name: of it.
    """

    kind: Literal["attribute", "class attribute", "global", "closure variable"]
    module_path: str
    name: str


@dataclass
class PythonSnapshot:
    """What Python keeps for a module at one time.

    Attributes:
        values: a fingerprint for every leaf: equal fingerprints, equal leaves.
        undo: puts back what containers held and what names stood for.
    """

    values: dict[tuple[Place, str], object] = field(default_factory=dict)
    undo: list[Callable[[], None]] = field(default_factory=list)

    def list_changes(self, other: "PythonSnapshot") -> list[Place]:
        """Return the places that differ, in order."""
        keys = dict.fromkeys([*self.values, *other.values])
        missing = object()
        return list(
            dict.fromkeys(key[0] for key in keys if self.values.get(key, missing) != other.values.get(key, missing))
        )

    def restore(self) -> None:
        """Put back what the containers held and the names stood for."""
        for put_back in self.undo:
            put_back()


def take_snapshot(module: nn.Module, *, by_value: bool = False) -> PythonSnapshot:
    """Return what Python keeps for a module: attributes of all its modules, globals and closures of their code.

    Args:
        module: the root.
        by_value: whether tensors are equal where their elements are; else where they are one object.
    """
    kept = PythonSnapshot()
    walk = _Walk(kept, by_value=by_value)
    for path, part in module.named_modules():
        walk.container(vars(part))
        for name, value in vars(part).items():
            if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
                walk.container(value)  # a library may set hooks in the first call, and an attribute that says so
            elif name not in _OWN:
                walk.leaf(Place("attribute", path, name), "", value, 0)
        for kind in type(part).__mro__:
            if is_users_class(kind):
                walk.code(path, kind)
    return kept


class _Walk:
    """One walk over what a module keeps."""

    def __init__(self, kept: PythonSnapshot, *, by_value: bool) -> None:
        self._kept = kept
        self._by_value = by_value
        self._seen: set[int] = set()
        self._functions: set[CodeType] = set()

    def container(self, container: Any) -> None:
        """Remember what a container holds; one of a type of its own may do more than hold."""
        if type(container) in _CONTAINERS and id(container) not in self._seen:
            self._seen.add(id(container))
            self._kept.undo.append(partial(_refill, container, _contents(container)))

    def leaf(self, place: Place, path: str, value: Any, depth: int) -> None:
        """Add the fingerprints of a value and of what it holds."""
        parts: list[tuple[str, Any]] = []
        if isinstance(value, _PLAIN):
            fingerprint: object = (type(value), "nan" if isinstance(value, float) and math.isnan(value) else value)
        elif isinstance(value, Tensor):
            fingerprint = _elements(value) if self._by_value else id(value)
        elif isinstance(value, Mapping | list | tuple | deque | set | frozenset) and depth < _DEPTH:
            fingerprint, parts = (type(value), len(value)), self._parts(value)
        elif hasattr(value, "tobytes") and hasattr(value, "nbytes"):
            fingerprint = (type(value), value.tobytes() if value.nbytes <= _MOST * 8 else id(value))
        elif isinstance(value, FunctionType | MethodType | partial):
            fingerprint, parts = type(value), self._callable(place, value)
        else:
            fingerprint = type(value) if self._by_value else id(value)
            if depth < _DEPTH and _has_own_attributes(value):
                parts = self._attributes(value)
            elif not isinstance(value, nn.Module | type | ModuleType):
                fingerprint, parts = (fingerprint, _position(value)), _locals(value)
        self._kept.values[place, path] = fingerprint
        for name, part in parts:
            self.leaf(place, path + name, part, depth + 1)

    def _parts(self, value: Any) -> list[tuple[str, Any]]:
        """Return what a container holds, with a name for each."""
        self.container(value)
        if isinstance(value, dict):
            return [(f"[{key!r}]", part) for key, part in list(dict.items(value))[:_MOST]]
        if isinstance(value, Mapping):
            return [(f"[{key!r}]", value[key]) for key in list(value)[:_MOST]]
        if isinstance(value, set | frozenset):
            return [("", tuple(sorted(map(repr, list(value)[:_MOST]))))]
        return [(f"[{index}]", part) for index, part in enumerate(list(value)[:_MOST])]

    def _callable(self, place: Place, value: Any) -> list[tuple[str, Any]]:
        """Follow the code of what is called; return what it brings along."""
        if isinstance(value, FunctionType):
            self.function(place.module_path, value)
            return []
        if isinstance(value, MethodType):
            return [(".__self__", value.__self__)]
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]

    def _attributes(self, value: Any) -> list[tuple[str, Any]]:
        """Return the attributes of an object of the user's, once."""
        if id(value) in self._seen:
            return []
        self._seen.add(id(value))
        slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
        found = {name: getattr(value, name) for name in slots}
        self._kept.undo += [partial(_rebind, value, name, part) for name, part in found.items()]
        if hasattr(value, "__dict__"):
            self.container(vars(value))
            found |= vars(value)
        return [(f".{name}", part) for name, part in found.items()]

    def code(self, path: str, kind: type) -> None:
        """Add a class's own attributes, and the globals and closures that its methods name."""
        for name, value in list(vars(kind).items()):
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if isinstance(function, FunctionType):
                self.function(path, function)
            elif not name.startswith("__") and isinstance(value, _WATCHED):
                self._kept.undo.append(partial(_rebind, kind, name, value))
                self.leaf(Place("class attribute", path, name), kind.__qualname__, value, 0)

    def function(self, path: str, function: FunctionType) -> None:
        """Add the globals and closures that a function of the user's names, and those that they name.

        Code of installed libraries is not followed: it names more than a trace takes, and keeps caches.
        """
        code = function.__code__
        if code in self._functions or not is_users(code.co_filename) or _is_installed(code.co_filename):
            return
        self._functions.add(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # empty
                continue
            self._add_name(Place("closure variable", path, name), value, partial(_rebind, cell, "cell_contents", value))
        names = dict.fromkeys(_names(code))
        self._globals(path, names, function.__globals__)
        for name in names:
            held = function.__globals__.get(name)
            file = getattr(held, "__file__", None) or "<built in>"
            if isinstance(held, ModuleType) and is_users(file) and not _is_installed(file):
                self._globals(path, names, vars(held))

    def _globals(self, path: str, names: Iterable[str], found: dict[str, Any]) -> None:
        for name in names:
            if name in found:
                value = found[name]
                self._add_name(Place("global", path, name), value, partial(_rebind_global, found, name, value))

    def _add_name(self, place: Place, value: Any, put_back: Callable[[], None]) -> None:
        if isinstance(value, FunctionType):
            self.function(place.module_path, value)
        elif isinstance(value, (*_WATCHED, Tensor)) or is_users_class(type(value)):
            self._kept.undo.append(put_back)
            self.leaf(place, "", value, 0)


def _rebind(owner: Any, name: str, value: object) -> None:
    if getattr(owner, name, None) is not value:
        setattr(owner, name, value)


def _rebind_global(names: dict[str, Any], name: str, value: object) -> None:
    if names.get(name) is not value:
        names[name] = value


def _contents(container: Any) -> list[Any]:
    return list(container.items()) if isinstance(container, dict) else list(container)


def _refill(container: Any, contents: list[Any]) -> None:
    """Put back what a container held, if it holds something else."""
    now = _contents(container)
    if isinstance(container, dict):
        is_same = all(one[0] == other[0] and one[1] is other[1] for one, other in zip(now, contents, strict=False))
    else:
        is_same = all(map(operator.is_, now, contents))
    if is_same and len(now) == len(contents):
        return
    container.clear()
    if isinstance(container, dict):
        for key, value in contents:
            container[key] = value
    elif isinstance(container, set):
        container.update(contents)
    else:
        container.extend(contents)


def _is_installed(filename: str) -> bool:
    return "site-packages" in filename or "dist-packages" in filename


def _slots(kind: type) -> Sequence[str]:
    names = vars(kind).get("__slots__", ())
    return [names] if isinstance(names, str) else list(names)


def _position(value: Any) -> object:
    """Return where an iterator or a source of random numbers is, or what an object of a library says of itself."""
    if isinstance(value, _RANDOM):
        return pickle.dumps(value.bit_generator.state if isinstance(value, np.random.Generator) else _state(value))
    if isinstance(value, GeneratorType):
        return None if value.gi_frame is None else value.gi_frame.f_lasti
    text = repr(value)
    return operator.length_hint(value, -1) if " at 0x" in text else text[:_MOST]


def _state(source: random.Random | np.random.RandomState) -> object:
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return None if isinstance(source, random.SystemRandom) else source.getstate()


def _locals(value: Any) -> list[tuple[str, Any]]:
    is_running = isinstance(value, GeneratorType) and value.gi_frame is not None
    return [(f".{name}", part) for name, part in value.gi_frame.f_locals.items()] if is_running else []


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


_LIBRARIES: Final = {"torch", "builtins", "alcove", "numpy"} | sys.stdlib_module_names


def is_users_class(kind: type) -> bool:
    """Return whether a class is none of torch's, numpy's, Python's own or this package's."""
    return kind.__module__.partition(".")[0] not in _LIBRARIES


def _has_own_attributes(value: object) -> bool:
    """Return whether what an object holds is looked at: a user's, or a distribution, which keeps its answers."""
    is_other = isinstance(value, nn.Module | type)
    return not is_other and (is_users_class(type(value)) or isinstance(value, _KEEPING))


def _elements(tensor: Tensor) -> object:
    with torch.no_grad():
        elements = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        return tuple(tensor.shape), str(tensor.dtype), elements.numpy().tobytes()
