"""Chooses the sizes up to which memory is planned, so that a short input does not pay for the longest."""

from itertools import product
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.runtime.compiler.capture import Symbol

BUCKET_STEP: Final = 4
"""Each bucket holds sizes up to this many times those of the one before."""
MAX_BUCKETS: Final = 16


def choose_buckets(symbols: "Sequence[Symbol]") -> list[dict[str, int]]:
    """Return upper bounds by factors of `BUCKET_STEP` down from each symbol's maximum, at most `MAX_BUCKETS` in all."""
    step = BUCKET_STEP
    while True:
        ladders = []
        for symbol in symbols:
            rungs = [symbol.maximum]
            while rungs[-1] // step >= max(symbol.minimum, 2):  # rules take shortcuts for a size of 1
                rungs.append(rungs[-1] // step)
            ladders.append(sorted(rungs))
        chosen = [dict(zip([s.name for s in symbols], sizes, strict=True)) for sizes in product(*ladders)]
        if len(chosen) <= MAX_BUCKETS:
            return chosen
        step *= 2
