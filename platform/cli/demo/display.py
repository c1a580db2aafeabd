"""Shows the demo's progress and the tables at its end (Rich)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alcove.platform.cli.output import make_console, make_table, plain
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alcove.platform.cli.demo.result import ArmOutcome, DemoResult, GuardOutcome, SmallDifference
    from rich.console import Console
    from rich.table import Table

TITLES = {
    "serve": "Start the server",
    "publish": "Register, certify, sign and publish two versions",
    "experiment": "Start an experiment, 50/50",
    "devices": "Devices use the feature",
    "report": "Devices report",
    "decide": "Read the private reports",
    "ramp": "Ramp one version to everyone",
    "refine": "Find a difference of 2 points",
    "guard": "Roll out a harmful version to 10 %, under guardrails",
    "tamper": "Refuse a tampered program",
}


class Display:
    """A live line for each step, and what held of it.

    Attributes:
        seconds: that each step took, by its name.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or make_console()
        self._progress = Progress(
            SpinnerColumn(finished_text=Text("✓", "green")),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=len(TITLES))
        self._number = 0
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the live line away; what held stays."""
        self._progress.stop()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce a step, and note its time."""
        self.say(TITLES[name])
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - began_s

    def say(self, what: str) -> None:
        """Show what is going on."""
        self._progress.update(self._task, description=what)

    def finish_step(self, name: str, what: str) -> None:
        """Note that a step held, and what it showed."""
        self._number += 1
        self._progress.update(self._task, completed=self._number)
        self._print(("✓ ", "green"), (f"{self._number}. {TITLES[name]}", "bold"))
        self._print(f"    {plain(what)}")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a second line that fills up; the value given is called with what is done."""
        task = self._progress.add_task(what, total=total)

        def advance(done: int) -> None:
            self._progress.update(task, completed=done)

        try:
            yield advance
        finally:
            self._progress.remove_task(task)

    def show(self, result: DemoResult) -> None:
        """Print the result's tables."""
        if result.arms:
            self.console.print(_arms_table(result))
            decision = f"{result.winner} wins" if result.winner else "inconclusive, hold"
            self._print(("Decision:", "bold"), f" {decision}: {plain(result.decision_reason)}")
        if result.ramped:
            how = f" by override ({result.override_reason})" if result.override_reason else ""
            self._print(("Ramped:", "bold"), plain(f" {result.ramped_to} to 100 %{how}"))
        if result.small_difference is not None:
            self.console.print(_small_table(result.small_difference))
        if result.guarded is not None:
            self.console.print(_guard_table(result.guarded))
        if result.tamper_refused:
            self._print(("Tampered release refused:", "bold"), f" {plain(result.tamper_error)}")
        if result.privacy:
            self.console.print(_privacy_table(result))
        if result.parties:
            self.console.print(_parties_table(result))
        if result.seconds_by_part:
            self.console.print(_time_table(result))
        if result.error:
            self._print(("✗", "red"), f" {plain(result.error)}")
        self._print(f"{result.seconds:.1f} s")

    def _print(self, *parts: str | tuple[str, str]) -> None:
        """Print a line of texts; a pair is one with its style."""
        self.console.print(Text.assemble(*parts))


def _arms_table(result: DemoResult) -> Table:
    table = make_table(
        f"What the reports say: {result.devices} devices in processes, {result.fleet} in the fleet; "
        f"k = {result.cells} cells, ε = {result.epsilon:g}; intervals hold the privacy noise"
    )
    for column in ("version", "devices", "share", "accepted", "interval", "latency", "interval"):
        table.add_column(column, justify="left" if column == "version" else "right")
    for arm in result.arms:
        table.add_row(*map(plain, _arm_cells(arm)))
    return table


def _arm_cells(arm: ArmOutcome) -> tuple[str, ...]:
    return (
        arm.version,
        f"{arm.devices:.0f}",
        "–" if arm.share is None else f"{arm.share:.1%}",
        "–" if arm.accepted is None else f"{arm.accepted:.1%}",
        "unbounded" if arm.interval is None else f"{arm.interval[0]:.1%} … {arm.interval[1]:.1%}",
        "–" if arm.latency_ms is None else f"{arm.latency_ms * 1000:.0f} µs",
        "unbounded"
        if arm.latency_interval is None
        else f"{arm.latency_interval[0] * 1000:.0f} … {arm.latency_interval[1] * 1000:.0f} µs",
    )


def _guard_table(guarded: GuardOutcome) -> Table:
    title = f"{guarded.version}, harmful on purpose, at {guarded.share:.0%}: {guarded.state.replace('_', ' ')}"
    table = make_table(title, has_header=False)
    table.add_row("devices in processes that ran it", str(guarded.ran_it))
    table.add_row("reports that were read", f"{guarded.reports:,}")
    table.add_row("the server's decision", plain(f"{guarded.decision}: {guarded.reason}"))
    time_of_it = "" if guarded.seconds is None else f", within {guarded.seconds:.1f} s of the first report"
    table.add_row("stopped", f"{guarded.how_it_stopped}{time_of_it}")
    return table


def _privacy_table(result: DemoResult) -> Table:
    moved, privacy = result.bytes_moved, result.privacy
    table = make_table("What left each device, and what it read", has_header=False)
    what = "task, window, randomized cell"
    if result.mechanism == "prio3":
        what = "a cell in two sealed halves, with a token, and what it takes to get one"
    table.add_row("about the user", f"{privacy['report_bytes']} bytes: {what}")
    table.add_row("besides", f"{privacy['request_bytes']} bytes: requests for static files, the same on every device")
    table.add_row("budget", f"ε {privacy['epsilon_spent']:g} spent, cap {privacy['epsilon_cap_day']:g} a day")
    table.add_row("first sync", f"{moved['first_sync_received']:,} bytes received, {moved['first_sync_sent']:,} sent")
    table.add_row(
        "second sync", f"{moved['second_sync_received']:,} bytes received, {moved['second_sync_sent']:,} sent"
    )
    table.add_row("promise", str(privacy["promise"]))
    return table


def _small_table(found: SmallDifference) -> Table:
    table = make_table(f"{found.treatment}, a trimmed copy, beside {found.control}", has_header=False)
    plan = f"{found.power:.0%} power, 5 % false findings, {found.analyses} interim analyses"
    table.add_row("planned before any report", plan)
    for way, points in found.detectable.items():
        table.add_row(f"found then by {way}", "none" if points is None else f"{100 * points:.1f} points")
    measured = "–" if found.difference is None else f"{100 * found.difference:+.1f} points"
    if found.interval is not None:
        measured += f" ({100 * found.interval[0]:+.1f} … {100 * found.interval[1]:+.1f})"
    table.add_row(f"measured on {found.devices:,} devices", measured)
    table.add_row("decision", plain(f"{found.winner} wins" if found.winner else f"inconclusive: {found.reason}"))
    return table


def _parties_table(result: DemoResult) -> Table:
    table = make_table("Who held what, and could learn what, in this run")
    for column in ("party", "holds", "learns"):
        table.add_column(column)
    for party in result.parties:
        table.add_row(*map(plain, (party.name, party.holds, party.learns)))
    return table


def _time_table(result: DemoResult) -> Table:
    table = make_table("Time by part", has_header=False)
    for part, seconds in result.seconds_by_part.items():
        table.add_row(TITLES.get(part, f"  of it: {part}"), f"{seconds:.1f} s")
    return table
