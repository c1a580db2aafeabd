"""Replaces the process that checks a program by a hostile one: it does what the variant's name says.

The confinement is the real one.  Each deed says what came of it, if it can.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from alcove.platform.services.validation import child, jobs
from alcove.runtime.cancellation import Alarm

__all__ = ["DEEDS", "ELSEWHERE"]

ELSEWHERE: Final = "elsewhere"
"""Every deed that only tries, done by the other thread, which began before the process was confined."""


def _loop() -> str:
    while True:
        pass


def _sleep() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def _allocate() -> str:
    held = []
    while True:
        held.append(np.ones(1_000_000))


def _allocate_at_once() -> str:
    return str(len(bytearray(1 << 40)))


def _talk() -> str:
    while True:
        sys.stdout.write("x" * 65_536)


def _talk_nonsense() -> str:
    sys.stdout.write('["no object"]\n')
    sys.stdout.flush()
    return _loop()


def _talk_deeply() -> str:
    sys.stdout.write("[" * 500_000 + "\n")
    sys.stdout.flush()
    return _loop()


def _die() -> str:
    os._exit(0)


def _crash() -> str:
    ctypes.string_at(1)
    return "survived"


def _attempt(deed: Callable[[], object]) -> Callable[[], str]:
    """Return a deed that says what stopped it."""

    def attempt() -> str:
        try:
            deed()
        except (OSError, RuntimeError, ValueError) as error:
            return f"stopped: {error}"
        return "done"

    return attempt


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


DEEDS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "loop": _loop,
        "sleep": _sleep,
        "allocate": _allocate,
        "allocate-at-once": _allocate_at_once,
        "talk": _talk,
        "talk-nonsense": _talk_nonsense,
        "talk-deeply": _talk_deeply,
        "die": _die,
        "crash": _crash,
        "read-a-file": _attempt(lambda: Path("/etc/passwd").read_bytes()),
        "write-a-file": _attempt(lambda: Path("/tmp/alcove-was-here").write_text("x", encoding="ascii")),  # noqa: S108
        "list-a-folder": _attempt(lambda: os.listdir("/")),  # noqa: PTH208
        "look-at-a-file": _attempt(lambda: Path("/etc/passwd").stat()),
        "remove-a-file": _attempt(lambda: Path("/tmp/alcove-is-not-here").unlink()),  # noqa: S108
        "write-what-is-open": _attempt(lambda: os.write(_open_file(), b"x")),
        "open-a-socket": _attempt(lambda: socket.socket(socket.AF_INET)),
        "open-a-local-socket": _attempt(lambda: socket.socket(socket.AF_UNIX)),
        "make-a-pair-of-sockets": _attempt(socket.socketpair),
        "fork": _attempt(_fork),
        "run-a-shell": _attempt(lambda: subprocess.run(["/bin/true"], check=True)),
        "kill-the-parent": _attempt(lambda: os.kill(os.getppid(), signal.SIGKILL)),
        "signal-the-parent": _attempt(lambda: _signal(_PARENT)),
        "signal-everybody": _attempt(lambda: _signal(*range(2, os.getpid()))),
        "raise-a-limit": _attempt(lambda: __import__("resource").setrlimit(0, (-1, -1))),
        "trace-the-parent": _attempt(lambda: _call(101)),
        "become-another": _attempt(lambda: os.setuid(12345)),
        "start-a-thread": _attempt(lambda: threading.Thread(target=int).start()),
    }
)


def _open_file() -> int:
    return max(_DESCRIPTORS.values())


def _call(number: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(number, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _signal(*processes: int) -> None:
    """Send nothing (signal 0) to the first of these that takes it."""
    if all(_LIBRARY.syscall(_TGKILL, process, process, 0) < 0 for process in processes):
        raise OSError(ctypes.get_errno(), "refused: not permitted")


_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_TGKILL: Final[int] = 131 if os.uname().machine == "aarch64" else 234
_PARENT: Final[int] = os.getppid()
_DESCRIPTORS: dict[str, int] = {}


def _answer(
    kind: str,  # noqa: ARG001
    job: Mapping[str, Any],
    read: Callable[[str], bytes],  # noqa: ARG001
    alarm: Alarm | None = None,
) -> dict[str, Any]:
    _DESCRIPTORS.update(job["blobs"])
    name = job["variant"].replace("_", "-")
    if name != ELSEWHERE or alarm is None:
        return {"refused": DEEDS[name]()}
    answers: SimpleQueue[str] = SimpleQueue()

    def try_all() -> None:
        attempt = {name: deed() for name, deed in DEEDS.items() if deed.__qualname__.startswith("_attempt")}
        answers.put(json.dumps(attempt))

    with alarm.after(0, try_all):
        return {"refused": answers.get(timeout=30)}


if __name__ == "__main__":
    jobs.answer = _answer
    sys.exit(child.main())
