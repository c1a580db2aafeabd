"""Makes the calls that override values of a feature on every device of an app.  Mixed into `PlatformClient`."""

from collections.abc import Mapping

from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.api.policy.v1.policy_pb2_grpc import PolicyServiceStub
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.client.calls import Caller, new_id
from alcove.platform.client.models import Value, value_of
from alcove.platform.client.parameter_values import ParameterValue, ParameterValues, setting_messages

__all__ = ["ClearedOverride", "OverrideCalls", "OverrideResult", "ValueOverride"]


class ValueOverride(Value):
    """Values that every device of an app has for a feature, whatever rollout or experiment it is in.

    `unreached_versions` are those of the app's policy that do not take all of the values.
    """

    app: str
    feature: str
    values: ParameterValues
    reason: str
    set_by: str
    set_at_s: int
    unreached_versions: tuple[str, ...] = ()
    policy_serial: int = 0


class OverrideResult(Value):
    """An override as it was set, the rollouts that it paused, and the experiments that get no reports meanwhile."""

    override: ValueOverride
    paused_rollout_ids: tuple[str, ...] = ()
    silent_experiment_ids: tuple[str, ...] = ()


class ClearedOverride(Value):
    """An override that has ended, and the rollouts of its feature that wait for a person who resumes them."""

    override: ValueOverride
    paused_rollout_ids: tuple[str, ...] = ()


class OverrideCalls:
    """Calls about values that stand over rollouts and experiments."""

    _policy: PolicyServiceStub
    _call: Caller

    def override_values(
        self,
        app: str,
        feature: str,
        values: Mapping[str, ParameterValue],
        *,
        reason: str,
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> OverrideResult:
        """Give parameters values on every device of an app at its next check-in: a kill switch."""
        request = pb.OverrideValuesRequest(
            request_id=request_id or new_id(),
            app=app,
            feature=feature,
            values=setting_messages(rollout_pb2.Setting, values),
            reason=reason,
            validate_only=validate_only,
        )
        return value_of(OverrideResult, self._call(self._policy.OverrideValues, request))

    def clear_override(
        self, app: str, feature: str, *, reason: str, validate_only: bool = False, request_id: str | None = None
    ) -> ClearedOverride:
        """End an override: devices have the values of their rollout, arm or default again."""
        request = pb.ClearOverrideRequest(
            request_id=request_id or new_id(), app=app, feature=feature, reason=reason, validate_only=validate_only
        )
        return value_of(ClearedOverride, self._call(self._policy.ClearOverride, request))

    def overrides(self, app: str = "") -> list[ValueOverride]:
        """Return the overrides that stand in an app, or in all, by app and feature."""
        answer = self._call(self._policy.ListOverrides, pb.ListOverridesRequest(app=app))
        return [value_of(ValueOverride, each) for each in answer.overrides]
