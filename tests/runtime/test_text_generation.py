"""A program that holds its tokenizer and its language model continues a text."""

from itertools import pairwise

import pytest
import torch
from alcove.runtime import ArgumentError, Method, Model, export, generate, generate_text, load
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing_methods import prefill_and_decode
from alcove.runtime.testing_tokens import byte_pair
from alcove.runtime.tokenizers import Tokenizer
from alcove.runtime.tokenizers.modules import Detokenize, Tokenize
from torch import Tensor, nn

TOKENIZER = Tokenizer.from_parts(byte_pair(), {}, drops_first_space=True)
NEXT = "the😀é!"


class Next(nn.Module):
    """Gives the byte that follows a byte in NEXT; the beginning after any other."""

    def __init__(self) -> None:
        super().__init__()
        data = NEXT.encode()
        table = torch.zeros(TOKENIZER.vocabulary, TOKENIZER.vocabulary)
        table[:, data[0]] = 1.0
        for at, follower in pairwise(data):
            table[at, follower] = 2.0
        self.register_buffer("table", table)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits f32 [1, n, vocabulary]."""
        return self.get_buffer("table")[tokens]


class Write(Detokenize):
    """As `Detokenize`, with plain tuples."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        """Return both results."""
        return tuple(super().forward(ids))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def program() -> bytes:
    """All four methods."""
    step = Next().eval()
    return bytes(
        export(
            {
                "prefill": Method(step, (torch.ones(1, 4, dtype=torch.int64),)),
                "decode": Method(step, (torch.ones(1, 1, dtype=torch.int64),)),
                "tokenize": Method(Tokenize(TOKENIZER, 32), ("any",)),
                "detokenize": Method(Write(TOKENIZER, 8), (torch.ones(1, dtype=torch.int64),)),
            }
        )
    )


@pytest.fixture
def model(program: bytes) -> Model:
    """The program, opened."""
    return load(program)


def test_a_text_is_continued_in_whole_characters(model: Model) -> None:
    """Four tokens of an emoji are one piece."""
    pieces = list(generate_text(model, "x", 10))
    assert "".join(pieces) == NEXT
    assert "😀" in pieces


def test_a_text_is_continued_as_its_tokens_are(model: Model) -> None:
    """What `generate` yields for the same tokens, written out; a character that is cut off is shown as such."""
    for count in range(1, 11):
        ids = list(generate(model, TOKENIZER.encode("the x"), count))
        assert "".join(generate_text(model, "the x", count)) == bytes(ids).decode(errors="replace")


def test_stop_ends_the_text(model: Model) -> None:
    """The stop token is not written."""
    assert "".join(generate_text(model, "x", 50, stop={0xF0})) == "the"


def test_a_program_without_a_tokenizer_says_so() -> None:
    """By the method that is missing."""
    with pytest.raises(ArgumentError, match="no method 'tokenize', so it takes tokens and no text; there are prefill"):
        generate_text(load(write_program(prefill_and_decode())), "x", 3)
