"""Finds the line of the user's model that a node of the graph, or an exception, comes from.

Torch records, of a node's stack, the frames of `forward` methods: for a helper function the line is that of its call.
"""

import re
from functools import lru_cache
from pathlib import Path
from traceback import extract_tb, walk_tb
from types import TracebackType
from typing import Final

import torch
from torch import nn

_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Frames that are not the user's: torch itself and this package (its modules, its exporter).
_FOREIGN: Final = (
    Path(torch.__file__).resolve().parent,
    Path(__file__).resolve().parent,
    Path(__file__).resolve().parent.parent / "ops.py",
)


@lru_cache(maxsize=1024)  # an export asks for the same files for every operator
def is_users(filename: str) -> bool:
    """Return whether a frame in `filename` belongs to the user's code."""
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    return not any(path.is_relative_to(folder) for folder in _FOREIGN)


def source_of_stack(stack_trace: str | None) -> str:
    """Return "file:line" of the innermost user frame of a node's recorded stack, or ""."""
    found = ""
    for frame in _FRAME.finditer(stack_trace or ""):
        if is_users(frame["file"]):
            found = f"{frame['file']}:{frame['line']}"
    return found


def source_of_traceback(traceback: TracebackType | None, caller: str) -> str:
    """Return "file:line" of the innermost user frame below the exporter, or "".

    Args:
        traceback: of what was raised while tracing.
        caller: file that called the tracer; frames above it called `export` and explain nothing.
    """
    found, is_below = "", False
    for frame in extract_tb(traceback):
        if frame.filename == caller:
            is_below, found = True, ""
        elif is_below and is_users(frame.filename):
            found = f"{frame.filename}:{frame.lineno}"
    return found


def path_of_traceback(traceback: TracebackType | None, module: nn.Module) -> str:
    """Return where in `module` the innermost `forward` ran that was at work when something was raised; "" for its own.

    Args:
        traceback: of what was raised while tracing.
        module: what was traced.
    """
    names = {id(part): name for name, part in module.named_modules()}
    found = ""
    for frame, _ in walk_tb(traceback):
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and id(owner) in names:
            found = names[id(owner)]
    return found


def short(source: str) -> str:
    """Return "file.py:line" without folders, as a program carries it: the same on every machine."""
    return source.replace("\\", "/").rpartition("/")[2]
