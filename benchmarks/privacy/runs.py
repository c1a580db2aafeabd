"""Runs whole batches from devices to the collector, and compares what is released with the shares and the noise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from alcove.platform.aggregator.noise import NoiseSource
from alcove.privacy.dap.messages import CollectionJobResp
from alcove.privacy.dap.release import open_release

from benchmarks.privacy.builds import BUILDS
from benchmarks.privacy.seats import FIRST, SECOND, TIME, Seats, make_folder, make_request, open_seats


class NoiseRecord:
    """A source of noise that remembers what it drew last."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.drawn: list[int] = []

    def __call__(self, scale: Fraction, count: int, /) -> list[int]:
        """Return what the source draws."""
        self.drawn = self._source(scale, count)
        return self.drawn


@dataclass(frozen=True)
class Run:
    """One batch.

    Attributes:
        counts: devices in each cell.
        shares: what the aggregators' sums add up to, before the noise.
        leader_noise: what the leader drew.
        helper_noise: what the helper drew.
        released: what the collector learned.
        reports: of how many.
    """

    counts: tuple[int, ...]
    shares: tuple[int, ...]
    leader_noise: tuple[int, ...]
    helper_noise: tuple[int, ...]
    released: tuple[int, ...]
    reports: int

    @property
    def is_exact(self) -> bool:
        """Whether the shares are of the true counts, and the release is the shares and both noises, to the unit."""
        sums = zip(self.shares, self.leader_noise, self.helper_noise, strict=True)
        is_counted = self.shares == self.counts and self.reports == sum(self.counts)
        return is_counted and self.released == tuple(map(sum, sums))


async def run_batches(
    runs: int, epsilon: Fraction, *, build: str = "right", report: Callable[[str], None] = lambda _: None
) -> list[Run]:
    """Return `runs` batches of each of the two inputs, by turns, each in a window of its own."""
    leader, helper = (NoiseRecord(source) for source in BUILDS[build].make())
    found: list[Run] = []
    with make_folder() as folder:
        async with open_seats(Path(folder), epsilon, leader, helper) as seats:
            for index in range(2 * runs):
                found.append(await _run(seats, (FIRST, SECOND)[index % 2], TIME - index, (leader, helper)))
                report(f"whole runs: {index + 1:,} of {2 * runs:,}")
    return found


async def _run(seats: Seats, counts: tuple[int, ...], time: int, sources: Sequence[NoiseRecord]) -> Run:
    await seats.aggregate(counts, time)
    leader, helper = await seats.read_buckets(time)
    request = make_request(time)
    job_id = await seats.collection.create(seats.opened, request.to_bytes())
    while await seats.collection.run_job():
        pass
    state = await seats.collection.find(seats.task.task_id, job_id)
    if state is None or state.response is None:
        raise RuntimeError(f"the batch is not released: {state}")
    release = open_release(seats.task, seats.collector.hpke_key, request, CollectionJobResp.from_bytes(state.response))
    return Run(
        counts,
        seats.add(leader.aggregate_share, helper.aggregate_share),
        tuple(sources[0].drawn),
        tuple(sources[1].drawn),
        release.sums,
        release.reports,
    )
