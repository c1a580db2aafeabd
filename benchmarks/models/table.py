"""Times every model on alcove and each peer by turns, and collects the results as rows, which are kept."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

from benchmarks.models import alcove, peers
from benchmarks.models.alcove import Times
from benchmarks.models.cases import BUILT, CASES, Case, prepare
from benchmarks.models.floor import floor_us, limits

KEPT: Final = BUILT / "models.json"
"""The rows that were timed in this checkout, so that a page may be timed model by model."""


@dataclass(frozen=True)
class Row:
    """One model: alcove, each peer that could be timed, and the floor; times in microseconds.

    Attributes:
        case: its name.
        times: of alcove.
        program_bytes: of the program.
        peers: name and p50 of each.
        cold: name and time from load to first answer of each.
        memory_kib: name and peak memory of each that needs no Python.
        failed: name, and why it gave no time.
        floor_us: what the machine allows.
    """

    case: str
    times: Times
    program_bytes: int
    peers: dict[str, float]
    cold: dict[str, float]
    memory_kib: dict[str, float]
    failed: dict[str, str]
    floor_us: float

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest peer and its time."""
        return peers.fastest(self.peers)

    @property
    def ratio(self) -> float | None:
        """How many times as long the best peer takes."""
        return None if self.best is None else self.best[1] / self.times.call_us

    def as_json(self) -> dict[str, Any]:
        """Return the fields, and what follows from them."""
        return asdict(self) | {"best": self.best, "ratio": self.ratio}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> "Row":
        """Return the row that gave `as_json`."""
        own = {field.name: given[field.name] for field in fields(cls)}
        return cls(**(own | {"times": Times(**given["times"])}))


def keep_rows(rows: Sequence[Row], kept: Path = KEPT) -> list[Row]:
    """Return the rows with those that were kept of other models, in the order of the cases; keep them all."""
    before = [Row.from_json(each) for each in json.loads(kept.read_text())] if kept.exists() else []
    by_case = {row.case: row for row in (*before, *rows)}
    merged = [by_case[case.name] for case in CASES if case.name in by_case]
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([row.as_json() for row in merged], indent=2) + "\n")
    return merged


@dataclass(frozen=True)
class Bench:
    """How cases are timed.

    Attributes:
        core: that everything timed is pinned to.
        rounds: turns of alcove and each peer.
        seconds: of calls in a turn of alcove.
        say: reports progress.
    """

    core: int
    rounds: int
    seconds: float
    say: Callable[[str], None]

    def measure(self, names: Sequence[str]) -> tuple[list[Row], dict[str, str]]:
        """Time cases and peers, model by model and turn by turn, so that a slow minute hits all of a row.

        Returns:
            the rows, and the peers that are not there with the reason.
        """
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {self.core} or {self.core})
        places = peers.Places.from_environment()
        absent = {name: why for name in peers.NAMES if (why := peers.missing(places, name))}
        present = [name for name in peers.NAMES if name not in absent]
        self.say("the machine's limits")
        measured = limits(self.core)
        executable = alcove.timing_program()
        cases = [case for case in CASES if case.name in names]
        return [self._row(case, executable, places, present, floor_us(case, measured)) for case in cases], absent

    def _row(self, case: Case, executable: Path, places: peers.Places, present: Sequence[str], floor: float) -> Row:
        program, inputs = prepare(case)
        ours: list[Times] = []
        p50: dict[str, float] = {}
        cold: dict[str, float] = {}
        memory: dict[str, float] = {}
        failed: dict[str, str] = {}
        for turn in range(self.rounds):
            self.say(f"{case.name}: alcove, round {turn + 1} of {self.rounds}")
            ours.append(alcove.measure(executable, program, inputs, self.core, self.seconds))
            for name in present:
                if name in failed:
                    continue
                self.say(f"{case.name}: {name}, round {turn + 1} of {self.rounds}")
                found = peers.measure(places, name, case, self.core)
                if isinstance(found, str):
                    failed[name] = found
                    continue
                p50[name] = min(found.p50_us, p50.get(name, found.p50_us))
                cold[name] = min(found.cold_us, cold.get(name, found.cold_us))
                if peers.is_native(name) and found.peak_kib > 0:
                    memory[name] = min(found.peak_kib, memory.get(name, found.peak_kib))
        best = Times(*(min(values) for values in zip(*(astuple(times) for times in ours), strict=True)))
        return Row(case.name, best, program.stat().st_size, p50, cold, memory, failed, floor)
