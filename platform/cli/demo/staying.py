"""Keeps the demo's servers up after the last step, and says how to sign in to the console, and for how long."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.platform.cli.output import say
from alcove.platform.services.auth.local import create_local_token
from alcove.registry.keys import write_private_file
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from alcove.platform.cli.demo.environment import Places
    from alcove.runtime.clock import Clock

__all__ = ["CONSOLE_TOKEN_S", "ConsoleDoor", "open_door", "stay_up"]

CONSOLE_TOKEN_S = 12 * 3600
"""For which the console's token holds at least: a day's work with the demo, and no key that lies about for longer."""


@dataclass(frozen=True)
class ConsoleDoor:
    """Where the console is, and what opens it.

    Attributes:
        url: its address.
        token_file: holds a token for this demo alone; nobody but its owner reads it.
        expires_at_s: when the token expires, by the demo's clock.
        clock: the demo's.
    """

    url: str
    token_file: Path
    expires_at_s: int
    clock: Clock = SYSTEM_CLOCK

    @property
    def words(self) -> str:
        """How to sign in, a sentence."""
        return f"{self.url}; sign in with the token in {self.token_file}"

    @property
    def expiry_words(self) -> str:
        """For how long one can still sign in, a sentence."""
        minutes = max(0, self.expires_at_s - self.clock.now_s()) // 60
        return f"The token expires in {minutes // 60} h {minutes % 60:02d} min."


def open_door(url: str, places: Places, clock: Clock) -> ConsoleDoor:
    """Make the token of the console.

    Args:
        url: of the console.
        places: the demo's folders; the server's database is there.
        clock: the demo's.  It begins behind the system's and moves forward by hours, but never beyond it, so the token
            expires `CONSOLE_TOKEN_S` after now by the system's clock.

    Raises:
        OSError: the token cannot be written.
    """
    lifetime_s = CONSOLE_TOKEN_S + max(0, SYSTEM_CLOCK.now_s() - clock.now_s())
    token, record = create_local_token(
        places.server, "operator", name="console of the demo", lifetime_s=lifetime_s, clock=clock
    )
    write_private_file(places.console_token, token.encode())
    return ConsoleDoor(url, places.console_token, record.expires_at_s, clock)


def stay_up(door: ConsoleDoor) -> None:
    """Say where the console is, and return at Ctrl-C (SIGINT) or SIGTERM."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    with suppress(KeyboardInterrupt):
        say(f"The console is at {door.words}. {door.expiry_words} Ctrl-C ends all and takes everything away.")
        threading.Event().wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    say("Ending.")
