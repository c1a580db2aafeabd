"""Lets a trace see the buffers that modules assign (`self.cache = y[:, -4:]`).

Torch records the assignments of the outermost module alone; those of the modules in it would be lost, and with them
what a session keeps.  And where `forward` returns the old tensor, torch returns the new one.  For the time of a trace
assignments are written into the buffer when the outermost `forward` ends: till then both the old tensor and the new one
are what they are in eager mode.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.utils._pytree as pytree
from alcove.runtime.errors import ExportError, Finding
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


@contextlib.contextmanager
def write_assigned_buffers(root: nn.Module) -> Iterator[None]:
    """Write what `root` and the modules in it assign to their buffers into them, at the end of each call of `root`.

    Raises:
        ExportError: by the call; a buffer gets another shape or type.
    """
    paths = {part: path for path, part in root.named_modules()}
    originals: dict[tuple[nn.Module, str], Tensor] = {}
    inputs: list[object] = []

    def begin(called: nn.Module, args: object) -> None:
        if called is root:
            originals.clear()
            inputs[:] = pytree.tree_leaves(args)

    def assign(owner: nn.Module, name: str, value: object) -> object:
        before = owner._buffers.get(name)  # noqa: SLF001 - the attribute may have another value in between
        if owner in paths and isinstance(before, Tensor):
            originals.setdefault((owner, name), before)
            if isinstance(value, Tensor) and value is not before:
                # The bytes of a buffer are written in the end, and another one's are written before perhaps.  Of an
                # input or a buffer itself torch cannot tell either where in the module it was assigned.
                others = [*originals.values(), *(buffer for part in paths for buffer in part.buffers(recurse=False))]
                is_written = _storage(value) in {_storage(other) for other in others}
                if is_written or any(value is given for given in inputs):
                    return value.clone()
        return None

    def finish(called: nn.Module, _args: object, result: object) -> object:
        if called is not root or not originals:
            return None
        old = {_storage(original) for original in originals.values()}
        copies = pytree.tree_map(lambda value: _copy(value, old), result)
        for (owner, name), original in originals.items():
            value = owner._buffers[name]  # noqa: SLF001 - as above
            if owner is root and _varies(value):
                continue  # torch records it, and says which size would be fixed
            owner._buffers[name] = original  # noqa: SLF001 - as above
            _write(original, value, f"{paths[owner]}.{name}".lstrip("."))
        originals.clear()
        inputs.clear()
        return copies

    replacing: tuple[Any, Any] = (assign, finish)  # torch types their hooks as if they returned nothing
    handles = (
        register_module_forward_pre_hook(begin),
        register_module_buffer_registration_hook(replacing[0]),
        register_module_forward_hook(replacing[1]),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _storage(value: Tensor) -> int:
    identity: int = value.untyped_storage()._cdata  # noqa: SLF001 - its identity
    return identity


def _copy(value: object, old: set[int]) -> object:
    """Return a result; a copy of one that has bytes of an `old` tensor, which is written next."""
    return value.clone() if isinstance(value, Tensor) and _storage(value) in old else value


def _varies(value: Tensor | None) -> bool:
    return value is not None and any(type(size) is not int for size in value.shape)


def _write(original: Tensor, value: Tensor | None, name: str) -> None:
    if value is original:
        return
    if value is None or value.dtype != original.dtype or _varies(value) or value.shape != original.shape:
        now = "None" if value is None else f"{value.dtype} of shape {list(value.shape)}"
        was = f"{original.dtype} of shape {list(original.shape)}"
        advice = f"forward assigns {now} to it, and it was {was}: keep shape and type, so that the session keeps it"
        raise ExportError([Finding(f"buffer {name}", "", "", advice)])
    original.copy_(value)
