"""Holds a compiled program as `export` returns it, and saves it.

The bytes of a program, with what the exporter knows about them.  Saving is atomic: a reader sees the old file or the
new one.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.runtime.files import DISK, sync
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import ProgramSpec

if TYPE_CHECKING:
    from alcove.runtime.compiler.quantize.report import QuantizationReport


class Program:
    """A compiled model; `bytes(program)` is the content of its `.alc` file.

    Args:
        data: a whole program.
        passes: (name of a pass, graph after it as text), in order; empty for a program that was not just exported.
        quantization: what quantizing did to it; None for a program that is not quantized, or was not just exported.
    """

    def __init__(
        self, data: bytes, passes: Sequence[tuple[str, str]] = (), quantization: "QuantizationReport | None" = None
    ) -> None:
        self._data = bytes(data)
        self._passes = tuple(passes)
        self.quantization = quantization

    def __bytes__(self) -> bytes:
        return self._data

    def __repr__(self) -> str:
        return f"Program({len(self._data)} bytes, sha256 {self.digest[:12]}…)"

    def with_bytes(self, data: bytes) -> "Program":
        """Return another program's bytes with what is known of this one; for one that gained a certificate."""
        return Program(data, self._passes, self.quantization)

    @property
    def digest(self) -> str:
        """The sha-256 of all bytes, in hex."""
        return hashlib.sha256(self._data).hexdigest()

    @cached_property
    def spec(self) -> ProgramSpec:
        """What the bytes say, as values.

        Raises:
            ProgramError: the bytes are no program.
        """
        return read_spec(self._data)

    @property
    def passes(self) -> tuple[tuple[str, str], ...]:
        """Name of each pass of the exporter and the graph after it, in order."""
        return self._passes

    def explain(self) -> str:
        """Return the graph after each pass of the exporter as text, one line an operator; empty if it is not known."""
        return "\n".join(f"== after {name} ==\n{text}\n" for name, text in self._passes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the program to `path`, replacing what is there, and return the path.

        The bytes are synced before the name changes, so a crash leaves the old file or the new one.

        Raises:
            OSError: the folder does not exist, is not writable, or the disk is full; `path` is as it was.
        """
        target = Path(path)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._data)
                sync(file)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        DISK.sync_folder(target.parent)
        return target
