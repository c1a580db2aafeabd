"""Defines the figures of the devices' process: sums since its start, without personal data."""

import json
from dataclasses import asdict, dataclass, field
from typing import Self

__all__ = ["IngressFigures"]


@dataclass(frozen=True)
class IngressFigures:
    """Sums since the start of the process.

    Attributes:
        counted: reports counted.
        refused: bodies and connections refused, by reason.
        connections: open at this moment.
        check_ins: reads of the timestamp, by what the device got (`check_ins.OUTCOMES`).
    """

    counted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    check_ins: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return what a line of `to_json` says.

        Raises:
            ValueError: it is no such line.
        """
        try:
            fields = json.loads(line)
            refused = {str(reason): int(count) for reason, count in fields["refused"].items()}
            check_ins = {str(outcome): int(count) for outcome, count in fields["check_ins"].items()}
            return cls(int(fields["counted"]), refused, int(fields["connections"]), check_ins)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("no figures of an ingress") from None
