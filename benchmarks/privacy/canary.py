"""Searches stores, logs and memory of both aggregators for a measurement that would be recognized in any spelling.

A hundred devices report the same 128 random bits (a sum of vectors, the same shares and proofs as a histogram's) to two
real processes, and the batch is collected. Then every file of the processes and all memory that they can write is
searched. The control is a process that holds both parties' keys and puts the shares together: the same search finds
the measurement in its rows, its log and its memory.
"""

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from alcove.platform.testing.aggregators import AggregatorProcesses
from alcove.privacy.dap.messages import BatchMode, SumVecConfig, TaskConfiguration
from alcove.privacy.dap.reports import make_report
from alcove.privacy.dap.task import DapTask, TaskInfo, read_task
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.prio3 import SumVec

from benchmarks.privacy.leak import DATABASE, LOG, REPORT
from benchmarks.privacy.processes import SEATS, open_exchange, run_aggregators
from benchmarks.privacy.seats import make_folder

BITS: Final = 128
REPORTS: Final = 100
CONTROL: Final = "control: one party in both seats"
WINDOW_S: Final = 86_400
PART: Final = 32
"""Elements of a part: a part of the measurement is searched for, so that a torn copy is found too."""

CAN_READ_MEMORY: Final = sys.platform == "linux"
"""Whether the memory of another process can be searched here."""


@dataclass(frozen=True)
class Search:
    """One place that was searched.

    Attributes:
        party: whose.
        place: rows, log or memory.
        searched_bytes: how much.
        found: in which spellings the measurement was there.
    """

    party: str
    place: str
    searched_bytes: int
    found: tuple[str, ...]

    @property
    def is_control(self) -> bool:
        """Whether the measurement is there on purpose."""
        return self.party == CONTROL


def spell(bits: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """Give the spellings of a measurement, and of its parts where they are long."""
    parts = [bits[first : first + PART] for first in range(0, len(bits), PART)]
    for size in (1, 2, 4, 8, 16):
        for part in parts:
            yield f"elements of {size} bytes", b"".join(bit.to_bytes(size, "little") for bit in part)
    for order in ("big", "little"):
        text = "".join(map(str, bits if order == "big" else bits[::-1]))
        packed = int(text, 2).to_bytes(len(bits) // 8, "big")
        for name, spelling in (("bits", packed), ("bits, reversed", packed[::-1])):
            yield name, spelling
            yield "hexadecimal", spelling.hex().encode()
    for part in parts:
        for separator in ("", ",", ", ", " "):
            yield "text", separator.join(map(str, part)).encode()


def spell_list(bits: Sequence[int], zero: int) -> Iterator[tuple[str, bytes]]:
    """Give the parts of a list of Python's integers, as CPython has it: addresses of the two of them."""
    one = zero + id(1) - id(0)
    for first in range(0, len(bits), PART):
        part = bits[first : first + PART]
        yield "list of integers", b"".join((one if bit else zero).to_bytes(8, sys.byteorder) for bit in part)


def search_files(paths: Sequence[Path], bits: Sequence[int]) -> tuple[int, tuple[str, ...]]:
    """Return how many bytes files have, and in which spellings the measurement is in them."""
    contents = [path.read_bytes() for path in paths]
    return sum(map(len, contents)), _find(contents, list(spell(bits)))


def search_memory(pid: int, bits: Sequence[int]) -> tuple[int, tuple[str, ...]]:
    """Return how much a process can write, and in which spellings the measurement is in it.

    Raises:
        OSError: this process may not read the other's memory.
    """
    zero = _find_zero(pid)
    spellings = [*spell(bits), *([] if zero is None else spell_list(bits, zero))]
    contents = list(_read_memory(pid))
    return sum(map(len, contents)), _find(contents, spellings)


def _find(contents: Sequence[bytes], spellings: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
    return tuple(sorted({name for name, spelling in spellings if any(spelling in content for content in contents)}))


def _read_memory(pid: int) -> Iterator[bytes]:
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, access, *_ = line.split()
            first, behind = (int(end, 16) for end in span.split("-"))
            if "w" in access and not line.endswith(("[vvar]", "[vsyscall]")):
                memory.seek(first)
                try:
                    content = memory.read(behind - first)
                except OSError:  # a guard page
                    continue
                yield content


def _find_zero(pid: int) -> int | None:
    """Return where CPython's 0 is in a process of the same program; None: it is not in a file's mapping."""
    mine = next((each for each in _list_files("self") if each[0] <= id(0) < each[1]), None)
    if mine is None:
        return None
    first, _, offset, path = mine
    theirs = (each for each in _list_files(str(pid)) if each[2:] == (offset, path))
    return next((start + id(0) - first for start, *_ in theirs), None)


def _list_files(process: str) -> Iterator[tuple[int, int, int, str]]:
    """Give first address, address behind, offset and file of each mapping."""
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            first, behind = (int(end, 16) for end in fields[0].split("-"))
            yield first, behind, int(fields[2], 16), fields[5]


def search_aggregators() -> list[Search]:
    """Return what is found in both aggregators after a batch, and in the control; memory is left out outside Linux."""
    bits = [random.SystemRandom().randrange(2) for _ in range(BITS)]
    with make_folder() as name:
        folder = Path(name)
        found: list[Search] = []
        with run_aggregators(folder) as processes:
            asyncio.run(_report_and_collect(processes, bits))
            for seat in SEATS:
                files = [path for path in (folder / seat).rglob("*") if path.is_file()]
                found.append(Search(seat, "rows and keys", *search_files(files, bits)))
                found.append(Search(seat, "log", *search_files([processes.log(seat)], bits)))
                if CAN_READ_MEMORY:
                    found.append(Search(seat, "memory", *search_memory(processes.running[seat].pid, bits)))
        return found + _search_control(folder, bits)


def _search_control(folder: Path, bits: Sequence[int]) -> list[Search]:
    command = [sys.executable, "-m", "benchmarks.privacy.leak", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT) as process:
        if process.stdout is None or not process.stdout.readline():
            raise RuntimeError("the control does not start")
        found = [
            Search(CONTROL, "rows and keys", *search_files([folder / DATABASE], bits)),
            Search(CONTROL, "log", *search_files([folder / LOG], bits)),
        ]
        if CAN_READ_MEMORY:
            found.append(Search(CONTROL, "memory", *search_memory(process.pid, bits)))
        process.communicate()
    return found


_ROOT: Final = Path(__file__).resolve().parents[2]


def make_vector_task(processes: AggregatorProcesses) -> DapTask:
    """Return a task that adds vectors of bits up."""
    configuration = TaskConfiguration(
        task_info=TaskInfo(Fraction(1), bytes(32)).to_bytes(),
        leader_url=processes.urls["leader"].encode(),
        helper_url=processes.urls["helper"].encode(),
        time_precision_s=WINDOW_S,
        min_batch_size=REPORTS,
        batch_mode=BatchMode.TIME_INTERVAL,
        batch_config=b"",
        vdaf_type=SumVec.algorithm_id,
        vdaf_configuration=SumVecConfig(BITS, 1, math.isqrt(BITS)).to_bytes(),
        extensions=(),
    )
    return read_task(configuration.to_bytes())


async def _report_and_collect(processes: AggregatorProcesses, bits: Sequence[int]) -> None:
    task = make_vector_task(processes)
    now = task.time_at(time.time())
    async with open_exchange(processes) as exchange:
        recipients = await exchange.announce(task)
        reports = [make_report(task, list(bits), now, recipients, OsEntropy()) for _ in range(REPORTS)]
        await exchange.upload(task, reports)
        await exchange.collect(task, now)
    fields = {"task": task.encoded.hex(), "report": reports[0].to_bytes().hex()}
    (processes.folder / REPORT).write_text(json.dumps(fields), encoding="utf-8")
