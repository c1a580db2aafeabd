"""Defines what is raised where a file in the ONNX format cannot become a module."""

from collections.abc import Sequence
from typing import Final

SHOWN: Final = 40
"""Problems that a message lists; further ones are counted."""
CUT: Final = "cut the graph before it: --outputs NAME,NAME"
"""Ends a problem's words where a part of the graph can be imported."""


class OnnxError(ValueError):
    """A file is damaged, its inputs are not fixed, or it holds what no module here computes.

    Attributes:
        problems: each with the operator, its version and its node, in order.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        listed = [*self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            listed.append(f"and {len(self.problems) - SHOWN} more")
        super().__init__(f"{message} {'; '.join(listed)}" if listed else message)


class UnsupportedError(Exception):
    """A rule does not take its node; the message says why, the builder adds which node it is."""
