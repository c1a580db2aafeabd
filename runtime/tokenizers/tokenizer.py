"""Provides a tokenizer as a value: its table, and what it does to a text."""

import codecs
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from alcove.runtime import _native
from alcove.runtime.tokenizers.table import Parts, write_table

MOST_TOKENS = 2**20
"""Of one text; the format's own cap."""
MOST_BYTES = 2**18
"""Of one text, normalized: the op budget of a run admits no more."""
BYTES_PER_TOKEN = 16
"""How much of a text is read for each token that has room: words of four bytes, four times over."""


@dataclass(frozen=True)
class Tokenizer:
    """Divides text into tokens.

    Attributes:
        table: what the operators `tokenize` and `detokenize` read.
        vocabulary: number of tokens; ids are below it.
        special: ids by name, of tokens that no text spells, such as "[CLS]" and "</s>".
        drops_first_space: whether the space before a text that `decode` would begin with was not written.
    """

    table: bytes
    vocabulary: int
    special: dict[str, int]
    drops_first_space: bool = False

    @classmethod
    def from_parts(cls, parts: Parts, special: dict[str, int], *, drops_first_space: bool = False) -> Self:
        """Return the tokenizer that is described by all its parts."""
        return cls(write_table(parts), len(parts.texts), special, drops_first_space)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, prefix: Sequence[str] | None = None, suffix: Sequence[str] | None = None
    ) -> Self:
        """Read a tokenizer: `tokenizer.json` of Hugging Face's tokenizers, or a model of SentencePiece.

        Args:
            path: a file; one that ends in ".json" is the former.
            prefix: names of tokens to put before each text, such as "<s>"; None takes what the file says.
            suffix: names of tokens to put behind.

        Raises:
            UnsupportedTokenizerError: the file is neither, or the tokenizer does what no table can say.
            OSError: the file can't be read.
        """
        data = Path(path).read_bytes()
        if str(path).endswith(".json"):
            from alcove.runtime.tokenizers.hugging_face import read_json  # noqa: PLC0415 - an app needs neither

            parts, special, drops = read_json(data, prefix, suffix)
        else:
            from alcove.runtime.tokenizers.sentence_piece import read_model  # noqa: PLC0415 - likewise

            parts, special, drops = read_model(data, prefix, suffix)
        return cls.from_parts(parts, special, drops_first_space=drops)

    def encode(self, text: str, capacity: int = 4096, max_bytes: int | None = None) -> list[int]:
        """Return the tokens of a text, as a program does.

        Args:
            text: any text; it holds no special tokens, whatever it spells.
            capacity: most tokens; the text is cut for them, tokens of the template are not.
            max_bytes: how much of the text is read, normalized and in UTF-8; None reads 16 bytes for each token.

        Raises:
            InvalidTextError: a surrogate stands alone.
            InputError: a number is out of range.
        """
        most = min(capacity * BYTES_PER_TOKEN, MOST_BYTES) if max_bytes is None else max_bytes
        ids, count = _native.tokenize(text, self.table, capacity, max(most, 1))
        found: list[int] = ids[:count].tolist()
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens; bytes that are no character are U+FFFD.

        Raises:
            InputError: an id is outside the vocabulary.
        """
        text = _native.detokenize(list(ids), self.table).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.drops_first_space else text

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens as it comes: each piece as soon as its characters are whole."""
        decoder, is_first = codecs.getincrementaldecoder("utf-8")("replace"), self.drops_first_space
        for each in ids:
            text = decoder.decode(_native.detokenize([each], self.table))
            if is_first and text:
                text, is_first = text.removeprefix(" "), False
            if text:
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest
