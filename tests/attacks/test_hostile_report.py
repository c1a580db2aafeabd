"""Attack: devices that send whatever bytes they like under good seals, to stop the job that honest reports are in.

One report that an aggregator could not read without an error would keep the 511 others of its job from being added,
for as long as the job is tried again; four of them the task.
"""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    Extension,
    HpkeCiphertext,
    InputShareAad,
    PlaintextInputShare,
    Report,
    ReportShare,
    Role,
)
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.reports import open_input_share
from alcove.privacy.dap.task import VERSION, DapTask

from tests.platform.aggregator.pair import TASK, TOKEN_TASK, Seats, open_seats
from tests.privacy.dap.party import TIME, Parties

COUNTS = (70, 0, 21, 9)
ROUNDS = 3
TIMES = (0, 1, TIME - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
SMALL_ORDER = (bytes(32), b"\x01" + bytes(31), b"\xff" * 32)


def _get(report: Report, role: Role) -> HpkeCiphertext:
    return report.leader_input_share if role is Role.LEADER else report.helper_input_share


def _put(report: Report, role: Role, sealed: HpkeCiphertext) -> Report:
    if role is Role.LEADER:
        return replace(report, leader_input_share=sealed)
    return replace(report, helper_input_share=sealed)


class Device:
    """A device that makes each report wrong in one way of its own.

    Args:
        seats: whose keys and task it knows.
        seed: of what it chooses.
    """

    def __init__(self, seats: Seats, seed: int) -> None:
        self.seats = seats
        self.parties: Parties = seats.parties
        self.random = random.Random(seed)
        self.made = 0

    def honest(self) -> Report:
        """Return a report that is whole, to be spoilt."""
        self.made += 1
        return self.seats.report(0, f"hostile {self.made}")

    def reseal(self, report: Report, role: Role, way: int) -> Report:
        """Return the report with another plaintext under a good seal."""
        key = self.parties.leader_key if role is Role.LEADER else self.parties.helper_key
        task, old = self.seats.task, _get(report, role)
        opened = open_input_share(task, role, {1: key}, ReportShare(report.metadata, report.public_share, old))
        aad = InputShareAad(task.task_id, task.configuration, report.metadata, report.public_share).to_bytes()
        info = VERSION + b" input share" + bytes([Role.CLIENT, role])
        sealed = hpke.seal(hpke.derive_public_key(key), info, aad, self.list_plaintexts(opened)[way])
        return _put(report, role, HpkeCiphertext(1, *sealed))

    def draw(self, most: int) -> bytes:
        """Return some bytes, one at least."""
        return self.random.randbytes(self.random.randrange(1, most))

    def flip(self, data: bytes) -> bytes:
        """Return the bytes with one of them changed."""
        at = self.random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1 :]

    def list_plaintexts(self, share: PlaintextInputShare) -> list[bytes]:
        """Return what a device could seal in the place of a share."""
        size = len(share.payload)
        more = tuple(Extension(self.random.randrange(1 << 16), self.draw(40)) for _ in range(3))
        return [
            b"",
            self.draw(2 * size),
            self.flip(share.to_bytes()),
            replace(share, payload=b"\xff" * size).to_bytes(),
            replace(share, payload=self.draw(2 * size)).to_bytes(),
            replace(share, private_extensions=more).to_bytes(),
        ]

    def spoil(self, report: Report, role: Role) -> list[Report]:
        """Return the report, spoilt in each way that no seal hides."""
        sealed = _get(report, role)
        tokens = tuple(Extension(0xFF01, self.draw(400)) for _ in range(self.random.randrange(1, 3)))
        return [
            replace(report, public_share=self.flip(report.public_share)),
            _put(report, role, replace(sealed, encapsulated_key=self.random.choice(SMALL_ORDER))),
            _put(report, role, replace(sealed, payload=self.draw(20))),
            replace(report, helper_input_share=replace(sealed, config_id=self.random.randrange(2, 256))),
            replace(report, metadata=replace(report.metadata, time=self.random.choice(TIMES))),
            replace(report, metadata=replace(report.metadata, public_extensions=tokens)),
        ]

    def make_reports(self) -> list[Report]:
        """Return a report wrong in each of the ways, for each aggregator."""
        reports = []
        for role in (Role.LEADER, Role.HELPER):
            reports += [self.reseal(self.honest(), role, way) for way in range(6)]
            reports += [self.spoil(self.honest(), role)[way] for way in range(6)]
        return reports


@pytest.mark.parametrize("task", [TASK, TOKEN_TASK], ids=["no tokens", "tokens"])
async def test_no_report_stops_the_job_of_others(tmp_path: Path, task: DapTask) -> None:
    """Among reports that are wrong in a dozen ways at either aggregator, honest ones are counted, and nothing waits."""
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", task=task)
    try:
        device = Device(seats, 7)
        with structlog.testing.capture_logs() as lines:
            for _ in range(ROUNDS):
                await seats.upload(*device.make_reports())
                await seats.aggregate()
            await seats.upload_counts(COUNTS)
            found = await seats.collect()
        assert found == Release(sum(COUNTS), TIME, 1, COUNTS)
        left_out = seats.uploads.refused + seats.aggregation.rejected
        assert sum(left_out.values()) == device.made
        assert [line for line in lines if line["log_level"] == "error"] == []
    finally:
        await seats.leader_database.close()
        await seats.helper_database.close()
