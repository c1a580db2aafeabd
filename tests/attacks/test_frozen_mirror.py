"""Attack: the network serves an old tree for ever, so that no device receives a halt."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.errors import ExpiredMetadataError
from alcove.sdk import AnswerError, Client, OutOfBoundError
from alcove.sdk.background import sync_turn
from alcove.sdk.limits import MAX_STALE_S, MIN_MAX_STALE_S
from alcove.sdk.testing import FolderTransport

from tests.sdk.conftest import FEATURE, Device

DAY = 86_400
LIMIT_DAYS = int(MAX_STALE_S) // DAY
HALTED = "two 2.0.0 default"
SHIPPED = "shipped baseline stale"


def free(device: Device, day: int) -> None:
    """Both clocks go."""
    device.clock.pass_s(DAY)


def hold_clock(device: Device, day: int) -> None:
    """Somebody holds the wall clock."""
    device.clock.pass_s(DAY, is_held=True)


def turn_clock_back(device: Device, day: int) -> None:
    """Somebody sets the wall clock back each day, further each time."""
    device.clock.pass_s(DAY, is_held=True)
    device.clock.time_s -= day * 1000


def step_clock(device: Device, day: int) -> None:
    """The wall clock shows days, the monotonic one hardly moves (a device that lost its power each minute)."""
    device.clock.time_s += DAY


def started_daily(device: Device, day: int) -> None:
    """The device runs for half of each day."""
    device.clock.pass_s(DAY // 2)
    device.clock.restart(DAY // 2)


def held_and_started_daily(device: Device, day: int) -> None:
    """Somebody holds the wall clock of a device that runs for a whole day and then starts again."""
    device.clock.pass_s(DAY, is_held=True)
    device.client()
    device.clock.restart(is_held=True)


WAYS = (free, hold_clock, turn_clock_back, step_clock, started_daily, held_and_started_daily)


@pytest.fixture
def frozen(device: Device, tmp_path: Path, unsynced: None) -> Device:
    """A device on 2.0.0, whose mirror stops there; then 2.0.0 is halted."""
    assert device.client().sync().error is None
    device.world.set_policy("2.0.0")
    assert device.client().sync().error is None
    shutil.copytree(device.world.folder, tmp_path / "frozen")
    device.transport = FolderTransport(tmp_path / "frozen")
    device.options["transport"] = device.transport.connect
    device.world.halt("2.0.0")
    return device


def live_through(device: Device, way: Callable[[Device, int], None], days: range, *, reopen: bool) -> list[str]:
    """Return what a device answered on each day, after a sync that the mirror answered as it likes."""
    answers = []
    client = device.client()
    for day in days:
        way(device, day)
        client = device.client() if reopen else client
        client.sync()
        answers.append(device.answer(client))
        assert client.is_stale or day < 2, day
    return answers


@pytest.mark.parametrize("reopen", [False, True], ids=["one process", "a process a day"])
@pytest.mark.parametrize("way", WAYS)
def test_halt_is_hidden_for_max_stale_s_and_no_longer(
    frozen: Device, way: Callable[[Device, int], None], reopen: bool
) -> None:
    """Whatever is done to the clock: the halted version answers for 14 days of running at most, then the baseline."""
    answers = live_through(frozen, way, range(1, LIMIT_DAYS + 4), reopen=reopen)
    assert set(answers[:LIMIT_DAYS]) <= {HALTED, SHIPPED}
    assert answers[: LIMIT_DAYS - 1] == [HALTED] * (LIMIT_DAYS - 1)
    assert answers[LIMIT_DAYS + 1 :] == [SHIPPED] * 2


@pytest.mark.attack
@pytest.mark.parametrize("way", WAYS)
def test_mirror_frozen_for_800_days_hides_a_halt_for_14(frozen: Device, way: Callable[[Device, int], None]) -> None:
    """Each day a new process and a sync; once it fell, nothing that the mirror repeats brings the version back."""
    answers = live_through(frozen, way, range(1, 801), reopen=True)
    assert answers.count(HALTED) <= LIMIT_DAYS
    assert answers[LIMIT_DAYS:] == [SHIPPED] * (800 - LIMIT_DAYS)


def test_process_that_never_syncs_lets_go_by_itself(frozen: Device) -> None:
    """Predictions notice, with the handle that they have; the wall clock is held."""
    client = frozen.client()
    handle = client.feature(FEATURE)
    assert handle.predict("hello").reason == "default"
    frozen.clock.pass_s(MAX_STALE_S - 60, is_held=True)
    assert handle.predict("hello").reason == "default"
    frozen.clock.pass_s(120, is_held=True)
    assert handle.predict("hello").reason == "stale"
    assert client.is_stale


def test_device_that_was_in_a_drawer_says_so_and_falls_after_half_the_time(frozen: Device) -> None:
    """Switched off for 800 days: stale at once; one jump alone makes nothing overdue, running a week more does."""
    frozen.clock.restart(800 * DAY)
    client = frozen.client()
    assert client.is_stale
    assert isinstance(client.sync().error, ExpiredMetadataError)
    assert frozen.answer(client) == HALTED
    frozen.clock.pass_s(MAX_STALE_S / 2 + 60)
    assert frozen.answer(client) == SHIPPED


def test_word_of_the_server_gives_the_version_back_without_a_download(frozen: Device) -> None:
    """Slots stay where they are; the halt that was hidden is followed first."""
    live_through(frozen, free, range(1, LIMIT_DAYS + 2), reopen=True)
    frozen.world.set_policy("1.0.0")
    frozen.world.clock.time_s = frozen.clock.time_s
    frozen.world.tree.refresh()
    honest = FolderTransport(frozen.world.folder)
    client = frozen.client(transport=honest.connect)
    assert frozen.answer(client) == SHIPPED
    assert client.sync().error is None
    assert frozen.answer(client) == "one 1.0.0 default"
    assert not client.is_stale
    assert client.last_sync is not None
    assert client.last_sync.error is None
    assert not [sent for sent in honest.requests if sent.path.startswith("/blobs/")]


def test_feature_without_a_baseline_answers_with_a_reason(frozen: Device) -> None:
    """No model that may answer: a typed answer, nothing raised, for old handles and new ones."""
    client = frozen.client(baselines={})
    old = client.feature(FEATURE)
    frozen.clock.pass_s(MAX_STALE_S + 1)
    for handle in (old, client.feature(FEATURE), frozen.client(baselines={}).feature(FEATURE)):
        answer = handle.predict("hello")
        assert (answer.value, answer.error, answer.reason, answer.version) == (None, AnswerError.STALE, "stale", "")


@pytest.mark.parametrize("withheld", ["halt", "policy", "team"])
def test_mirror_that_keeps_the_date_fresh_and_holds_something_back_is_not_heard(device: Device, withheld: str) -> None:
    """Only tree, floors and halt together count as word of the server."""
    device.world.set_policy("2.0.0")
    device.world.halt()
    client = device.client()
    assert client.sync().error is None

    def hold_back(method: str, path: str) -> None:
        if withheld in path:
            raise ConnectionResetError

    device.transport.fault = hold_back
    for _ in range(LIMIT_DAYS // 3 + 1):
        device.clock.pass_s(3 * DAY)
        device.world.clock.time_s = device.clock.time_s
        device.world.halt("2.0.0")
        device.world.set_policy("1.0.0")
        device.world.push(f"9.0.{device.world.serial}", device.world.blob("1.0.0").read_bytes())
        device.world.tree.refresh()
        client.sync()
    assert "2.0.0" not in device.answer(client)


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 100_000, b'{"format": 1, "age_ns": -1}'])
def test_damaged_record_takes_nothing_away_and_counts_again(frozen: Device, damage: bytes) -> None:
    """What cannot be read is as if it had never been: time is counted from then on."""
    live_through(frozen, hold_clock, range(1, 5), reopen=True)
    (frozen.folder / "freshness.json").write_bytes(damage)
    answers = live_through(frozen, hold_clock, range(1, LIMIT_DAYS + 4), reopen=True)
    assert answers[0] == HALTED
    assert answers[-1] == SHIPPED


def test_folder_of_an_older_sdk_begins_to_count_at_its_first_start(frozen: Device) -> None:
    """There is a state and no record: stale until the server was heard, overdue when that takes too long."""
    (frozen.folder / "freshness.json").unlink()
    client = frozen.client()
    assert client.is_stale
    assert frozen.answer(client) == HALTED
    frozen.clock.pass_s(MAX_STALE_S + 1, is_held=True)
    assert frozen.answer(client) == SHIPPED


def test_restart_of_the_process_forgets_nothing(frozen: Device) -> None:
    """The next process continues from what one has counted."""
    for _ in range(LIMIT_DAYS * 4 + 5):
        frozen.clock.pass_s(6 * 3600, is_held=True)
        frozen.client().close()
    assert frozen.answer(frozen.client()) == SHIPPED


@pytest.mark.parametrize("max_stale_s", [0, -1, MIN_MAX_STALE_S - 1, float("nan"), float("inf")])
def test_bound_that_is_none_is_refused(frozen: Device, max_stale_s: float) -> None:
    """Below a day every night without a network would take the model away; None is the word for no bound."""
    with pytest.raises(OutOfBoundError):
        frozen.client(max_stale_s=max_stale_s)


def test_app_may_choose_the_bound_or_none(frozen: Device) -> None:
    """A day, or never: then it is stale all the same."""
    frozen.clock.pass_s(DAY + 1)
    assert frozen.answer(frozen.client(max_stale_s=MIN_MAX_STALE_S)) == SHIPPED
    frozen.clock.pass_s(4000 * DAY)
    never: Client = frozen.client(max_stale_s=None)
    assert frozen.answer(never) == HALTED
    assert never.is_stale


def test_background_sync_says_aloud_what_it_met(frozen: Device, caplog: pytest.LogCaptureFixture) -> None:
    """A warning in the log, the result on the client, and the flag; nobody has to listen."""
    client = frozen.client()
    frozen.clock.pass_s(2 * DAY)
    sync_turn(client)
    assert client.last_sync is not None
    assert isinstance(client.last_sync.error, ExpiredMetadataError)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "ExpiredMetadataError" in warnings[0].getMessage()
    assert "stale" in warnings[0].getMessage()
