"""A contract that says what it takes and gives is answered by programs that it can call, and by no other."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from alcove.registry.policy import Outcome
from alcove.sdk import AnswerError, OtherSignatureError, Port, Signature
from alcove.sdk.testing import FakeProgram, SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, World

TEXT = Port("text", "text")
LABEL = Port("label", "i32", (1, 1), labels=("a", "b"))


class Greeting:
    """One text in, one label out, as `alcove model stub` writes it."""

    name: ClassVar[str] = FEATURE
    signature: ClassVar[Signature] = Signature(inputs=(TEXT,), outputs=(LABEL,))

    def encode(self, text: str | bytes) -> tuple[Any, ...]:
        """Return the inputs."""
        return (text,)

    def decode(self, outputs: list[Any]) -> str:
        """Return the label."""
        return str(outputs[0].item())


class TwoGreetings(Greeting):
    """The contract of another app version: two texts."""

    signature: ClassVar[Signature] = Signature(inputs=(TEXT, Port("text1", "text")), outputs=(LABEL,))

    def encode(self, text: str | bytes, text1: str | bytes = "") -> tuple[Any, ...]:
        """Return the inputs."""
        return (text, text1)


@pytest.fixture
def other_world(released_world: World) -> World:
    """A tree with 3.0.0, which takes two texts where the versions before take one."""
    released_world.push("3.0.0", fake_program("three", inputs=2))
    return released_world


def test_typed_inputs_answer_by_place_by_name_and_later(device: Device) -> None:
    """`predict` has the parameters of `encode`; what does not fit them is the caller's mistake."""
    handle = device.client().feature(Greeting)
    assert handle.predict("hi").value == "shipped"
    assert handle.predict(text=b"hi").value == "shipped"
    assert asyncio.run(handle.predict_async("hi")).value == "shipped"
    with pytest.raises(TypeError):
        handle.predict("hi", "ho")  # type: ignore[call-arg]  # the misuse that the test is about


def test_a_version_that_the_contract_cannot_call_is_not_installed(device: Device, other_world: World) -> None:
    """Without a baseline too, and at the first sync: what the app was built with decides, whatever comes first."""
    client = device.client(baselines={})
    with pytest.raises(Exception, match="sync"):
        client.feature(Greeting)
    other_world.set_policy("3.0.0")
    assert isinstance(client.sync().error, OtherSignatureError)
    other_world.set_policy("1.0.0")
    assert client.sync().error is None
    handle = client.feature(Greeting)
    other_world.set_policy("3.0.0")
    assert isinstance(client.sync().error, OtherSignatureError)
    assert handle.predict("hi").value == "one"


def test_an_installed_version_that_the_contract_cannot_call_leaves_the_answer_to_the_one_before(
    device: Device, other_world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An app that is updated over versions of its predecessor: the fitting slot answers, and the log says why."""
    plain = device.client(baselines={})
    plain.sync()
    plain.feature(FEATURE)._model_ref.is_refused = True  # so that the other version is installed unchecked
    other_world.set_policy("3.0.0")
    assert plain.sync().error is None
    client = device.client(baselines={})
    assert client.feature(FEATURE).version == "3.0.0"
    answer = client.feature(Greeting).predict("hi")
    assert (answer.value, answer.version, answer.reason) == ("one", "1.0.0", "fallback")
    assert "greeting 3.0.0 is not called as this app calls it: it takes 2 inputs, apps pass 1" in caplog.messages
    assert device.client(baselines={}).feature(TwoGreetings).predict("hi").value == "three"


def test_a_baseline_that_the_contract_cannot_call_does_not_answer(device: Device, tmp_path: Path) -> None:
    """No wrong value and no exception: the answer says that there is no model."""
    baseline = tmp_path / "two.alc"
    baseline.write_bytes(fake_program("two texts", inputs=2))
    handle = device.client(baselines={FEATURE: baseline}).feature(Greeting)
    assert handle.predict("hi").error is AnswerError.NO_MODEL


def test_an_arm_that_the_contract_cannot_call_counts_a_fallback(device: Device, other_world: World) -> None:
    """The guardrail of its rollout sees the devices that left it, which installed it before the app said its types."""
    client = device.client(baselines={}, entropy=SeededEntropy(device.seed_for_arm(1, salt="roll-salt")))
    client.sync()
    client.feature(FEATURE)._model_ref.is_refused = True
    other_world.set_policy("1.0.0", rollout=("3.0.0", 5000), control=5000)
    assert client.sync().error is None
    handle = client.feature(Greeting)
    assert handle.predict("hi").version == "1.0.0"
    seen: list[Any] = []
    handle._record = seen.append
    handle.record_outcome(accepted=True)
    assert [one.outcome for one in seen] == [Outcome.FALLBACK]


class MoreOutputs(FakeProgram):
    """A later version: another output after the known one."""

    outputs = (*FakeProgram.outputs, *FakeProgram.outputs)  # type: ignore[assignment]  # a tuple of another length


def test_a_program_that_gives_more_can_still_be_called() -> None:
    """By the rule that versions are validated with: what an app reads must be there, more may be."""
    model = MoreOutputs("x")
    assert Greeting.signature.mismatch(model) == ""
    assert TwoGreetings.signature.mismatch(model) == "it takes 1 inputs, apps pass 2"
