"""`alcove model generate` continues tokens, and says what it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from alcove.platform.cli.model import make_app
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
    run = CliRunner().invoke(make_app(), ["generate", program, "--tokens", "1,2", "--max-new-tokens", "3"])
    assert run.output.strip() == "3,4,5"
    run = CliRunner().invoke(make_app(), ["generate", program, "--tokens", "2", "--stop", "5", "--json"])
    assert json.loads(run.output) == {"tokens": [3, 4]}


def test_a_prompt_that_is_no_numbers_is_refused(program: str) -> None:
    """By its name."""
    run = CliRunner().invoke(make_app(), ["generate", program, "--tokens", "one"])
    assert run.exit_code == 2


def test_a_text_needs_a_program_with_a_tokenizer(program: str) -> None:
    """The message names the method that is missing; one kind of prompt is given, not both and not none."""
    run = CliRunner().invoke(make_app(), ["generate", program, "--text", "one"])
    assert run.exit_code != 0
    assert "no method 'tokenize'" in str(run.exception)
    for words in ([], ["--text", "one", "--tokens", "1"]):
        run = CliRunner().invoke(make_app(), ["generate", program, *words])
        assert run.exit_code == 2
        assert "either as --tokens or as --text" in " ".join(run.output.replace("│", "").split())


def test_a_text_is_continued_by_a_program_with_a_tokenizer(tmp_path: Path) -> None:
    """As text, or as JSON; bytes are tokens here, and each is followed by the next."""
    from alcove.runtime import Method, export
    from alcove.runtime.testing_tokens import byte_pair
    from alcove.runtime.tokenizers import Tokenizer
    from alcove.runtime.tokenizers.modules import Detokenize, Tokenize

    tokenizer = Tokenizer.from_parts(byte_pair(), {})

    class Successor(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot((tokens + 1) % 256, tokenizer.vocabulary).float()

    one = torch.ones(1, 1, dtype=torch.int64)
    methods = {
        "prefill": Method(Successor(), (one,)),
        "decode": Method(Successor(), (one,)),
        "tokenize": Method(Tokenize(tokenizer, 8), ("any",)),
        "detokenize": Method(Detokenize(tokenizer, 8), (torch.ones(1, dtype=torch.int64),)),
    }
    path = export(methods).save(tmp_path / "text.alc")
    words = ["generate", str(path), "--text", "a", "--max-new-tokens", "3"]
    assert CliRunner().invoke(make_app(), words).output.strip() == "bcd"
    assert json.loads(CliRunner().invoke(make_app(), [*words, "--json"]).output) == {"text": "bcd"}
