"""Defines bandwidth estimation for apps: how an observation is read, and the answer that a program gives."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.bandwidth.config import (
    DEFAULT_VERSION,
    MAX_CAPACITY_BPS,
    MIDDLE,
    MIN_CAPACITY_BPS,
    OBSERVATION_SIZE,
    STATISTICS,
    WINDOWS,
)
from alcove.features.errors import FieldError
from numpy.typing import NDArray

PROGRAMS: Final = Path(__file__).parent / "programs"

MISSING: Final[NDArray[np.float32]] = np.full((1, OBSERVATION_SIZE), np.nan, np.float32)
"""The observation of a tick of which nothing is known: the last estimate stands, less certain."""


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of `version` lies, variant "int8" or "f32", whether or not there is one."""
    return PROGRAMS / f"bandwidth-{version}{'' if variant == 'int8' else '-' + variant}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthAnswer:
    """What a path can carry.

    Attributes:
        capacity_bps: what a call can send for long without loss or a growing queue, bit/s, on the careful side: below
            the middle of what is thought possible (`config.ModelConfig.estimate`).
        std_bps: standard deviation of what is thought possible, bit/s: on recorded traces about 68 % of the truths lie
            within one deviation of `middle_bps`; the card says how many by source.

    Raises:
        FieldError: one of them is no number, or out of its bounds.
    """

    capacity_bps: float
    std_bps: float

    def __post_init__(self) -> None:
        if not MIN_CAPACITY_BPS * 0.999 <= self.capacity_bps <= MAX_CAPACITY_BPS * 1.001:
            raise FieldError("capacity_bps", f"{MIN_CAPACITY_BPS:g} to {MAX_CAPACITY_BPS:g}", self.capacity_bps)
        if not 0 < self.std_bps < math.inf:
            raise FieldError("std_bps", "a finite number above 0", self.std_bps)

    @property
    def middle_bps(self) -> float:
        """The middle of what is thought possible, bit/s: `config.MIDDLE` deviations above the careful estimate."""
        return min(self.capacity_bps + MIDDLE * self.std_bps, MAX_CAPACITY_BPS)


class Bandwidth:
    """Bandwidth estimation: the observation of one tick (60 ms) in, `BandwidthAnswer` out; a session is one call.

    An observation with a value that cannot be (NaN, negative, a share above 1; `config.STATISTICS`) counts as missing
    as a whole: the answer is the previous estimate with a standard deviation that grows, and what the session remembers
    otherwise stays as it was.  For pauses see `BandwidthStream`.
    """

    name: ClassVar[str] = "bandwidth"
    summary: ClassVar[str] = "Estimates how many bits a second a call can send."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[np.float32]]:
        """Return the program's input f32 [1, 150] of one line of JSON.

        Args:
            line: a list of 150 numbers, or an object whose "observation" is one, or an object with a list of 10 numbers
                for each statistic of `config.STATISTICS` by its name (5 short windows, 5 long ones, the newest first);
                `null` and NaN are missing values.

        Raises:
            ValueError: it is none of these; names what was expected and what was seen.
        """
        try:
            document = json.loads(line)
        except ValueError as error:
            raise ValueError(f"expected JSON, a list of {OBSERVATION_SIZE} numbers; {error}") from None
        except RecursionError:
            raise ValueError(f"expected JSON, a list of {OBSERVATION_SIZE} numbers; it is nested too deeply") from None
        return (_observation(document),)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> BandwidthAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: capacity and standard deviation, bit/s, both f32 [1, 1].

        Raises:
            ValueError: the outputs are not these, or outside of the bounds of an answer.
        """
        shapes = [output.shape for output in outputs]
        if shapes != [(1, 1), (1, 1)]:
            raise ValueError(f"bandwidth expects capacity and deviation, both [1, 1]; the program gave {shapes}")
        return BandwidthAnswer(capacity_bps=float(outputs[0][0, 0]), std_bps=float(outputs[1][0, 0]))


def _observation(document: object) -> NDArray[np.float32]:
    if isinstance(document, dict):
        values = document.get("observation")
        if values is None:
            values = [value for known in STATISTICS for value in _of_statistic(document, known.name)]
    else:
        values = document
    if not isinstance(values, list) or len(values) != OBSERVATION_SIZE:
        seen = f"a list of {len(values)}" if isinstance(values, list) else type(values).__name__
        raise ValueError(f"expected a list of {OBSERVATION_SIZE} numbers, not {seen}")
    for place, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"value {place} of the observation must be a number or null, not {value!r:.40}")
    try:
        # What float32 cannot hold is no statistic: it becomes infinite, and so counts as missing.
        with np.errstate(over="ignore"):
            wide = np.array([np.nan if value is None else float(value) for value in values])
            return wide.astype(np.float32)[None]
    except OverflowError:
        raise ValueError("a value of the observation is larger than any floating-point number") from None


def _of_statistic(document: dict[str, object], name: str) -> list[Any]:
    values = document.get(name)
    if not isinstance(values, list) or len(values) != 2 * WINDOWS:
        raise ValueError(
            f"expected {2 * WINDOWS} numbers for {name!r} (5 short windows, 5 long ones), not {values!r:.40}"
        )
    return values
