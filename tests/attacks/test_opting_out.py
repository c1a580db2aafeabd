"""Attack: a user says no, and something is recorded or sent all the same: by the next outcome, process or sync."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.policy import DeviceAttributes
from alcove.sdk import Client, DeviceStorageError
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, World

MakeDevice = Callable[..., Device]
WINDOW = 3600


def list_kept(device: Device) -> set[str]:
    """Files of the device that hold anything of what its user did."""
    folder = device.folder / "reports"
    full = {path.name for path in folder.iterdir() if path.is_file() and path.stat().st_size > 2}
    return full & {"pending.json", "outbox.json", "history.json", "met.json"}


def posts(device: Device) -> int:
    """How many bodies have left."""
    return sum(sent.method == "POST" for sent in device.transport.requests)


def use(client: Client) -> None:
    """Answer once, and note how it was taken."""
    handle = client.feature(FEATURE)
    handle.record_outcome(True, handle.predict("hi"))


@pytest.fixture
def in_experiment(released_world: World, device: Device) -> Client:
    """A device in an experiment, with a report in its outbox and an outcome of a later window."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="0.25", pre_edges=(0.5,))
    client = device.client(entropy=SeededEntropy(1))
    assert client.sync().error is None
    use(client)

    def refuse(method: str, path: str) -> None:
        if method == "POST":
            raise DeviceStorageError(step="send", path=path, reason="no network")

    device.transport.fault = refuse
    assert client.report().waiting == 1
    device.transport.fault = None
    device.clock.pass_s(WINDOW)
    use(client)
    device.transport.requests.clear()
    assert {"pending.json", "outbox.json", "history.json"} <= list_kept(device)
    return client


def test_no_is_kept_and_nothing_is_recorded_or_sent_after_it(device: Device, in_experiment: Client) -> None:
    """What waited is gone; twenty windows, three processes and every call later nothing has left."""
    assert in_experiment.reports
    in_experiment.set_reports(False)
    assert list_kept(device) == set()
    for turn in range(20):
        client = in_experiment if turn % 2 else device.client()
        assert not client.reports
        assert not client.privacy_summary().is_reporting
        client.sync()
        use(client)
        assert client.report() == type(client.report())()
        client.forget_reports()
        use(client)
        device.clock.pass_s(WINDOW)
    assert posts(device) == 0
    assert list_kept(device) == set()


def test_forgetting_alone_is_no_no(device: Device, in_experiment: Client) -> None:
    """`forget_reports` removes what waits, and the next outcome is reported: the state is what lasts."""
    in_experiment.forget_reports()
    assert list_kept(device) == set()
    device.clock.pass_s(WINDOW)
    use(in_experiment)
    assert in_experiment.report().sent == 1


def test_yes_after_no_reports_again_and_spent_budget_stays_spent(device: Device, in_experiment: Client) -> None:
    """The same switch turns it on; the ledger has forgotten nothing."""
    spent = in_experiment.privacy_summary().epsilon_total
    assert spent > 0
    in_experiment.set_reports(False)
    in_experiment.sync()
    in_experiment.set_reports(True)
    assert device.client().reports
    assert in_experiment.sync().error is None
    use(in_experiment)
    assert in_experiment.report().sent == 1
    assert in_experiment.privacy_summary().epsilon_total > spent


def test_who_said_no_is_in_no_experiment_and_answers_no_audience(
    released_world: World, make_device: MakeDevice
) -> None:
    """No version of an experiment is fetched, no assignment names one; a rollout's version comes as an update."""
    released_world.push("3.0.0", fake_program("three"))
    released_world.set_policy("1.0.0", arms=("3.0.0", "2.0.0"))
    device = make_device(released_world)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)), device=DeviceAttributes(os="ios"))
    client.set_reports(False)
    assert client.sync().error is None
    assert device.answer(client) == "one 1.0.0 default"
    assignments = client.assignments()
    assert assignments is not None
    resolution = assignments.resolutions[FEATURE]
    assert resolution is not None
    assert resolution.experiment_id is None
    blobs = {sent.path for sent in device.transport.requests if sent.path.startswith("/blobs")}
    assert blobs == {f"/blobs/{released_world.manifests['1.0.0'].variants[0].sha256}"}
    assert client.privacy_summary().answers_30_days == 0
    released_world.set_policy("1.0.0", rollout=("3.0.0", 9_999), control=1)
    client.sync()
    assert device.answer(client) == "three 3.0.0 rollout"
    use(client)
    assert client.report().sent == 0
    assert posts(device) == 0


def test_no_holds_for_the_process_on_a_disk_that_fails(
    device: Device, in_experiment: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal that cannot be stored raises, waiting reports are removed, and this process sends nothing."""

    def full(self: Files, path: Path, data: bytes, mode: int = 0o600, *, is_durable: bool = True) -> None:
        raise DeviceStorageError(step="write", path=path.name, reason=str(OSError(errno.ENOSPC, "full")))

    with monkeypatch.context() as broken:
        broken.setattr(Files, "write_whole", full)
        with pytest.raises(DeviceStorageError):
            in_experiment.set_reports(False)
    use(in_experiment)
    assert in_experiment.report().sent == 0
    assert list_kept(device) == set()
    assert posts(device) == 0


def test_no_during_an_upload_stops_before_the_next_report(device: Device, in_experiment: Client) -> None:
    """Two reports wait; the user says no while the first is sent: the second never leaves."""

    def say_no(method: str, path: str) -> None:
        if method == "POST":
            thread = threading.Thread(target=in_experiment.set_reports, args=(False,))
            thread.start()
            thread.join(60)
            assert not thread.is_alive()

    device.transport.fault = say_no
    in_experiment.report()
    assert posts(device) == 1
    assert list_kept(device) == set()


def test_outcome_that_is_noted_while_the_user_says_no_is_not_kept(
    device: Device, in_experiment: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The no comes between the question and the note: what was noted is removed."""
    history = in_experiment._outcomes.history
    note = history.note

    def late(feature: str, *, is_accepted: bool) -> None:
        in_experiment.set_reports(False)
        note(feature, is_accepted=is_accepted)

    monkeypatch.setattr(history, "note", late)
    use(in_experiment)
    assert list_kept(device) == set()
