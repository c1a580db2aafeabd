"""Keeps the demo's servers up after the last step, and says how to sign in to the console."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.platform.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

__all__ = ["ConsoleDoor", "stay_up"]


@dataclass(frozen=True)
class ConsoleDoor:
    """Where the console is, and what opens it.

    Attributes:
        url: its address.
        token_file: holds a token for this demo alone; nobody but its owner reads it.
    """

    url: str
    token_file: Path

    @property
    def words(self) -> str:
        """How to sign in, a sentence."""
        return f"{self.url}; sign in with the token in {self.token_file}"


def stay_up(door: ConsoleDoor) -> None:
    """Say where the console is, and return at Ctrl-C (SIGINT) or SIGTERM."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    with suppress(KeyboardInterrupt):
        say(f"The console is at {door.words}. Ctrl-C ends all and takes everything away.")
        threading.Event().wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    say("Ending.")
