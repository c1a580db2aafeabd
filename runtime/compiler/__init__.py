"""Compiles torch modules to programs by a pipeline of small passes over a graph of its own.

capture.py    torch.export; a str argument becomes a text of any length
lower.py      torch's operators to ours, by the rules in rules/; constants are computed
dead_code_elimination.py       what is unused disappears
legalize.py   everything that keeps the graph from being a program, as one ExportError
layout.py     channels last
fuse.py       what one operator can do at once
quantize/     int8 and int4
pack.py       weights as the kernels read them
plan.py       the arena, proved again by plan_check.py
emit.py       ProgramSpec, then bytes
dynamic_shapes.py    sizes that vary: the passes above at several sizes, generalized
every_size.py holds what was generalized against every size
layers.py     each layer against torch
weights.py    names and forms of constants, and the way back: load_state
certify.py    the parity certificate of a program

`export` is loaded on first use: reading weights back needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.runtime.compiler.pipeline import export
    from alcove.runtime.compiler.weights import load_state

__all__ = ["export", "load_state"]

_LAZY = {"export": "alcove.runtime.compiler.pipeline", "load_state": "alcove.runtime.compiler.weights"}


def __getattr__(name: str) -> Any:
    """Load `name` from its module and keep it.

    Raises:
        ImportError: torch is not installed.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("export needs torch: pip install 'alcove-platform[export]'", name="torch") from error
    globals()[name] = value
    return value
