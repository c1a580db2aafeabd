"""Export is reproducible: processes with different hash seeds make the same bytes of the same module and data.

In one process, and for the committed programs: the tests of the features and of `export`.  Here: whole processes with
other orders of hashes, which reach whatever iterates over a set.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = ("0", "4242")


@pytest.mark.thorough
@pytest.mark.parametrize(("what", "count"), [("features", 4), ("architectures", 7)])
def test_models_become_the_same_bytes_whatever_the_order_of_hashes(repository: Path, what: str, count: int) -> None:
    """Four features; some architectures, float32 and int8: exported by two processes, each with its own hashes."""
    command = [sys.executable, "-m", "tests.architectures.rebuilt", what]
    running = [
        subprocess.Popen(
            command,
            cwd=repository,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in SEEDS
    ]
    said = []
    for process in running:
        out, err = process.communicate()
        assert process.returncode == 0, err
        said.append(dict(line.split(": ") for line in out.splitlines()))
    assert len(said[0]) == len(set(said[0].values())) == count
    assert said[1:] == [said[0]] * (len(SEEDS) - 1)
