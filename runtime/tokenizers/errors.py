"""Errors of tokenizers that are read from files."""

from collections.abc import Sequence

from alcove.runtime.errors import AlcoveRuntimeError


class UnsupportedTokenizerError(AlcoveRuntimeError):
    """A file holds a tokenizer that can't be read, or does what no table can say.

    Attributes:
        reasons: all that is not supported, each with the nearest that is.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("this tokenizer can't be read: " + "; ".join(reasons))
        self.reasons = tuple(reasons)
