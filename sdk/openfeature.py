"""Provides a device's assignments as flags to apps that speak OpenFeature; needs `alcove-sdk[openfeature]`.

    from openfeature import api
    api.set_provider(AlcoveProvider(client))
    api.get_client().get_string_value("language_id.arm", "none")

Flags of each feature that the signed policy names, for the device that the client runs on:

    flag                  type     value                                       variant
    FEATURE               string   version that the policy assigns             arm, "rollout" or "default"
    FEATURE               object   version, reason, arm, experiment            the same
    FEATURE.arm           string   name of its arm; the default outside one    the name
    FEATURE.rollout       boolean  it runs the rollout's new version           "on" or "off"
    FEATURE.config.NAME   its own  value of a parameter of the version         arm, "rollout" or "default"

Reasons: STATIC where every device has the same, SPLIT where its bucket decided, TARGETING_MATCH where only an audience
did, DEFAULT where it is in none of what is going on, DISABLED where all that the policy names is halted, CACHED while
the policy was not confirmed by a sync of this process.  Codes: PROVIDER_NOT_READY before a policy was ever seen,
FLAG_NOT_FOUND, TYPE_MISMATCH.

The evaluation context is not asked: who is in which arm is a matter of the installation's secret and of what the app
said of its device to the client, so a flag never says something else than what the device does.  Evaluation looks
up memory, without network, disk or lock.  `track` does nothing: no arm is ever sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy.resolution import Reason as Why
from alcove.sdk.errors import AlcoveSdkError

try:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.event import ProviderEventDetails
    from openfeature.exception import ErrorCode, ProviderNotReadyError
    from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
    from openfeature.provider import AbstractProvider, Metadata
except ModuleNotFoundError as missing:
    msg = "alcove.sdk.openfeature needs the OpenFeature SDK: pip install 'alcove-sdk[openfeature]'"
    raise ModuleNotFoundError(msg, name=missing.name) from missing

if TYPE_CHECKING:
    from alcove.registry.policy import FeaturePolicy, Resolution
    from alcove.sdk.assignments import Assignments
    from alcove.sdk.client import Client
    from alcove.sdk.sync import SyncResult

__all__ = ["AlcoveProvider"]

ARM: Final = "arm"
ROLLOUT: Final = "rollout"
ROLLOUT_ARMS: Final = ("control", "treatment")
CONFIG: Final = "config."
_TYPES: Final = {"": "a string or an object", ARM: "a string", ROLLOUT: "a boolean"}
_PYTHON_TYPES: Final = {bool: "boolean", int: "integer", float: "float", str: "string"}

_Value = TypeVar("_Value")
_Object = Sequence[FlagValueType] | Mapping[str, FlagValueType]


class AlcoveProvider(AbstractProvider):
    """Flags of one client's assignments; they follow its syncs.

    Events: ready once there is a policy (at once if one is on the disk, else after the first sync), configuration
    changed with the features whose assignment did, stale while syncs cannot confirm the policy, ready again after.

    Args:
        client: holds the policy; it is not closed with the provider.
    """

    def __init__(self, client: "Client") -> None:
        super().__init__()
        self._client = client
        self._seen: Assignments | None = None
        self._stop: Callable[[], None] | None = None

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata(name="alcove")

    def initialize(self, evaluation_context: EvaluationContext) -> None:
        """Read the policy that is on the disk, and follow the client's syncs.

        Raises:
            ProviderNotReadyError: no policy was ever seen; the provider is ready after the client's first sync.
        """
        del evaluation_context
        if self._stop is None:
            self._stop = self._client.add_sync_listener(self._follow)
        try:
            self._seen = self._client.assignments()
        except AlcoveSdkError as error:
            raise ProviderNotReadyError(str(error)) from error
        if self._seen is None:
            raise ProviderNotReadyError("no policy yet: the client has not synced")

    def shutdown(self) -> None:
        """Follow the client no more."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Return the version (FEATURE), the arm's name (FEATURE.arm) or a text parameter (FEATURE.config.NAME)."""
        del evaluation_context
        return self._resolve(flag_key, default_value, "string", {"": _version, ARM: _arm})

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return whether the device runs the rollout's new version (FEATURE.rollout), or a parameter."""
        del evaluation_context
        return self._resolve(flag_key, default_value, "boolean", {ROLLOUT: _is_moved})

    def resolve_object_details(
        self, flag_key: str, default_value: _Object, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[_Object]:
        """Return everything about a feature's assignment (FEATURE)."""
        del evaluation_context
        return self._resolve(flag_key, default_value, "object", {"": _all_assignments})

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Return a parameter that is a whole number (FEATURE.config.NAME)."""
        del evaluation_context
        return self._resolve(flag_key, default_value, "integer", {})

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Return a parameter that is a number (FEATURE.config.NAME)."""
        del evaluation_context
        return self._resolve(flag_key, default_value, "float", {})

    def _resolve(
        self,
        key: str,
        default: _Value,
        asked: str,
        readers: Mapping[str, Callable[["Resolution", "FeaturePolicy"], tuple[_Value, str] | None]],
    ) -> FlagResolutionDetails[_Value]:
        seen = self._seen
        if seen is None:
            return _fail(default, ErrorCode.PROVIDER_NOT_READY, "no policy yet: the client has not synced")
        feature, _, aspect = key.partition(".")
        types = _TYPES
        if aspect.startswith(CONFIG) and aspect.removeprefix(CONFIG) in seen.configs.get(feature, ()):
            value: Any = seen.configs[feature][aspect.removeprefix(CONFIG)]
            kind = _PYTHON_TYPES[type(value)]
            types = {aspect: f"of type {kind}"}
            readers = {aspect: lambda resolution, rules: (value, _variant(resolution, rules))} if kind == asked else {}
        if feature not in seen.resolutions or aspect not in types:
            return _fail(default, ErrorCode.FLAG_NOT_FOUND, f"the policy knows no flag {key!r}")
        if aspect not in readers:
            return _fail(default, ErrorCode.TYPE_MISMATCH, f"flag {key!r} is {types[aspect]}, not of type {asked}")
        resolution, rules = seen.resolutions[feature], seen.rules[feature]
        metadata: dict[str, bool | int | float | str] = {"policy_serial": seen.policy_serial}
        if resolution is None:
            return FlagResolutionDetails(default, reason=Reason.DISABLED, flag_metadata=metadata)
        metadata |= {
            "version": resolution.version.version,
            "manifest_sha256": resolution.version.manifest_sha256,
            "assigned_by": str(resolution.reason),
        }
        found = readers[aspect](resolution, rules)
        if found is None:
            return FlagResolutionDetails(default, reason=Reason.DEFAULT, flag_metadata=metadata)
        reason = _reason(resolution, rules) if seen.is_current else Reason.CACHED
        return FlagResolutionDetails(found[0], reason=reason, variant=found[1], flag_metadata=metadata)

    def _follow(self, result: "SyncResult") -> None:
        """Take what a sync of the client brought; tell the app of it."""
        before = self._seen
        try:
            after = self._client.assignments()
        except AlcoveSdkError as error:
            self.emit_provider_stale(ProviderEventDetails(message=str(error)))
            return
        if after is None:
            return
        self._seen = after
        if not after.is_current:
            problem = "" if result.error is None else str(result.error)
            self.emit_provider_stale(ProviderEventDetails(message=problem))
            return
        if before is None or not before.is_current:
            self.emit_provider_ready(ProviderEventDetails())
        if before is not None and (changed := _list_changed_flags(before, after)):
            self.emit_provider_configuration_changed(ProviderEventDetails(flags_changed=changed))


def _version(resolution: "Resolution", rules: "FeaturePolicy") -> tuple[str, str]:
    return resolution.version.version, _variant(resolution, rules)


def _arm(resolution: "Resolution", rules: "FeaturePolicy") -> tuple[str, str] | None:
    name = _arm_name(resolution, rules)
    return None if name is None else (name, name)


def _is_moved(resolution: "Resolution", rules: "FeaturePolicy") -> tuple[bool, str]:
    rollout = rules.rollout
    is_moved = rollout is not None and resolution.reason is Why.ROLLOUT and resolution.version == rollout.version
    return is_moved, "on" if is_moved else "off"


def _all_assignments(resolution: "Resolution", rules: "FeaturePolicy") -> tuple[_Object, str]:
    value: dict[str, FlagValueType] = {
        "version": resolution.version.version,
        "reason": str(resolution.reason),
        "arm": _arm_name(resolution, rules) or "",
        "experiment": resolution.experiment_id or "",
    }
    return value, _variant(resolution, rules)


def _variant(resolution: "Resolution", rules: "FeaturePolicy") -> str:
    return _arm_name(resolution, rules) or str(resolution.reason)


def _arm_name(resolution: "Resolution", rules: "FeaturePolicy") -> str | None:
    if resolution.arm is None:
        return None
    for experiment in rules.experiments:
        if experiment.id == resolution.experiment_id:
            return experiment.arms[resolution.arm].name
    return ROLLOUT_ARMS[resolution.arm]


def _reason(resolution: "Resolution", rules: "FeaturePolicy") -> Reason:
    if resolution.reason is Why.EXPERIMENT:
        return Reason.SPLIT
    rollout = rules.rollout
    if resolution.reason is Why.ROLLOUT and rollout is not None:
        if rollout.share_basis_points < POLICY_BUCKETS:
            return Reason.SPLIT
        return Reason.STATIC if rollout.audience is None else Reason.TARGETING_MATCH
    return Reason.STATIC if rollout is None and not rules.experiments else Reason.DEFAULT


def _list_changed_flags(before: "Assignments", after: "Assignments") -> list[str]:
    """Return the flags whose value may be another."""
    features = before.resolutions.keys() | after.resolutions.keys()
    moved = [
        feature
        for feature in sorted(features)
        if before.resolutions.get(feature) != after.resolutions.get(feature)
        or (feature in before.resolutions) is not (feature in after.resolutions)
        or before.configs.get(feature) != after.configs.get(feature)
    ]
    values = {feature: {**before.configs.get(feature, {}), **after.configs.get(feature, {})} for feature in moved}
    return [
        flag
        for feature in moved
        for flag in (
            *(feature, f"{feature}.{ARM}", f"{feature}.{ROLLOUT}"),
            *(f"{feature}.{CONFIG}{name}" for name in sorted(values[feature])),
        )
    ]


def _fail(default: _Value, code: ErrorCode, message: str) -> FlagResolutionDetails[_Value]:
    return FlagResolutionDetails(default, error_code=code, error_message=message, reason=Reason.ERROR)
