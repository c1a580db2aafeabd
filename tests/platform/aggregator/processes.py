"""Runs a leader and a helper as processes with real sockets and files of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from alcove.platform.aggregator.provisioning import create_pair
from alcove.privacy.dap.task import DapTask

from tests.privacy.dap.party import make_task

PATIENCE_S = 120.0
WINDOW_S = 3600


class Processes:
    """A leader and a helper below a folder, on ports of loopback that were free a moment ago."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = _free_ports()
        self.urls = {seat: f"http://127.0.0.1:{port}" for seat, port in zip(("leader", "helper"), ports, strict=True)}
        create_pair(folder, self.urls["leader"], self.urls["helper"])
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, seat: str) -> None:
        """Start an aggregator and wait until it answers."""
        command = [sys.executable, "-m", "alcove.platform.cli.entry", "aggregator", seat]
        options = ["--data-dir", str(self.folder / seat)]  # it finds its port in its URL
        with (self.folder / f"{seat}.log").open("a") as log:
            process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
        self.running[seat] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.folder / f"{seat}.log").read_text()
        assert json.loads(line)["http"] == self.urls[seat]

    def kill(self, seat: str) -> None:
        """End an aggregator without a moment's notice."""
        process = self.running.pop(seat)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()

    def stop(self, seat: str) -> int:
        """Ask an aggregator to end, and return its exit code."""
        process = self.running.pop(seat)
        process.terminate()
        code = process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def make_task(self, cells: int = 4) -> DapTask:
        """Return a task that these two take part in."""
        return make_task(cells=cells, window_s=WINDOW_S, leader_url=self.urls["leader"], helper_url=self.urls["helper"])


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        return first.getsockname()[1], second.getsockname()[1]
