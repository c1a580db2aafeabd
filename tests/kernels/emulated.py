"""Runs programs through the C interface, on this machine and, cross-compiled, on 64-bit ARM emulated by QEMU.

The library for ARM is built in `build/aarch64`, once and then incrementally.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from alcove.runtime import _native
from alcove.runtime.testing import NUMPY_TYPES

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
LIBRARIES = "/usr/aarch64-linux-gnu"
WARNINGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]

_CODES = {np.dtype(kind): int(dtype) for dtype, kind in NUMPY_TYPES.items()}
_TEXT = 7


def on_arm(root: Path) -> list[str]:
    """Return the command of answers.c, built with the library for 64-bit ARM; the emulator's best processor runs it."""
    folder = root / "build/aarch64"
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else "cmake"
    result = folder / "answers"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        toolchain = f"-DCMAKE_TOOLCHAIN_FILE={root / 'tools/aarch64.cmake'}"
        cores = str(len(os.sched_getaffinity(0)))
        _call([cmake, "-S", str(root), "-B", str(folder), toolchain, "-DCMAKE_BUILD_TYPE=Release"])
        _call([cmake, "--build", str(folder), "--target", "alcove", "--parallel", cores])
        _compile(COMPILER, root, folder / "runtime/native", result)
    return [EMULATOR, "-L", LIBRARIES, str(result)]


def here(root: Path, folder: Path) -> list[str]:
    """Return the command of answers.c, built in `folder` with the installed library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    _compile(compiler, root, Path(_native.__file__).parent, folder / "answers")
    return [str(folder / "answers")]


def _compile(compiler: str, root: Path, library: Path, binary: Path) -> None:
    source, include = root / "tests/kernels/answers.c", root / "runtime/native/include"
    link = [f"-L{library}", "-lalcove", f"-Wl,-rpath,{library}", "-lm"]
    _call([compiler, *WARNINGS, f"-I{include}", str(source), "-o", str(binary), *link])


def _call(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _pack(cases: Mapping[str, tuple[bytes, Any]]) -> Iterator[bytes]:
    """The cases as answers.c reads them."""
    yield struct.pack("<I", len(cases))
    for program, inputs in cases.values():
        yield struct.pack("<I", len(program)) + program + struct.pack("<I", len(inputs))
        for value in inputs:
            if isinstance(value, str):
                data = value.encode()
                yield struct.pack("<IIQ", _TEXT, 0, len(data)) + data
            else:
                array = np.asarray(value)
                head = struct.pack(f"<II{array.ndim}QQ", _CODES[array.dtype], array.ndim, *array.shape, array.nbytes)
                yield head + array.tobytes()


def _unpack(data: bytes, names: list[str]) -> Iterator[tuple[str, list[bytes]]]:
    """What answers.c wrote, by the names of the cases."""
    at = 0

    def take(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{code}", data, at)
        at += struct.calcsize(f"<{code}")
        return int(value)

    for name in names:
        if take("I") != 0:
            size = take("I")
            raise AssertionError(f"{name}: {data[at : at + size].decode()}")
        outputs = []
        for _ in range(take("I")):
            size = take("Q")
            outputs.append(data[at : at + size])
            at += size
        yield name, outputs
    assert at == len(data)


def run(
    command: list[str], isa: str, cases: Mapping[str, tuple[bytes, Any]], folder: Path, *, processor: str = ""
) -> dict[str, list[bytes]]:
    """Return the bytes of each output of each case under one instruction set.

    Args:
        command: what `on_arm` or `here` returned.
        isa: the value of ALCOVE_ISA.
        cases: a program and its inputs, by name.
        folder: where files may be written.
        processor: the one that is emulated, by qemu's name; empty: the best.

    Raises:
        AssertionError: a case was refused; with its name and why.
    """
    argument, answers = folder / "cases", folder / "answers.bin"
    argument.write_bytes(b"".join(_pack(cases)))
    environment = {**os.environ, "ALCOVE_ISA": isa}
    if processor:
        environment["QEMU_CPU"] = processor
    whole = [*command, str(argument), str(answers)]
    done = subprocess.run(whole, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(_unpack(answers.read_bytes(), list(cases)))
