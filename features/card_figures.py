"""Formats a card's tables, and replaces the figures between its markers; the rest of a card is written by hand."""

from collections.abc import Sequence
from typing import Final

BEGIN: Final = "<!-- figures: begin (written by evaluate.py) -->"
END: Final = "<!-- figures: end -->"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; numbers to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, rule, *rows])


def replace_figures(card: str, new: str) -> str:
    """Return `card` with `new` between its two markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = card.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the card must hold the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
