"""`alcove model generate` continues tokens, and says what it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.cli.model import app
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from typer.testing import CliRunner


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that says that the token after t is t + 1, modulo 7."""
    build = Assembly()
    table = build.constant("table", np.roll(np.eye(7, dtype=np.float32), 1, axis=1) * np.float32(9))
    tokens = build.input("tokens", DType.I64, (1,))
    build.output("logits", build.op("index_select", [table, tokens], (DType.F32, (1, 7)), attributes=(0, 0))[0])
    path = tmp_path / "successor.alc"
    path.write_bytes(build.program())
    return str(path)


def test_tokens_are_printed_up_to_a_stop(program: str) -> None:
    """As numbers with commas, or as JSON."""
    run = CliRunner().invoke(app, ["generate", program, "--tokens", "1,2", "--max-new-tokens", "3"])
    assert run.output.strip() == "3,4,5"
    run = CliRunner().invoke(app, ["generate", program, "--tokens", "2", "--stop", "5", "--json"])
    assert json.loads(run.output) == {"tokens": [3, 4]}


def test_a_prompt_that_is_no_numbers_is_refused(program: str) -> None:
    """By its name."""
    run = CliRunner().invoke(app, ["generate", program, "--tokens", "one"])
    assert run.exit_code == 2
