"""Runs a leader and a helper as processes with real sockets and files of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from alcove.platform.aggregator.provisioning import create_pair

__all__ = ["PATIENCE_S", "AggregatorProcesses"]

PATIENCE_S = 120.0


class AggregatorProcesses:
    """A leader and a helper below a folder, on ports of loopback that were free a moment ago.

    Attributes:
        folder: holds `leader`, `helper`, `collector` and the logs of both.
        urls: addresses by seat.
        running: the processes that run, by seat.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = _free_ports()
        self.urls = {seat: f"http://127.0.0.1:{port}" for seat, port in zip(("leader", "helper"), ports, strict=True)}
        create_pair(folder, self.urls["leader"], self.urls["helper"])
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, seat: str, *options: str) -> None:
        """Start an aggregator and wait until it answers.

        Raises:
            RuntimeError: it ended; the message has its log.
        """
        command = [sys.executable, "-m", "alcove.platform.cli.entry", "aggregator", seat]
        place = ["--data-dir", str(self.folder / seat)]  # it finds its port in its URL
        with self.log(seat).open("a") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, *place, *options], stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.running[seat] = process
        line = "" if process.stdout is None else process.stdout.readline()
        if not line or json.loads(line)["http"] != self.urls[seat]:
            raise RuntimeError(f"the {seat} does not answer at {self.urls[seat]}: {self.log(seat).read_text()}")

    def log(self, seat: str) -> Path:
        """Return where an aggregator's log is."""
        return self.folder / f"{seat}.log"

    def kill(self, seat: str) -> None:
        """End an aggregator without a moment's notice."""
        os.kill(self.running[seat].pid, signal.SIGKILL)
        self._wait(seat)

    def stop(self, seat: str) -> int:
        """Ask an aggregator to end, and return its exit code."""
        self.running[seat].terminate()
        return self._wait(seat)

    def _wait(self, seat: str) -> int:
        process = self.running.pop(seat)
        code = process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()
        return code


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        return first.getsockname()[1], second.getsockname()[1]
