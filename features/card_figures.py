"""Formats a card's tables, and replaces the figures between its markers; the rest of a card is written by hand."""

from collections.abc import Sequence
from typing import Final

BEGIN: Final = "<!-- figures: begin (written by evaluate.py) -->"
END: Final = "<!-- figures: end -->"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; numbers to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, rule, *rows])


def replace_figures(card: str, new: str, block: str = "figures", writer: str = "evaluate.py") -> str:
    """Return `card` with `new` between the two markers of a block, which name the command that writes it.

    Raises:
        ValueError: a marker is missing.
    """
    first, last = (marker.replace("figures", block, 1).replace("evaluate.py", writer) for marker in (BEGIN, END))
    before, begin, rest = card.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the card must hold the lines {first!r} and {last!r}")
    return f"{before}{first}\n{new}\n{last}{after}"
