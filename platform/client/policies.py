"""Makes the calls about layers, holdouts and the policy of an app.  Mixed into `PlatformClient`."""

from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.api.policy.v1.policy_pb2_grpc import PolicyServiceStub
from alcove.platform.client.calls import Caller, new_id
from alcove.platform.client.models import Value, value_of
from alcove.registry.policy import Halt, Policy, halt_from_bytes, policy_from_bytes

__all__ = ["Claim", "Holdout", "Layer", "PolicyCalls"]


class Claim(Value):
    """Buckets [first, first + count) of a layer that a running experiment holds."""

    experiment_id: str
    feature: str
    first: int
    count: int


class Layer(Value):
    """A set of experiments that exclude each other, and what is taken of it."""

    app: str
    name: str
    created_at_s: int
    claims: tuple[Claim, ...] = ()


class Holdout(Value):
    """Devices of an app that take part in no experiment, in 1/10 000."""

    app: str
    share_basis_points: int
    etag: str
    policy_serial: int


class PolicyCalls:
    """Calls about an app's layers, holdout and documents."""

    _policy: PolicyServiceStub
    _call: Caller

    def create_layer(self, app: str, name: str, *, validate_only: bool = False, request_id: str | None = None) -> Layer:
        """Create a layer; with `validate_only` check everything and keep nothing."""
        request = pb.CreateLayerRequest(
            request_id=request_id or new_id(), app=app, name=name, validate_only=validate_only
        )
        return value_of(Layer, self._call(self._policy.CreateLayer, request).layer)

    def layers(self, app: str) -> list[Layer]:
        """Return the layers of an app by name."""
        answer = self._call(self._policy.ListLayers, pb.ListLayersRequest(app=app))
        return [value_of(Layer, layer) for layer in answer.layers]

    def set_holdout(
        self,
        app: str,
        share_basis_points: int,
        *,
        etag: str = "",
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Holdout:
        """Hold a share of the app's devices out of every experiment; `etag` binds it to what the caller read."""
        request = pb.SetHoldoutRequest(
            request_id=request_id or new_id(),
            app=app,
            share_basis_points=share_basis_points,
            etag=etag,
            validate_only=validate_only,
        )
        return value_of(Holdout, self._call(self._policy.SetHoldout, request).holdout)

    def holdout(self, app: str) -> Holdout:
        """Return who takes part in no experiment."""
        return value_of(Holdout, self._call(self._policy.GetHoldout, pb.GetHoldoutRequest(app=app)).holdout)

    def policy(self, app: str) -> tuple[Policy, Halt]:
        """Return the documents that the app's devices read: the newest policy and halt.

        Raises:
            DocumentError: this client is too old to understand them.
        """
        answer = self._call(self._policy.GetPolicy, pb.GetPolicyRequest(app=app))
        halt = halt_from_bytes(answer.halt) if answer.halt else Halt(app=app, serial=0)
        return policy_from_bytes(answer.policy), halt
