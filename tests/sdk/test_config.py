"""A policy gives values to the parameters of a version; the device takes what is within the team's bounds."""

from typing import Any

import pytest
from alcove.registry.parameters import Parameter, Setting
from alcove.registry.policy import FeaturePolicy, RolloutPolicy, VersionRef
from alcove.sdk.state import State, state_from_bytes, state_to_bytes
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device

PARAMETERS = (
    Parameter(name="enabled", type="bool", default=True),
    Parameter(name="threshold", type="float", default="0.5", minimum="0.1", maximum="0.9"),
)


@pytest.fixture
def version(device: Device) -> VersionRef:
    """A version with two parameters."""
    return device.world.push("3.0.0", fake_program("three"), parameters=PARAMETERS)


def give(device: Device, version: VersionRef, rollout: RolloutPolicy | None = None, **values: Any) -> None:
    """Publish a policy with values of the default."""
    settings = tuple(Setting(name=name, value=value) for name, value in sorted(values.items()))
    rules = FeaturePolicy(min_version="0.0.1", default=version, values=settings, rollout=rollout)
    device.world.publish_rules(rules)


def test_an_installed_version_has_its_defaults_and_the_apps_own_model_none(device: Device, version: VersionRef) -> None:
    """An app asks with a default of its own."""
    client = device.client()
    handle = client.feature(FEATURE)
    assert dict(handle.config) == {}
    assert handle.config.get("threshold", 0.7) == 0.7
    give(device, version)
    assert client.sync().error is None
    assert dict(handle.config) == {"enabled": True, "threshold": 0.5}
    assert dict(handle.predict("hi").config) == {"enabled": True, "threshold": 0.5}


def test_values_change_without_a_download_and_stay_after_a_restart(device: Device, version: VersionRef) -> None:
    """A kill switch: nothing is fetched but the policy, the handle says it, and a device without a network too."""
    client = device.client()
    give(device, version)
    client.sync()
    handle = client.feature(FEATURE)
    before = len(device.transport.requests)
    give(device, version, enabled=False, threshold="0.25")
    result = client.sync()
    assert (result.error, result.changed) == (None, ())
    assert not [sent for sent in device.transport.requests[before:] if sent.path.startswith("/blobs")]
    assert dict(handle.config) == {"enabled": False, "threshold": 0.25}
    client.close()
    assert dict(device.client().feature(FEATURE).config) == {"enabled": False, "threshold": 0.25}


def test_a_value_out_of_the_teams_bounds_is_not_taken(
    device: Device, version: VersionRef, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever holds the policy's key: the default stands, other values are taken, and the log says it."""
    give(device, version, enabled=False, threshold="99", unknown=1)
    client = device.client()
    assert client.sync().error is None
    assert dict(client.feature(FEATURE).config) == {"enabled": False, "threshold": 0.5}
    assert "greeting 3.0.0: the value of 'threshold' is not taken: expected 0.1 to 0.9, got 99" in caplog.messages
    assert (
        "greeting 3.0.0: the value of 'unknown' is not taken: the version declares no such parameter" in caplog.messages
    )


@pytest.mark.parametrize(("arm", "threshold"), [(0, 0.5), (1, 0.8)])
def test_a_rollout_moves_values_of_one_version(device: Device, version: VersionRef, arm: int, threshold: float) -> None:
    """Its buckets decide, as for versions: the treatment has the new value, the control that of the default."""
    rollout = RolloutPolicy(
        id="roll",
        salt="roll-salt",
        version=version,
        share_basis_points=5000,
        control_basis_points=5000,
        values=(Setting(name="threshold", value="0.8"),),
    )
    give(device, version, rollout)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm, salt="roll-salt")))
    assert client.sync().error is None
    assert client.feature(FEATURE).config["threshold"] == threshold


def test_values_stay_with_their_version(device: Device, version: VersionRef) -> None:
    """A version that is halted takes its values along; the one before has its own."""
    give(device, version, threshold="0.2")
    client = device.client()
    client.sync()
    device.world.push("4.0.0", fake_program("four"))
    device.world.set_policy("4.0.0")
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    assert dict(handle.config) == {}
    device.world.halt("4.0.0")
    client.sync()
    assert (handle.version, handle.config["threshold"]) == ("3.0.0", 0.2)


def test_values_cannot_be_changed_by_the_app(device: Device, version: VersionRef) -> None:
    """What one part of an app reads, no other has written."""
    give(device, version)
    client = device.client()
    client.sync()
    config: Any = client.feature(FEATURE).config
    with pytest.raises(TypeError):
        config["threshold"] = 1.0


def test_a_damaged_state_has_no_values(device: Device, version: VersionRef) -> None:
    """It is read as empty, or not at all: never as values of another type."""
    give(device, version)
    device.client().sync()
    data = (device.folder / "state.json").read_bytes()
    state = state_from_bytes(data)
    assert state_from_bytes(state_to_bytes(state)) == state
    for wrong in (b'"config": []', b'"config": {"threshold": [1]}', b'"config": {"threshold": null}'):
        start = data.index(b'"config": {')
        damaged = data[:start] + wrong + data[data.index(b"}", start) + 1 :]
        with pytest.raises(ValueError, match="malformed"):
            state_from_bytes(damaged)
    assert State().slots(FEATURE).current is None
