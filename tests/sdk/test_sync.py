"""Does a device come to run what its app's policy says, and nothing else?"""

from tests.sdk.conftest import Device


def test_first_prediction_comes_from_the_baseline_before_any_sync(device: Device) -> None:
    """A fresh installation answers at once, with what the app ships, and sends nothing."""
    client = device.client()
    assert device.answer(client) == "shipped baseline baseline"
    assert device.transport.requests == []


def test_sync_installs_and_the_handle_answers_with_it(device: Device) -> None:
    """The same handle answers with the new version after a sync, no restart needed."""
    client = device.client()
    handle = client.feature("greeting")
    assert handle.predict("hi").version == "baseline"
    result = client.sync()
    assert result.error is None, result
    assert handle.predict("hi").version == "1.0.0"
