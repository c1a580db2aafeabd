"""A fixture that runs programs under a chosen instruction set, each time in a child process: the choice is per process.

Each program is run by one thread and by three together, which must give the same bytes.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

Case: TypeAlias = tuple[bytes, Sequence[Any]]
"""A program and its inputs."""
Answers: TypeAlias = dict[str, list[bytes]]
"""The bytes of each output of each case."""

CHILD = """
import pickle, sys
from alcove.runtime import _native
from alcove.runtime.model import load

def answer(program, inputs):
    model = load(program)
    alone = [out.tobytes() for out in model(*inputs)]
    together = model._native.session(threads=3, part_work=1)(*inputs)  # every op that can be shared out is
    assert model._labels or alone == [out.tobytes() for out in together]
    return alone

with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
answers = {name: answer(program, inputs) for name, (program, inputs) in cases.items()}
with open(sys.argv[2], "wb") as file:
    pickle.dump((_native.isa(), answers), file)
"""


@pytest.fixture(scope="session")
def run_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Mapping[str, Case]], Answers]:
    """Runs cases under one instruction set."""

    def run(isa: str, cases: Mapping[str, Case]) -> Answers:
        folder = tmp_path_factory.mktemp(isa)
        (folder / "cases").write_bytes(pickle.dumps(dict(cases)))
        command = [sys.executable, "-c", CHILD, str(folder / "cases"), str(folder / "answers")]
        subprocess.run(command, check=True, env={**os.environ, "ALCOVE_ISA": isa})
        seen, answers = pickle.loads((folder / "answers").read_bytes())
        assert seen == isa
        return dict(answers)

    return run
