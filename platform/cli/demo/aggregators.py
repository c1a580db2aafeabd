"""Runs the demo's two aggregators, each in a process of its own, with a folder that the other does not read.

The demo kills one of them, and looks into both databases, which no party could do: to see that nothing was lost, and
that neither holds what a device measured.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.aggregator.store.database import DATABASE_FILE
from alcove.platform.cli.demo.processes import ANSWER_TIMEOUT_S, DemoError, end_process, find_port, start_module

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path
    from types import TracebackType

    from alcove.privacy.dap.task import DapTask

POLL_S = 0.05


@dataclass(frozen=True)
class Bucket:
    """What an aggregator holds of a window before its release.

    Attributes:
        reports: that it has verified with the other one and added.
        checksum: of their ids.
        share: its share of the sums, an element of the field for each cell.
    """

    reports: int
    checksum: bytes
    share: tuple[int, ...]


class Aggregators:
    """The leader and the helper.

    Args:
        folder: in which each has one.
        clock: the file of the demo's clock.
        token_issuer: whose tokens reports carry.

    Attributes:
        folder: as given.
        leader_url: where devices send their reports.
        helper_url: address of the other one.
    """

    def __init__(self, folder: Path, clock: Path, token_issuer: str | None = None) -> None:
        self.folder = folder
        self._clock = clock
        self.leader_url, self.helper_url = (f"http://127.0.0.1:{find_port()}" for _ in range(2))
        create_pair(folder, self.leader_url, self.helper_url, token_issuer=token_issuer)
        self._running: dict[Seat, subprocess.Popen[str]] = {}

    def start(self, seat: Seat) -> int:
        """Start an aggregator, wait until it answers, and return its process id.

        Raises:
            DemoError: it does not.
        """
        arguments = [str(seat), "--clock", str(self._clock), "--data-dir", str(self.folder / seat)]
        arguments += ["--behind-proxy", "127.0.0.1"]  # all devices have this machine's one address
        process, _ = start_module("alcove.platform.cli.demo.server", arguments, self.folder / f"{seat}.log")
        self._running[seat] = process
        return process.pid

    def kill(self, seat: Seat) -> int:
        """End an aggregator without a moment's notice, and return its process id."""
        process = self._running.pop(seat)
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        return process.pid

    def read_bucket(self, seat: Seat, task: DapTask, dap_time: int) -> Bucket:
        """Return what an aggregator holds of a window now."""
        path = self.folder / seat / DATABASE_FILE
        query = "SELECT reports, checksum, aggregate_share FROM buckets WHERE task_id = ? AND time = ?"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            row = database.execute(query, (task.task_id, dap_time)).fetchone()
        if row is None:
            return Bucket(0, b"", ())
        reports, checksum, share = row
        return Bucket(reports, checksum, tuple(task.circuit.field.decode(share, task.circuit.output_length)))

    def count_acknowledged(self, task: DapTask, dap_time: int) -> int:
        """Return how many reports of a window the leader has acknowledged, by their ids."""
        query = "SELECT count(*) FROM report_ids WHERE task_id = ? AND time = ?"
        path = self.folder / Seat.LEADER / DATABASE_FILE
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute(query, (task.task_id, dap_time)).fetchone()[0])

    def spent_nonces(self, task_id: bytes) -> set[bytes]:
        """Return the nonces of the tokens that the leader has noted as spent."""
        path = self.folder / Seat.LEADER / DATABASE_FILE
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT nonce FROM spent_tokens WHERE task_id = ?", (task_id,)).fetchall()
        return {nonce for (nonce,) in rows}

    def wait_for_reports(self, task: DapTask, dap_time: int, reports: int) -> tuple[Bucket, Bucket]:
        """Return what leader and helper hold once both have added as many reports.

        Raises:
            DemoError: they do not in time, or hold others.
        """
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            leader, helper = (self.read_bucket(seat, task, dap_time) for seat in (Seat.LEADER, Seat.HELPER))
            if leader.reports == helper.reports == reports:
                break
            if time.monotonic() > until_s:
                seen = f"{leader.reports} at the leader and {helper.reports} at the helper"
                raise DemoError(f"expected {reports} reports at both aggregators; saw {seen}")
            time.sleep(POLL_S)
        if leader.checksum != helper.checksum:
            raise DemoError("expected the same reports at both aggregators; saw other ids")
        return leader, helper

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._close)
            for seat in (Seat.HELPER, Seat.LEADER):
                self.start(seat)
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for process in self._running.values():
            end_process(process)
        self._running.clear()
