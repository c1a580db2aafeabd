"""Keeps programs by what they were made of, so that an export of the same module does no pass twice.

The key is a digest of everything that the passes read: torch's graph with types, sizes and places in the source, every
weight, the options, and the code that runs (this package, its native part, torch, numpy).  What is not known to be all
of it has no key, and is exported anew.  An entry is a file of the user's own, which holds its digest; a file that is
not whole, not the user's or no valid program counts as none.
"""

import contextlib
import functools
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime import _native
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.lowering.nodes import origin_of
from alcove.runtime.errors import ProgramError
from alcove.runtime.ops import LabelledTopK
from torch import Tensor, fx, nn
from torch._ops import OpOverload

MAX_BYTES: Final = 4 * 2**30
"""Of all entries; the ones read longest ago go first."""
_ENDING: Final = ".program"
_PLAIN: Final = (
    bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.SymInt,
    torch.SymFloat, torch.SymBool, fx.Node,
)  # fmt: skip
"""What stands in the arguments of a graph's nodes, and is printed whole."""
_NAMESPACES: Final = frozenset({"aten", "prims", "alcove"})
"""Of operators whose code is torch's or this package's."""


class ExportCache:
    """Programs in a folder, by key.

    Args:
        folder: of this user alone; made when something is put into it.
        max_bytes: of all entries.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def find(self, key: bytes) -> bytes | None:
        """Return the program of a key; None where there is none, or none that can be trusted."""
        path = self._path(key)
        try:
            if not _is_own(os.lstat(self._folder), stat.S_ISDIR):
                return None
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if not _is_own(os.fstat(descriptor), stat.S_ISREG):
                    return None
                digest, data = file.read(32), file.read()
                if _digest(key, data) != digest:
                    return None
                _native.open_bytes(data).verify_weights()
                os.utime(descriptor)
        except (OSError, ProgramError):
            return None
        return data

    def put(self, key: bytes, program: bytes) -> None:
        """Keep a program; a folder that cannot be written keeps nothing."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(os.lstat(self._folder), stat.S_ISDIR) or len(program) > self._max_bytes:
                return
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".partial", dir=self._folder)
            try:
                with os.fdopen(descriptor, "wb") as file:  # of mode 0600
                    file.write(_digest(key, program))
                    file.write(program)
                Path(temporary).replace(self._path(key))
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._make_room()

    def _path(self, key: bytes) -> Path:
        return self._folder / (key.hex() + _ENDING)

    def _make_room(self) -> None:
        """Remove what was read longest ago, as far as there is too much."""
        entries = []
        for path in self._folder.glob("*" + _ENDING):
            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                facts = path.lstat()
                entries.append((facts.st_mtime_ns, path.name, facts.st_size, path))
        too_much = sum(size for _, _, size, _ in entries) - self._max_bytes
        for _, _, size, path in sorted(entries):
            if too_much <= 0:
                break
            path.unlink(missing_ok=True)
            too_much -= size


def default_folder() -> Path:
    """Return where programs are kept if no folder is named: `alcove/exports` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "alcove" / "exports"  # noqa: PTH117


def key_of(
    methods: Mapping[str, Captured], entries: Mapping[str, nn.Module], options: Iterable[object]
) -> bytes | None:
    """Return what a program is kept under; None where something is in a graph that is not known to be written whole.

    Args:
        methods: the traces, by method.
        entries: the module of each, whose buffers may be those of another.
        options: of the export, of plain types.
    """
    digest = hashlib.sha256()

    def put(*parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else repr(part).encode()
            digest.update(len(data).to_bytes(8, "little") + data)

    places: dict[tuple[int, int], int] = {}
    put(_code(), torch.__version__, np.__version__, sys.version, torch.get_num_threads())
    put(torch.backends.cpu.get_cpu_capability(), *options)
    for name, captured in methods.items():
        put(name)
        if not _put_captured(captured, put, places):
            return None
        for each, buffer in entries[name].named_buffers(remove_duplicate=False):
            put(each, _place(buffer, places), tuple(buffer.shape))
    return digest.digest()


def _put_captured(captured: Captured, put: Any, places: dict[tuple[int, int], int]) -> bool:
    """Write a trace; return whether it is all there."""
    program = captured.program
    put(sorted(captured.text_inputs), captured.output_names, str(captured.symbols))
    put(str(program.graph_signature), sorted(map(str, program.range_constraints.items())), str(program.call_spec))
    for path, part in captured.module.named_modules():
        if isinstance(part, LabelledTopK):
            put(path, part.labels)
    tensors: list[tuple[str, Any]] = [*program.state_dict.items(), *program.constants.items()]
    for path, part in program.graph_module.named_modules():
        if not isinstance(part, fx.GraphModule):
            return False
        put(path)
        if not all(_put_node(node, put) for node in part.graph.nodes):
            return False
        tensors += _tensors_of(part)
    return all(_put_tensor(put, name, value, places) for name, value in tensors)


def _put_node(node: fx.Node, put: Any) -> bool:
    """Write a node; return whether it is all there."""
    arguments = pytree.tree_leaves((node.args, dict(node.kwargs)))
    is_foreign = isinstance(node.target, OpOverload) and node.target.namespace not in _NAMESPACES
    if is_foreign or not all(isinstance(part, _PLAIN) for part in arguments):
        return False  # somebody else's operator may compute a constant, by code that has no digest
    put(node.name, node.op, str(node.target), str(node.args), str(node.kwargs), origin_of(node))
    for value in pytree.tree_leaves(node.meta.get("val")):
        put(_describe(value) if isinstance(value, Tensor) else f"{type(value)} {value}")
    return True


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {tensor.layout} {tensor.device}"


def _tensors_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the tensors that a graph reads as attributes of its module."""
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return own + [(name, value) for name, value in vars(module).items() if isinstance(value, Tensor)]


def _put_tensor(put: Any, name: str, tensor: Any, places: dict[tuple[int, int], int]) -> bool:
    """Write a tensor, its elements and which others have its memory; return whether it is all there."""
    if (
        not isinstance(tensor, Tensor)
        or tensor.layout is not torch.strided
        or tensor.device.type != "cpu"
        or tensor.is_quantized
    ):
        return False
    elements = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8).numpy().data
    put(name, _describe(tensor), type(tensor).__name__, _place(tensor, places), hashlib.sha256(elements).digest())
    return True


def _place(tensor: Tensor, places: dict[tuple[int, int], int]) -> int:
    """Return a number that tensors of the same memory share."""
    return places.setdefault((tensor.untyped_storage().data_ptr(), int(tensor.storage_offset())), len(places))


@functools.cache
def _code() -> bytes:
    """Return a digest of the code that makes programs: this package and its native part."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    for path in [*sorted(root.rglob("*.py")), Path(_native.__file__)]:
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)} ".encode() + data)
    return digest.digest()


def _digest(key: bytes, data: bytes) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(data)
    return digest.digest()


def _is_own(facts: os.stat_result, is_kind: Any) -> bool:
    """Return whether a file or folder is of this kind and user, and nobody else may write it."""
    return bool(is_kind(facts.st_mode)) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
