"""Runs an S3-compatible store for tests: moto's server, started as a process, ended by its id."""

import contextlib
import itertools
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

__all__ = ["FULL_PREFIX", "S3MissingError", "S3Server"]

FULL_PREFIX: Final = "/-full/"  # PUT of this and a bucket's name: it is full, and takes nothing until DELETE
_START_TIMEOUT_S: Final = 180.0
_ADDRESS: Final = re.compile(rb"Running on (http://127\.0\.0\.1:[0-9]+)")


class S3MissingError(Exception):
    """No S3-compatible store can be started here; the message says what to install."""


class S3Server:
    """A running store, empty at first.

    Attributes:
        endpoint: its address.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", endpoint: str) -> None:
        self.endpoint = endpoint
        self._process = process
        self._names = itertools.count()

    @classmethod
    def start(cls) -> Self:
        """Start a server on a free port of this machine and wait until it answers.

        Raises:
            S3MissingError: moto is not installed.
        """
        if find_spec("moto") is None or find_spec("flask") is None:
            raise S3MissingError("moto's server is not installed: make setup")
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, "-E", "-m", "alcove.platform.testing.s3_server"],  # PYTHONPATH may hide boto3
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            end_s = time.monotonic() + _START_TIMEOUT_S
            while not (found := _ADDRESS.search(log.read_bytes())):
                if process.poll() is not None or time.monotonic() > end_s:
                    process.kill()
                    process.wait()
                    raise RuntimeError(f"moto's server did not start:\n{log.read_text()}")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
        return cls(process, found[1].decode())

    def stop(self) -> None:
        """End it; what it held is gone."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def bucket(self) -> str:
        """Make an empty bucket; return its URL."""
        name = f"alcove-{next(self._names)}"
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")  # noqa: S310 - this machine
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310
            pass
        return f"s3://{name}"

    def environment(self) -> dict[str, str]:
        """Return the environment variables that its clients need."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
            "AWS_REGION": "us-east-1",
        }
