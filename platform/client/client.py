"""How is each call made?  With a deadline, a token and a request id, and an answer or a typed error.

The registry's calls are in `registry`.
"""

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from alcove.api.experiment.v1 import experiment_pb2 as experiment_pb
from alcove.api.experiment.v1.experiment_pb2_grpc import ExperimentServiceStub
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.api.rollout.v1 import rollout_pb2 as rollout_pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.client.errors import error_of
from alcove.platform.client.models import Arm, Experiment, ExperimentReport, Rollout, value_of
from alcove.platform.client.registry import RegistryCalls, new_id
from alcove.platform.core import limits
from google.protobuf.message import Message

__all__ = ["PlatformClient"]

_Answer = TypeVar("_Answer", bound=Message)


class PlatformClient(RegistryCalls):
    """Calls the server's services; usable from several threads; close it, or use it as a context manager.

    Every method raises a `ClientError` and nothing else.  A mutation that ended in `UnavailableError` or
    `DeadlineError` is repeated safely by giving the same `request_id` again.

    Args:
        address: "host:port" of the gRPC server.  Other machines are spoken to over TLS only.
        token: API token ("alc_…").
        tls_root: PEM certificates to trust; None: the system's.  Giving one means TLS for this machine too.
        timeout_s: deadline of each call, in seconds.
    """

    def __init__(
        self, address: str, token: str, *, tls_root: bytes | None = None, timeout_s: float = limits.CALLS_TIMEOUT_S
    ) -> None:
        is_plain = tls_root is None and _is_this_machine(address)
        options = [
            ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
            ("grpc.enable_http_proxy", 0 if is_plain else 1),
        ]
        self._channel = (
            grpc.insecure_channel(address, options)
            if is_plain
            else grpc.secure_channel(address, grpc.ssl_channel_credentials(tls_root), options)
        )
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._timeout_s = timeout_s
        self._registry = RegistryServiceStub(self._channel)
        self._rollout = RolloutServiceStub(self._channel)
        self._experiment = ExperimentServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    # Rollouts

    def create_rollout(self, app: str, feature: str, version: str, *, request_id: str | None = None) -> Rollout:
        """Create a draft."""
        request = rollout_pb.CreateRolloutRequest(
            request_id=request_id or new_id(), app=app, feature=feature, version=version
        )
        return value_of(Rollout, self._call(self._rollout.CreateRollout, request).rollout)

    def advance_rollout(
        self, rollout_id: str, share_permyriad: int, *, override_reason: str = "", request_id: str | None = None
    ) -> Rollout:
        """Raise the share; 10 000 completes.  Without a winning experiment a reason is needed, which is audited."""
        request = rollout_pb.AdvanceRolloutRequest(
            request_id=request_id or new_id(),
            rollout_id=rollout_id,
            share_permyriad=share_permyriad,
            override_reason=override_reason,
        )
        return value_of(Rollout, self._call(self._rollout.AdvanceRollout, request).rollout)

    def pause_rollout(self, rollout_id: str, *, request_id: str | None = None) -> Rollout:
        """Refuse to advance until resumed."""
        request = rollout_pb.PauseRolloutRequest(request_id=request_id or new_id(), rollout_id=rollout_id)
        return value_of(Rollout, self._call(self._rollout.PauseRollout, request).rollout)

    def resume_rollout(self, rollout_id: str, *, request_id: str | None = None) -> Rollout:
        """Allow to advance again."""
        request = rollout_pb.ResumeRolloutRequest(request_id=request_id or new_id(), rollout_id=rollout_id)
        return value_of(Rollout, self._call(self._rollout.ResumeRollout, request).rollout)

    def roll_back_rollout(self, rollout_id: str, reason: str, *, request_id: str | None = None) -> Rollout:
        """Return all devices to the default version."""
        request = rollout_pb.RollBackRolloutRequest(
            request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason
        )
        return value_of(Rollout, self._call(self._rollout.RollBackRollout, request).rollout)

    def halt_rollout(self, rollout_id: str, reason: str, *, request_id: str | None = None) -> Rollout:
        """Return all devices to the default version and forbid this one."""
        request = rollout_pb.HaltRolloutRequest(request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason)
        return value_of(Rollout, self._call(self._rollout.HaltRollout, request).rollout)

    def rollout(self, rollout_id: str) -> Rollout:
        """Return one rollout."""
        request = rollout_pb.GetRolloutRequest(rollout_id=rollout_id)
        return value_of(Rollout, self._call(self._rollout.GetRollout, request).rollout)

    def rollouts(self, app: str = "", feature: str = "") -> list[Rollout]:
        """Return all rollouts, oldest first; of one app or feature where given."""
        rollouts: list[Rollout] = []
        token = ""
        while True:
            request = rollout_pb.ListRolloutsRequest(app=app, feature=feature, page_token=token)
            answer = self._call(self._rollout.ListRollouts, request)
            rollouts += [value_of(Rollout, item) for item in answer.rollouts]
            token = answer.next_page_token
            if not token:
                return rollouts

    # Experiments

    def create_experiment(
        self,
        app: str,
        feature: str,
        arms: Sequence[Arm],
        *,
        epsilon: str = "",
        latency_edges_ms: Sequence[float] = (),
        window_s: int = 0,
        minimum_cohort: int = 0,
        request_id: str | None = None,
    ) -> Experiment:
        """Create a draft; arm 0 is the control; "" and 0 are the server's defaults."""
        request = experiment_pb.CreateExperimentRequest(
            request_id=request_id or new_id(),
            app=app,
            feature=feature,
            arms=[
                experiment_pb.Arm(name=arm.name, version=arm.version, share_permyriad=arm.share_permyriad)
                for arm in arms
            ],
            epsilon=epsilon,
            latency_edges_ms=latency_edges_ms,
            window_s=window_s,
            minimum_cohort=minimum_cohort,
        )
        return value_of(Experiment, self._call(self._experiment.CreateExperiment, request).experiment)

    def start_experiment(self, experiment_id: str, *, request_id: str | None = None) -> Experiment:
        """Put the arms on devices and open the collection."""
        request = experiment_pb.StartExperimentRequest(request_id=request_id or new_id(), experiment_id=experiment_id)
        return value_of(Experiment, self._call(self._experiment.StartExperiment, request).experiment)

    def stop_experiment(self, experiment_id: str, *, request_id: str | None = None) -> Experiment:
        """Take the arms from devices and keep the decision."""
        request = experiment_pb.StopExperimentRequest(request_id=request_id or new_id(), experiment_id=experiment_id)
        return value_of(Experiment, self._call(self._experiment.StopExperiment, request).experiment)

    def experiment(self, experiment_id: str) -> Experiment:
        """Return one experiment."""
        request = experiment_pb.GetExperimentRequest(experiment_id=experiment_id)
        return value_of(Experiment, self._call(self._experiment.GetExperiment, request).experiment)

    def results(self, experiment_id: str) -> ExperimentReport:
        """Return an experiment and what its reports show so far."""
        request = experiment_pb.GetResultsRequest(experiment_id=experiment_id)
        return value_of(ExperimentReport, self._call(self._experiment.GetResults, request))

    def experiments(self, app: str = "", feature: str = "") -> list[Experiment]:
        """Return all experiments, oldest first; of one app or feature where given."""
        experiments: list[Experiment] = []
        token = ""
        while True:
            request = experiment_pb.ListExperimentsRequest(app=app, feature=feature, page_token=token)
            answer = self._call(self._experiment.ListExperiments, request)
            experiments += [value_of(Experiment, item) for item in answer.experiments]
            token = answer.next_page_token
            if not token:
                return experiments

    def _stream(self, method: Callable[..., Any], request: Any, *, timeout_s: float) -> Iterator[Any]:
        try:
            yield from method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as failure:
            raise error_of(failure) from None

    def _call(self, method: Callable[..., _Answer], request: Any, *, timeout_s: float | None = None) -> _Answer:
        try:
            return method(request, timeout=timeout_s or self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as failure:
            raise error_of(failure) from None


def _is_this_machine(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
