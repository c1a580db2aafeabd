"""Starts Python modules in processes of their own, and speaks to them in lines."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANSWER_TIMEOUT_S = 120  # a loaded machine may be slow; a process that never answers must not hold the demo
STOP_TIMEOUT_S = 10
PORTS = 20_000, 32_000  # connections that go out have higher ones


class DemoError(Exception):
    """A step of the demo did not hold; the message says what was expected and what was seen."""


def find_port() -> int:
    """Return a port of loopback that was free a moment ago, of those that the system gives to nobody by itself."""
    while True:
        port = PORTS[0] + secrets.randbelow(PORTS[1] - PORTS[0])
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def start_module(module: str, arguments: Sequence[str], log: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a module that tells by a line of JSON that it answers; return the process, and the line.

    Args:
        module: run as `python -m`.
        arguments: of it.
        log: the file to which its standard error is added.

    Raises:
        DemoError: it ended, or said nothing for too long.
    """
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    line = read_line(process)
    if not line:
        end_process(process)
        raise DemoError(f"{log.stem} did not start:\n{log.read_text(encoding='utf-8')}")
    ready: dict[str, Any] = json.loads(line)
    return process, ready


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process writes; empty if it ends, or is ended for saying nothing for too long."""
    if process.stdout is None:
        return ""
    watchdog = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        return process.stdout.readline()
    finally:
        watchdog.cancel()


def end_process(process: subprocess.Popen[str]) -> None:
    """Ask a process to end, and wait; kill it where it takes too long."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()
