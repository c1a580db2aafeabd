"""Compares an architecture's native outputs, computed in a process without torch, with torch's own.

Export here; run in a fresh process in which torch cannot be imported; compare all outputs of all calls.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove import runtime
from torch import Tensor

from benchmarks.architectures.registry import architectures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.architectures.registry import Architecture, Call

BOUND = 1e-4
"""Largest difference of an output, relative to its largest element."""

NATIVE_TIMEOUT_S = 120.0

_NATIVE = """
import sys
sys.modules["torch"] = None  # importing it raises
import numpy
import alcove.runtime as runtime
program, given, results = sys.argv[1:]
model = runtime.load(program)
session = model.session()
found = {}
with numpy.load(given) as arrays:
    for call in range(1 + max(int(key.split(".")[0]) for key in arrays)):
        count = sum(key.startswith(f"{call}.") for key in arrays)
        for index, output in enumerate(session(*(arrays[f"{call}.{place}"] for place in range(count)))):
            found[f"{call}.{index}"] = output
numpy.savez(results, **found)
print(model.memory_ceiling_bytes)
"""


@dataclass(frozen=True)
class Result:
    """What became of one architecture.

    Attributes:
        name: of the architecture.
        family: of the architecture.
        status: "passed", "refused" (at export), or "wrong" (a difference, or any other exception).
        parameters: number of the module's parameters.
        ops: number of the program's operators; 0 if there is no program.
        program_bytes: size of the program.
        arena_bytes: memory for activations.
        max_difference: largest of all outputs and calls, relative as `BOUND` says; NaN if nothing ran.
        reason: for everything but "passed".
    """

    name: str
    family: str
    status: str
    parameters: int
    ops: int = 0
    program_bytes: int = 0
    arena_bytes: int = 0
    max_difference: float = float("nan")
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        fields = asdict(self)
        if self.max_difference != self.max_difference:
            fields["max_difference"] = None
        return fields


def evaluate(architecture: Architecture) -> Result:
    """Export an architecture, run it natively, compare; whatever is raised becomes part of the result."""
    torch.set_num_threads(1)
    module, calls = architecture.make()
    name, family = architecture.name, architecture.family
    parameters = sum(parameter.numel() for parameter in module.parameters())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = runtime.export(module, calls[0])
    except runtime.ExportError as error:
        reasons = dict.fromkeys(f"{finding.op}: {finding.suggestion}" for finding in error.findings)
        return Result(name, family, "refused", parameters, reason="; ".join(reasons))
    except Exception as error:  # noqa: BLE001 - the exporter promises ExportError alone
        return Result(name, family, "wrong", parameters, reason=f"export raises {type(error).__name__}: {error}")
    spec = program.spec
    measured = {"ops": len(spec.ops), "program_bytes": len(bytes(program)), "arena_bytes": spec.arena_bytes}
    expected = eager_outputs(module, calls)
    try:
        argument = native_outputs(bytes(program), calls)
    except RuntimeError as error:
        return Result(name, family, "wrong", parameters, **measured, reason=str(error))
    difference, reason = largest_difference(expected, argument)
    status = "wrong" if reason else "passed"
    return Result(name, family, status, parameters, **measured, max_difference=difference, reason=reason)


def evaluate_named(name: str) -> Result:
    """Evaluate the architecture of a name: what a worker process does."""
    return evaluate(next(entry for entry in architectures() if entry.name == name))


def lost_result(name: str, reason: str) -> Result:
    """Return what stands for an architecture whose process died."""
    return Result(name, "", "wrong", 0, reason=reason)


def eager_outputs(module: torch.nn.Module, calls: list[Call]) -> list[list[NDArray[Any]]]:
    """Return the tensors that a module gives, one list a call; buffers that it changes stay changed."""
    with torch.no_grad():
        return [
            [leaf.numpy(force=True).copy() for leaf in pytree.tree_leaves(module(*call)) if isinstance(leaf, Tensor)]
            for call in calls
        ]


def native_outputs(program: bytes, calls: list[Call]) -> list[list[NDArray[Any]]]:
    """Return what one session of a program gives for the calls in a row, in a process without torch.

    Raises:
        RuntimeError: the process failed; the message is its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, argument, results = (Path(folder) / name for name in ("model.alc", "given.npz", "results.npz"))
        path.write_bytes(program)
        arrays: dict[str, Any] = {
            f"{index}.{place}": tensor.numpy(force=True)
            for index, call in enumerate(calls)
            for place, tensor in enumerate(call)
        }
        np.savez(argument, **arrays)
        done = subprocess.run(
            [sys.executable, "-c", _NATIVE, str(path), str(argument), str(results)],
            capture_output=True,
            text=True,
            timeout=NATIVE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
            raise RuntimeError(f"run: {last[0]}")
        outputs: list[list[NDArray[Any]]] = [[] for _ in calls]
        with np.load(results) as found:
            for key in sorted(found, key=lambda key: tuple(map(int, key.split(".")))):
                outputs[int(key.split(".")[0])].append(found[key])
        return outputs


def largest_difference(expected: list[list[NDArray[Any]]], actual: list[list[NDArray[Any]]]) -> tuple[float, str]:
    """Compare all outputs of all calls.

    The difference of a float output is `max |given - expected| / max |expected|`; NaN and infinities must be at
    the same places.  Integers and bools must be equal.

    Returns:
        the largest difference, and a sentence about the first output beyond `BOUND` (of another shape or type, with
        other integers); "" if there is none.
    """
    largest = 0.0
    for call, (wants, haves) in enumerate(zip(expected, actual, strict=True)):
        if len(wants) != len(haves):
            return largest, f"call {call}: {len(haves)} outputs, eager gives {len(wants)}"
        for index, (want, have) in enumerate(zip(wants, haves, strict=True)):
            where = f"call {call}, output {index}"
            if want.shape != have.shape or want.dtype != have.dtype:
                found = f"{have.dtype}{list(have.shape)}, eager gives {want.dtype}{list(want.shape)}"
                return largest, f"{where} is {found}"
            if want.dtype.kind != "f":
                if (want != have).any():
                    return largest, f"{where}: {int((want != have).sum())} of {want.size} elements differ"
                continue
            finite = np.isfinite(want)
            if not np.array_equal(want[~finite], have[~finite], equal_nan=True) or not np.isfinite(have[finite]).all():
                return largest, f"{where}: NaN or infinities at other places than in eager"
            if not finite.any():
                continue
            scale = float(np.abs(want[finite]).max()) or 1.0
            difference = float(np.abs(want[finite].astype(np.float64) - have[finite]).max()) / scale
            largest = max(largest, difference)
            if difference > BOUND:
                return largest, f"{where} differs by {difference:.2g} of its largest element, the bound is {BOUND:g}"
    return largest, ""
