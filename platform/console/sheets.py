"""Defines sheets: the fields of a long form, what was written in each, and what is wrong with it.

A sheet keeps every word that was written.  Reading a field gives a value or notes a problem, a sentence that names the
field, its bound and what was seen; all problems of a sheet are shown at once.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

__all__ = ["Input", "Section", "Sheet"]

Kind = Literal["text", "number", "choice", "words", "tick", "range"]
LENGTHS: Final = {"text": 100, "number": 32, "choice": 200, "words": 500, "tick": 8, "range": 32}
"""Characters of a field of each kind, where it does not say otherwise."""
SEEN: Final = 40  # characters of a wrong value that a problem repeats
_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,15}", re.ASCII)


@dataclass(frozen=True)
class Input:
    """A field.

    Attributes:
        name: in the form.
        title: what people read.
        help: what may be written there, and what it does.
        kind: "text", "number", "choice", "words" (several lines), "tick", or "range" (a slider beside a number).
        unit: of a number.
        options: (value, words) of a choice.
        suggestions: texts to choose from that need not be taken.
        default: what stands there at first.
        length: most characters; 0: as the kind has it.
        low: least number.
        high: largest number.
        is_required: whether a form without it is refused.
        is_logarithmic: whether the slider of a range moves by factors.
        live: address that says, while the field is written, what it means; "": none does.
    """

    name: str
    title: str
    help: str = ""
    kind: Kind = "text"
    unit: str = ""
    options: Sequence[tuple[str, str]] = ()
    suggestions: Sequence[str] = ()
    default: str = ""
    length: int = 0
    low: float = 0.0
    high: float = math.inf
    is_required: bool = False
    is_logarithmic: bool = False
    live: str = ""

    @property
    def bound_length(self) -> int:
        """Most characters that may be written."""
        return self.length or LENGTHS[self.kind]


@dataclass(frozen=True)
class Section:
    """A part of a long form.

    Attributes:
        name: its id on the page.
        title: what people read.
        intro: what it is about, a sentence or two.
        rows: names of fields that stand beside each other.
        is_folded: whether it is closed until somebody opens it.
        more: (step, words) of a button that adds a row; None: it has none.
        part: what else it shows: a name that the template knows; "": nothing.
        rare: (words, rows) of fields that are closed until somebody opens them; None: there are none.
    """

    name: str
    title: str
    intro: str
    rows: Sequence[Sequence[str]]
    is_folded: bool = False
    more: tuple[str, str] | None = None
    part: str = ""
    rare: tuple[str, Sequence[Sequence[str]]] | None = None


class Sheet:
    """Fields with what was written in them.

    Args:
        inputs: the fields.
        given: what was written; a name that is no field's is left out.  None: nothing yet, and defaults are shown.

    Attributes:
        inputs: by name.
        values: what stands in each field.
        problems: by the names of fields, in the order in which they were found.
    """

    def __init__(self, inputs: Iterable[Input], given: Mapping[str, str] | None = None) -> None:
        self.inputs = {field.name: field for field in inputs}
        self.values = {
            name: field.default if given is None else given.get(name, "") for name, field in self.inputs.items()
        }
        self.problems: dict[str, str] = {}
        for name, field in self.inputs.items():
            length = len(self.values[name])
            if length > field.bound_length:
                self.note(name, f"{field.title}: at most {field.bound_length} characters; there are {length}.")

    @property
    def used(self) -> frozenset[str]:
        """Names of fields that hold something else than at first, or something wrong."""
        return frozenset(self.problems).union(
            name for name, field in self.inputs.items() if self.values[name] != field.default
        )

    def note(self, name: str, problem: str) -> None:
        """Note what is wrong with a field; the first word on it stays."""
        self.problems.setdefault(name, problem)

    def expect(self, name: str, bound: str) -> None:
        """Note that a field does not hold what it should."""
        seen = self.values.get(name, "").strip()
        shown = seen if len(seen) <= SEEN else f"{seen[:SEEN]}… ({len(seen)} characters)"
        self.note(name, f"{self.inputs[name].title}: expected {bound}, got {shown or 'nothing'}.")

    def text(self, name: str) -> str:
        """Return what was written, without the space around it; "" where it is no such text."""
        field, text = self.inputs[name], self.values[name].strip()
        if field.is_required and not text:
            self.note(name, f"{field.title}: this is needed.")
        if name in self.problems:
            return ""
        if field.kind == "choice" and text not in {value for value, _ in field.options}:
            self.expect(name, f"one of {', '.join(words for _, words in field.options)}")
            return ""
        return text

    def is_ticked(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return self.values[name] != ""

    def number(self, name: str) -> float | None:
        """Return a number within the field's bounds; None where nothing was written, or no such number."""
        field, text = self.inputs[name], self.text(name).replace(",", ".")
        if not text:
            return None
        if _NUMBER.fullmatch(text) is None or not field.low <= float(text) <= field.high:
            self.expect(name, f"a number {_span(field)}")
            return None
        return float(text)

    def whole(self, name: str) -> int | None:
        """Return a whole number within the field's bounds; spaces between digits count for nothing."""
        field, text = self.inputs[name], "".join(self.text(name).split())
        if not text:
            return None
        if _WHOLE.fullmatch(text) is None or not field.low <= int(text) <= field.high:
            self.expect(name, f"a whole number {_span(field)}")
            return None
        return int(text)

    def part(self, name: str) -> float | None:
        """Return a number of percent as a part of 1."""
        found = self.number(name)
        return None if found is None else float(Decimal(repr(found)) / 100)

    def basis_points(self, name: str) -> int | None:
        """Return a number of percent in 1/10 000."""
        found = self.number(name)
        if found is None:
            return None
        points = Decimal(repr(found)) * 100
        if points != int(points):
            self.expect(name, "a share in steps of 0.01 %")
            return None
        return int(points)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return the numbers of a list with commas; () where nothing was written, or no such list."""
        parts = [part.strip() for part in self.text(name).split(",") if part.strip()]
        if not all(_NUMBER.fullmatch(part) for part in parts):
            self.expect(name, "numbers with commas between them, such as 10, 20, 40")
            return ()
        return tuple(map(float, parts))

    def pairs(self, name: str) -> dict[str, str]:
        """Return the values by names of lines NAME=VALUE."""
        found: dict[str, str] = {}
        for line in self.text(name).replace(",", "\n").splitlines():
            left, equals, right = (part.strip() for part in line.partition("="))
            if line.strip() and not (equals and left and right and left not in found):
                self.expect(name, "lines NAME=VALUE, each name once")
                return {}
            if line.strip():
                found[left] = right
        return found


def _span(field: Input) -> str:
    low, high = f"{field.low:.15g}", f"{field.high:.15g}"
    unit = f" {field.unit}" if field.unit else ""
    return f"of at least {low}{unit}" if math.isinf(field.high) else f"from {low} to {high}{unit}"
