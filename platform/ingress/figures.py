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
    """

    counted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    connections: int = 0

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
            return cls(int(fields["counted"]), refused, int(fields["connections"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("no figures of an ingress") from None
