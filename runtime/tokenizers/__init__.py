"""Turns text into tokens and back, the same way inside a program and outside it.

    tokenizer = Tokenizer.from_file("tokenizer.json")      # or a model of SentencePiece
    tokenizer.encode("Wo ist der Bahnhof?")                # [101, 2, ...]
    tokenizer.decode(ids)

`alcove.runtime.tokenizers.modules` has the torch modules that make it part of a program.
"""

from alcove.runtime.tokenizers.errors import UnsupportedTokenizerError
from alcove.runtime.tokenizers.tokenizer import Tokenizer

__all__ = ["Tokenizer", "UnsupportedTokenizerError"]
