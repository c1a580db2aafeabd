"""The OpenFeature provider returns what the policy assigns, with the standard's reasons, error codes and events."""

import queue
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from alcove.registry.parameters import Parameter, Setting
from alcove.registry.policy import FeaturePolicy
from alcove.sdk import Client, DeviceAttributes
from alcove.sdk.openfeature import AlcoveProvider
from alcove.sdk.testing import SeededEntropy, fake_program
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import EventDetails, ProviderEvent
from openfeature.exception import ErrorCode, ProviderNotReadyError
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.provider import ProviderStatus

from tests.sdk.conftest import FEATURE, Device

DOMAIN = "models"
Event = tuple[ProviderEvent, list[str] | None]


@pytest.fixture(autouse=True)
def no_provider() -> Iterator[None]:
    """OpenFeature keeps its providers for the process."""
    yield
    api.clear_providers()


def make_provider(client: Client) -> OpenFeatureClient:
    """The app's OpenFeature client over a client of ours that has a policy."""
    api.set_provider_and_wait(AlcoveProvider(client), DOMAIN)
    return api.get_client(DOMAIN)


def summarize(details: FlagEvaluationDetails[Any]) -> tuple[Any, Any, Any, Any]:
    """Value, reason, variant and code."""
    return details.value, details.reason, details.variant, details.error_code


class Heard:
    """What the app hears from now on: OpenFeature calls handlers on threads of its own."""

    def __init__(self, flags: OpenFeatureClient) -> None:
        self._queue: queue.Queue[Event] = queue.Queue()
        for event in ProviderEvent:
            flags.add_handler(event, partial(self._hear, event))
        if flags.get_provider_status() is not ProviderStatus.NOT_READY:
            self.next()  # a handler for the state that holds already is called at once

    def _hear(self, event: ProviderEvent, details: EventDetails) -> None:
        self._queue.put((event, details.flags_changed))

    def next(self) -> Event:
        """Return what was heard next."""
        return self._queue.get(timeout=30)

    def is_empty(self) -> bool:
        """Tell whether nothing was heard that was not looked at."""
        return self._queue.empty()


@pytest.mark.parametrize(("arm", "version", "name"), [(0, "1.0.0", "arm0"), (1, "2.0.0", "arm1")])
def test_arm_of_an_experiment_is_a_split(device: Device, arm: int, version: str, name: str) -> None:
    """Version, arm's name, everything at once; no rollout."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm)))
    client.sync()
    flags = make_provider(client)
    assert summarize(flags.get_string_details(FEATURE, "none")) == (version, Reason.SPLIT, name, None)
    assert summarize(flags.get_string_details(f"{FEATURE}.arm", "none")) == (name, Reason.SPLIT, name, None)
    assert summarize(flags.get_boolean_details(f"{FEATURE}.rollout", True)) == (False, Reason.SPLIT, "off", None)
    everything = {"version": version, "reason": "experiment", "arm": name, "experiment": "exp"}
    details = flags.get_object_details(FEATURE, {})
    assert summarize(details) == (everything, Reason.SPLIT, name, None)
    assert details.flag_metadata == {
        "policy_serial": device.world.serial,
        "version": version,
        "manifest_sha256": device.world.manifests[version].sha256,
        "assigned_by": "experiment",
    }
    assert client.feature(FEATURE).version == version


@pytest.mark.parametrize(
    ("policy", "version", "reason", "variant"),
    [
        ({}, "1.0.0", Reason.STATIC, "default"),
        ({"rollout": ("2.0.0", 10_000)}, "2.0.0", Reason.STATIC, "rollout"),
        ({"rollout": ("2.0.0", 0)}, "1.0.0", Reason.DEFAULT, "default"),
        ({"rollout": ("2.0.0", 9999)}, "2.0.0", Reason.SPLIT, "rollout"),
        ({"rollout": ("2.0.0", 0), "control": 10_000}, "1.0.0", Reason.SPLIT, "control"),
        ({"rollout": ("2.0.0", 9999), "control": 0}, "2.0.0", Reason.SPLIT, "treatment"),
        ({"rollout": ("2.0.0", 10_000), "audience": "os == ios"}, "2.0.0", Reason.TARGETING_MATCH, "rollout"),
        ({"rollout": ("2.0.0", 10_000), "audience": "os == web"}, "1.0.0", Reason.DEFAULT, "default"),
    ],
)
def test_reason_says_what_decided(
    device: Device, policy: dict[str, Any], version: str, reason: Reason, variant: str
) -> None:
    """Everybody the same, the bucket, the audience, or nothing under way."""
    device.world.set_policy("1.0.0", **policy)
    client = device.client(device=DeviceAttributes(os="ios"), entropy=SeededEntropy(1))
    client.sync()
    flags = make_provider(client)
    assert summarize(flags.get_string_details(FEATURE, "none")) == (version, reason, variant, None)
    is_moved = version == "2.0.0"
    moved = flags.get_boolean_details(f"{FEATURE}.rollout", not is_moved)
    assert (moved.value, moved.variant) == (is_moved, "on" if is_moved else "off")
    arm = flags.get_string_details(f"{FEATURE}.arm", "none")
    in_arm = variant in ("control", "treatment")
    assert (arm.value, arm.reason) == ((variant, reason) if in_arm else ("none", Reason.DEFAULT))


def test_before_the_first_policy_nothing_is_ready(device: Device) -> None:
    """Setting the provider says so; flags give the app's default with the code; the first sync makes it ready."""
    client = device.client()
    provider = AlcoveProvider(client)
    with pytest.raises(ProviderNotReadyError):
        api.set_provider_and_wait(provider, DOMAIN)
    flags = api.get_client(DOMAIN)
    heard = Heard(flags)
    details = flags.get_string_details(FEATURE, "mine")
    assert summarize(details) == ("mine", Reason.ERROR, None, ErrorCode.PROVIDER_NOT_READY)
    client.sync()
    assert heard.next() == (ProviderEvent.PROVIDER_READY, None)
    assert heard.is_empty()
    assert flags.get_provider_status() is ProviderStatus.READY
    assert flags.get_string_value(FEATURE, "mine") == "1.0.0"


@pytest.mark.parametrize("key", ["unknown", "unknown.arm", f"{FEATURE}.", f"{FEATURE}.size", f"{FEATURE}.arm.x", ""])
def test_unknown_flag_is_not_found(device: Device, key: str) -> None:
    """A feature or an aspect that the policy does not know."""
    client = device.client()
    client.sync()
    details = make_provider(client).get_string_details(key, "mine")
    expected = ("1.0.0", None) if key == f"{FEATURE}." else ("mine", ErrorCode.FLAG_NOT_FOUND)
    assert (details.value, details.error_code) == expected


def test_flag_of_another_type_is_a_mismatch(device: Device) -> None:
    """Every type against every flag that has another."""
    client = device.client()
    client.sync()
    flags = make_provider(client)
    asked: list[FlagEvaluationDetails[Any]] = [
        flags.get_boolean_details(FEATURE, True),
        flags.get_integer_details(FEATURE, 3),
        flags.get_float_details(FEATURE, 3.5),
        flags.get_boolean_details(f"{FEATURE}.arm", True),
        flags.get_object_details(f"{FEATURE}.arm", {}),
        flags.get_string_details(f"{FEATURE}.rollout", "mine"),
        flags.get_integer_details(f"{FEATURE}.rollout", 3),
    ]
    assert {(details.reason, details.error_code) for details in asked} == {(Reason.ERROR, ErrorCode.TYPE_MISMATCH)}
    assert [details.value for details in asked] == [True, 3, 3.5, True, {}, "mine", 3]
    assert asked[0].error_message == "flag 'greeting' is a string or an object, not of type boolean"
    assert asked[-1].error_message == "flag 'greeting.rollout' is a boolean, not of type integer"


def test_syncs_are_heard_with_the_flags_that_changed(device: Device) -> None:
    """Configuration changed only where an assignment did: a sync without news, and one that leaves it, are silent."""
    client = device.client()
    client.sync()
    flags = make_provider(client)
    heard = Heard(flags)
    client.sync()
    device.world.set_policy("2.0.0")
    client.sync()
    changed = [FEATURE, f"{FEATURE}.arm", f"{FEATURE}.rollout"]
    assert heard.next() == (ProviderEvent.PROVIDER_CONFIGURATION_CHANGED, changed)
    assert flags.get_string_value(FEATURE, "none") == "2.0.0"
    device.world.set_policy("2.0.0", rollout=("1.0.0", 0))
    client.sync()
    device.world.drop_from_policy()
    client.sync()
    assert heard.next() == (ProviderEvent.PROVIDER_CONFIGURATION_CHANGED, changed)
    assert heard.is_empty()
    assert flags.get_string_details(FEATURE, "none").error_code is ErrorCode.FLAG_NOT_FOUND


def test_policy_of_an_earlier_process_is_cached_until_a_sync_confirms_it(device: Device) -> None:
    """It is there at once, without network; a sync that fails makes it stale, one that works current."""
    device.client().sync()
    client = device.client()
    flags = make_provider(client)
    before = len(device.transport.requests)
    assert summarize(flags.get_string_details(FEATURE, "none")) == ("1.0.0", Reason.CACHED, "default", None)
    assert len(device.transport.requests) == before
    heard = Heard(flags)
    tree = device.world.folder.rename(device.world.folder.with_name("away"))
    assert client.sync().error is not None
    assert heard.next()[0] is ProviderEvent.PROVIDER_STALE
    assert flags.get_string_details(FEATURE, "none").reason is Reason.CACHED
    tree.rename(device.world.folder)
    assert client.sync().error is None
    assert heard.next() == (ProviderEvent.PROVIDER_READY, None)
    assert heard.is_empty()
    assert flags.get_string_details(FEATURE, "none").reason is Reason.STATIC


def test_feature_whose_every_version_is_halted_is_disabled(device: Device) -> None:
    """The app's default, no error."""
    client = device.client()
    device.world.halt("1.0.0")
    client.sync()
    flags = make_provider(client)
    assert summarize(flags.get_string_details(FEATURE, "mine")) == ("mine", Reason.DISABLED, None, None)
    assert summarize(flags.get_boolean_details(f"{FEATURE}.rollout", False)) == (False, Reason.DISABLED, None, None)


def test_provider_that_was_shut_down_hears_nothing(device: Device) -> None:
    """It lets go of the client, and leaves it open."""
    client = device.client()
    client.sync()
    provider = AlcoveProvider(client)
    api.set_provider_and_wait(provider, DOMAIN)
    provider.shutdown()
    device.world.set_policy("2.0.0")
    client.sync()
    assert provider.resolve_string_details(FEATURE, "none").value == "1.0.0"
    assert client.feature(FEATURE).version == "2.0.0"


def test_evaluation_and_tracking_send_nothing(device: Device) -> None:
    """Not one request, whatever the app asks or tracks, and in whatever context."""
    client = device.client()
    client.sync()
    flags = make_provider(client)
    before = len(device.transport.requests)
    context = EvaluationContext("user-17", {"os": "web"})
    assert flags.get_string_value(FEATURE, "none", context) == "1.0.0"
    flags.track("bought", context)
    assert len(device.transport.requests) == before


def test_sdk_does_not_need_it(device: Device) -> None:
    """Nothing of the SDK loads OpenFeature; without it the provider's module names the extra."""
    code = (
        "import sys\n"
        "sys.modules['openfeature'] = None\n"
        "import alcove.sdk, alcove.sdk.client, alcove.sdk.sync, alcove.sdk.assignments\n"
        "try:\n"
        "    import alcove.sdk.openfeature\n"
        "except ModuleNotFoundError as error:\n"
        "    assert 'alcove-sdk[openfeature]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('imported')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parameters_of_a_version_are_flags_of_their_own_type(device: Device) -> None:
    """With the reason that the version has; changes are heard, and another type is named."""
    parameters = (
        Parameter(name="enabled", type="bool", default=True),
        Parameter(name="rows", type="int", default=3, minimum=1, maximum=9),
        Parameter(name="threshold", type="float", default="0.5", minimum="0.1", maximum="0.9"),
        Parameter(name="tone", type="text", default="plain", choices=("plain", "kind")),
    )
    version = device.world.push("3.0.0", fake_program("three"), parameters=parameters)
    device.world.publish_rules(FeaturePolicy(min_version="0.0.1", default=version))
    client = device.client()
    client.sync()
    flags = make_provider(client)
    heard = Heard(flags)
    threshold = f"{FEATURE}.config.threshold"
    assert summarize(flags.get_float_details(threshold, 0.1)) == (0.5, Reason.STATIC, "default", None)
    assert flags.get_boolean_value(f"{FEATURE}.config.enabled", False)
    assert flags.get_integer_value(f"{FEATURE}.config.rows", 0) == 3
    assert flags.get_string_value(f"{FEATURE}.config.tone", "") == "plain"
    wrong = flags.get_string_details(threshold, "x")
    assert (wrong.value, wrong.error_code) == ("x", ErrorCode.TYPE_MISMATCH)
    assert wrong.error_message == f"flag '{threshold}' is of type float, not of type string"
    assert flags.get_float_details(f"{FEATURE}.config.other", 0.1).error_code is ErrorCode.FLAG_NOT_FOUND
    values = (Setting(name="threshold", value="0.8"),)
    device.world.publish_rules(FeaturePolicy(min_version="0.0.1", default=version, values=values))
    client.sync()
    event, changed = heard.next()
    assert event is ProviderEvent.PROVIDER_CONFIGURATION_CHANGED
    assert changed is not None
    assert threshold in changed
    assert flags.get_float_value(threshold, 0.1) == 0.8
