"""Whatever fails, and whatever an aggregator answers, a window counts once at most and the cell is nobody's to read."""

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    HpkeConfig,
    HpkeConfigList,
    Report,
    ReportError,
    ReportUploadStatus,
    Role,
    UploadErrors,
)
from alcove.privacy.dap.reports import make_config
from alcove.privacy.errors import ReportRejectedError
from alcove.privacy.prio3 import Report as VdafReport
from alcove.registry.policy.dap import make_dap_task
from alcove.sdk import Client, StatusError, TransportError
from alcove.sdk.storage import Files
from alcove.sdk.transport import Reply

from tests.privacy.dap.party import Parties
from tests.sdk.aggregators import (
    CONFIG_TYPE,
    ERRORS_TYPE,
    WINDOW_S,
    FakeAggregators,
    enroll,
    make_aggregation,
    open_client,
    task_of,
    use,
)
from tests.sdk.conftest import Device
from tests.sdk.test_crash import keep, restore, run_and_die, steps_of
from tests.sdk.test_prio3_reports import PARTIES, TASK, make

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


@pytest.fixture
def due(device: Device, fake: FakeAggregators) -> Client:
    """A client with an outcome whose window is over and whose report is due."""
    client = enroll(device, fake)
    use(client)
    device.clock.pass_s(2 * WINDOW_S - 1)
    return client


def true_cell(device: Device) -> int:
    """Return the cell of what `due` recorded."""
    return task_of(device.world).cell_index(1, 1, 1.0)


def outbox_of(device: Device) -> list[Any]:
    """Return what waits on the disk."""
    return list(json.loads((device.folder / "reports" / "outbox.json").read_bytes()))


# --- the network and the leader


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(3))
def test_fault_at_every_request_counts_the_window_once(
    device: Device, fake: FakeAggregators, due: Client, when: str, at: int
) -> None:
    """Both fetches of keys and the upload, lost on the way there and on the way back: once, by one debit and one id."""
    seen = 0

    def fail(place: str, method: str, path: str) -> None:
        nonlocal seen
        seen += place == "before"
        if (place, method == "POST") == (when, at == 2) and seen == at + 1:
            raise TransportError(method=method, path=path, reason="the cable was cut")

    fake.fault = fail
    first = due.report()
    is_answered = when == "after" and at < 2  # keys that were answered are there
    assert (first.sent, first.error is None) == ((1, True) if is_answered else (0, False))
    assert first.epsilon_spent == (1 if is_answered or at == 2 else 0)
    fake.fault = lambda _when, _method, _path: None
    again = open_client(device, fake)
    assert again.report().sent == (0 if is_answered else 1)
    assert again.report().sent == 0
    assert len(fake.reports) == 1
    assert fake.cells(task_of(device.world)) == [true_cell(device)]
    assert again.privacy_summary().reports_made == 1


def test_report_whose_answer_was_lost_is_sent_again_byte_for_byte(
    device: Device, fake: FakeAggregators, due: Client
) -> None:
    """The leader has it after the first time; each repetition is the same bytes, over restarts too."""

    def lose(place: str, method: str, path: str) -> None:
        if (place, method) == ("after", "POST"):
            raise TransportError(method=method, path=path, reason="the answer was lost")

    fake.fault = lose
    due.report()
    for _ in range(3):
        assert open_client(device, fake).report().waiting == 1
    fake.fault = lambda _when, _method, _path: None
    assert open_client(device, fake).report().sent == 1
    bodies = [sent.body for sent in fake.requests if sent.method == "POST"]
    assert len(bodies) == 5
    assert len(set(bodies)) == 1
    assert len(fake.reports) == 1


def test_refused_request_waits_until_its_time_is_over(device: Device, fake: FakeAggregators, due: Client) -> None:
    """A leader that does not know the task yet, or is set up again, gets the report later, whatever it said."""
    for status in (400, 404, 408, 413, 415, 429, 500, 503):

        def refuse(place: str, method: str, path: str, status: int = status) -> None:
            if (place, method) == ("before", "POST"):
                raise StatusError(method=method, path=path, status=status)

        fake.fault = refuse
        result = due.report()
        assert isinstance(result.error, StatusError)
        assert result.error.status == status
        assert (result.sent, result.waiting, result.dropped) == (0, 1, 0)
    fake.fault = lambda _when, _method, _path: None
    assert due.report().sent == 1
    assert fake.cells(task_of(device.world)) == [true_cell(device)]


def test_every_refusal_of_the_leader_has_its_consequence(device: Device, fake: FakeAggregators, due: Client) -> None:
    """Too early: again later. Another key: sealed again. Anything else: given up. Never a second debit."""
    copy = keep(device)
    later = {ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED}
    later |= {ReportError.OUTDATED_CONFIG, ReportError.HPKE_UNKNOWN_CONFIG_ID}
    for error in ReportError:
        restore(device, copy)
        fake.reports.clear()
        fake.refusal = error
        result = due.report()
        assert isinstance(result.error, ReportRejectedError)
        assert result.error.error is error
        is_kept = error in later
        assert (result.sent, result.waiting, result.dropped) == ((0, 1, 0) if is_kept else (0, 0, 1)), error
        fake.refusal = None
        assert due.report().sent == len(fake.reports) == int(is_kept)
        assert due.privacy_summary().reports_made == 1


def garbage(device: Device) -> dict[str, Reply]:
    """Return answers to an upload that are none."""
    other = UploadErrors((ReportUploadStatus(bytes(16), ReportError.REPORT_REPLAYED),)).to_bytes()
    return {
        "another type": Reply("text/html", b"<html>"),
        "no type": Reply("", other),
        "a problem": Reply("application/problem+json", b"{}"),
        "no message": Reply(ERRORS_TYPE, b"\xff"),
        "half a message": Reply(ERRORS_TYPE, other[:-1]),
        "an unknown reason": Reply(ERRORS_TYPE, other[:-1] + b"\xee"),
        "about another report": Reply(ERRORS_TYPE, other),
    }


def test_answer_that_is_none_is_as_if_it_were_lost(device: Device, fake: FakeAggregators, due: Client) -> None:
    """Each kind in turn: the report waits, and the leader that answers as it should gets it."""
    for name, reply in garbage(device).items():
        fake.reply = reply
        result = due.report()
        assert isinstance(result.error, TransportError), name
        assert (result.sent, result.waiting, result.dropped) == (0, 1, 0), name
    fake.reply = None
    assert due.report().sent == 1
    assert len(fake.reports) == 1


# --- keys


SUITE = (hpke.KEM_ID, hpke.KDF_ID, hpke.AEAD_ID)


def bad_keys() -> dict[str, tuple[bytes, str]]:
    """Return answers to a device that asks for keys which give none."""
    good = HpkeConfigList((make_config(1, Parties().recipients.leader.public_key),)).to_bytes()
    return {
        "nothing": (b"", CONFIG_TYPE),
        "an empty list": (b"\x00\x00", CONFIG_TYPE),
        "another type": (good, "application/octet-stream"),
        "another message": (good, ERRORS_TYPE),
        "no type": (good, ""),
        "half a list": (good[:-1], CONFIG_TYPE),
        "more than a list": (good + b"x", CONFIG_TYPE),
        "another suite": (HpkeConfigList((HpkeConfig(1, 1, 1, 1, bytes(32)),)).to_bytes(), CONFIG_TYPE),
        "a short key": (HpkeConfigList((HpkeConfig(1, *SUITE, bytes(31)),)).to_bytes(), CONFIG_TYPE),
        "a key of small order": (HpkeConfigList((HpkeConfig(1, *SUITE, bytes(32)),)).to_bytes(), CONFIG_TYPE),
    }


def test_keys_that_are_none_cost_no_budget(device: Device, fake: FakeAggregators, due: Client) -> None:
    """Each kind in turn: no debit, no report; with keys there is one."""
    for name, answer in bad_keys().items():
        fake.config = answer
        result = due.report()
        assert isinstance(result.error, TransportError), name
        assert result.sent == result.epsilon_spent == 0, name
    fake.config = None
    assert due.privacy_summary().reports_made == 0
    assert due.report().sent == 1


def test_first_usable_key_of_a_list_is_used(device: Device, fake: FakeAggregators, due: Client) -> None:
    """An aggregator may offer other algorithms before ours."""
    (ours,) = HpkeConfigList.from_bytes(fake.answer_keys("")[0]).configs
    parties = fake.parties
    fake.parties = Parties(parties.helper_key, parties.helper_key, parties.collector_key)
    fake.config = (HpkeConfigList((HpkeConfig(9, 5, 1, 1, b"x"), ours)).to_bytes(), CONFIG_TYPE)
    assert due.report().sent == 1
    assert fake.cells(task_of(device.world)) == [true_cell(device)]


def test_keys_are_kept_for_a_day_in_memory(device: Device, fake: FakeAggregators) -> None:
    """One question for several windows, a new one after a day, and after a restart."""
    client = enroll(device, fake, policy={"epsilon": "0.1"})

    def count_questions(windows: int, asking: Client) -> int:
        before = sum(sent.method == "GET" for sent in fake.requests)
        for _ in range(windows):
            device.clock.pass_s(WINDOW_S * 2 - 1 - device.clock.time_s % WINDOW_S)
            assert asking.report().sent == 1
        return sum(sent.method == "GET" for sent in fake.requests) - before

    assert count_questions(5, client) == 2
    device.clock.pass_s(86_400)
    assert count_questions(1, client) == 2
    assert count_questions(1, open_client(device, fake)) == 2


def open_all(parties: Parties, device: Device, report: Report) -> list[VdafReport]:
    """Return what both aggregators find in a report."""
    dap_task = make_dap_task(task_of(device.world))
    return [parties.open(dap_task, role, report) for role in (Role.LEADER, Role.HELPER)]


@pytest.mark.parametrize("error", [ReportError.OUTDATED_CONFIG, ReportError.HPKE_UNKNOWN_CONFIG_ID])
@pytest.mark.parametrize("local_epsilon", [None, "0.5"])
def test_report_to_a_rotated_key_is_the_same_report_to_the_new_one(
    device: Device, fake: FakeAggregators, error: ReportError, local_epsilon: str | None
) -> None:
    """S2: who keeps both sealings, and has the keys of both, has one id and one measurement; over a restart too."""
    client = enroll(device, fake, policy={"aggregation": make_aggregation(local_epsilon=local_epsilon)})
    use(client)
    device.clock.pass_s(2 * WINDOW_S - 1)
    old = fake.parties

    def rotate(place: str, method: str, _path: str) -> None:
        if (place, method) == ("before", "POST") and fake.parties is old:
            fake.parties = Parties()

    fake.fault, fake.refusal = rotate, error
    first_result = client.report()
    assert (first_result.sent, first_result.waiting) == (0, 1)
    assert first_result.epsilon_spent == 1
    fake.refusal = None
    result = open_client(device, fake).report()
    assert result.sent == 1
    assert result.epsilon_spent == 0
    first = Report.from_bytes(next(sent.body for sent in fake.requests if sent.method == "POST"))
    (last,) = fake.sealings()
    assert first != last
    assert (first.metadata, first.public_share) == (last.metadata, last.public_share)
    assert open_all(old, device, first) == open_all(fake.parties, device, last)
    assert client.privacy_summary().reports_made == 1


def test_leader_that_always_says_outdated_gets_one_request_a_turn(
    device: Device, fake: FakeAggregators, due: Client
) -> None:
    """No loop within a turn, and after the window the report is gone."""
    fake.refusal = ReportError.OUTDATED_CONFIG
    for _ in range(3):
        before = len([sent for sent in fake.requests if sent.method == "POST"])
        assert due.report().waiting == 1
        assert len([sent for sent in fake.requests if sent.method == "POST"]) == before + 1
    ids = {Report.from_bytes(sent.body).metadata.report_id for sent in fake.requests if sent.method == "POST"}
    assert len(ids) == 1
    device.clock.pass_s(WINDOW_S)
    due.report()
    assert all(entry["window"] == 1001 for entry in outbox_of(device))


# --- the disk


def test_kill_at_every_disk_step_sends_at_most_one(
    device: Device, fake: FakeAggregators, due: Client, tmp_path: Path
) -> None:
    """SIGKILL before each step of a report: one id at most, one debit, and whatever arrives is the recorded cell."""
    copy = keep(device)
    arrived = tmp_path / "arrived"  # what the killed processes sent is seen here alone

    def note(place: str, method: str, _path: str) -> None:
        if (place, method) == ("after", "POST"):
            with arrived.open("ab") as file:
                file.write(fake.sealings()[-1].metadata.report_id)

    fake.fault = note
    count = len(steps_of(lambda files: open_client(device, fake, files=files).report()))
    assert count >= 10
    lost = 0
    for at in range(count):
        restore(device, copy)
        fake.reports.clear()
        arrived.unlink()
        arrived.touch()
        run_and_die(lambda files: open_client(device, fake, files=files).report(), at)
        client = open_client(device, fake)
        for _ in range(3):
            client.report()
        ids = arrived.read_bytes()
        assert len({ids[place : place + 16] for place in range(0, len(ids), 16)}) <= 1, at
        assert fake.cells(task_of(device.world)) in ([], [true_cell(device)]), at
        assert client.privacy_summary().reports_made == 1, at
        lost += not ids
    # Between the debit and the outbox a crash loses the report; nowhere else.
    assert 0 < lost <= 8, lost


def test_disk_full_at_every_step_sends_at_most_one(device: Device, fake: FakeAggregators, due: Client) -> None:
    """A typed result, and no report without a debit."""
    copy = keep(device)
    count = len(steps_of(lambda files: open_client(device, fake, files=files).report()))
    for at in range(count):
        restore(device, copy)
        fake.reports.clear()
        steps = 0

        def fill(_: str, __: object, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        client = open_client(device, fake, files=Files(fill))
        for _ in range(3):
            client.report()
        assert len(fake.reports) <= 1, at
        assert len(fake.reports) <= client.privacy_summary().reports_made <= 1, at


@pytest.mark.parametrize("name", ["outbox.json", "tasks.json", "pending.json"])
def test_damage_to_every_field_of_a_file_loses_reports_and_sends_nothing_else(
    device: Device, fake: FakeAggregators, due: Client, name: str
) -> None:
    """Each field gone, of another type, and out of its bound: no exception, and nothing but whole reports leaves."""

    def be_away(place: str, method: str, path: str) -> None:
        if (place, method) == ("before", "POST"):
            raise TransportError(method=method, path=path, reason="the cable was cut")

    path = device.folder / "reports" / name
    if name == "outbox.json":
        fake.fault = be_away
        due.report()
        fake.fault = lambda _when, _method, _path: None
    (entry,) = json.loads(path.read_bytes())
    copy = keep(device)
    for field in entry:
        values: tuple[Any, ...] = (None, -1, "zz", [], 1 << 80)
        for value in values:
            restore(device, copy)
            fake.reports.clear()
            damaged = {key: value if key == field else old for key, old in entry.items()}
            path.write_text(json.dumps([damaged, [], None, {}]), encoding="utf-8")
            client = open_client(device, fake)
            result = client.report()
            assert len(fake.reports) == result.sent <= 1, (field, value)
            assert client.privacy_summary().reports_made <= 1
    restore(device, copy)
    del entry[next(iter(entry))]
    path.write_text(json.dumps([entry]), encoding="utf-8")
    assert open_client(device, fake).report().sent == (1 if name == "pending.json" else 0)


# --- the canary


def spellings(cells: int, cell: int) -> dict[str, bytes]:
    """Return the one-hot vector of a cell as anybody might write it."""
    one_hot = [int(place == cell) for place in range(cells)]
    return {
        "bytes": bytes(one_hot),
        "elements": b"".join(struct.pack("<QQ", value, 0) for value in one_hot),
        "words": b"".join(struct.pack("<Q", value) for value in one_hot),
        "numbers": b"".join(struct.pack("<I", value) for value in one_hot),
        "text": json.dumps(one_hot).encode(),
        "short text": json.dumps(one_hot, separators=(",", ":")).encode(),
        "digits": "".join(map(str, one_hot)).encode(),
        "field": json.dumps({"cell": cell}).encode()[1:-1],
    }


def find_canary(data: bytes, cells: int, cell: int) -> list[str]:
    """Return the spellings of a cell that are in some bytes."""
    return [name for name, spelling in spellings(cells, cell).items() if spelling in data]


def test_neither_aggregator_nor_the_network_sees_the_cell(device: Device, fake: FakeAggregators, due: Client) -> None:
    """The canary: in nothing that left, and in nothing that either aggregator opened; together they read it."""
    assert due.report().sent == 1
    task = task_of(device.world)
    cells, cell = task.cell_count + 1, true_cell(device)
    (report,) = fake.sealings()
    opened = [part.public_share + part.input_share for part in open_all(fake.parties, device, report)]
    wires = [sent.wire for sent in fake.requests]
    wires += [sent.wire for sent in device.transport.requests]
    for data in (*wires, *opened):
        assert find_canary(data, cells, cell) == []
    assert fake.cells(task) == [cell]


def test_a_leaky_share_would_be_found() -> None:
    """The control: a leader's share that is the measurement itself, in any spelling."""
    for name, spelling in spellings(13, 4).items():
        assert name in find_canary(b"before" + spelling + b"after", 13, 4)
    assert find_canary(bytes(500), 13, 4) == []


def test_share_of_one_aggregator_is_the_same_whatever_the_cell() -> None:
    """The helper's share is a seed that no cell enters; the leader's is hidden by its expansion, new in each report."""
    dap_task = make_dap_task(TASK)
    reports = [make(cell, seed=5) for cell in (None, *range(TASK.cell_count))]
    assert len({PARTIES.open(dap_task, Role.HELPER, report).input_share for report in reports}) == 1
    leaders = [PARTIES.open(dap_task, Role.LEADER, make(4, seed)).input_share for seed in range(64)]
    for place in range(TASK.cell_count + 1):
        assert len({share[16 * place : 16 * place + 16] for share in leaders}) == 64
