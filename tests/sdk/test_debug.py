"""On a test device a version or an arm can be pinned: verified as any other, and never anybody's evidence."""

import json
from pathlib import Path
from typing import Any

import pytest
from alcove.registry.errors import FeatureUnknownError, MissingTargetError, RegistryError, VersionHaltedError
from alcove.sdk import Client, DebugOverrides, OutOfBoundError
from alcove.sdk.debug import Pin
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device


def pin(**values: str) -> DebugOverrides:
    """Return overrides of the feature."""
    return DebugOverrides({FEATURE: Pin(**values)})


def use(client: Client) -> None:
    """Predict and record an outcome."""
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)


def test_a_pinned_version_answers_and_the_summary_says_so(device: Device) -> None:
    """Whatever the policy assigns."""
    client = device.client(debug=pin(version="2.0.0"))
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 debug"
    summary = client.privacy_summary()
    assert summary.debug_overrides == {FEATURE: "version 2.0.0"}
    assert json.loads(json.dumps(summary.to_json()))["debug_overrides"] == {FEATURE: "version 2.0.0"}
    assert not summary.is_reporting


@pytest.mark.parametrize(("arm", "label"), [("arm0", "one"), ("arm1", "two")])
def test_a_pinned_arm_of_an_experiment_answers(device: Device, arm: str, label: str) -> None:
    """By its name in the policy, whatever bucket the device is in."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    client = device.client(debug=pin(arm=arm))
    assert client.sync().error is None
    assert device.answer(client).startswith(label)


@pytest.mark.parametrize(("arm", "label"), [("control", "one"), ("treatment", "two")])
def test_a_pinned_side_of_a_rollout_answers(device: Device, arm: str, label: str) -> None:
    """Before its first percent has it."""
    device.world.set_policy("1.0.0", rollout=("2.0.0", 1))
    client = device.client(debug=pin(arm=arm))
    assert client.sync().error is None
    assert device.answer(client).startswith(label)


def test_a_device_with_a_pin_records_and_reports_nothing(device: Device) -> None:
    """It is in no experiment, of other features neither; what was recorded before it was pinned is not sent either."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    entropy = SeededEntropy(device.seed_for_arm(1))
    plain = device.client(entropy=entropy)
    plain.sync()
    use(plain)
    pinned = device.client(debug=pin(arm="arm1"))
    pinned.sync()
    use(pinned)
    pinned.set_reports(True)
    use(pinned)
    assert pinned.report().sent == 0
    assert not pinned.reports
    assert device.transport.reports == []
    assert pinned.assignments() is not None
    plain.close()


def test_what_the_user_said_of_reports_is_as_it_was_without_the_pin(device: Device) -> None:
    """A build for testers changes no consent."""
    device.client(debug=pin(version="2.0.0")).close()
    assert device.client().reports


def test_a_pinned_version_never_answers_in_another_build(device: Device) -> None:
    """Without pins the version before answers at once, and the policy decides from the next sync on."""
    device.client().sync()
    client = device.client(debug=pin(version="2.0.0"))
    client.sync()
    client.close()
    plain = device.client()
    assert device.answer(plain) == "one 1.0.0 fallback"
    assert plain.sync().error is None
    assert device.answer(plain) == "one 1.0.0 default"


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (pin(version="9.0.0"), MissingTargetError, "the tree holds no greeting/9.0.0.json"),
        (pin(arm="arm7"), OutOfBoundError, "one of the arms of the policy: control, treatment, not 'arm7'"),
        (DebugOverrides({"unknown": Pin(version="1.0.0")}), FeatureUnknownError, "does not know the feature 'unknown'"),
    ],
)
def test_a_pin_to_what_is_not_there_is_refused(
    device: Device, overrides: DebugOverrides, error: type[Exception], message: str
) -> None:
    """The sync says it; what answered before answers on."""
    device.world.set_policy("1.0.0", rollout=("2.0.0", 1))
    client = device.client(debug=overrides)
    result = client.sync()
    assert isinstance(result.error, error)
    assert message in str(result.error)
    assert client.feature(FEATURE).predict("hi").error is None


def test_a_halted_version_cannot_be_pinned(device: Device) -> None:
    """A halt takes it away from testers too."""
    client = device.client(debug=pin(version="2.0.0"))
    client.sync()
    device.world.halt("2.0.0")
    assert isinstance(client.sync().error, VersionHaltedError)
    assert device.answer(client) == "shipped baseline baseline"


def test_a_tampered_program_cannot_be_pinned(device: Device) -> None:
    """It passes every check that any version does, or it is not installed."""
    device.world.blob("2.0.0").write_bytes(b"x" * device.world.blob("2.0.0").stat().st_size)
    client = device.client(debug=pin(version="2.0.0"))
    assert isinstance(client.sync().error, RegistryError)
    assert device.answer(client) == "shipped baseline baseline"


def test_a_version_below_its_teams_minimum_cannot_be_pinned(device: Device) -> None:
    """The security floor holds."""
    device.world.push("0.5.0", fake_program("old"))
    device.world.raise_min_version("1.0.0")
    client = device.client(debug=pin(version="0.5.0"))
    assert isinstance(client.sync().error, RegistryError)
    assert device.answer(client) == "shipped baseline baseline"


def test_a_file_pins_versions_and_arms(tmp_path: Path) -> None:
    """An absent one pins nothing."""
    path = tmp_path / "alcove-debug.json"
    assert DebugOverrides.from_file(path) == DebugOverrides()
    path.write_text('{"polite": {"version": "1.1.0"}, "tone": {"arm": "treatment"}}')
    overrides = DebugOverrides.from_file(path)
    assert overrides.to_json() == {"polite": "version 1.1.0", "tone": "arm treatment"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 10_000,
        '{"Polite": {"version": "1.1.0"}}',
        '{"polite": "1.1.0"}',
        '{"polite": {}}',
        '{"polite": {"version": "1.1"}}',
        '{"polite": {"version": "1.1.0", "arm": "a"}}',
        '{"polite": {"arm": 1}}',
        '{"polite": {"sha256": "00"}}',
        " " * 70_000 + "{}",
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, content: str) -> None:
    """By its name, when the app makes its client: a tester who mistyped must not test something else."""
    path = tmp_path / "alcove-debug.json"
    path.write_text(content)
    with pytest.raises(OutOfBoundError, match=r"alcove-debug\.json"):
        DebugOverrides.from_file(path)


def test_no_pins_leave_a_device_as_it_is(device: Device) -> None:
    """The build for testers without a file is like any other."""
    seen: list[Any] = []
    options: list[dict[str, Any]] = [{"debug": DebugOverrides()}, {}]
    for option in options:
        client = device.client(**option)
        client.sync()
        seen.append((device.answer(client), client.reports, client.privacy_summary().debug_overrides))
        client.close()
    assert seen[0] == seen[1] == ("one 1.0.0 default", True, {})
