"""Makes the calls about layers, holdouts and the policy of an app.  Mixed into `PlatformClient`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.planner.v1 import planner_pb2
from alcove.api.planner.v1.planner_pb2_grpc import PlannerServiceStub
from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.api.policy.v1.policy_pb2_grpc import PolicyServiceStub
from alcove.platform.client.calls import Caller, new_id
from alcove.platform.client.experiment_models import Estimate
from alcove.platform.client.models import Page, Value, value_of, without_prefix
from alcove.platform.client.planner_models import ReadoutForecast
from alcove.platform.client.rollout_models import Mechanism
from alcove.registry.policy import Halt, Policy, halt_from_bytes, policy_from_bytes

__all__ = [
    "Claim",
    "Holdout",
    "KeptVersion",
    "Layer",
    "NoiseShare",
    "PolicyCalls",
    "PolicyCause",
    "PolicySignature",
    "PolicySummary",
    "PrivacyFigures",
    "Readout",
    "ReadoutResult",
    "RefusedCount",
    "SignedPolicy",
    "TaskReports",
]


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


class KeptVersion(Value):
    """A version that held-out devices keep."""

    feature: str
    version: str


class ReadoutResult(Value):
    """What a read-out found; numbers are None where nothing can be said."""

    code: str
    summary: str
    held_out: float | None = None
    difference: Estimate = Estimate()
    p_value: float | None = None
    lift: Estimate = Estimate()
    noise_percent: float | None = None
    report_count: int = 0
    months: int = 0
    analyzed_at_s: int


class Readout(Value):
    """A comparison of the holdout with a mirror group; `result` is None before the last day."""

    readout_id: str
    app: str
    kept: tuple[KeptVersion, ...]
    metric: str
    edge_ms: float
    metric_version: int
    latency_edges_ms: tuple[float, ...] = ()
    epsilon: str
    mechanism: Mechanism
    window_s: int
    months: int
    share_basis_points: int
    state: Annotated[Literal["running", "finished", "stopped"], without_prefix("READOUT_STATE_")]
    started_at_s: int
    measured_from_s: int
    measured_until_s: int
    until_s: int
    ended_at_s: int
    end_reason: str
    result: ReadoutResult | None = None
    policy_serial: int
    etag: str
    promise: str
    task_id: str
    summary: str


class PolicyCause(Value):
    """An entry of the audit log of the change that decided a policy."""

    sequence: int
    action: str
    object: str


class PolicySummary(Value):
    """A policy without its document; `decided_at_s` 0: it was decided before that was kept."""

    app: str
    serial: int
    decided_at_s: int
    decided_by: str
    causes: tuple[PolicyCause, ...] = ()
    is_published: bool
    size_bytes: int


class PolicySignature(Value):
    """Who signed the role of the tree that names the policy of each app."""

    version: int
    key_ids: tuple[str, ...]
    signing_key_ids: tuple[str, ...]
    threshold: int
    expires_at_s: int


@dataclass(frozen=True)
class SignedPolicy:
    """A policy of an app, as it is signed.

    Attributes:
        policy: what it says.
        document: its canonical bytes.
        halt: the newest halt.
        summary: when, by whom and why it was decided.
        signature: None where devices read another policy now, or it is not published yet.
    """

    policy: Policy
    document: bytes
    halt: Halt
    summary: PolicySummary
    signature: PolicySignature | None


class NoiseShare(Value):
    """Part of the variance of a comparison of an arm with arm 0 that is privacy noise, 0 to 1."""

    arm: int = 0
    quantity: str
    share: float = 0.0


class TaskReports(Value):
    """What the server has of the reports of a running task."""

    task_id: str
    report_count: int
    window_count: int
    waiting_windows: int
    missing_windows: int
    noise: tuple[NoiseShare, ...] = ()


class RefusedCount(Value):
    """How many bodies or connections were refused for one reason."""

    reason: str
    count: int


class PrivacyFigures(Value):
    """What the server has of an app's reports, and what the devices' process refused since its start, of all apps.

    Without `counts_refusals` another server answers devices, and neither count is known.
    """

    tasks: tuple[TaskReports, ...] = ()
    counts_refusals: bool
    accepted_count: int
    refused: tuple[RefusedCount, ...] = ()


class PolicyCalls:
    """Calls about an app's layers, holdout, its read-outs, and documents."""

    _policy: PolicyServiceStub
    _planner: PlannerServiceStub
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

    def start_readout(
        self,
        app: str,
        features: Sequence[str],
        *,
        until_s: int,
        metric: str = "",
        edge_ms: float = 0.0,
        metric_version: int = 0,
        latency_edges_ms: Sequence[float] = (),
        epsilon: str = "",
        mechanism: Mechanism = "unspecified",
        window_s: int = 0,
        months: int = 0,
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Readout:
        """Let held-out devices keep the present versions of features until a last day; the first is measured."""
        request = pb.StartReadoutRequest(
            request_id=request_id or new_id(),
            app=app,
            features=features,
            metric=metric,
            edge_ms=edge_ms,
            metric_version=metric_version,
            latency_edges_ms=latency_edges_ms,
            epsilon=epsilon,
            mechanism=experiment_pb2.Mechanism.Value(f"MECHANISM_{mechanism.upper()}"),
            window_s=window_s,
            months=months,
            until_s=until_s,
            validate_only=validate_only,
        )
        return value_of(Readout, self._call(self._policy.StartReadout, request).readout)

    def stop_readout(
        self,
        readout_id: str,
        *,
        reason: str,
        etag: str = "",
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Readout:
        """Stop a read-out without a result; `etag` binds it to what the caller read."""
        request = pb.StopReadoutRequest(
            request_id=request_id or new_id(),
            readout_id=readout_id,
            reason=reason,
            etag=etag,
            validate_only=validate_only,
        )
        return value_of(Readout, self._call(self._policy.StopReadout, request).readout)

    def readout(self, readout_id: str) -> Readout:
        """Return a read-out."""
        return value_of(
            Readout, self._call(self._policy.GetReadout, pb.GetReadoutRequest(readout_id=readout_id)).readout
        )

    def readouts(self, app: str) -> list[Readout]:
        """Return all read-outs of an app, oldest first."""
        found: list[Readout] = []
        token = ""
        while True:
            answer = self._call(self._policy.ListReadouts, pb.ListReadoutsRequest(app=app, page_token=token))
            found.extend(value_of(Readout, each) for each in answer.readouts)
            token = answer.next_page_token
            if not token:
                return found

    def plan_readout(
        self,
        *,
        devices: int,
        share_basis_points: int,
        metric: str = "",
        edge_ms: float = 0.0,
        latency_edges_ms: Sequence[float] = (),
        epsilon: str = "",
        mechanism: Mechanism = "unspecified",
        window_s: int = 0,
        months: int = 0,
        base_rate: float = 0.0,
        mde: float = 0.0,
    ) -> ReadoutForecast:
        """Return what a read-out would find; nothing is started.

        `devices`: of the app, that have something to report in a window; everything else as in `start_readout`.
        """
        request = planner_pb2.PlanReadoutRequest(
            metric=metric,
            edge_ms=edge_ms,
            latency_edges_ms=latency_edges_ms,
            epsilon=epsilon,
            mechanism=experiment_pb2.Mechanism.Value(f"MECHANISM_{mechanism.upper()}"),
            window_s=window_s,
            months=months,
            devices=devices,
            share_basis_points=share_basis_points,
            base_rate=base_rate,
            mde=mde,
        )
        return value_of(ReadoutForecast, self._call(self._planner.PlanReadout, request))

    def policy(self, app: str) -> tuple[Policy, Halt]:
        """Return the documents that the app's devices read: the newest policy and halt.

        Raises:
            DocumentError: this client is too old to understand them.
        """
        found = self.policy_at(app)
        return found.policy, found.halt

    def policy_at(self, app: str, serial: int = 0) -> SignedPolicy:
        """Return a policy of an app, the newest where `serial` is 0, with the newest halt.

        Raises:
            DocumentError: this client is too old to understand them.
        """
        answer = self._call(self._policy.GetPolicy, pb.GetPolicyRequest(app=app, serial=serial))
        return SignedPolicy(
            policy=policy_from_bytes(answer.policy),
            document=answer.policy,
            halt=halt_from_bytes(answer.halt) if answer.halt else Halt(app=app, serial=0),
            summary=value_of(PolicySummary, answer.summary),
            signature=value_of(PolicySignature, answer.signature) if answer.HasField("signature") else None,
        )

    def policies_page(self, app: str = "", *, size: int = 0, token: str = "") -> Page[PolicySummary]:
        """Return one page of an app's policies, the newest first; without an app of the newest policy of each."""
        request = pb.ListPoliciesRequest(app=app, page_size=size, page_token=token)
        answer = self._call(self._policy.ListPolicies, request)
        return Page(tuple(value_of(PolicySummary, each) for each in answer.policies), answer.next_page_token)

    def privacy(self, app: str, task_ids: Sequence[str] = ()) -> PrivacyFigures:
        """Return what the server has of the reports of at most 32 running tasks, and what was refused: sums alone."""
        request = pb.GetPrivacyRequest(app=app, task_ids=task_ids)
        return value_of(PrivacyFigures, self._call(self._policy.GetPrivacy, request))
