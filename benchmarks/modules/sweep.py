"""Examines many seeds, in several processes where asked.

A module of its own: a spawned process imports what it is to call by name, and `__main__` of a package has none there.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmarks.modules.check import FINDINGS, Result, check
from benchmarks.modules.generate import generate
from benchmarks.modules.minimise import minimise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.modules.source import Source


@dataclass(frozen=True)
class Report:
    """What one seed gave; a finding with its module, cut down."""

    seed: int
    result: Result
    found: Source | None = None


def examine(job: tuple[int, int] | tuple[int, int, bool]) -> Report:
    """Return the report of a seed, run at a number of sizes; with a third part, true, of a module of sizes."""
    seed, most_sizes, *of_sizes = job
    torch.set_num_threads(1)
    source = generate(seed, of_sizes=any(of_sizes))
    result = check(source, most_sizes)
    if result.verdict not in FINDINGS:
        return Report(seed, result)
    smallest = minimise(source, lambda each: check(each, most_sizes).verdict is result.verdict)
    return Report(seed, check(smallest, most_sizes), smallest)


def examine_all(seeds: Sequence[int], most_sizes: int, processes: int, *, of_sizes: bool = False) -> Iterator[Report]:
    """Yield reports as they come; the pool's own error reports a process that dies."""
    jobs = [(seed, most_sizes, of_sizes) for seed in seeds]
    if processes == 1:
        yield from map(examine, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(examine, jobs, chunksize=4)
