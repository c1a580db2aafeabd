"""Releases stored batches again and again through the aggregators' own functions, each in a transaction of its own.

The batch is made once by devices, leader and helper. Its stored sums are then put under many windows, and each window
is released: by `Helper.release` alone, or by the leader's collection job, which asks the helper. What an aggregator has
added is its released share less the stored one; nothing is asked of the sampler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.platform.aggregator.helper import derive_resource_id
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import AggregateShareRow, BucketRow, CollectionJobRow
from alcove.privacy.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    BatchMode,
    BatchSelector,
    CollectionJobResp,
    HpkeCiphertext,
    Interval,
    Role,
)
from alcove.privacy.dap.release import open_aggregate_share
from sqlalchemy import delete, insert, select

from benchmarks.privacy.bounds import IntArray
from benchmarks.privacy.builds import BUILDS
from benchmarks.privacy.seats import FIRST, SECOND, TIME, Seats, make_folder, make_request, open_seats

STORED: Final = 250
"""Windows that wait for their release at a time."""


@dataclass(frozen=True)
class Releases:
    """What the aggregators added to a batch, in each of its releases.

    Attributes:
        counts: what the stored sums of both add up to.
        leader_noise: the leader's, [releases, cells]; no release where the helper's alone were asked for.
        helper_noise: the helper's, likewise.
    """

    counts: tuple[int, ...]
    leader_noise: IntArray
    helper_noise: IntArray

    def see(self, noise: IntArray) -> IntArray:
        """Return what somebody sees of the two cells that differ, where the sum has this noise; see `bound_loss`."""
        shift = np.array(self.counts, np.int64) - np.array(FIRST, np.int64)
        seen: IntArray = (noise + shift)[:, :2]
        return seen

    def view(self, name: str) -> dict[str, IntArray]:
        """Return all that a party can compute: `VIEWS` has the names."""
        leader, helper = self.leader_noise, self.helper_noise
        match name:
            case "leader":  # knows its own share and noise, so that the helper's hides the sum
                own = {"helper's share, leader's noise off": self.see(helper - leader)} if len(leader) else {}
                return {"helper's share": self.see(helper)} | own
            case "helper":
                own = {"leader's share, helper's noise off": self.see(leader - helper)}
                return {"leader's share": self.see(leader)} | own
            case _:
                return {"both shares": self.see(leader + helper)}


VIEWS: Final = {
    "leader": "the leader, with the collector",
    "helper": "the helper, with the collector",
    "collector": "the collector alone",
}
"""Who looks."""


async def release_batches(
    counts: tuple[int, ...], releases: int, epsilon: Fraction, *, build: str = "right", is_pair: bool
) -> Releases:
    """Return the noise of `releases` releases of one batch.

    Args:
        counts: devices in each cell.
        releases: how many.
        epsilon: of the task.
        build: which noise, of `BUILDS`.
        is_pair: whether the leader releases too.
    """
    with make_folder() as folder:
        async with open_seats(Path(folder), epsilon, *BUILDS[build].make()) as seats:
            await seats.aggregate(counts, TIME)
            leader, helper = await seats.read_buckets(TIME)
            await _forget_buckets(seats)
            leader_noise: list[tuple[int, ...]] = []
            helper_noise: list[tuple[int, ...]] = []
            while len(helper_noise) < releases:
                times = range(min(STORED, releases - len(helper_noise)))
                await _store(seats.helper_database, helper, times)
                if is_pair:
                    await _store(seats.leader_database, leader, times)
                    pairs = await _release_pairs(seats, times)
                    leader_noise += [seats.subtract(share, leader.aggregate_share) for share, _ in pairs]
                    helper_noise += [seats.subtract(share, helper.aggregate_share) for _, share in pairs]
                else:
                    shares = [await _release_helper(seats, leader, time) for time in times]
                    helper_noise += [seats.subtract(share, helper.aggregate_share) for share in shares]
                await _forget_releases(seats)
            shape = (-1, len(counts))
            return Releases(
                seats.add(leader.aggregate_share, helper.aggregate_share),
                np.array(leader_noise, np.int64).reshape(shape),
                np.array(helper_noise, np.int64).reshape(shape),
            )


async def release_neighbours(
    releases: int, epsilon: Fraction, *, build: str = "right", is_pair: bool
) -> tuple[Releases, Releases]:
    """Return the releases of both inputs."""
    first, second = [
        await release_batches(counts, releases, epsilon, build=build, is_pair=is_pair) for counts in (FIRST, SECOND)
    ]
    return first, second


async def _release_helper(seats: Seats, batch: BucketRow, time: int) -> bytes:
    """Return the helper's noised share of a window, as the collector opens it."""
    request = make_request(time)
    selector = BatchSelector(BatchMode.TIME_INTERVAL, Interval(time, 1).to_bytes())
    body = AggregateShareReq(request, selector, batch.reports, batch.checksum).to_bytes()
    _, answer = await seats.helper.release(seats.opened, body)
    return _open(seats, Role.HELPER, time, AggregateShare.from_bytes(answer).encrypted_aggregate_share)


async def _release_pairs(seats: Seats, times: Sequence[int]) -> list[tuple[bytes, bytes]]:
    """Return both noised shares of each window, by the leader's collection jobs: batches are frozen, and wait."""
    rows = []
    for time in times:
        body = make_request(time).to_bytes()
        rows.append(
            {
                "task_id": seats.task.task_id,
                "job_id": derive_resource_id(body),
                "request": body,
                "start": time,
                "end": time + 1,
                "state": "frozen",
                "attempts": 0,
                "leased_until_s": 0,
            }
        )
    async with seats.leader_database.write() as session:
        await session.execute(insert(CollectionJobRow), rows)
    while await seats.collection.run_job():
        pass
    async with seats.leader_database.read() as session:
        found = (await session.scalars(select(CollectionJobRow).order_by(CollectionJobRow.start))).all()
    pairs = []
    for row in found:
        response = CollectionJobResp.from_bytes(row.response or b"")
        pairs.append(
            (
                _open(seats, Role.LEADER, row.start, response.leader_aggregate_share),
                _open(seats, Role.HELPER, row.start, response.helper_aggregate_share),
            )
        )
    return pairs


def _open(seats: Seats, role: Role, time: int, sealed: HpkeCiphertext) -> bytes:
    return open_aggregate_share(seats.task, role, seats.collector.hpke_key, make_request(time), sealed)


async def _store(database: AggregatorDatabase, batch: BucketRow, times: Sequence[int]) -> None:
    """Put a stored batch under many windows."""
    row: dict[str, Any] = {
        "task_id": batch.task_id,
        "aggregate_share": batch.aggregate_share,
        "reports": batch.reports,
        "checksum": batch.checksum,
    }
    async with database.write() as session:
        await session.execute(insert(BucketRow), [row | {"time": time} for time in times])


async def _forget_buckets(seats: Seats) -> None:
    for database in (seats.leader_database, seats.helper_database):
        async with database.write() as session:
            await session.execute(delete(BucketRow))


async def _forget_releases(seats: Seats) -> None:
    """Let the windows be released once more."""
    async with seats.leader_database.write() as session:
        await session.execute(delete(CollectionJobRow))
    async with seats.helper_database.write() as session:
        await session.execute(delete(AggregateShareRow))
