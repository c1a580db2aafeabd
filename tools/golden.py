"""Keeps programs of each format version with their answers: `python -m tools.golden` adds today's.

`tests/runtime/golden/MAJOR.MINOR/` holds programs that a writer of that version made, nearly all operators among them,
and `answers.json`: for each its SHA-256 and that of its outputs on fixed inputs. A file that is there is never written
again: it stands for programs on devices, which nobody can export again. A test opens and runs all with this runtime.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from alcove.runtime import load
from alcove.runtime.format import records
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import NUMPY_TYPES

if TYPE_CHECKING:
    from alcove.runtime import Model
    from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent.parent / "tests/runtime/golden"
TEXT = "Wo ist der nächste Bahnhof?  Où est la gare?"
RUNS = 3
"""Of one session, so that states show."""


def inputs_of(model: Model, run: int) -> list[str | NDArray[Any]]:
    """Return inputs by a rule that needs no library: small numbers; integers are 0, 1, 1 ..., rows of any table."""
    inputs: list[str | NDArray[Any]] = []
    for port in model.inputs:
        if port.dtype is DType.TEXT:
            inputs.append(TEXT[run:])
            continue
        steps = np.arange(int(np.prod(port.shape)), dtype=np.int64) + run
        values = (steps * 37 % 101 - 50) / 8 if port.dtype is DType.F32 else np.minimum(steps - run, 1)
        inputs.append(values.astype(NUMPY_TYPES[port.dtype]).reshape(port.shape))
    return inputs


def answer_of(program: bytes) -> str:
    """Return the SHA-256 of all outputs of a session's first runs, with their types and shapes."""
    model = load(program)
    session = model.session()
    digest = hashlib.sha256()
    for run in range(RUNS):
        for method in model.methods:
            for output in session.run(method, *inputs_of(model.method(method), run)):
                digest.update(f"{output.dtype.str}{output.shape}".encode("ascii"))
                digest.update(output.tobytes())
    return digest.hexdigest()


def main() -> None:
    """Write the programs of today's versions that are not there yet; each has the version that it needs."""
    argparse.ArgumentParser(prog="python -m tools.golden", description=__doc__).parse_args()
    from alcove.runtime.testing import samples  # noqa: PLC0415 - the test needs the rules above and not today's programs
    from alcove.runtime.testing_ops import op_samples  # noqa: PLC0415

    for name, program in (samples() | op_samples()).items():
        folder = FOLDER / f"{records.MAJOR}.{records.HEADER.unpack_from(program)[2]}"
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "answers.json"
        answers = json.loads(page.read_text(encoding="utf-8")) if page.exists() else {}
        path = folder / f"{name}.alc"
        if path.exists():
            continue
        path.write_bytes(program)
        answers[name] = {"program": hashlib.sha256(program).hexdigest(), "outputs": answer_of(program)}
        page.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{path.relative_to(FOLDER)}: {len(program):,} bytes")


if __name__ == "__main__":
    main()
