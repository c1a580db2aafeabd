"""A report's bin of the earlier share holds what the device did before the experiment, and nothing after it."""

import itertools
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from alcove.registry.policy import Outcome, TaskPolicy, make_task
from alcove.sdk import Client, DeviceStorageError, QuarantinedError
from alcove.sdk.history import History
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy

from tests.sdk.conftest import FEATURE, NOW, Device, World
from tests.sdk.test_outcomes import crash_three_times

EDGES = (0.5, 0.8)
WINDOW = 3600


def client_of(device: Device, arm: int = 1) -> Client:
    """Return a client that is in an arm as soon as there is an experiment."""
    return device.client(entropy=SeededEntropy(device.seed_for_arm(arm)))


def use(client: Client, accepted: int, refused: int = 0) -> None:
    """Predict and record outcomes, the refused ones first."""
    handle = client.feature(FEATURE)
    for is_accepted in [False] * refused + [True] * accepted:
        handle.record_outcome(is_accepted, handle.predict("hi"))


def begin(world: World, **options: Any) -> None:
    """Start an experiment that asks for the earlier share."""
    world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), pre_edges=EDGES, window_s=WINDOW, **options)


def read_recorded(device: Device) -> list[tuple[int, int, int]]:
    """Return arm, outcome and bin of the earlier share of each outcome that waits on the device."""
    found = []
    for entry in json.loads((device.folder / "reports" / "pending.json").read_bytes()):
        task = TaskPolicy.model_validate_json(entry["task"])
        cell = task.layout.axes(entry["cell"])
        found.append((cell.arm, cell.outcome, cell.covariate))
    return found


def task(experiment_id: str = "exp") -> TaskPolicy:
    """Return a task that asks for the earlier share."""
    return make_task(
        experiment_id=experiment_id,
        epsilon="2",
        arm_count=2,
        latency_edges_ms=(),
        window_s=WINDOW,
        first_window_start_s=NOW,
        pre_edges=EDGES,
    )


@pytest.mark.parametrize(
    ("arm", "accepted", "refused", "pre_bin"),
    [(0, 0, 0, 0), (1, 4, 0, 0), (0, 0, 5, 1), (1, 4, 6, 1), (0, 5, 5, 2), (1, 3, 2, 2), (0, 4, 1, 3), (1, 5, 0, 3)],
)
def test_earlier_share_is_part_of_the_cell(device: Device, arm: int, accepted: int, refused: int, pre_bin: int) -> None:
    """Fewer than five answers are unknown; an edge belongs to the upper bin; arm and outcome stand beside it."""
    client = client_of(device, arm)
    client.sync()
    use(client, accepted, refused)
    begin(device.world)
    client.sync()
    use(client, 1)
    assert read_recorded(device) == [(arm, Outcome.ACCEPTED, pre_bin)]


def test_nothing_after_the_exposure_enters(device: Device) -> None:
    """Over answers, windows, syncs and restarts the bin stays what it was at the sync that met the experiment."""
    client = client_of(device)
    client.sync()
    use(client, 5)
    begin(device.world, epsilon="0.5")
    client.sync()
    for _ in range(3):
        use(client, 0, 20)
        assert read_recorded(device) == [(1, Outcome.REFUSED, 3)]
        assert client.report().sent == 1
        device.clock.time_s += WINDOW
        client = device.client()
        assert client.sync().error is None


def test_answers_between_the_policy_and_the_first_use_do_not_enter(device: Device) -> None:
    """A second process that has not synced yet continues with the old version: its answers come too late."""
    slow, quick = client_of(device), client_of(device)
    slow.sync()
    use(slow, 5)
    begin(device.world)
    quick.sync()
    use(slow, 0, 20)
    use(quick, 1)
    assert read_recorded(device) == [(1, Outcome.ACCEPTED, 3)]


def test_answers_of_two_processes_count_together(device: Device) -> None:
    """Each adds to what the other wrote."""
    clients = client_of(device), client_of(device)
    clients[0].sync()
    for client in clients:
        use(client, 2)
        use(client, 1)
    begin(device.world)
    clients[0].sync()
    use(clients[0], 1)
    assert read_recorded(device) == [(1, Outcome.ACCEPTED, 3)]


def test_only_what_the_app_records_is_remembered(device: Device) -> None:
    """Predictions and failures are no answers of the user."""
    client = client_of(device)
    handle = client.feature(FEATURE)
    for text in ("hi", "\ud800") * 3:
        handle.record_outcome(True, handle.predict(text))
    assert history(device) == {FEATURE: "111"}


def test_device_that_leaves_and_returns_keeps_its_bin(device: Device) -> None:
    """A version that crashed here, and what the one before it answers then, change nothing."""
    client = client_of(device)
    client.sync()
    use(client, 5)
    begin(device.world, outcomes=4)
    client.sync()
    crash_three_times(device, "2.0.0")
    client = device.client()
    assert isinstance(client.sync().error, QuarantinedError)
    use(client, 0, 9)
    assert read_recorded(device) == [(1, Outcome.FALLBACK, 3)]


def test_device_that_cannot_enter_its_arm_has_its_bin_all_the_same(device: Device) -> None:
    """What is known of a device must not depend on how its arm's version fares."""
    device.world.set_policy("2.0.0")
    client = client_of(device)
    client.sync()
    use(client, 5)
    crash_three_times(device, "2.0.0")
    begin(device.world, outcomes=4)
    client = device.client()
    assert isinstance(client.sync().error, QuarantinedError)
    use(client, 1)
    assert read_recorded(device) == [(1, Outcome.FALLBACK, 3)]


def test_bin_goes_with_its_task_and_the_next_task_has_its_own(device: Device) -> None:
    """What was accepted in one experiment is history for the next."""
    client = client_of(device)
    client.sync()
    use(client, 5)
    begin(device.world)
    client.sync()
    use(client, 0, 20)
    device.world.set_policy("1.0.0")
    client.sync()
    assert read_covariates(device) == {}
    begin(device.world, experiment_id="exp-2")
    client.sync()
    assert list(read_covariates(device).values()) == [1]


def test_opting_out_forgets_and_counts_as_unknown_from_then_on(device: Device) -> None:
    """Both files go; a device that is in the experiment already never gets a bin of what came after the exposure."""
    client = client_of(device)
    client.sync()
    use(client, 5)
    begin(device.world)
    client.sync()
    client.forget_reports()
    assert not list((device.folder / "reports").glob("h*.json")) + list((device.folder / "reports").glob("met.json"))
    use(client, 20)
    client.sync()
    use(client, 1)
    assert read_recorded(device) == [(1, Outcome.ACCEPTED, 0)]


@pytest.mark.parametrize("name", ["history.json", "met.json"])
def test_damaged_file_counts_as_unknown(device: Device, name: str) -> None:
    """No answer, sync or report is lost to it, and nothing after the exposure takes its place."""
    client = client_of(device)
    client.sync()
    use(client, 5)
    if name == "met.json":
        begin(device.world)
        client.sync()
    (device.folder / "reports" / name).write_bytes(b"{")
    begin(device.world)
    assert client.sync().error is None
    use(client, 20)
    client = device.client()
    assert client.sync().error is None
    use(client, 1)
    assert read_recorded(device) == [(1, Outcome.ACCEPTED, 0)]
    assert client.report().sent == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"[" * 100_000, b"\xff", b"{}" + b" " * 70_000, b'{"a": 5}', b'{"a": "012"}', b'{"a": null}'],
)
def test_no_damage_stops_a_device_or_makes_up_a_past(tmp_path: Path, content: bytes) -> None:
    """What cannot be read says nothing; what is written next is whole again."""
    for name in ("history.json", "met.json"):
        (tmp_path / name).write_bytes(content)
    history = History(tmp_path, Files())
    assert history.bin_of(task()) == 0
    history.keep_only(())
    history.settle_covariate("a", task(), is_in_it=False)
    assert history.bin_of(task()) == 0
    for _ in range(5):
        history.note("a", is_accepted=True)
    history.settle_covariate("a", task("next"), is_in_it=False)
    assert history.bin_of(task("next")) == 3


@pytest.mark.parametrize("number", [-1, 4, 10**9, True, 1.0, "1", None])
def test_bin_that_the_task_does_not_have_is_unknown(tmp_path: Path, number: object) -> None:
    """A damaged number makes no cell of another arm."""
    (tmp_path / "met.json").write_text(json.dumps({task().task_id: number}), encoding="utf-8")
    assert History(tmp_path, Files()).bin_of(task()) == 0


def test_history_is_bounded_private_and_forgets_the_oldest(tmp_path: Path) -> None:
    """The last 64 answers of 64 features, for this user alone."""
    history = History(tmp_path, Files())
    for is_accepted in [True] * 40 + [False] * 40:
        history.note("a", is_accepted=is_accepted)
    for number in range(63):
        history.note(f"f{number}", is_accepted=True)
    found = json.loads((tmp_path / "history.json").read_bytes())
    assert found["a"] == "1" * 24 + "0" * 40
    history.note("one more", is_accepted=True)
    assert "a" not in json.loads((tmp_path / "history.json").read_bytes())
    history.settle_covariate("f1", task(), is_in_it=False)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_disk_that_fails_at_any_step_leaves_old_or_new(tmp_path: Path) -> None:
    """An answer is lost at most; a task is met or it is not, and says so."""
    failing = [0]
    steps = [0]

    def fail(step: str, path: Path) -> None:
        steps[0] += 1
        if steps[0] == failing[0]:
            raise OSError(28, "no space")

    def answers() -> str:
        return str(json.loads((tmp_path / "history.json").read_bytes())["a"])

    history = History(tmp_path, Files(fail))
    for _ in range(5):
        history.note("a", is_accepted=True)
    for place in itertools.count(1):
        before, steps[0], failing[0] = answers(), 0, place
        history.note("a", is_accepted=True)
        assert answers() in (before, before + "1")
        if steps[0] < place:
            assert answers() == before + "1"
            break
    for place in itertools.count(1):
        one, steps[0], failing[0] = task(f"exp-{place}"), 0, place
        try:
            history.settle_covariate("a", one, is_in_it=False)
        except DeviceStorageError:
            assert history.bin_of(one) in (0, 3)
        else:
            assert history.bin_of(one) == 3
            assert steps[0] < place
            break
    assert not list(tmp_path.glob("*.partial"))


def test_full_disk_keeps_the_old_version_until_the_task_can_be_met(device: Device) -> None:
    """Nobody runs an arm before the time before it is settled."""
    broken: list[bool] = []

    def fail(step: str, path: Path) -> None:
        if broken and path.name.startswith("met.json"):
            raise OSError(28, "no space")

    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)), files=Files(fail))
    client.sync()
    use(client, 5)
    begin(device.world)
    broken.append(True)
    assert isinstance(client.sync().error, DeviceStorageError)
    assert device.answer(client) == "one 1.0.0 default"
    broken.clear()
    assert client.sync().error is None
    use(client, 1)
    assert read_recorded(device) == [(1, Outcome.ACCEPTED, 3)]


def history(device: Device) -> object:
    """Return what the device remembers."""
    return json.loads((device.folder / "reports" / "history.json").read_bytes())


def read_covariates(device: Device) -> dict[str, int]:
    """Return the bins that the device settled."""
    found: dict[str, int] = json.loads((device.folder / "reports" / "met.json").read_bytes())
    return found
