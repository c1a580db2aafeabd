"""Simulates many devices in this process.

Each has what a real device has: a secret of its own, its own ledger, a person who writes.  They go through the same
code as the devices in processes: assignment (`alcove.registry.policy`), the installed programs in the native runtime,
the feature's contract, ledger and reports (`alcove.privacy`).

What they don't have is a disk and a connection each: one real client syncs for all of them, a ledger lives in memory,
so its debit comes first but is synced nowhere, and reports go over a few connections.  `device` shows the whole of it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.features import catalogue
from alcove.platform.cli.demo.actors import Person
from alcove.platform.cli.demo.environment import APP, FEATURE
from alcove.platform.cli.demo.processes import DemoError
from alcove.platform.cli.demo.reporting import send_reports
from alcove.privacy.budget import BudgetLimits
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.ledger import Ledger
from alcove.registry.client import RepositoryClient
from alcove.registry.policy import resolve
from alcove.registry.policy.assignment import SECRET_BYTES
from alcove.runtime import load
from alcove.sdk.egress import Egress, TufFetcher
from alcove.sdk.engine import NativeEngine
from alcove.sdk.installer import Installer
from alcove.sdk.randomized_reports import randomize_report
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from alcove.platform.cli.demo.environment import Places
    from alcove.registry.policy import Policy, TaskPolicy
    from alcove.runtime import Model
    from alcove.runtime.clock import Clock

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


def read_installed(places: Places, http: str) -> tuple[Policy, Mapping[str, Model]]:
    """Return the policy and the programs that the fleet's client verified and installed, those of all arms."""
    slots, files, egress = SlotStore(places.fleet, Files()), Files(), Egress(http)
    tree = RepositoryClient(slots.metadata_folder, TufFetcher(egress, http), http, places.root.read_bytes())
    tree.refresh()
    policy = tree.policy(APP)
    installer = Installer(slots, files, egress, NativeEngine())
    versions = policy.features[FEATURE].versions()
    for ref in versions:  # a device in no arm has fetched the default alone
        installer.install(FEATURE, ref, tree)
    models = {ref.version: load(slots.program_path(FEATURE, ref.manifest_sha256)) for ref in versions}
    egress.close()
    return policy, models


@dataclass(frozen=True)
class Measurements:
    """What the fleet's devices have to report of one window.

    Attributes:
        task: of the policy; None: no device of the fleet takes part in anything.
        window: in which they used the feature.
        cells: of each device that takes part, its own.
    """

    task: TaskPolicy | None
    window: int
    cells: tuple[int, ...]


def measure_fleet(
    count: int,
    *,
    policy: Policy,
    models: Mapping[str, Model],
    sentences: Mapping[str, Sequence[str]],
    clock: Clock,
    seed: int,
    progress: Callable[[int], None],
) -> Measurements:
    """Let `count` devices assign themselves, guess once, and spend the budget of their one report of the window.

    Args:
        count: devices, 0 or more.
        policy: the app's verified policy; one experiment or rollout on `language_id`.
        models: the installed program of each arm, by version.
        sentences: what people write, by language.
        clock: says which window it is.
        seed: of the people; secrets come from the operating system.
        progress: called with the number of devices done, now and then.
    """
    feature = catalogue()[FEATURE]
    entropy = OsEntropy()
    sessions = {version: model.session() for version, model in models.items()}
    found: TaskPolicy | None = None
    window, cells = 0, []
    for number in range(count):
        if number % SENT_AT_ONCE == 0:
            progress(number)
        resolution = resolve(policy, FEATURE, entropy.random_bytes(SECRET_BYTES))
        task, arm = resolution.task, resolution.arm
        if task is None or arm is None:
            continue
        typing = Person(seed + number, sentences).write()
        start_ns = time.perf_counter_ns()
        answer = feature.decode(sessions[resolution.version.version](typing.opening))
        latency_ms = (time.perf_counter_ns() - start_ns) / 1e6
        if found is None:
            found, window = task, task.window_at(clock.now_s()) or 0
        cells.append(task.cell_index(arm, int(answer.language == typing.language), latency_ms))
        Ledger(MemoryLogFile(), BudgetLimits(), clock).debit(
            bytes.fromhex(task.task_id), window, task.epsilon_fraction, may_use_reserve=task.is_guardrail
        )
    return Measurements(found, window, tuple(cells))


def send_randomized(
    measured: Measurements, url: str, progress: Callable[[int], None], *, may_close: bool = False
) -> int:
    """Randomize each device's cell and send it to the server; return how many reports it took.

    Args:
        measured: of a task by randomized response.
        url: of the server.
        progress: called with the number of reports that were sent, now and then.
        may_close: the collection may end meanwhile, because what it measures was stopped; what is sent after that is
            refused and dropped, as on any device.

    Raises:
        DemoError: the server refused reports of a collection that may not close.
    """
    task = measured.task
    if task is None:
        return 0
    entropy = OsEntropy()
    sent = 0
    for first in range(0, len(measured.cells), SENT_AT_ONCE):
        cells = measured.cells[first : first + SENT_AT_ONCE]
        statuses = send_reports(url, [randomize_report(task, measured.window, cell, entropy) for cell in cells])
        sent += statuses.get(204, 0)
        if not may_close and statuses.keys() - {204}:
            raise DemoError(f"the server answered the fleet's reports with {dict(statuses)}, expected 204 alone")
        progress(first + len(cells))
    return sent
