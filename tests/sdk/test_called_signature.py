"""A version that takes or gives something else than an app passes and reads never answers in that app."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alcove.registry.policy import Outcome
from alcove.runtime.errors import InputError
from alcove.sdk import OtherSignatureError
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, World

if TYPE_CHECKING:
    from alcove.sdk.handle import Measurement


@pytest.fixture
def other_world(released_world: World) -> World:
    """A tree with 3.0.0, which takes two texts where the versions before take one."""
    released_world.push("3.0.0", fake_program("three", inputs=2))
    return released_world


@pytest.mark.parametrize("has_baseline", [True, False])
def test_version_of_another_signature_is_not_installed(
    device: Device, other_world: World, *, has_baseline: bool
) -> None:
    """The older slot stays and answers; the sync says which version was refused, and why; nothing was downloaded."""
    client = device.client() if has_baseline else device.client(baselines=None)
    client.sync()
    handle = client.feature(FEATURE)
    assert device.answer(client) == "one 1.0.0 default"
    other_world.set_policy("3.0.0")
    result = client.sync()
    [refusal] = result.refused
    assert (refusal.feature, refusal.version) == (FEATURE, "3.0.0")
    assert isinstance(refusal.error, OtherSignatureError)
    assert "it takes 2 inputs, apps pass 1" in str(refusal.error)
    assert client.last_sync is not None
    assert client.last_sync.refused == result.refused
    assert handle.predict("hi").version == "1.0.0"
    assert not any(other_world.blob("3.0.0").name in request.path for request in device.transport.requests)
    other_world.set_policy("2.0.0")
    assert not client.sync().refused
    assert handle.predict("hi").version == "2.0.0"


def test_refused_arm_counts_a_fallback(device: Device, other_world: World) -> None:
    """A rollout's guardrail sees the devices of its arm that could not run the version."""
    entropy = SeededEntropy(device.seed_for_arm(1, salt="roll-salt"))
    client = device.client(entropy=entropy)
    client.sync()
    other_world.set_policy("1.0.0", rollout=("3.0.0", 5000), control=5000)
    assert isinstance(client.sync().error, OtherSignatureError)
    handle = client.feature(FEATURE)
    assert handle.predict("hi").version == "1.0.0"
    active = handle._model_ref.active
    assert active.has_abandoned_arm
    seen: list[Measurement] = []
    handle._record = seen.append
    handle.record_outcome(accepted=True)
    assert [one.outcome for one in seen] == [Outcome.FALLBACK]


def test_first_version_of_an_app_without_baseline_is_taken(device: Device, other_world: World) -> None:
    """Where nothing says what the app passes, the server's word holds."""
    other_world.set_policy("3.0.0")
    client = device.client(baselines=None)
    assert not client.sync().refused
    assert client.feature(FEATURE).predict("hi", "ho").version == "3.0.0"


def test_app_built_for_the_new_signature_gets_it(device: Device, other_world: World, tmp_path: Path) -> None:
    """The baseline of a new app says what is called; until the new version is there, that baseline answers."""
    device.client().sync()
    baseline = tmp_path / "new.alc"
    baseline.write_bytes(fake_program("new", inputs=2))
    client = device.client(baselines={FEATURE: baseline})
    handle = client.feature(FEATURE)
    assert handle.predict("hi", "ho").value == {"label": [["new"]]}
    assert handle.version == "baseline"
    other_world.set_policy("3.0.0")
    assert not client.sync().refused
    assert handle.predict("hi", "ho").version == "3.0.0"


def test_app_without_baseline_built_for_the_new_signature_gets_it(device: Device, other_world: World) -> None:
    """What the app passes says more than what it was built for before."""
    device.client(baselines=None).sync()
    client = device.client(baselines=None)
    handle = client.feature(FEATURE)
    with pytest.raises(InputError):
        handle.predict("hi", "ho")
    other_world.set_policy("3.0.0")
    assert not client.sync().refused
    assert handle.predict("hi", "ho").version == "3.0.0"


def test_installed_version_that_does_not_take_the_inputs_is_stood_in_for(device: Device, other_world: World) -> None:
    """What was installed before this check existed: the app gets the answer of the version before, not an exception."""
    client = device.client(baselines=None)
    client.sync()
    other_world.set_policy("3.0.0")
    client.feature(FEATURE)._model_ref.is_refused = True  # installs it unchecked
    client.sync()
    handle = client.feature(FEATURE)
    assert handle.version == "3.0.0"
    answer = handle.predict("hi")
    assert (answer.version, answer.reason, answer.error) == ("1.0.0", "fallback", None)
    with pytest.raises(InputError):
        handle.predict("hi", "ho", "and one more")
    restarted = device.client(baselines=None).feature(FEATURE)
    assert restarted.predict("hi").version == "1.0.0"
