"""Decomposes an exported graph to torch's core operators, in a fraction of the time that torch takes.

`ExportedProgram.run_decompositions` sets torch up for a table of decompositions again each time: it looks for composite
operators in every namespace, and for each of 1,300 registers 22 kernels, which it takes away in the end.  That takes
longer than all else of a small export.  What is registered follows from the table and from what was registered before,
which are the same from export to export, so it is recorded the first time and put in place at once from then on; where
they differ, torch's own functions run again.  The graphs are the same.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

import torch
from alcove.runtime.compiler.local_decompositions import NotLocal, decompose_locally
from alcove.runtime.compiler.rules import KEPT

_Table: TypeAlias = dict[Any, Any]
"""What is called for an operator, or for a dispatch key."""

# Torch has no public way to decompose with kernels that are there already.
_PROGRAMS: Final[Any] = import_module("torch.export.exported_program")
_TRACE: Final[Any] = import_module("torch.export._trace")
_FAKE_RULES: Final[_Table] = import_module("torch._subclasses.fake_impls").op_implementations_dict


def run_decompositions(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return `exported` in core operators, and in composite ones that have a rule of their own; one thread at a time.

    Raises:
        Exception: whatever torch raises.
    """
    composites, others = _RECORD.split({})
    try:
        with _RECORD.override(composites), _as_torch_decomposes():
            decompose_locally(exported, composites, others)
    except NotLocal:
        return _run_whole(exported)
    return exported


def _run_whole(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    with (
        _replace("_split_decomp_table_to_cia_and_python_decomp", _RECORD.split),
        _replace("_override_composite_implicit_decomp", _RECORD.override),
    ):
        decomposed: torch.export.ExportedProgram = exported.run_decompositions({})  # `split` has the table
    return decomposed


def _decompositions() -> _Table:
    """Return torch's way to its core operators, without those that have a rule of their own."""
    result: Any = torch.export.default_decompositions()
    table: _Table = dict(result.items())
    for target in KEPT:
        namespace, name, overload = target.split(".")
        table.pop(getattr(getattr(getattr(torch.ops, namespace), name), overload), None)
    return table


class _Record:
    """What torch makes of the table and registers for it."""

    def __init__(self) -> None:
        self._plain_split: Any = _PROGRAMS._split_decomp_table_to_cia_and_python_decomp  # noqa: SLF001 - see above
        self._plain_override: Any = _PROGRAMS._override_composite_implicit_decomp  # noqa: SLF001 - see above
        self._composites: list[str] = []
        self._halves: tuple[_Table, ...] = ()
        self._before: tuple[_Table, dict[Any, _Table], set[Any]] | None = None
        self._kernels: dict[Any, _Table] = {}
        self._fake_rules: _Table = {}

    def split(self, _table: _Table) -> tuple[_Table, ...]:
        """Return the decompositions of composite operators, all of them, and those of other operators."""
        composites = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")  # noqa: SLF001
        if composites != self._composites:
            self._halves = self._plain_split(_decompositions())
            self._composites = composites
        return tuple(map(dict, self._halves))

    @contextlib.contextmanager
    def override(self, decompositions: _Table) -> Iterator[None]:
        """Let torch decompose composite operators so while the context lasts.

        Args:
            decompositions: those of composite operators.
        """
        kernels = {op: op.py_kernels.copy() for op in decompositions}
        before = (decompositions, kernels, _FAKE_RULES.keys() & decompositions.keys())
        if before != self._before:
            with self._plain_override(decompositions):
                self._kernels = {op: op.py_kernels.copy() for op in decompositions}
                self._fake_rules = {op: _FAKE_RULES[op] for op in decompositions}
                self._before = before
                yield
            return
        try:
            self._put(self._kernels)
            _FAKE_RULES.update(self._fake_rules)
            yield
        finally:
            self._put(kernels)
            for op in kernels:
                _FAKE_RULES.pop(op, None)  # those that were there before too, as torch does

    @staticmethod
    def _put(kernels: Mapping[Any, _Table]) -> None:
        for op, table in kernels.items():
            op.py_kernels.clear()
            op.py_kernels.update(table)
            op._dispatch_cache.clear()  # noqa: SLF001 - registering does it too


_RECORD: Final = _Record()


@contextlib.contextmanager
def _as_torch_decomposes() -> Iterator[None]:
    """Set what `run_decompositions` sets for its trace: no gradients, no kernels of a backend's own."""
    with _TRACE._ignore_backend_decomps(), _TRACE._compiling_state_context(), torch.no_grad():  # noqa: SLF001 - see above
        yield


@contextlib.contextmanager
def _replace(name: str, function: Callable[..., Any]) -> Iterator[None]:
    plain = getattr(_PROGRAMS, name)
    setattr(_PROGRAMS, name, function)
    try:
        yield
    finally:
        setattr(_PROGRAMS, name, plain)
