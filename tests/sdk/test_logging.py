"""The SDK logs below "alcove": what it did and what failed, and nothing of what a person wrote or got as an answer."""

import contextlib
import json
import logging
from typing import Any

import pytest
from alcove.registry.errors import MetadataError, MissingTargetError
from alcove.runtime.errors import AlcoveRuntimeError, InputError
from alcove.sdk import Client, DeviceStorageError, NoPredictionError, StatusError, TransportError, UnknownFeatureError
from alcove.sdk.background import report_turn, sync_turn
from alcove.sdk.testing import FakeEngine, FakeProgram, SeededEntropy

from tests.sdk.conftest import FEATURE, Device

MARK = "marked-by-this-test"


class FailingProgram(FakeProgram):
    """Repeats its input in an error, as a careless engine could."""

    def __call__(self, *inputs: Any) -> list[Any]:
        """Fail with the input in the message."""
        raise AlcoveRuntimeError(f"cannot run {inputs}")


class FailingEngine(FakeEngine):
    """Loads programs that fail."""

    def load(self, path: Any) -> FakeProgram:
        """Return a program that fails on every input."""
        return FailingProgram(super().load(path).label)


class CarelessContract:
    """Repeats the outputs in an error."""

    name = FEATURE

    def decode(self, outputs: list[Any]) -> str:
        """Fail with the outputs in the message."""
        raise ValueError(f"{MARK} {outputs}")


def test_changes_and_refusals_of_a_sync_are_logged(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """At INFO what answers from now on, at WARNING what was refused and why."""
    caplog.set_level(logging.INFO, "alcove")
    client = device.client()
    client.sync()
    assert caplog.messages == ["greeting answers with 1.0.0 in place of baseline: default"]
    device.world.set_policy("2.0.0")
    device.world.blob("2.0.0").write_bytes(b"tampered")
    client.sync()
    (refused,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert refused.getMessage().startswith("greeting 2.0.0 was refused: ")
    assert all(record.name.startswith("alcove.") for record in caplog.records)


def test_a_background_sync_and_report_that_fail_are_logged(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody looks at the result of a background turn."""
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)))

    def fail(method: str, path: str) -> None:
        raise StatusError(method=method, path=path, status=503)

    device.transport.fault = fail
    sync_turn(client)
    assert "a background sync ended: " in caplog.text
    device.transport.fault = None
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    device.transport.fault = fail
    report_turn(client.report)
    assert "a background report was not sent: StatusError: POST /reports: answered with status 503" in caplog.messages


def test_requests_are_logged_for_those_who_debug(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """Method, place and size of each, at DEBUG."""
    caplog.set_level(logging.DEBUG, "alcove")
    device.client().sync()
    assert sum(message.startswith("GET ") for message in caplog.messages) == len(device.transport.requests)


def test_an_app_that_configures_no_logging_sees_nothing_of_it() -> None:
    """Python's handler of last resort stays silent."""
    assert Client is not None  # importing it adds the handler
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("alcove").handlers)


def test_no_record_holds_anything_of_an_input_or_an_answer(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails with a marked input: message, arguments, traceback and all other fields are searched."""
    caplog.set_level(logging.DEBUG, "alcove")
    for engine in (FakeEngine(), FailingEngine()):
        client = device.client(engine=engine)
        client.sync()
        for feature in (FEATURE, CarelessContract):
            handle = client.feature(feature)
            for text in (MARK, MARK + "\ud800", MARK.encode() + b"\xff"):
                handle.predict(text)
            with contextlib.suppress(InputError):
                handle.predict(MARK, MARK)
            with contextlib.suppress(InputError):
                handle.predict(**{MARK: 1})
            with contextlib.suppress(NoPredictionError):
                handle.record_outcome(accepted=True)
        sync_turn(client)
        report_turn(client.report)
        client.close()
    assert len(caplog.records) > 20
    kept = [repr(vars(record)) + caplog.handler.format(record) for record in caplog.records]
    assert not [text for text in kept if MARK in text]
    assert f"{FEATURE} 1.0.0 gives no answer: run_failed" in caplog.messages


def test_the_search_for_marks_finds_one(caplog: pytest.LogCaptureFixture) -> None:
    """The control of the test above: a careless line of the log is found."""
    logging.getLogger("alcove.test").warning("it failed for %s", MARK)
    assert MARK in repr(vars(caplog.records[0]))


def test_a_feature_before_the_first_sync_says_to_sync_first(device: Device) -> None:
    """Afterwards it is only unknown."""
    client = device.client(baselines={})
    with pytest.raises(UnknownFeatureError) as caught:
        client.feature(FEATURE)
    assert str(caught.value) == (
        "no feature 'greeting' here; known: none; nothing was synced yet, so call client.sync() first"
    )
    client.sync()
    with pytest.raises(UnknownFeatureError) as caught:
        client.feature("gretting")
    assert str(caught.value) == "no feature 'gretting' here; known: greeting"


def test_an_app_without_a_policy_is_named(device: Device) -> None:
    """The error says which app, and what makes a policy."""
    client = Client("massenger", device.folder, "http://127.0.0.1:1", device.world.root, **device.options)
    error = client.sync().error
    client.close()
    assert isinstance(error, MissingTargetError)
    assert str(error) == (
        "the tree holds no policy/massenger.json: the first rollout of the app 'massenger' makes one;"
        " is this the app's name?"
    )


def test_root_metadata_that_is_none_names_its_file(device: Device) -> None:
    """A wrong file, and an absent one; the client works on."""
    device.folder.mkdir()
    wrong = device.folder.with_name("wrong.json")
    wrong.write_text("{}")
    for root, kind, message in (
        (wrong, MetadataError, f"trusted_root '{wrong}' must be the root.json of the server's tree"),
        (b"{}", MetadataError, "trusted_root must be the root.json of the server's tree"),
        (wrong.with_name("absent.json"), DeviceStorageError, f"read trusted_root '{wrong.with_name('absent.json')}'"),
    ):
        client = Client("messenger", device.folder, "http://127.0.0.1:1", root, **device.options)
        error = client.sync().error
        assert isinstance(error, kind)
        assert str(error).startswith(message)
        assert device.answer(client) == "shipped baseline baseline"
        client.close()


def test_the_privacy_summary_is_json(device: Device) -> None:
    """`json.dumps` takes it, and nothing is lost but the type of the fractions."""
    client = device.client()
    client.sync()
    summary = client.privacy_summary()
    values = json.loads(json.dumps(summary.to_json()))
    assert values["requests"][0]["bytes_sent"] == summary.requests[0].bytes_sent
    assert values["epsilon_cap_day"] == str(summary.epsilon_cap_day)


def test_a_transport_error_is_no_traceback(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """A background sync without a network is one line."""

    def fail(method: str, path: str) -> None:
        raise TransportError(method=method, path=path, reason="no network")

    device.transport.fault = fail
    caplog.set_level(logging.INFO, logger="alcove")
    sync_turn(device.client())
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None
