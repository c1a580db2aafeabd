"""Makes the calls about rollouts.  Mixed into `PlatformClient`."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from alcove.api.planner.v1 import planner_pb2
from alcove.api.planner.v1.planner_pb2_grpc import PlannerServiceStub
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.client.calls import Caller, Streamer, new_id
from alcove.platform.client.models import Page, value_of
from alcove.platform.client.parameter_values import ParameterValue, setting_messages
from alcove.platform.client.planner_models import RolloutForecast
from alcove.platform.client.rollout_models import KeptAnalysis, Plan, Rollout
from alcove.platform.domain.limits import PAGE_SIZE
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import ParseDict

__all__ = ["RolloutCalls"]


class RolloutCalls:
    """Rollouts of versions to the devices of an app.

    `etag`, where given, is that of the rollout as the caller knows it: a mutation of one that changed since is refused.
    """

    _rollout: RolloutServiceStub
    _planner: PlannerServiceStub
    _call: Caller
    _stream: Streamer

    def create_rollout(
        self,
        app: str,
        feature: str,
        version: str,
        *,
        plan: Plan | None = None,
        audience: str = "",
        validate_only: bool = False,
        share_basis_points: int = 0,
        override_reason: str = "",
        values: Mapping[str, ParameterValue] = MappingProxyType({}),
        request_id: str | None = None,
    ) -> Rollout:
        """Create a draft; with `validate_only` check everything and keep nothing.

        `values`: of parameters that the version declares; the others have their defaults.

        With a share it is advanced at once, as `advance_rollout` does; where that is refused nothing is created.
        """
        request = pb.CreateRolloutRequest(
            request_id=request_id or new_id(),
            app=app,
            feature=feature,
            version=version,
            plan=None if plan is None else _plan(plan),
            audience=audience,
            validate_only=validate_only,
            share_basis_points=share_basis_points,
            override_reason=override_reason,
            values=setting_messages(pb.Setting, values),
        )
        return value_of(Rollout, self._call(self._rollout.CreateRollout, request).rollout)

    def update_rollout(
        self,
        rollout_id: str,
        *,
        fields: tuple[str, ...],
        plan: Plan | None = None,
        audience: str = "",
        etag: str = "",
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Rollout:
        """Change what `fields` names: "audience", "plan", or single ones such as "plan.stages"."""
        request = pb.UpdateRolloutRequest(
            request_id=request_id or new_id(),
            rollout_id=rollout_id,
            plan=_plan(plan or Plan()),
            audience=audience,
            update_mask=FieldMask(paths=fields),
            etag=etag,
            validate_only=validate_only,
        )
        return value_of(Rollout, self._call(self._rollout.UpdateRollout, request).rollout)

    def advance_rollout(
        self,
        rollout_id: str,
        share_basis_points: int = 0,
        *,
        override_reason: str = "",
        etag: str = "",
        request_id: str | None = None,
    ) -> Rollout:
        """Raise the share, to that of the next stage if 0; 10 000 completes.

        A reason, which is audited, is needed where the present stage was not found safe, or, without stages, where no
        experiment named the version the winner.
        """
        request = pb.AdvanceRolloutRequest(
            request_id=request_id or new_id(),
            rollout_id=rollout_id,
            share_basis_points=share_basis_points,
            override_reason=override_reason,
            etag=etag,
        )
        return value_of(Rollout, self._call(self._rollout.AdvanceRollout, request).rollout)

    def approve_rollout(self, rollout_id: str, *, etag: str = "", request_id: str | None = None) -> Rollout:
        """Make the advance that somebody else has proposed."""
        request = pb.ApproveRolloutRequest(request_id=request_id or new_id(), rollout_id=rollout_id, etag=etag)
        return value_of(Rollout, self._call(self._rollout.ApproveRollout, request).rollout)

    def pause_rollout(
        self, rollout_id: str, reason: str = "", *, etag: str = "", request_id: str | None = None
    ) -> Rollout:
        """Refuse to advance until resumed; the reason, if any, goes into the audit log."""
        request = pb.PauseRolloutRequest(
            request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason, etag=etag
        )
        return value_of(Rollout, self._call(self._rollout.PauseRollout, request).rollout)

    def resume_rollout(
        self, rollout_id: str, reason: str = "", *, etag: str = "", request_id: str | None = None
    ) -> Rollout:
        """Allow to advance again; the reason, if any, goes into the audit log."""
        request = pb.ResumeRolloutRequest(
            request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason, etag=etag
        )
        return value_of(Rollout, self._call(self._rollout.ResumeRollout, request).rollout)

    def roll_back_rollout(
        self, rollout_id: str, reason: str, *, etag: str = "", request_id: str | None = None
    ) -> Rollout:
        """Return all devices to the default version."""
        request = pb.RollBackRolloutRequest(
            request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason, etag=etag
        )
        return value_of(Rollout, self._call(self._rollout.RollBackRollout, request).rollout)

    def halt_rollout(self, rollout_id: str, reason: str, *, etag: str = "", request_id: str | None = None) -> Rollout:
        """Return all devices to the default version and forbid this one."""
        request = pb.HaltRolloutRequest(
            request_id=request_id or new_id(), rollout_id=rollout_id, reason=reason, etag=etag
        )
        return value_of(Rollout, self._call(self._rollout.HaltRollout, request).rollout)

    def delete_rollout(self, rollout_id: str, *, etag: str = "", request_id: str | None = None) -> Rollout:
        """Delete a draft; return it as it was."""
        request = pb.DeleteRolloutRequest(request_id=request_id or new_id(), rollout_id=rollout_id, etag=etag)
        return value_of(Rollout, self._call(self._rollout.DeleteRollout, request).rollout)

    def rollout(self, rollout_id: str) -> Rollout:
        """Return one rollout."""
        request = pb.GetRolloutRequest(rollout_id=rollout_id)
        return value_of(Rollout, self._call(self._rollout.GetRollout, request).rollout)

    def watch_rollout(self, rollout_id: str, *, timeout_s: float) -> Iterator[Rollout]:
        """Yield the rollout now and at each change, until it has ended; DeadlineError after `timeout_s`."""
        request = pb.WatchRolloutRequest(rollout_id=rollout_id)
        for answer in self._stream(self._rollout.WatchRollout, request, timeout_s=timeout_s):
            yield value_of(Rollout, answer.rollout)

    def rollouts(
        self, app: str = "", feature: str = "", *, states: Sequence[str] = (), text: str = ""
    ) -> list[Rollout]:
        """Return all rollouts that fit every filter, oldest first; filters as of `rollouts_page`."""
        rollouts: list[Rollout] = []
        token = ""
        while True:
            page = self.rollouts_page(app, feature, states=states, text=text, token=token)
            rollouts += page.items
            token = page.next_token
            if not token:
                return rollouts

    def rollouts_page(
        self,
        app: str = "",
        feature: str = "",
        *,
        states: Sequence[str] = (),
        text: str = "",
        order: Literal["oldest", "newest"] = "oldest",
        need: Literal["", "action", "approval"] = "",
        size: int = 0,
        token: str = "",
    ) -> Page[Rollout]:
        """Return one page of the rollouts that fit every filter.

        Args:
            app: only of this app.
            feature: only of this feature.
            states: only in one of these.
            text: only where each of its words occurs in id, app, feature or version.
            order: by when they were created.
            need: only those that need somebody to go on, or to approve their advance; the page then says how many.
            size: most rollouts; 0: as the server likes.
            token: of the page; "": the first one.
        """
        request = pb.ListRolloutsRequest(
            app=app,
            feature=feature,
            states=[pb.RolloutState.Value(f"ROLLOUT_STATE_{state.upper()}") for state in states],
            text=text,
            order=pb.RolloutOrder.Value(f"ROLLOUT_ORDER_{order.upper()}"),
            need=pb.RolloutNeed.Value(f"ROLLOUT_NEED_{need.upper() or 'UNSPECIFIED'}"),
            page_size=size,
            page_token=token,
        )
        answer: pb.ListRolloutsResponse = self._call(self._rollout.ListRollouts, request)
        items = tuple(value_of(Rollout, item) for item in answer.rollouts)
        return Page(items, answer.next_page_token, answer.total_size)

    def stage_analyses(self, rollout_id: str) -> list[KeptAnalysis]:
        """Return the analyses of a rollout's stages that the server keeps, oldest first: of older ones fewer."""
        kept: list[KeptAnalysis] = []
        token = ""
        while True:
            request = pb.ListStageAnalysesRequest(rollout_id=rollout_id, page_size=PAGE_SIZE[1], page_token=token)
            answer: pb.ListStageAnalysesResponse = self._call(self._rollout.ListStageAnalyses, request)
            kept += [value_of(KeptAnalysis, item) for item in answer.analyses]
            token = answer.next_page_token
            if not token:
                return kept

    def plan_rollout(
        self,
        plan: Plan,
        *,
        behavior: Mapping[str, float] = MappingProxyType({}),
        differences: Sequence[float] = (),
        harm_days: int = 0,
        feature: str = "",
        own_spreads: Mapping[str, Sequence[float]] = MappingProxyType({}),
    ) -> RolloutForecast:
        """Return what a rollout would find, and when; nothing is created.

        `behavior`: what the version in use does, of crash_fallback, error, refused (shares) and latency_ms.
        `differences`: by how much worse a version is that shall be found, in the order of the guardrails, then of the
        own guardrails; 0: four margins.
        `feature`: whose metrics are watched; not needed where no metric of the team's own is.
        `own_spreads`: by the names of own metrics, the part of the devices in each bin; without one the worst case.
        `harm_days`: days of a stage within which harm shall be found; 0: 2.
        """
        request = planner_pb2.PlanRolloutRequest(
            plan=_plan(plan),
            behavior=planner_pb2.Behavior(**behavior),
            differences=differences,
            harm_days=harm_days,
            feature=feature,
            own_spreads=[planner_pb2.OwnSpread(metric=name, parts=parts) for name, parts in own_spreads.items()],
        )
        return value_of(RolloutForecast, self._call(self._planner.PlanRollout, request))


def _plan(plan: Plan) -> pb.Plan:
    fields = plan.model_dump(mode="json")
    for name in ("on_harm", "on_timeout"):
        fields[name] = f"ACTION_{fields[name].upper()}"
    fields["mechanism"] = f"MECHANISM_{plan.mechanism.upper()}"
    for guardrail in fields["guardrails"]:
        guardrail["metric"] = f"GUARD_METRIC_{guardrail['metric'].upper()}"
    del fields["questions"]  # the server's choice
    return ParseDict(fields, pb.Plan())
