"""Clocks that are a day off, disks that are full and keys that are gone cost no acknowledged report but by name."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.aggregator import keys
from alcove.platform.aggregator.batches import compute_checksum
from alcove.platform.domain.errors import StoreFullError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import CHECKSUM_BYTES, ReportError
from alcove.privacy.dap.release import Release
from alcove.runtime.files import DISK
from sqlalchemy import text

from tests.platform.aggregator.pair import WINDOW_S, Seats, make_ring, open_seats
from tests.platform.aggregator.test_burst import checksums
from tests.privacy.dap.party import TIME

COUNTS = (40, 0, 61, 3)
RELEASE = Release(104, TIME, 1, COUNTS)


@pytest.mark.parametrize("days", [-1, 1])
@pytest.mark.parametrize("seat", ["leader", "helper"])
async def test_clock_of_one_seat_that_is_a_day_off_loses_no_acknowledged_report(
    files: Seats, seat: str, days: int
) -> None:
    """Behind, it calls reports too early, which devices or the leader send again; ahead, it changes nothing."""
    clock = files.clock if seat == "leader" else files.helper_clock
    clock.time_s += days * WINDOW_S
    reports = [files.report(cell, f"{cell} {number}") for cell, count in enumerate(COUNTS) for number in range(count)]
    refused = await files.upload(*reports)
    is_early = (seat, days) == ("leader", -1)
    assert {status.error for status in refused} == ({ReportError.REPORT_TOO_EARLY} if is_early else set())
    assert len(refused) == (len(reports) if is_early else 0)
    await files.aggregate()
    assert files.aggregation.added == (len(reports) if days == 1 else 0)
    clock.time_s -= days * WINDOW_S
    assert await files.upload(*reports) == ()  # those that were acknowledged are again
    files.clock.time_s += 120
    assert await files.collect() == RELEASE


async def _limit(seats: Seats, seat: str, room_pages: int | None) -> None:
    """Leave a database so many pages more than it has; None: as many as it wants."""
    database = seats.leader_database if seat == "leader" else seats.helper_database
    async with database.write() as session:
        pages = (await session.execute(text("PRAGMA page_count"))).scalar_one()
        most = 1_000_000 if room_pages is None else pages + room_pages
        await session.execute(text(f"PRAGMA max_page_count = {most}"))


@pytest.mark.parametrize(("seat", "count"), [("leader", 24), ("helper", 120)])  # of which the helper keeps ids alone
async def test_disk_that_is_full_after_any_number_of_pages_changes_no_count(
    template: Path, tmp_path: Path, seat: str, count: int
) -> None:
    """However far the work comes, the error is typed, and with room again both seats have each report once."""
    refusals = 0
    for room_pages in range(100):
        places = [tmp_path / f"{name} {room_pages}.db" for name in ("leader", "helper")]
        for place in places:
            shutil.copy(template, place)
        seats = await open_seats(places[0], places[1])
        reports = [seats.report(number % 4, str(number)) for number in range(count)]
        await _limit(seats, seat, room_pages)
        is_full = False
        try:
            await seats.upload(*reports)
            await seats.aggregate()
        except StoreFullError:
            is_full = True
        await _limit(seats, seat, None)
        seats.restart()
        seats.clock.time_s += 600
        assert await seats.upload(*reports) == ()
        await seats.aggregate()
        ids = [report.metadata.report_id for report in reports]
        assert await checksums(seats) == [compute_checksum(bytes(CHECKSUM_BYTES), ids)] * 2
        await seats.leader_database.close()
        await seats.helper_database.close()
        if not is_full:
            break
        refusals += 1
    assert refusals >= 2


def _fill(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def fail(*_given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("step", ["write_private_file", "rename", "sync_folder"])
def test_disk_that_is_full_while_a_key_is_made_leaves_the_keys_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At each step of writing it; with room again a key is made."""
    keys.rotate_key(tmp_path, 1000)
    before = keys.read_keys(tmp_path, 2000)
    with monkeypatch.context() as patched:
        _fill(patched, keys if step == "write_private_file" else DISK, step)
        with pytest.raises(OSError, match="No space left"):
            keys.rotate_key(tmp_path, 2000)
    after = keys.read_keys(tmp_path, 2000)
    assert after.configs == before.configs
    assert before.private.items() <= after.private.items()
    assert keys.rotate_key(tmp_path, 3000) in keys.read_keys(tmp_path, 3000).private


@pytest.mark.parametrize("seat", ["leader", "helper"])
async def test_report_whose_key_was_rotated_away_is_left_out_by_name(files: Seats, seat: str) -> None:
    """Sealed to a key that is still kept it counts; to one that is gone it is counted as left out, at both seats."""
    await files.upload_counts(COUNTS)
    old = files.keys if seat == "leader" else files.helper_keys
    new = make_ring(hpke.generate_private_key(), config_id=2)
    both = type(new)(new.configs, {**old.private, **new.private})
    place = "keys" if seat == "leader" else "helper_keys"
    setattr(files, place, both)
    await files.aggregate()
    assert files.aggregation.added == 104
    await files.upload_counts((5, 0, 0, 0), name="late")
    setattr(files, place, new)
    assert await files.collect() == RELEASE
    assert files.aggregation.rejected == {"hpke_unknown_config_id": 5}
