"""Devices in a read-out of the holdout: what they run, fetch and report, and what goes before what they keep."""

import json
from collections.abc import Callable

import pytest
from alcove.sdk import Client
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, NOW, Device, World

MakeDevice = Callable[..., Device]
HELD_OUT, MIRROR = 1, 0  # as `seed_for_arm` numbers them: from 0 up, and from the top down


def join(device: Device, side: int) -> Client:
    """Return a client of a device that is held out, or of the mirror group."""
    return device.client(entropy=SeededEntropy(device.seed_for_arm(side, salt="hold-salt")))


def accept(device: Device, client: Client) -> None:
    """The user keeps an answer."""
    handle = client.feature(FEATURE)
    handle.predict("hello")
    handle.record_outcome(accepted=True)


def cells(device: Device) -> list[int]:
    """The true cells that wait on the device."""
    path = device.folder / "reports" / "pending.json"
    return [entry["cell"] for entry in json.loads(path.read_bytes())] if path.exists() else []


def test_groups_differ_in_what_they_run_and_in_nothing_that_anybody_sees(
    released_world: World, make_device: MakeDevice
) -> None:
    """Through two shipped versions, reports and the end: same requests but for the cell, which names the group."""
    sides = (HELD_OUT, MIRROR)
    devices = [make_device(released_world, f"device{side}") for side in sides]
    clients = [join(device, side) for side, device in zip(sides, devices, strict=True)]
    released_world.push("3.0.0", fake_program("three"))
    answers = []
    for client in clients:
        client.sync()
    for default, rollout in (("1.0.0", None), ("1.0.0", ("2.0.0", 10_000)), ("2.0.0", None), ("3.0.0", None)):
        released_world.set_policy(default, rollout=rollout, kept="1.0.0")
        for client, device in zip(clients, devices, strict=True):
            assert client.sync().error is None
            answers.append(device.answer(client))
            accept(device, client)
            device.clock.pass_s(3600)
    answers_held, answers_mirror = answers[::2], answers[1::2]
    assert answers_held == ["one 1.0.0 holdout"] * 4
    assert answers_mirror == ["one 1.0.0 default", "two 2.0.0 rollout", "two 2.0.0 default", "three 3.0.0 default"]
    assert [{cell // 2 for cell in cells(device)} for device in devices] == [{0}, {1}], "group 0 is held out"
    for client in clients:
        assert client.report().sent == 1
    released_world.set_policy("3.0.0")
    for client, device in zip(clients, devices, strict=True):
        assert client.sync().error is None
        assert device.answer(client) == "three 3.0.0 default"
    traces = [
        [(sent.method, sent.path, len(sent.wire), sent.wire if sent.method == "GET" else b"") for sent in requests]
        for requests in (device.transport.requests for device in devices)
    ]
    assert traces[0] == traces[1]


def test_new_installations_of_both_groups_fetch_alike(released_world: World, make_device: MakeDevice) -> None:
    """What the holdout keeps, and what everybody runs."""
    released_world.set_policy("2.0.0", kept="1.0.0")
    traces = []
    for side, expected in ((HELD_OUT, "one 1.0.0 holdout"), (MIRROR, "two 2.0.0 default")):
        device = make_device(released_world, f"device{side}")
        client = join(device, side)
        assert client.sync().error is None
        assert device.answer(client) == expected
        traces.append([(sent.method, sent.path, sent.wire) for sent in device.transport.requests])
    assert traces[0] == traces[1]


@pytest.mark.parametrize("side", [HELD_OUT, MIRROR])
def test_halted_kept_version_is_left_and_nobody_reports(device: Device, side: int) -> None:
    """Held out or not, the device then runs what everybody runs, and makes no report."""
    client = join(device, side)
    device.world.set_policy("2.0.0", kept="1.0.0")
    client.sync()
    device.world.halt("1.0.0")
    client.sync()
    assert device.answer(client) == "two 2.0.0 default"
    accept(device, client)
    assert cells(device) == []


def test_halt_of_the_default_leaves_held_out_devices_what_they_keep(device: Device) -> None:
    """It is sound; the comparison is over all the same."""
    client = join(device, HELD_OUT)
    device.world.set_policy("2.0.0", kept="1.0.0")
    client.sync()
    device.world.halt("2.0.0")
    assert client.sync().error is None
    assert device.answer(client) == "one 1.0.0 holdout"
    accept(device, client)
    assert cells(device) == []


def test_minimum_version_is_obeyed_before_an_old_policy(device: Device) -> None:
    """The team forbids what the policy still keeps: the device leaves it, and is counted as held out."""
    client = join(device, HELD_OUT)
    device.world.set_policy("2.0.0", kept="1.0.0")
    client.sync()
    assert device.answer(client) == "one 1.0.0 holdout"
    device.world.raise_min_version("1.5.0")
    result = client.sync()
    assert [refusal.version for refusal in result.refused] == ["1.0.0"]
    assert device.answer(client) == "two 2.0.0 default"
    accept(device, client)
    assert [cell // 2 for cell in cells(device)] == [0]


def test_version_that_cannot_run_here_is_not_waited_for(device: Device) -> None:
    """A held-out device whose app cannot run the kept version runs what everybody runs, and is counted as held out."""
    device.world.push("1.9.0", fake_program("of another runtime"), min_runtime="9.0.0")
    device.world.set_policy("2.0.0", kept="1.9.0")
    client = join(device, HELD_OUT)
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 default"
    accept(device, client)
    assert [cell // 2 for cell in cells(device)] == [0]


def test_blob_that_cannot_be_had_now_is_tried_again(device: Device) -> None:
    """A server that is away is no reason to leave what is kept: the device stays with what it has."""
    client = join(device, HELD_OUT)
    client.sync()
    device.world.set_policy("1.0.0", kept="2.0.0")
    blob = device.world.blob("2.0.0")
    data = blob.read_bytes()
    blob.chmod(0o600)
    blob.unlink()
    assert client.sync().error is not None
    assert device.answer(client) == "one 1.0.0 default"
    blob.write_bytes(data)
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 holdout"


@pytest.mark.parametrize("side", [HELD_OUT, MIRROR])
def test_last_day_frees_a_device_whose_policy_is_old(device: Device, side: int) -> None:
    """Offline it goes on with what it has; the first sync after the last day ends it, by the clock alone."""
    client = join(device, side)
    device.world.set_policy("2.0.0", kept="1.0.0", until_s=NOW + 7200)
    client.sync()
    before = device.answer(client)
    assert before == ("one 1.0.0 holdout" if side == HELD_OUT else "two 2.0.0 default")
    device.clock.pass_s(7200)
    assert device.answer(client) == before
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 default"
    accept(device, client)
    assert cells(device) == []


def test_who_said_no_is_in_neither_group(device: Device) -> None:
    """It runs what everybody runs, and nothing is recorded."""
    client = join(device, HELD_OUT)
    client.set_reports(False)
    device.world.set_policy("2.0.0", kept="1.0.0")
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 default"


def test_reports_of_both_groups_replace_those_of_rollouts_and_experiments(
    released_world: World, make_device: MakeDevice
) -> None:
    """A device of a group is in no arm of an experiment, and reports no rollout: its budget pays for the read-out."""
    for side in (HELD_OUT, MIRROR):
        device = make_device(released_world, f"device{side}")
        client = join(device, side)
        for options in ({"arms": ("1.0.0", "2.0.0")}, {"rollout": ("2.0.0", 5000), "control": 5000}):
            released_world.set_policy("1.0.0", kept="1.0.0", **options)
            client.sync()
            accept(device, client)
        entries = json.loads((device.folder / "reports" / "pending.json").read_bytes())
        assert {json.loads(entry["task"])["experiment_id"] for entry in entries} == {"read"}
