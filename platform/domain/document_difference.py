"""Compares two policy documents as text, line by line.  Pure."""

import difflib
import json
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["COMPARED_LINES", "LINES_SHOWN", "Line", "compare_documents", "layout_document"]

COMPARED_LINES: Final = 4000  # of either text; comparing them takes a quarter of a second, ten times as many a minute
LINES_SHOWN: Final = 2000


@dataclass(frozen=True)
class Line:
    """A line of a difference: its first character is "+", "-", "@" or " ", and `kind` says the same in a word."""

    kind: Literal["added", "removed", "place", "same"]
    text: str


_KINDS: Final[dict[str, Literal["added", "removed", "place"]]] = {"+": "added", "-": "removed", "@": "place"}


def layout_document(document: bytes) -> str:
    """Return a signed document with line breaks; its meaning is the same, its bytes are not.

    Raises:
        ValueError: it is no JSON.
    """
    return _pretty(json.loads(document))


def compare_documents(old: bytes, new: bytes) -> list[Line] | None:
    """Return the lines that differ with two around each, at most `LINES_SHOWN`; features that are equal are left out.

    None: more than `COMPARED_LINES` are left of one of them.

    Raises:
        ValueError: one is no JSON.
    """
    before, after = json.loads(old), json.loads(new)
    for feature in before["features"].keys() & after["features"].keys():
        if before["features"][feature] == after["features"][feature]:
            del before["features"][feature], after["features"][feature]
    texts = [_pretty(one).splitlines() for one in (before, after)]
    if max(map(len, texts)) > COMPARED_LINES:
        return None
    lines = list(difflib.unified_diff(texts[0], texts[1], lineterm="", n=2))[2:]  # the headers name no files
    return [Line(_KINDS.get(line[:1], "same"), line) for line in lines[:LINES_SHOWN]]


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
