"""Provides tokenizers as torch modules: text in, tokens out, and back, inside an exported program.

`alcove::tokenize` and `alcove::detokenize` are registered with torch as custom operators: eager calls run the same
native code as a program on a device.
"""

from typing import NamedTuple

import torch
from alcove.runtime import _native
from alcove.runtime.tokenizers.tokenizer import BYTES_PER_TOKEN, MOST_BYTES, MOST_TOKENS, Tokenizer
from torch import Tensor, nn


@torch.library.custom_op("alcove::tokenize", mutates_args=(), device_types="cpu")
def tokenize(utf8: Tensor, table: Tensor, capacity: int, max_bytes: int) -> tuple[Tensor, Tensor]:
    """Return the tokens of a text.

    Args:
        utf8: uint8 [bytes], the text in UTF-8; may be empty.
        table: uint8 [bytes], of the tokenizer.
        capacity: most tokens, those of the template included, >= 1.
        max_bytes: of the normalized text; what is beyond is not read.

    Returns:
        int64 [capacity], padded behind the last token; int64 [1], how many are in use.

    Raises:
        InvalidTextError: the bytes that were read are not UTF-8.
        InputError: the table is none.

    Source: kernels/microkernels/tokenize/README.md.
    """
    ids, count = _native.tokenize(utf8.numpy().tobytes(), table.numpy().tobytes(), capacity, max_bytes)
    return torch.from_numpy(ids), torch.tensor([count])


@tokenize.register_fake
def _(utf8: Tensor, table: Tensor, capacity: int, max_bytes: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Tell a tracer what comes out."""
    return utf8.new_empty((capacity,), dtype=torch.int64), utf8.new_empty((1,), dtype=torch.int64)


@torch.library.custom_op("alcove::detokenize", mutates_args=(), device_types="cpu")
def detokenize(ids: Tensor, table: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Return the bytes that tokens stand for.

    Args:
        ids: int64 [tokens].
        table: uint8 [bytes], of the tokenizer.
        capacity: most bytes, >= 1; a token whose bytes have no room, and what follows, is left out.

    Returns:
        uint8 [capacity], zeros behind the text; int64 [1], how many are in use.

    Raises:
        InputError: an id is outside the vocabulary, or the table is none.
    """
    text = _native.detokenize(ids.tolist(), table.numpy().tobytes())
    while len(text) > capacity:
        ids = ids[:-1]
        text = _native.detokenize(ids.tolist(), table.numpy().tobytes())
    bytes_ = torch.zeros(capacity, dtype=torch.uint8)
    bytes_[: len(text)] = torch.frombuffer(bytearray(text or b"\0"), dtype=torch.uint8)[: len(text)]
    return bytes_, torch.tensor([len(text)])


@detokenize.register_fake
def _(ids: Tensor, table: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Tell a tracer what comes out."""
    return table.new_empty((capacity,)), ids.new_empty((1,))


class Tokens(NamedTuple):
    """Of a text: `ids` int64 [capacity], padded, and `length` int64 [1], how many are in use."""

    ids: Tensor
    length: Tensor


class Tokenize(nn.Module):
    """Text to tokens; has no parameters, its table is a buffer.

    Args:
        tokenizer: what divides the text.
        capacity: most tokens of one text, those of the template included; it bounds time and memory.
        max_bytes: how much of a text is read, normalized and in UTF-8; None reads 16 bytes for each token.

    Raises:
        ValueError: the capacity is out of [1, 2**20], or max_bytes out of [1, 2**18].
    """

    def __init__(self, tokenizer: Tokenizer, capacity: int, max_bytes: int | None = None) -> None:
        super().__init__()
        most = min(capacity * BYTES_PER_TOKEN, MOST_BYTES) if max_bytes is None else max_bytes
        if not 1 <= capacity <= MOST_TOKENS:
            raise ValueError(f"capacity must be in [1, {MOST_TOKENS}], not {capacity}")
        if not 1 <= most <= MOST_BYTES:
            raise ValueError(f"max_bytes must be in [1, {MOST_BYTES}], not {most}")
        self.capacity, self.max_bytes = capacity, most
        self.register_buffer("table", torch.frombuffer(bytearray(tokenizer.table), dtype=torch.uint8), persistent=False)

    def forward(self, utf8: Tensor) -> Tokens:
        """Return the tokens of the uint8 [bytes] `utf8`; in an exported program of a `str`."""
        return Tokens(*tokenize(utf8, self.get_buffer("table"), self.capacity, self.max_bytes))

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"capacity={self.capacity}, max_bytes={self.max_bytes}"


class Text(NamedTuple):
    """Of tokens: `utf8` uint8 [capacity], zeros behind the text, and the `size` int64 [1] of the text in bytes."""

    utf8: Tensor
    size: Tensor


class Detokenize(nn.Module):
    """Tokens to the bytes of their text, which need not be whole characters; has no parameters.

    Args:
        tokenizer: what divided the text.
        capacity: most bytes, >= 1.

    Raises:
        ValueError: the capacity is not positive.
    """

    def __init__(self, tokenizer: Tokenizer, capacity: int) -> None:
        super().__init__()
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.capacity = capacity
        self.register_buffer("table", torch.frombuffer(bytearray(tokenizer.table), dtype=torch.uint8), persistent=False)

    def forward(self, ids: Tensor) -> Text:
        """Return the text of int64 [tokens] `ids`."""
        return Text(*detokenize(ids, self.get_buffer("table"), self.capacity))
