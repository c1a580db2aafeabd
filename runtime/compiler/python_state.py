"""Refuses modules that keep something in Python from one call to the next.

A trace runs `forward` once: `self.count += 1`, an appended list, an entry of a dictionary, a global that it changes are
frozen at what they were.  So the attributes of all modules, and the globals and closures that their code names, are
compared before and after.  What changed may be a cache, set to the same by every call; it is one if a call leaves the
same and answers the same whether or not another call came before.  That is tried in eager mode, on copies.
"""

import ast
import contextlib
import copy
import inspect
import pickle
import random
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.compiler.python_snapshot import Place, PythonSnapshot, is_users_class, take_snapshot
from alcove.runtime.errors import ExportError, Finding
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

FROZEN: Final = (
    "forward changes it, and a program would keep what it was at export: register a buffer (register_buffer) and "
    "change it in place (self.name.copy_(...)), so that the session keeps it, or leave it out"
)
_DRAWN: Final = (
    "forward draws numbers of Python or numpy, and a program would keep those of the export: pass them as an input"
)
_MUTATORS: Final = frozenset(
    name for kind in (list, dict, set, deque) for name in vars(kind) if not name.startswith("_")
) - {"copy", "count", "get", "index", "items", "keys", "values"}
"""Methods that change a container, and those of sets that give a new one."""


@contextlib.contextmanager
def refuse_python_state(module: nn.Module, examples: Sequence[object]) -> Iterator[None]:
    """Watch a trace of `module`; afterwards put back what it left behind in Python.

    Args:
        module: that is traced with `examples`.
        examples: the arguments of `forward`, tensors for texts.

    Raises:
        ExportError: the module keeps something from one call to the next; a finding for each place.
    """
    before = take_snapshot(module)
    after: list[PythonSnapshot] = []
    drawn: list[bytes] = []

    def begin(called: nn.Module, _args: object) -> None:
        if called is module:
            drawn[:] = [_random_state()]

    def look(called: nn.Module, _args: object, _result: object) -> None:
        if called is module:
            after.append(take_snapshot(module))
            drawn.append(_random_state())

    handles = register_module_forward_pre_hook(begin), register_module_forward_hook(look)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        before.restore()
    if len(set(drawn)) > 1:
        raise ExportError([Finding("random numbers", "", _source(module, Place("global", "", "random")), _DRAWN)])
    changed = before.list_changes(after[-1]) if after else []
    if changed and not _forgets(module, examples, before, changed):
        raise ExportError(
            [
                Finding(f"{place.kind} {place.name}", place.module_path, _source(module, place), FROZEN)
                for place in changed
            ]
        )


def _random_state() -> bytes:
    state = np.random.get_state(legacy=False)
    return pickle.dumps((random.getstate(), state))


def _forgets(module: nn.Module, examples: Sequence[object], before: PythonSnapshot, changed: Sequence[Place]) -> bool:
    """Return whether a call leaves the same and answers the same, alone and after another one; tried on copies."""
    others = pytree.tree_map(_other, tuple(examples))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), _copy_histories():
            alone = copy.deepcopy(module)
            answers = _answers(alone, others)
            left = take_snapshot(alone, by_value=True), take_snapshot(module, by_value=True)
            before.restore()
            second = copy.deepcopy(module)
            _answers(second, tuple(examples))
            _reset_buffers(second, module)
            same = _alike(answers, _answers(second, others))
            # What a closure holds, copies share with their original.
            now = take_snapshot(second, by_value=True), take_snapshot(module, by_value=True)
            differing = {place for one, other in zip(left, now, strict=True) for place in one.list_changes(other)}
    except Exception:  # noqa: BLE001 - whatever stops it, nothing shows that it forgets
        return False
    finally:
        before.restore()
    return same and not differing.intersection(changed)


@contextlib.contextmanager
def _copy_histories() -> Iterator[None]:
    """Let tensors that were computed of parameters be copied, without that history; torch refuses them."""
    kind: Any = Tensor
    plain = kind.__deepcopy__
    kind.__deepcopy__ = lambda self, memo: plain(self if self.is_leaf else self.detach(), memo)
    try:
        yield
    finally:
        kind.__deepcopy__ = plain


def _answers(module: nn.Module, args: tuple[object, ...]) -> list[object]:
    torch.manual_seed(0)
    return pytree.tree_leaves(module(*pytree.tree_map(_copy_example, args)))


def _reset_buffers(changed: nn.Module, original: nn.Module) -> None:
    """Give a copy the buffers of its original: what changes those is no state in Python."""
    for path, part in original.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            changed.get_submodule(path).register_buffer(name, buffer.clone())


def _copy_example(value: object) -> object:
    return value.clone() if isinstance(value, Tensor) else value


def _other(value: object) -> object:
    """Return an example with other elements, of its own range: ids stay ids."""
    if not isinstance(value, Tensor) or value.dim() == 0 or not value.numel():
        return value
    turned = value.detach().flip(tuple(range(value.dim())))
    return turned * 0.75 + 0.125 if turned.is_floating_point() else turned


def _alike(ones: Sequence[object], others: Sequence[object]) -> bool:
    return len(ones) == len(others) and all(map(_is_alike, ones, others))


def _is_alike(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def _source(module: nn.Module, place: Place) -> str:
    """Return "file:line" where the user's code changes what lies at a place; "" if it is not found."""
    owner = module.get_submodule(place.module_path)
    kinds = [kind for part in (owner, *module.modules()) for kind in type(part).__mro__ if is_users_class(kind)]
    for is_change in (_changes, _mentions):
        for kind in dict.fromkeys(kinds):
            for name, function in vars(kind).items():
                if isinstance(function, FunctionType) and name not in {"__init__", "__setstate__"}:
                    line = _line(function, place.name, is_change)
                    if line:
                        return f"{inspect.getsourcefile(function)}:{line}"
    return ""


def _line(function: FunctionType, name: str, is_change: Callable[[ast.AST, str], bool]) -> int:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return 0
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr) and is_change(node, name)]
    return first + min(found) - 1 if found else 0


def _changes(node: ast.AST, name: str) -> bool:
    """Return whether a piece of code assigns to a name, to a part of it, or calls what changes a container."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _MUTATORS and _mentions(node.func.value, name)
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        targets = [node.target]
    elif isinstance(node, ast.Delete):
        targets = node.targets
    return any(_mentions(part, name) for target in targets for part in ast.walk(target))


def _mentions(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)
