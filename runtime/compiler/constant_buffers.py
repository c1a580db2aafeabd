"""Gives torch the elements of one-element buffers that never change as known numbers during a trace.

Codecs keep strides and paddings in buffers of one element and compute sizes with them.  Torch takes every buffer for
data; during a trace it gets the elements of such buffers, so that `int(self.stride)`, and what follows from
it, is a number.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Any, Final

import torch
from alcove.runtime.compiler.held_tensors import list_changed
from torch import nn

_TRACER: Final[Any] = import_module("torch.export._trace")
"""Torch has no public way to say that a tensor of a trace is a constant."""


def trace_with_constant_buffers(
    trace: Callable[[], torch.export.ExportedProgram],
    decompose: Callable[[torch.export.ExportedProgram], torch.export.ExportedProgram],
    kept: Collection[str] = (),
) -> torch.export.ExportedProgram:
    """Return a decomposed trace in which buffers of one element are known, those excepted that the module changes.

    Args:
        trace: traces one module; called a second time, without such knowledge, if a buffer whose element was known
            changes, which only the graph tells.
        decompose: takes the trace.
        kept: buffers that something else changes.
    """
    with _constant_buffers(kept) as known:
        exported = trace()
        buffers = exported.graph_signature.inputs_to_buffers
        if not list_changed(exported, {name for name, buffer in buffers.items() if buffer in known}):
            exported = decompose(exported)
            if not known.intersection(exported.graph_signature.buffers_to_mutate.values()):
                return exported
    return decompose(trace())


@contextlib.contextmanager
def _constant_buffers(kept: Collection[str]) -> Iterator[set[str]]:
    """Let torch know the elements of a traced module's buffers of one element; give their names; one thread."""
    known: set[str] = set()
    plain = _TRACER._fakify_params_buffers  # noqa: SLF001 - see above

    def fakify(mode: object, module: nn.Module) -> dict[str, Any]:
        fakes: dict[str, Any] = plain(mode, module)
        for name, buffer in module.named_buffers(remove_duplicate=False):
            if buffer.numel() == 1 and name in fakes and name not in kept:
                fakes[name].constant = buffer.detach().clone()
                known.add(name)
        return fakes

    _TRACER._fakify_params_buffers = fakify  # noqa: SLF001 - see above
    try:
        yield known
    finally:
        _TRACER._fakify_params_buffers = plain  # noqa: SLF001 - see above
