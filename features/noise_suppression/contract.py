"""Defines noise suppression for apps: a hop of sound in, the hop before it without noise out, and voice activity."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.noise_suppression.config import DEFAULT_VERSION, HOP
from numpy.typing import NDArray

PROGRAMS: Final = Path(__file__).parent / "programs"
ROUNDING: Final = 1e-4


def program_path(version: str) -> Path:
    """Return where the committed program of `version` lies, whether or not there is one."""
    return PROGRAMS / f"noise_suppression-{version}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseAnswer:
    """A hop without its noise.

    Attributes:
        samples: 256 of them, 16 kHz, about -1 to 1: of the hop that came before the one that was given.
        speech: probability that someone speaks in the given hop or the one before, 0 to 1.

    Raises:
        FieldError: there are not 256 finite samples, or the probability is none.
    """

    samples: tuple[float, ...]
    speech: float

    def __post_init__(self) -> None:
        if len(self.samples) != HOP:
            raise FieldError("samples", f"{HOP} numbers", len(self.samples))
        if not all(map(math.isfinite, self.samples)):
            raise FieldError("samples", "finite numbers", next(x for x in self.samples if not math.isfinite(x)))
        if not -ROUNDING <= self.speech <= 1 + ROUNDING:
            raise FieldError("speech", "0 to 1", self.speech)


class NoiseSuppression:
    """Noise suppression: 16 ms of sound in, `NoiseAnswer` out; a session is one stream.

    For sounds of any length and rate see `NoiseStream` and `files.convert`.
    """

    name: ClassVar[str] = "noise_suppression"
    summary: ClassVar[str] = "Takes the noise out of speech, 16 ms at a time, and says whether someone speaks."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[np.float32]]:
        """Return the program's input f32 [1, 256] of one line of JSON.

        Args:
            line: a list of 256 numbers, -1 to 1, 16 kHz, or an object whose "samples" is one; NaN and `null` count as
                0, as in the program.

        Raises:
            ValueError: it is neither; names what was expected and what was seen.
        """
        expected = f"expected JSON, a list of {HOP} numbers"
        try:
            document = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{expected}; {error}") from None
        except RecursionError:
            raise ValueError(f"{expected}; it is nested too deeply") from None
        values = document.get("samples") if isinstance(document, dict) else document
        if not isinstance(values, list) or len(values) != HOP:
            seen = f"a list of {len(values)}" if isinstance(values, list) else type(values).__name__
            raise ValueError(f"expected a list of {HOP} numbers, not {seen}")
        for place, value in enumerate(values):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"sample {place} must be a number or null, not {value!r:.40}")
        try:
            with np.errstate(over="ignore"):
                wide = np.array([np.nan if value is None else float(value) for value in values])
                return (wide.astype(np.float32)[None],)
        except OverflowError:
            raise ValueError("a sample is larger than any floating-point number") from None

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> NoiseAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: samples f32 [1, 256] and probability of speech f32 [1, 1].

        Raises:
            ValueError: the outputs are not these, or outside of the bounds of an answer.
        """
        shapes = [output.shape for output in outputs]
        if shapes != [(1, HOP), (1, 1)]:
            raise ValueError(
                f"noise_suppression expects samples [1, {HOP}] and speech [1, 1]; the program gave {shapes}"
            )
        return NoiseAnswer(samples=tuple(outputs[0][0].tolist()), speech=float(outputs[1][0, 0]))
