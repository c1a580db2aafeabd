"""Heartbeats: a device that used a version is counted though its app notes nothing, and no prediction waits."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from alcove.registry.policy import Outcome, TaskPolicy, make_task
from alcove.sdk.handle import ActiveModel
from alcove.sdk.heartbeats import MAX_HEARTBEATS, Heartbeats
from alcove.sdk.report_files import PendingOutcome
from alcove.sdk.storage import Files
from alcove.sdk.testing import ManualClock, SeededEntropy
from alcove.sdk.window_outcomes import add_outcome

from tests.sdk.conftest import FEATURE, NOW, Device

R, A, E, F, N = Outcome.REFUSED, Outcome.ACCEPTED, Outcome.ERROR, Outcome.FALLBACK, Outcome.ANSWERED
WINDOW = 3600


def make_counted_task(*groups: tuple[Outcome, ...], start_s: int = NOW - 10 * WINDOW) -> TaskPolicy:
    """The task of a rollout with these groups of outcomes."""
    return make_task(
        experiment_id="roll",
        epsilon="2",
        arm_count=2,
        outcome_groups=groups,
        latency_edges_ms=(),
        window_s=WINDOW,
        first_window_start_s=start_s,
    )


CRASHES = make_counted_task((R, A, E, N), (F,))
APART = make_counted_task((R,), (A,), (E,), (F,), (N,))


def active_in(task: TaskPolicy, **changes: Any) -> ActiveModel:
    """A version of arm 1."""
    return replace(ActiveModel(None, "2.0.0", "rollout", arm=1, task=task.model_dump_json()), **changes)


class CountedFiles(Files):
    """Counts what is written."""

    writes = 0

    def write_whole(self, *args: Any, **options: Any) -> None:
        """Count and write."""
        self.writes += 1
        super().write_whole(*args, **options)


def begin(device: Device, *, is_compared: bool = True) -> None:
    """Give everybody version 2.0.0, in the treatment of a rollout that counts every use."""
    device.world.set_policy("1.0.0", rollout=("2.0.0", 10_000), control=0 if is_compared else None, window_s=WINDOW,
                            has_heartbeat=True)  # fmt: skip


def pending_of(device: Device) -> list[tuple[int, int]]:
    """Outcomes that wait, each with out of how many it was drawn."""
    path = device.folder / "reports" / "pending.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    return [(entry["outcome"], entry["seen"]) for entry in entries]


def test_a_device_that_notes_nothing_reports_once_that_it_used_the_version(device: Device) -> None:
    """Predictions write nothing; the turn that reports writes one heartbeat, which leaves when its window is over."""
    begin(device)
    files = CountedFiles()
    client = device.client(files=files)
    client.sync()
    handle = client.feature(FEATURE)
    before = files.writes
    for _ in range(50):
        assert handle.predict("hello").error is None
    assert files.writes == before
    assert client.report().sent == 0
    assert pending_of(device) == [(N, 50)]
    device.clock.pass_s(WINDOW)
    result = client.report()
    assert (result.sent, result.waiting, result.dropped) == (1, 0, 0)
    assert pending_of(device) == []
    assert client.report().sent == 0


@pytest.mark.parametrize("is_noted_first", [True, False])
def test_what_the_app_notes_takes_the_place_of_a_heartbeat(device: Device, is_noted_first: bool) -> None:
    """Whichever comes to the disk first; and a later answer does not displace it."""
    begin(device)
    client = device.client()
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hello")
    if not is_noted_first:
        client.report()
        assert pending_of(device) == [(N, 1)]
    handle.record_outcome(accepted=True)
    handle.predict("hello")
    client.report()
    assert pending_of(device) == [(A, 1)]


def test_without_a_task_or_consent_nothing_is_noted(device: Device) -> None:
    """A rollout that compares nothing has no heartbeat, and none is kept for a user who said no."""
    begin(device, is_compared=False)
    client = device.client()
    client.sync()
    client.feature(FEATURE).predict("hello")
    client.report()
    assert not (device.folder / "reports" / "pending.json").exists()
    begin(device)
    client.sync()
    client.feature(FEATURE).predict("hello")
    client.set_reports(False)
    client.set_reports(True)
    client.report()
    assert pending_of(device) == []


def test_a_heartbeat_survives_the_end_of_the_client(device: Device) -> None:
    """Close writes what is in memory, so that an app that runs for seconds is counted too."""
    begin(device)
    with device.client() as client:
        client.sync()
        client.feature(FEATURE).predict("hello")
    assert pending_of(device) == [(N, 1)]


def test_latency_is_drawn_evenly_from_the_answers_of_a_window() -> None:
    """Each of five answers is the one that is told about as often, and windows are apart."""
    clock = ManualClock(NOW)
    found: Counter[float] = Counter()
    active = active_in(CRASHES)
    for seed in range(2000):
        heartbeats = Heartbeats(clock, SeededEntropy(seed))
        for latency_ms in range(5):
            heartbeats.note(active, float(latency_ms))
        (one,) = heartbeats.take()
        assert (one.seen, one.outcome) == (5, N)
        found[one.latency_ms] += 1
    assert all(abs(found[float(latency)] - 400) < 5 * 18 for latency in range(5)), found
    heartbeats = Heartbeats(clock, SeededEntropy(1))
    heartbeats.note(active, 1.0)
    clock.pass_s(WINDOW)
    heartbeats.note(active, 2.0)
    assert [one.seen for one in heartbeats.take()] == [1, 1]
    assert heartbeats.take() == []


def test_memory_of_heartbeats_is_bounded_and_bad_tasks_have_none() -> None:
    """Windows without a turn do not pile up; what is no task, or does not count answers, is left out."""
    clock = ManualClock(NOW)
    heartbeats = Heartbeats(clock, SeededEntropy(1))
    for _ in range(3 * MAX_HEARTBEATS):
        heartbeats.note(active_in(CRASHES), 1.0)
        clock.pass_s(WINDOW)
    assert 0 < len(heartbeats.take()) <= MAX_HEARTBEATS
    answers = make_counted_task((R,), (A,))
    for task in ("{}", "not json", "[]", '{"outcome_groups":[["x"]]}', answers.model_dump_json()):
        heartbeats.note(ActiveModel(None, "1", "rollout", arm=0, task=task), 1.0)
    heartbeats.note(active_in(make_counted_task((N,), start_s=NOW + 10**6)), 1.0)
    heartbeats.note(replace(active_in(CRASHES), arm=None), 1.0)
    assert heartbeats.take() == []


def test_a_device_that_left_its_arm_says_so_without_any_feedback() -> None:
    """The answers of the version that stands in are no use of the arm's."""
    heartbeats = Heartbeats(ManualClock(NOW), SeededEntropy(1))
    heartbeats.note(active_in(CRASHES), 1.0)
    heartbeats.note(active_in(CRASHES, has_abandoned_arm=True), 1.0)
    heartbeats.note(active_in(CRASHES), 1.0)
    (one,) = heartbeats.take()
    assert one.outcome is F


@pytest.mark.parametrize(
    ("task", "outcomes", "kept"),
    [
        (APART, (N, A), {A}),
        (APART, (A, N), {A}),
        (APART, (E, A, N), {E}),
        (APART, (A, E, R), {E}),
        (APART, (F, E, A), {F}),
        (APART, (A, E, F), {F}),
        (CRASHES, (A, E), {A, E}),
        (APART, (A, R), {A, R}),
    ],
)
def test_the_worst_of_a_window_is_reported(task: TaskPolicy, outcomes: tuple[Outcome, ...], kept: set[Outcome]) -> None:
    """An error outranks answers only where the task tells it apart; like outcomes are drawn."""
    seen = set()
    for seed in range(20):
        pending: list[PendingOutcome] = []
        for outcome in outcomes:
            cell = task.cell_index(1, outcome, 0.0)
            add_outcome(pending, PendingOutcome(task, 3, outcome, cell, 1), SeededEntropy(seed))
        (entry,) = pending
        assert entry.cell == task.cell_index(1, entry.outcome, 0.0)
        seen.add(entry.outcome)
    assert seen == kept


def test_a_window_belongs_to_the_arm_of_its_first_outcome() -> None:
    """Where a sync moved the device to another arm meanwhile: nothing of one arm is told of the other."""
    pending: list[PendingOutcome] = []
    for window, arm, outcome in ((3, 0, A), (3, 1, R), (3, 1, F), (4, 1, R), (3, 0, E), (4, 0, F)):
        cell = APART.cell_index(arm, outcome, 0.0)
        add_outcome(pending, PendingOutcome(APART, window, outcome, cell, 1), SeededEntropy(1))
    assert [(entry.window, entry.cell, entry.seen) for entry in pending] == [
        (3, APART.cell_index(0, E, 0.0), 1),
        (4, APART.cell_index(1, R, 0.0), 1),
    ]
