"""Measures this machine's best rates in some tenths of a second; nothing is kept between processes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from alcove.runtime import _native

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Machine", "calibrate"]

BLOCKS: Final = tuple(1 << bits for bits in (14, 17, 19, 21, 23, 26))
"""Bytes of the blocks that are read, from what fits the first cache to what fits none: 16 KiB … 64 MiB."""
ROUND_NS: Final = 1_000_000
ROUNDS: Final = 8
"""The best of these runs counts: other processes can only slow a run down."""


@dataclass(frozen=True)
class Machine:
    """Rates of as many threads as asked for, by one instruction set.

    Attributes:
        isa: the instruction set.
        threads: how many computed at once.
        f32_gflops: float operations a nanosecond, a multiply-add being two.
        i8_gops: the same of int8 products.
        reads: (bytes of a block, bytes a nanosecond that are read of it), by rising blocks.
        clock_ns: what it takes to read the clock.
    """

    isa: str
    threads: int
    f32_gflops: float
    i8_gops: float
    reads: tuple[tuple[int, float], ...]
    clock_ns: float

    def peak(self, arithmetic: str) -> float:
        """Return operations a nanosecond of "f32" or "i8"."""
        return self.i8_gops if arithmetic == "i8" else self.f32_gflops

    def bandwidth(self, size_bytes: int) -> float:
        """Return bytes a nanosecond, read of the smallest measured block of at least this size."""
        return next((rate for block, rate in self.reads if size_bytes <= block), self.reads[-1][1])


def calibrate(threads: int = 1) -> Machine:
    """Measure them, in about a fifth of a second.

    Args:
        threads: how many compute at once, 1 to 16.

    Raises:
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        MemoryError: the system gave no block to read.
    """
    counts: list[Callable[[int], float]] = [
        partial(_native.peak_rate, "f32"),
        partial(_native.peak_rate, "i8"),
        *(partial(_native.read_rate, block) for block in BLOCKS),
    ]
    best = [0.0] * len(counts)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):  # by turns, so that what disturbs one count does not disturb all of its counts
            rates = [sum(pool.map(count, [ROUND_NS] * threads)) for count in counts]
            best = [max(one, other) for one, other in zip(best, rates, strict=True)]
    f32, i8, *reads = best
    return Machine(
        isa=_native.isa(),
        threads=threads,
        f32_gflops=2 * f32,
        i8_gops=2 * i8,
        reads=tuple(zip(BLOCKS, reads, strict=True)),
        clock_ns=min(_native.clock_ns() for _ in range(ROUNDS)),
    )
