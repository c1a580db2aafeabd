"""Simulates many devices in this process.

Each has what a real device has: a secret of its own, its own ledger, a person who writes.  They go through the same
code as the devices in processes: assignment (`alcove.registry.policy`), the installed programs in the native runtime,
the feature's contract, ledger, randomized response and report bytes (`alcove.privacy`).

What they don't have is a disk and a connection each: one real client syncs for all of them, a ledger lives in memory,
so its debit comes first but is synced nowhere, and reports go one by one over a few connections.  `device` shows the
whole of it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from alcove.features import catalogue
from alcove.platform.cli.demo.actors import Person
from alcove.platform.cli.demo.environment import DemoError
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.ledger import BudgetLimits, Ledger
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.report import Report, report_to_bytes
from alcove.registry.policy import resolve
from alcove.registry.policy.assignment import SECRET_BYTES
from alcove.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from alcove.registry.policy import Policy
    from alcove.runtime import Model

FEATURE = "language_id"
SENT_AT_ONCE = 1000  # reports that gather until their devices send them


class MemoryLogFile:
    """A ledger's file that lives as long as the demo; see `alcove.privacy.ledger.LogFile`."""

    def __init__(self) -> None:
        self._data = b""

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold nothing: one thread uses it."""
        yield

    def read(self) -> bytes:
        """Return all bytes."""
        return self._data

    def append(self, data: bytes) -> None:
        """Add `data` at the end."""
        self._data += data


class Send(Protocol):
    """Sends many reports, each by itself."""

    def __call__(self, reports: Sequence[bytes], /) -> Mapping[int, int]:
        """Return how many answers had which status."""
        ...


@dataclass(frozen=True)
class FleetResult:
    """Devices of the fleet that reported, and bytes of their reports."""

    devices: int
    report_bytes: int


def run_fleet(
    count: int,
    *,
    policy: Policy,
    models: Mapping[str, Model],
    sentences: Mapping[str, Sequence[str]],
    send_all: Send,
    seed: int,
    progress: Callable[[int], None],
    may_close: bool = False,
) -> FleetResult:
    """Let `count` devices assign themselves, guess once, and send their one report of the window.

    Args:
        count: devices, 0 or more.
        policy: the app's verified policy, with an experiment on `language_id`.
        models: the installed program of each arm, by version.
        sentences: what people write, by language.
        send_all: the way out.
        seed: of the people; secrets and noise come from the operating system.
        progress: called with the number of devices done, now and then.
        may_close: the collection may end meanwhile, because what it measures was stopped; what is sent after that is
            refused and dropped, as on any device.

    Raises:
        DemoError: the server refused reports of a collection that may not close.
    """
    feature = catalogue()[FEATURE]
    entropy, clock = OsEntropy(), SystemClock()
    sessions = {version: model.session() for version, model in models.items()}
    mechanism: RandomizedResponse | None = None
    outgoing: list[bytes] = []
    sent = 0

    def send() -> None:
        nonlocal sent
        statuses = send_all(outgoing)
        outgoing.clear()
        sent += statuses.get(204, 0)
        if not may_close and statuses.keys() - {204}:
            raise DemoError(f"the server answered the fleet's reports with {dict(statuses)}, expected 204 alone")

    for number in range(count):
        resolution = resolve(policy, FEATURE, entropy.random_bytes(SECRET_BYTES))
        task, arm = resolution.task, resolution.arm
        if task is None or arm is None:
            continue
        typing = Person(seed + number, sentences).write()
        start_ns = time.perf_counter_ns()
        answer = feature.decode(sessions[resolution.version.version](typing.opening))
        latency_ms = (time.perf_counter_ns() - start_ns) / 1e6
        window = task.window_at(clock.now_s())
        if window is None:
            continue
        task_id, epsilon = bytes.fromhex(task.task_id), task.epsilon_fraction
        mechanism = mechanism or RandomizedResponse(task.cell_count, epsilon)
        cell = task.cell_index(arm, int(answer.language == typing.language), latency_ms)
        Ledger(MemoryLogFile(), BudgetLimits(), clock).debit(task_id, window, epsilon)
        outgoing.append(report_to_bytes(Report(task_id, window, mechanism.randomize(cell, entropy))))
        if len(outgoing) == SENT_AT_ONCE or number == count - 1:
            send()
            progress(number + 1)
    send()
    return FleetResult(devices=sent, report_bytes=sent * len(report_to_bytes(Report(bytes(32), 0, 0))))
