"""Devices in a rollout report errors and fallbacks after crashes under its task, at most once a window."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alcove.registry.policy import Outcome, TaskPolicy
from alcove.runtime.errors import AlcoveRuntimeError
from alcove.sdk import AnswerError, Client, QuarantinedError
from alcove.sdk.testing import FakeEngine, FakeProgram, SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device

MakeDevice = Callable[..., Device]
WINDOW = 3600


class _Failing(FakeProgram):
    def __call__(self, *inputs: Any) -> list[Any]:
        raise AlcoveRuntimeError("the run failed")


class FailingEngine(FakeEngine):
    """Programs of one label load, and fail at each run while `is_failing`."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def load(self, path: Path) -> FakeProgram:
        """Return the program, or one that fails."""
        program = super().load(path)
        return _Failing(program.label) if program.label == self.label else program


def in_rollout(device: Device, arm: int, **options: Any) -> Client:
    """Return a client on one side of a running rollout from 1.0.0 to 2.0.0."""
    device.world.set_policy("1.0.0", rollout=("2.0.0", 5000), control=5000, window_s=WINDOW)
    return sync_client(device, arm, **options)


def sync_client(device: Device, arm: int, **options: Any) -> Client:
    """Return a client of this installation after a sync."""
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm, salt="roll-salt")), **options)
    client.sync()
    return client


def crash_three_times(device: Device, version: str) -> None:
    """Leave what three processes leave that were killed while they loaded a version."""
    folder = device.folder / "tries"
    folder.mkdir(exist_ok=True)
    digest = device.world.manifests[version].sha256
    for path in folder.glob(f"{digest}.*"):
        path.unlink()
    for number in range(3):
        (folder / f"{digest}.0a0b0c0d.{number:016x}.running").write_bytes(struct.pack("=QQQ", 1, 0, 0))


def cells(device: Device) -> list[tuple[int, int, int]]:
    """Return arm, outcome and latency bin of every outcome that waits on the device."""
    path = device.folder / "reports" / "pending.json"
    found = []
    for entry in json.loads(path.read_bytes()) if path.exists() else []:
        task = TaskPolicy.model_validate_json(entry["task"])
        found.append(task.layout.axes(entry["cell"])[:3])
    return found


def use(client: Client) -> str:
    """Predict once and say that the user kept the answer; return what answered."""
    handle = client.feature(FEATURE)
    answer = handle.predict("hi")
    if answer.error is None:
        handle.record_outcome(True, answer)
    return f"{answer.version} {answer.reason}"


@pytest.mark.parametrize("arm", [0, 1])
def test_both_sides_of_a_rollout_report_under_its_task(device: Device, arm: int) -> None:
    """Arm 0 is the control on the default, arm 1 the treatment."""
    client = in_rollout(device, arm)
    assert use(client) == ["1.0.0 rollout", "2.0.0 rollout"][arm]
    assert [cell[:2] for cell in cells(device)] == [(arm, Outcome.ACCEPTED)]
    assert client.report().sent == 1


def test_failed_run_is_an_error_of_its_arm(device: Device) -> None:
    """Counted in latency bin 0; one report comes of it."""
    client = in_rollout(device, 1, engine=FailingEngine("two"))
    assert client.feature(FEATURE).predict("hi").error is AnswerError.RUN_FAILED
    assert cells(device) == [(1, Outcome.ERROR, 0)]
    assert client.report().sent == 1


def test_bad_text_is_nobodys_error(device: Device) -> None:
    """What the app got wrong says nothing of a version."""
    client = in_rollout(device, 1)
    assert client.feature(FEATURE).predict(b"\xff").error is AnswerError.INVALID_TEXT
    assert cells(device) == []


def test_task_that_counts_two_outcomes_hears_of_no_error(device: Device) -> None:
    """An experiment's report has no place for it: it is dropped on the device."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)), engine=FailingEngine("two"))
    client.sync()
    assert client.feature(FEATURE).predict("hi").error is AnswerError.RUN_FAILED
    assert cells(device) == []
    assert client.report().sent == 0


@pytest.mark.parametrize("is_synced_before", [True, False])
def test_device_that_left_a_crashing_version_reports_it_in_its_arm(device: Device, is_synced_before: bool) -> None:
    """Before the next sync and after it, in this process and the next, in each window."""
    use(sync_client(device, 1))
    use(in_rollout(device, 1))
    (device.folder / "reports" / "pending.json").unlink()
    crash_three_times(device, "2.0.0")
    client = device.client()
    if is_synced_before:
        assert isinstance(client.sync().error, QuarantinedError)
    for _ in range(2):
        assert use(client) == "1.0.0 fallback"
        assert cells(device) == [(1, Outcome.FALLBACK, 0)]
        assert client.report().sent == 1
        device.clock.pass_s(WINDOW * 24)
        client.sync()
        client = device.client()


def test_fallback_is_the_windows_outcome_whatever_came_before_and_after(device: Device) -> None:
    """An hour's draw among many acceptances would hide most crashes."""
    client = in_rollout(device, 1)
    for _ in range(20):
        use(client)
    crash_three_times(device, "2.0.0")
    use(device.client())
    assert cells(device) == [(1, Outcome.FALLBACK, 0)]
    for _ in range(20):
        use(client)  # a process that still runs it
    assert cells(device) == [(1, Outcome.FALLBACK, 0)]


def test_fallback_ends_with_the_rollout(device: Device) -> None:
    """When the policy gives the device another version, or the rollout another version, it is in no arm it left."""
    in_rollout(device, 1)
    crash_three_times(device, "2.0.0")
    client = sync_client(device, 1)
    use(client)
    assert cells(device) == [(1, Outcome.FALLBACK, 0)]
    client.forget_reports()
    device.world.push("3.0.0", fake_program("three"))
    device.world.set_policy("1.0.0", rollout=("3.0.0", 5000), control=5000, window_s=WINDOW)
    assert client.sync().error is None
    assert use(client) == "3.0.0 rollout"
    assert [cell[:2] for cell in cells(device)] == [(1, Outcome.ACCEPTED)]
    (device.folder / "reports" / "pending.json").unlink()
    device.world.set_policy("1.0.0")
    client.sync()
    use(client)
    assert cells(device) == []


def test_device_that_cannot_enter_its_arm_reports_it(device: Device) -> None:
    """The version crashed here before the rollout chose it: the treatment counts this device too."""
    device.world.set_policy("2.0.0")
    sync_client(device, 1)
    crash_three_times(device, "2.0.0")
    client = in_rollout(device, 1)
    use(client)
    assert cells(device) == [(1, Outcome.FALLBACK, 0)]


def test_control_is_not_blamed_for_a_version_that_it_never_ran(device: Device) -> None:
    """The new version is quarantined here, but this device is on the other side: it reports nothing of it."""
    device.world.set_policy("2.0.0")
    sync_client(device, 0)
    crash_three_times(device, "2.0.0")
    client = in_rollout(device, 0)
    use(client)
    assert Outcome.FALLBACK not in [cell[1] for cell in cells(device)]


def test_crash_outside_of_any_arm_is_reported_to_nobody(device: Device) -> None:
    """A default that crashes: the device falls back and says nothing."""
    device.world.set_policy("2.0.0")
    client = device.client()
    client.sync()
    crash_three_times(device, "2.0.0")
    client = device.client()
    client.sync()
    use(client)
    assert cells(device) == []
