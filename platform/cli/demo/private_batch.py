"""Brings one window's reports of all devices through the two aggregators, and checks that none is lost on the way.

    devices report ─▶ leader, killed in the middle and started again ─▶ both have added the same reports
                                       the window is over ─▶ the server collects ─▶ as many reports in its sums

Only the demo can check so: it knows what its devices measured, and it reads the databases of all parties.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.provisioning import COLLECTOR_FILE
from alcove.platform.cli.demo.aggregators import Aggregators
from alcove.platform.cli.demo.environment import Issuing, make_attestor
from alcove.platform.cli.demo.private_reports import PrivateReporter
from alcove.platform.cli.demo.processes import ANSWER_TIMEOUT_S, DemoError, find_port
from alcove.platform.cli.demo.result import BatchOutcome
from alcove.platform.cli.demo.tokens import FleetTokens
from alcove.platform.store.database import DATABASE_FILE
from alcove.registry.policy.dap import dap_time, make_dap_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from alcove.platform.cli.demo.clock import DemoClock
    from alcove.platform.cli.demo.environment import Places
    from alcove.platform.cli.demo.fleet import Measurements
    from alcove.registry.policy import TaskPolicy

POLL_S = 0.1
FORGED_PART = 100  # one report in so many is forged


def start_aggregators(stack: ExitStack, places: Places) -> tuple[Aggregators, Issuing, FleetTokens]:
    """Start both aggregators, and choose where the server will issue tokens.

    Args:
        stack: ends them.
        places: folders; the clock's file is there.
    """
    vendor, port = make_attestor(places), find_port()
    issuing = Issuing(places.aggregators / "collector" / COLLECTOR_FILE, port, f"http://127.0.0.1:{port}/tokens")
    aggregators = stack.enter_context(Aggregators(places.aggregators, places.clock, issuing.url))
    database = places.server / DATABASE_FILE
    return aggregators, issuing, stack.enter_context(FleetTokens(database, issuing.url, places.clock, vendor))


class PrivateBatches:
    """The way of reports through two aggregators.

    Args:
        aggregators: both.
        clock: of the server and the devices.
        database: the server's.
        tokens: of the fleet.
        say: shows what is going on.

    Attributes:
        seconds: spent so far, by part.
    """

    def __init__(
        self,
        aggregators: Aggregators,
        clock: DemoClock,
        database: Path,
        tokens: FleetTokens,
        say: Callable[[str], None],
    ) -> None:
        self._aggregators = aggregators
        self._clock = clock
        self._database = database
        self._tokens = tokens
        self._say = say
        self.seconds: dict[str, float] = {}

    def send(
        self,
        measured: Measurements,
        ask_others: Callable[[], int],
        progress: Callable[[int], None],
        *,
        has_troubles: bool = False,
    ) -> BatchOutcome | None:
        """Let the window end, all devices report, and the server collect it; None: too few for a release.

        Args:
            measured: by the fleet.
            ask_others: lets other devices report; returns how many reports were taken, of other tasks too.
            progress: called with the number of reports that were made.
            has_troubles: end the leader with `kill -9` in the middle of the uploads and start it again; and forge one
                report for a hundred.

        Raises:
            DemoError: a report was lost, or was added twice.
        """
        task = measured.task
        self._clock.stop_at_end()
        ask_others()  # they get their tokens, each at a time of the window that it drew
        self._clock.pass_window()
        sent = ask_others()
        if task is None:  # there is no fleet
            self._clock.pass_window()
            return None
        if task.aggregation is None:
            raise DemoError(f"expected a task of two aggregators; saw {task}")
        began_s = time.monotonic()
        aggregators = self._aggregators
        reporter = PrivateReporter(aggregators.leader_url, aggregators.helper_url, task, measured.window, self._tokens)
        middle = _Middle(len(measured.cells) // 2, self._restart_leader if has_troubles else None, progress)
        reporter.send_all(measured.cells, middle.advance)
        forged = reporter.forge(max(1, len(measured.cells) // FORGED_PART)) if has_troubles else 0
        self._note("waiting for tokens of the fleet", time.monotonic() - reporter.waited_s)
        self._note("reports made and uploaded", began_s + reporter.waited_s)
        dap_task, time_of_task = make_dap_task(task), dap_time(task, measured.window)
        reports = self._aggregators.count_acknowledged(dap_task, time_of_task)
        others = reports - reporter.acknowledged
        if not 0 <= others <= sent:
            raise DemoError(f"expected {reporter.acknowledged} reports of the fleet and up to {sent}; saw {reports}")
        self._say(f"{reports:,} reports are acknowledged; the two aggregators verify them together")
        began_s = time.monotonic()
        leader, helper = self._aggregators.wait_for_reports(dap_task, time_of_task, reports)
        self._note("reports verified, after the last upload", began_s)
        modulus = dap_task.circuit.field.modulus
        sums = [(one + other) % modulus for one, other in zip(leader.share, helper.share, strict=True)]
        rest = np.asarray(sums) - np.bincount(measured.cells, minlength=len(sums))
        if (rest < 0).any() or rest.sum() != others:
            raise DemoError(f"expected the sums of the devices' cells in both shares together; saw {sums}")
        issued, spent, recognized = self._compare_tokens(dap_task.task_id)
        self._clock.pass_window()
        if reports < task.aggregation.min_batch_size:
            return None
        self._say("the window is over; the server collects its sums")
        began_s = time.monotonic()
        released, noised = self._wait_for_release(task, measured.window)
        self._note("sums released and collected", began_s)
        if released != reports:
            raise DemoError(f"expected {reports} reports in the release, as many as were acknowledged; saw {released}")
        return BatchOutcome(
            acknowledged=reports,
            forged_refused=forged,
            tokens_issued=issued,
            tokens_spent=spent,
            tokens_recognized=recognized,
            released=released,
            repeated_uploads=reporter.repeated,
            killed_process=middle.result,
            compared=reporter.compared,
            report_bytes=reporter.report_bytes,
            cells=len(sums),
            least_share_bits=min(number.bit_length() for number in (*leader.share, *helper.share)),
            largest_noise=max(abs(one - other) for one, other in zip(noised, sums, strict=True)),
            single_reports_at_server=self._count_single_reports(),
        )

    def _restart_leader(self) -> int:
        """Kill the leader, and start it again; return the id of the process that ended."""
        self._say("the leader is killed with kill -9, and started again")
        killed = self._aggregators.kill(Seat.LEADER)
        self._aggregators.start(Seat.LEADER)
        return killed

    def _note(self, part: str, began_s: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - began_s

    def _wait_for_release(self, task: TaskPolicy, window: int) -> tuple[int, Sequence[int]]:
        """Return how many reports the server's sums of a window hold, and the noised sums."""
        query = "SELECT reports, counts FROM collected_windows WHERE task_id = ? AND window = ?"
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < until_s:
            with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as database:
                row = database.execute(query, (task.task_id, window)).fetchone()
            if row is not None:
                return int(row[0]), np.frombuffer(row[1], "<i8").tolist()
            time.sleep(POLL_S)
        raise DemoError("expected that the server collects the window; saw no release")

    def _compare_tokens(self, task_id: bytes) -> tuple[int, int, int]:
        """Return how many tokens the issuer has given, how many are spent, and how many of these its rows tell."""
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as database:
            query = "SELECT installation, request_sha256 FROM issued_tokens WHERE task_id = ?"
            issued = database.execute(query, (task_id,)).fetchall()
        spent = self._aggregators.spent_nonces(task_id)
        return len(issued), len(spent), len(spent & {each for row in issued for each in row})

    def _count_single_reports(self) -> int:
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT coalesce(sum(count), 0) FROM report_counts").fetchone()[0])


class _Middle:
    """Does something once, when half of the reports are made."""

    def __init__(self, half: int, act: Callable[[], int] | None, progress: Callable[[int], None]) -> None:
        self._half = half
        self._act = act
        self._progress = progress
        self.result = 0

    def advance(self, done: int) -> None:
        """Note how many are done."""
        self._progress(done)
        if self._act is not None and done >= self._half:
            self.result = self._act()
            self._act = None
