"""Traces writes at a place that a tensor of one number names: `self.buffer[self.position % 8] = x`.

Torch reads the number out of the tensor before it writes, which no trace can do.  For the time of a trace the tensor
itself is the index, which writes the same and refuses the same places.
"""

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

_HANDLER: Final[Any] = import_module("torch._export.non_strict_utils")._NonStrictTorchFunctionHandler  # noqa: SLF001
"""Torch rewrites reads at such places itself, and has no public way to add writes."""

_WHOLE: Final = (torch.int64, torch.int32, torch.int16, torch.int8)
_Call: TypeAlias = tuple[Callable[..., Any], Any, Any]


@contextlib.contextmanager
def trace_writes_at_tensors() -> Iterator[None]:
    """Let writes at places that tensors of one number name be traced; one thread at a time."""
    plain = _HANDLER._override  # noqa: SLF001 - see above

    def override(self: Any, function: Any, args: Any, kwargs: Any) -> _Call:
        if getattr(function, "__name__", "") == "__setitem__" and isinstance(args[0], Tensor) and _names_place(args[1]):
            return _write, args, {}
        call: _Call = plain(self, function, args, kwargs)
        return call

    _HANDLER._override = override  # noqa: SLF001 - see above
    try:
        yield
    finally:
        _HANDLER._override = plain  # noqa: SLF001 - see above


def _items(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def _is_place(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dim() == 0 and item.dtype in _WHOLE


def _names_place(index: Any) -> bool:
    """Return whether an index has such a tensor, and beside it numbers, slices of numbers, None and ... alone."""
    items = _items(index)
    others = [item for item in items if not _is_place(item)]
    return len(others) < len(items) and all(
        item is None
        or item is Ellipsis
        or (isinstance(item, int) and not isinstance(item, bool))
        or (isinstance(item, slice) and not any(isinstance(end, Tensor) for end in (item.start, item.stop, item.step)))
        for item in others
    )


def _write(x: Tensor, index: Any, value: Any) -> None:
    """Write as `x[index] = value` does."""
    items = _items(index)
    count = sum(item is not None and item is not Ellipsis for item in items)
    if any(item is Ellipsis for item in items):
        at = next(place for place, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.dim() - count)
    view = x[tuple(slice(None) if _is_place(item) else item for item in items)]
    kept = [item for item in items if not isinstance(item, int)]  # what has a dimension in the view
    places = [item if _is_place(item) else None for item in kept]
    source = value if isinstance(value, Tensor) else x.new_full((), value)
    rank = view.dim() - sum(place is not None for place in places)
    while source.dim() > rank and source.shape[0] == 1:
        source = source[0]
    torch.ops.aten.index_put_(view, places, source.to(x.dtype))
