"""What the tests of streams share: a device whose versions count the runs of their session."""

import threading
from typing import Any

from alcove.sdk import Client, FrameAnswer
from alcove.sdk.testing import FakeEngine, FakeSession

from tests.sdk.conftest import FEATURE, Device

OLD, NEW = "1.1.0", "2.1.0"
LONG_MS = 60_000.0


class Counting:
    """A contract whose value is the label: "old#3" is of version `OLD`, with three runs in its state before."""

    name = FEATURE

    def decode(self, outputs: list[Any]) -> str:
        """Return the label."""
        return str(outputs[0][0][0])


class Spelling:
    """A contract with a framing: frames of any length, runs of two characters."""

    name = FEATURE

    def __init__(self) -> None:
        self.framings: list[Pairs] = []

    def decode(self, outputs: list[Any]) -> str:
        """Return the label."""
        return str(outputs[0][0][0])

    def framing(self) -> "Pairs":
        """Return a new one, which the test can look into."""
        self.framings.append(Pairs())
        return self.framings[-1]


class Pairs:
    """Cuts texts in pairs.

    Attributes:
        rest: characters that wait for the next frame.
        skipped: how often a frame had no value.
    """

    def __init__(self) -> None:
        self.rest = ""
        self.skipped = 0

    def encode_frame(self, frame: str) -> list[tuple[Any, ...]]:
        """Return a run for each pair."""
        if frame == "?":
            raise ValueError("a frame is no question")
        text = self.rest + frame
        whole = len(text) // 2 * 2
        self.rest = text[whole:]
        return [(text[at : at + 2],) for at in range(0, whole, 2)]

    def decode_frame(self, outputs: list[list[Any]]) -> list[str]:
        """Return the labels."""
        return [str(one[0][0][0]) for one in outputs]

    def skip_frame(self) -> None:
        """Count."""
        self.skipped += 1

    def reset(self) -> None:
        """Forget the rest."""
        self.rest = ""


def client_of(device: Device, **options: Any) -> Client:
    """Return a client of a device that has the first version."""
    client = device.client(**options)
    assert client.sync().error is None
    return client


def swap(device: Device, client: Client, version: str = NEW) -> None:
    """Let a sync install another version."""
    device.world.set_policy(version)
    assert client.sync().error is None


def engine_of(device: Device) -> FakeEngine:
    """Return the runtime that runs the device's programs."""
    engine = device.options["engine"]
    assert isinstance(engine, FakeEngine)
    return engine


def stop_here(session: FakeSession, _: tuple[Any, ...]) -> None:
    """Be a run that lasts until it is stopped."""
    assert session.is_stopped.wait(60)


def labels(answers: list[FrameAnswer[str]]) -> list[str | None]:
    """Return the values."""
    return [answer.value for answer in answers]


def join_warm_up() -> None:
    """Wait until no session is being made."""
    for thread in threading.enumerate():
        if thread.name == "alcove-warm-up":
            thread.join(60)
