"""Defines the report of a program's checks, as processes hand it to each other."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeVar

from alcove.registry.errors import ProgramRefusedError
from alcove.registry.program_validation import Parity, ProgramSummary, ProgramValidator

__all__ = ["ProgramReport"]

_Figure = TypeVar("_Figure")


@dataclass(frozen=True)
class ProgramReport:
    """Results of the checks of one program; a text in the place of a figure says why there is none.

    Attributes:
        parity: what the certificate's samples gave.
        summary: what the program consists of.
        latency_ms: median time of a run.
    """

    parity: Parity | str
    summary: ProgramSummary | str
    latency_ms: float | str

    @classmethod
    def by(cls, validator: ProgramValidator, variant: str, program: bytes) -> Self:
        """Return what an examiner says of a program."""

        def figure(ask: Callable[[str, bytes], _Figure]) -> _Figure | str:
            try:
                return ask(variant, program)
            except ProgramRefusedError as error:
                return error.reason

        return cls(figure(validator.parity), figure(validator.summary), figure(validator.latency_ms))

    @classmethod
    def of_refusal(cls, reason: str) -> Self:
        """Return what is said of a program that could not be examined."""
        return cls(reason, reason, reason)

    @classmethod
    def from_json(cls, fields: Any) -> Self:
        """Return what another process said; KeyError, TypeError or ValueError where it is nonsense."""
        parity, summary, latency = (fields[name] for name in ("parity", "summary", "latency_ms"))
        return cls(
            parity if isinstance(parity, str) else Parity(**parity),
            summary if isinstance(summary, str) else ProgramSummary(**summary),
            latency if isinstance(latency, str) else float(latency),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads: without the weights' digests, which nobody asks for here."""
        lean = self.summary if isinstance(self.summary, str) else replace(self.summary, weights={})
        return asdict(replace(self, summary=lean))
