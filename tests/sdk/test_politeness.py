"""A device spares the server, the network and its disk: bounded waits, backoff, small checks, checked free space."""

import socket
import sys
import threading
from pathlib import Path

import pytest
from alcove.sdk import DeviceStorageError, NoSpaceError, ReportResult, StatusError
from alcove.sdk.background import BackgroundSync, Turn, next_wait_s, report_turn, sync_turn
from alcove.sdk.limits import CHUNK_BYTES, DISK_RESERVE_BYTES, MAX_BACKOFF_S, MAX_RETRY_AFTER_S
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import Device, TreeServer

BIG = 20 * CHUNK_BYTES
OLD, NEW = "one 1.0.0 default", "three 3.0.0 default"


@pytest.fixture
def updating_device(device: Device) -> Device:
    """A device on 1.0.0 whose policy now says 3.0.0, a version of many chunks."""
    device.client().sync()
    device.world.push("3.0.0", fake_program("three", size_bytes=BIG))
    device.world.set_policy("3.0.0")
    return device


# --- the server


@pytest.mark.parametrize(
    ("said", "expected_wait_s"),
    [("120", 120), ("0", 0), ("999999999", MAX_RETRY_AFTER_S), ("-5", 0), ("soon", 0), ("9" * 40, 0), ("٣", 0)],
)
def test_wait_that_a_server_asks_for_is_reported_and_bounded(
    updating_device: Device, server: TreeServer, said: str, expected_wait_s: int
) -> None:
    """Seconds are taken up to half a day; anything else is no wait, and nothing that a server says breaks a sync."""
    client = updating_device.client(server.url, transport=None)
    server.unavailable = said if said.isascii() else "3e5"
    result = client.sync()
    assert result.error is not None
    assert result.retry_after_s == expected_wait_s
    assert updating_device.answer(client) == OLD
    server.unavailable = None
    result = client.sync()
    assert (result.error, result.retry_after_s) == (None, 0)


class Extreme:
    """Entropy that always says the same: the least or the most."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return one byte again and again."""
        return bytes([self.byte]) * size_bytes


@pytest.mark.parametrize("byte", [0, 255])
def test_no_server_keeps_a_device_away_for_more_than_a_day(byte: int) -> None:
    """Whatever it asks for, however often it failed, whatever is drawn."""
    for interval_s in (1.0, 60.0, 3600.0, 57_600.0):
        for failures in range(40):
            for asked_s in (0, 1, 86_400 // 2, MAX_RETRY_AFTER_S):
                wait_s = next_wait_s(interval_s, Extreme(byte), failures=failures, asked_wait_s=asked_s)
                assert asked_s <= wait_s <= 86_400


def test_interval_doubles_with_each_failure_up_to_a_day() -> None:
    """Half to one and a half of it, and no more than a day; an interval that is longer stays what it is."""
    entropy = SeededEntropy(1)
    for failures in range(40):
        mean = min(60.0 * 2**failures, MAX_BACKOFF_S)
        waits = [next_wait_s(60.0, entropy, failures=failures) for _ in range(100)]
        assert mean * 0.5 <= min(waits) < mean * 0.7
        assert mean * 1.3 < max(waits) < mean * 1.5
    assert next_wait_s(10 * MAX_BACKOFF_S, entropy, failures=3) >= 5 * MAX_BACKOFF_S


def test_no_turn_comes_before_the_server_wants_it_and_not_all_come_then() -> None:
    """Devices that got the same wait spread over as much again."""
    entropy = SeededEntropy(2)
    waits = [next_wait_s(10.0, entropy, failures=1, asked_wait_s=300.0) for _ in range(200)]
    assert 300 <= min(waits) < 310
    assert 590 < max(waits) < 600


def test_background_sync_backs_off_while_turns_fail_and_comes_back_after_one_that_does_not() -> None:
    """Failures in a row count; a turn that raises is one of them; one good turn ends it."""
    turns = [Turn(is_failed=True), None, Turn(is_failed=True, asked_wait_s=1000.0), Turn(), Turn()]
    waited: list[float] = []
    ended = threading.Event()

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) == 6:
            ended.set()
        return len(waited) == 6

    def work() -> Turn:
        turn = turns.pop(0)
        if turn is None:
            raise RuntimeError
        return turn

    background = BackgroundSync(work, 10.0, SeededEntropy(), wait)
    background.start()
    assert ended.wait(60)
    background.stop()
    for seconds, (low, high) in zip(waited, [(0, 10), (10, 30), (20, 60), (1000, 2000), (5, 15), (5, 15)], strict=True):
        assert low <= seconds < high


def test_turn_that_knows_when_the_next_is_due_has_it_then_unless_it_was_asked_to_wait() -> None:
    """A report's time was drawn before: no interval, jitter or failure of another delays it, a server's wish does."""
    turns = [
        Turn(next_due_s=3.5),
        Turn(next_due_s=0.0),
        Turn(next_due_s=1e6),
        Turn(next_due_s=3.5, is_failed=True),
        Turn(next_due_s=3.5, is_failed=True, asked_wait_s=100.0),
        Turn(),
    ]
    waited: list[float] = []
    ended = threading.Event()

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) == 7:
            ended.set()
        return len(waited) == 7

    background = BackgroundSync(lambda: turns.pop(0), 10.0, SeededEntropy(), wait)
    background.start()
    assert ended.wait(60)
    background.stop()
    assert waited[1:3] == [3.5, 1.0]
    for seconds, (low, high) in zip(waited[3:], [(5, 15), (3.5, 3.6), (100, 200), (5, 15)], strict=True):
        assert low <= seconds < high


def test_turn_that_sent_a_report_has_not_failed_whatever_another_server_says() -> None:
    """One task's aggregator that is away, or wants to be left alone, holds up no other task's reports."""
    error = StatusError(method="POST", path="/", status=503, retry_after_s=60.0)
    assert report_turn(lambda: ReportResult(sent=1, waiting=2, error=error)) == Turn(left=2)
    assert report_turn(lambda: ReportResult(waiting=2, error=error)) == Turn(is_failed=True, asked_wait_s=60.0, left=2)


def test_background_turn_tells_failure_and_wait(updating_device: Device, server: TreeServer) -> None:
    """What the thread of a real client makes of a server that is unavailable, gone, and well again."""
    client = updating_device.client(server.url, transport=None)
    server.unavailable = "77"
    assert sync_turn(client) == Turn(is_failed=True, asked_wait_s=77.0)
    server.unavailable = None
    assert sync_turn(client) == Turn()
    server.close()
    assert sync_turn(client) == Turn(is_failed=True)


# --- the network


class CountingProxy:
    """Passes connections on to a server, and counts every byte in both directions, headers included."""

    def __init__(self, port: int) -> None:
        self.total_bytes = 0
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        while True:
            try:
                data = source.recv(65536)
                self.total_bytes += len(data)
                target.sendall(data)
            except OSError:
                data = b""
            if not data:
                target.close()
                return


def test_check_that_finds_nothing_new_moves_at_most_a_kilobyte(
    updating_device: Device, server: TreeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests, answers, and all their headers, as they pass a socket (without TCP's and TLS's own)."""
    proxy = CountingProxy(server.server.server_port)
    client = updating_device.client(proxy.url, transport=None)
    first = client.sync()
    assert first.error is None
    proxy.total_bytes = 0
    unchanged = client.sync()
    moved = proxy.total_bytes
    proxy.close()
    with capsys.disabled():
        sys.stdout.write(
            f"\n  unchanged check-in: {moved} bytes both ways, {unchanged.bytes_received} of them bodies\n"
        )
    assert unchanged.error is None
    assert unchanged.bytes_sent + unchanged.bytes_received <= moved <= 1000


# --- the disk


class SmallDisk(Files):
    """A disk with so many free bytes."""

    def __init__(self, free_bytes: int) -> None:
        super().__init__()
        self.free = free_bytes

    def free_bytes(self, path: Path) -> int:
        """Return what the test says."""
        return self.free


def test_download_that_would_fill_the_disk_is_not_begun(updating_device: Device) -> None:
    """A typed error with need and free bytes, no request for the program, the old version; with room it continues."""
    size = updating_device.world.blob("3.0.0").stat().st_size
    disk = SmallDisk(size + DISK_RESERVE_BYTES - 1)
    client = updating_device.client(files=disk)
    result = client.sync()
    assert isinstance(result.error, NoSpaceError)
    assert isinstance(result.error, DeviceStorageError)
    assert (result.error.needed_bytes, result.error.free_bytes) == (size + DISK_RESERVE_BYTES, disk.free)
    assert f"{disk.free} are free" in str(result.error)
    assert not [
        sent
        for sent in updating_device.transport.requests
        if sent.path == f"/blobs/{updating_device.world.blob('3.0.0').name}"
    ]
    assert updating_device.answer(client) == OLD
    disk.free += 1
    assert client.sync().error is None
    assert updating_device.answer(client) == NEW


def test_what_was_downloaded_already_needs_no_room_again(updating_device: Device) -> None:
    """After a cut only the rest has to fit."""
    updating_device.transport.truncate_at = 15 * CHUNK_BYTES
    assert updating_device.client().sync().error is not None
    updating_device.transport.truncate_at = None
    rest = updating_device.world.blob("3.0.0").stat().st_size - 15 * CHUNK_BYTES
    client = updating_device.client(files=SmallDisk(rest + DISK_RESERVE_BYTES))
    assert client.sync().error is None
    assert updating_device.answer(client) == NEW


def test_update_takes_no_more_room_than_the_new_program_beside_the_old(updating_device: Device) -> None:
    """At every step of it, counted on the disk: never two copies of what is downloaded."""
    folder = updating_device.folder

    def measure_bytes() -> int:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())

    before, most = measure_bytes(), 0

    def measure(_: str, __: Path) -> None:
        nonlocal most
        most = max(most, measure_bytes())

    assert updating_device.client(files=Files(measure)).sync().error is None
    size = updating_device.world.blob("3.0.0").stat().st_size
    assert size <= measure_bytes() - before
    assert most - before < size + 50_000
