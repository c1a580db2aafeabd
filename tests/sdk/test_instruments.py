"""An app's counters and histograms hear of predictions, syncs and requests, and cannot break them."""

from collections.abc import Mapping
from typing import Any

import pytest
from alcove.sdk.testing import fake_program

from tests.sdk.conftest import FEATURE, Device


class Kept:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float, dict[str, str]]] = []

    def add(self, name: str, amount: int, attributes: Mapping[str, str]) -> None:
        """Keep it."""
        self.seen.append((name, amount, dict(attributes)))

    def record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Keep it."""
        self.seen.append((name, value, dict(attributes)))

    def find(self, name: str) -> list[tuple[float, dict[str, str]]]:
        """Return what came under a name."""
        return [(value, attributes) for seen, value, attributes in self.seen if seen == name]


class Failing:
    """Raises."""

    def add(self, *_: Any) -> None:
        """Fail."""
        raise RuntimeError("no exporter")

    record = add


def test_predictions_are_counted_with_their_time(device: Device) -> None:
    """By feature, version and reason; with the kind of error where there is no value."""
    kept = Kept()
    device.clock.tick_ns = 2_000_000
    handle = device.client(instruments=kept).feature(FEATURE)
    handle.predict("hi")
    handle.predict("\ud800")
    shipped = {"feature": FEATURE, "version": "baseline", "reason": "baseline"}
    assert kept.find("alcove.predictions") == [(1, shipped), (1, shipped | {"error.type": "invalid_text"})]
    assert kept.find("alcove.prediction.duration")[0] == (0.002, shipped)


def test_syncs_changes_refusals_and_requests_are_counted(device: Device) -> None:
    """Everything that an operator of an app asks for."""
    kept = Kept()
    client = device.client(instruments=kept)
    client.sync()
    moved = {"feature": FEATURE, "before": "baseline", "after": "1.0.0", "reason": "default"}
    assert kept.find("alcove.version.changes") == [(1, moved)]
    assert kept.find("alcove.syncs") == [(1, {})]
    assert len(kept.find("alcove.sync.duration")) == 1
    assert len(kept.find("alcove.requests")) == len(device.transport.requests)
    assert sum(value for value, _ in kept.find("alcove.requests.size")) == client.privacy_summary().bytes_sent
    device.world.push("3.0.0", fake_program("three"), min_runtime="99.0.0")
    device.world.set_policy("3.0.0")
    client.sync()
    refused = {"feature": FEATURE, "version": "3.0.0", "error.type": "RuntimeTooOldError"}
    assert kept.find("alcove.version.refusals") == [(1, refused)]
    assert kept.find("alcove.syncs")[1:] == [(1, {"error.type": "RuntimeTooOldError"})]


def test_instruments_that_raise_break_nothing(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """The log names them, without the text of what they raised."""
    client = device.client(instruments=Failing())
    assert client.sync().error is None
    assert client.feature(FEATURE).predict("hi").error is None
    assert "the app's instrument alcove.predictions raised RuntimeError" in caplog.messages
    assert "no exporter" not in caplog.text
