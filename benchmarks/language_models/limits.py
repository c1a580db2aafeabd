"""Holds what models and the processes that time them share, in whichever environment."""

from importlib import import_module
from typing import Any, Final

POSITIONS: Final = 1024
"""Tokens that a cache holds."""
PROMPT: Final = 128
"""Tokens of a prompt."""
LENGTHS: Final = {"prefill": PROMPT, "decode": 1}
"""Tokens of a call, by method."""


def load_module(name: str) -> Any:
    """Return a module of the peers' environment, which checkers of types do not have."""
    return import_module(name)


def file_stem(name: str) -> str:
    """Return what the files of a model are called."""
    return name.split(maxsplit=1)[0].rstrip(",")
