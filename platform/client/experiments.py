"""Makes the calls about experiments.  Mixed into `PlatformClient`."""

from collections.abc import Iterator, Sequence
from typing import Literal

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.api.experiment.v1.experiment_pb2_grpc import ExperimentServiceStub
from alcove.api.planner.v1 import planner_pb2
from alcove.api.planner.v1.planner_pb2_grpc import PlannerServiceStub
from alcove.platform.client.calls import Caller, Streamer, new_id
from alcove.platform.client.experiment_models import (
    Arm,
    Bandit,
    Experiment,
    ExperimentPlan,
    ExperimentReport,
    OutcomeName,
    OwnQuestion,
    Primary,
    Segment,
)
from alcove.platform.client.models import Page, value_of
from alcove.platform.client.parameter_values import setting_messages
from alcove.platform.client.planner_models import ExperimentForecast
from alcove.platform.client.rollout_models import GuardrailPlan, Mechanism, OwnGuardrail
from google.protobuf.field_mask_pb2 import FieldMask

__all__ = ["ExperimentCalls"]


class ExperimentCalls:
    """Comparisons of versions.

    `etag`, where given, is that of the experiment as the caller knows it: a mutation of one that changed since is
    refused.
    """

    _experiment: ExperimentServiceStub
    _planner: PlannerServiceStub
    _call: Caller
    _stream: Streamer

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
        primary: Primary | None = None,
        guardrails: Sequence[GuardrailPlan] = (),
        plan: ExperimentPlan | None = None,
        audience: str = "",
        segment: Segment | None = None,
        pre_edges: Sequence[float] = (),
        mechanism: Mechanism = "unspecified",
        secondary: Sequence[Primary] = (),
        own_guardrails: Sequence[OwnGuardrail] = (),
        own_questions: Sequence[OwnQuestion] = (),
        bandit: Bandit | None = None,
        dimension: str = "",
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Experiment:
        """Create a draft; arm 0 is the control; "" and 0 are the server's defaults.

        `pre_edges` asks for CUPED: edges of the accepted share of a device's earlier answers.
        `own_questions`: metrics of the team's own that a stated part of the devices is asked about.
        `dimension`: by which the reports that decide are told apart, such as "os=android,ios".
        `secondary`: metrics that decide nothing; of a ratio without a denominator, a part of all that is counted.
        `mechanism`: "unspecified" is Prio3 where the server has aggregators, else randomized response.
        `bandit`: how far the server moves the arms' shares by what reports say; None: they are fixed.
        With `validate_only` check and plan everything and keep nothing.
        """
        request = pb.CreateExperimentRequest(
            request_id=request_id or new_id(),
            app=app,
            feature=feature,
            arms=map(_arm, arms),
            epsilon=epsilon,
            latency_edges_ms=latency_edges_ms,
            window_s=window_s,
            minimum_cohort=minimum_cohort,
            primary=_primary(primary or Primary()),
            guardrails=map(_guardrail, guardrails),
            plan=_plan(plan or ExperimentPlan()),
            audience=audience,
            segment=None if segment is None else pb.Segment(**segment.model_dump()),
            pre_edges=pre_edges,
            mechanism=pb.Mechanism.Value(f"MECHANISM_{mechanism.upper()}"),
            secondary=map(_primary, secondary),
            own_guardrails=[pb.OwnGuardrail(**each.model_dump()) for each in own_guardrails],
            own_questions=[pb.OwnQuestion(**each.model_dump()) for each in own_questions],
            bandit=None if bandit is None else pb.Bandit(**bandit.model_dump()),
            dimension=dimension,
            validate_only=validate_only,
        )
        return value_of(Experiment, self._call(self._experiment.CreateExperiment, request).experiment)

    def update_experiment(
        self,
        experiment_id: str,
        *,
        fields: Sequence[str],
        arms: Sequence[Arm] = (),
        epsilon: str = "",
        latency_edges_ms: Sequence[float] = (),
        window_s: int = 0,
        minimum_cohort: int = 0,
        primary: Primary | None = None,
        guardrails: Sequence[GuardrailPlan] = (),
        plan: ExperimentPlan | None = None,
        audience: str = "",
        segment: Segment | None = None,
        pre_edges: Sequence[float] = (),
        mechanism: Mechanism = "unspecified",
        secondary: Sequence[Primary] = (),
        own_guardrails: Sequence[OwnGuardrail] = (),
        own_questions: Sequence[OwnQuestion] = (),
        bandit: Bandit | None = None,
        dimension: str = "",
        etag: str = "",
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Experiment:
        """Change what `fields` names in a draft, such as "arms", "audience" or "plan.mde"; it is planned again."""
        request = pb.UpdateExperimentRequest(
            request_id=request_id or new_id(),
            experiment_id=experiment_id,
            update_mask=FieldMask(paths=fields),
            arms=map(_arm, arms),
            epsilon=epsilon,
            latency_edges_ms=latency_edges_ms,
            window_s=window_s,
            minimum_cohort=minimum_cohort,
            primary=_primary(primary or Primary()),
            guardrails=map(_guardrail, guardrails),
            plan=_plan(plan or ExperimentPlan()),
            audience=audience,
            segment=None if segment is None else pb.Segment(**segment.model_dump()),
            pre_edges=pre_edges,
            mechanism=pb.Mechanism.Value(f"MECHANISM_{mechanism.upper()}"),
            secondary=map(_primary, secondary),
            own_guardrails=[pb.OwnGuardrail(**each.model_dump()) for each in own_guardrails],
            own_questions=[pb.OwnQuestion(**each.model_dump()) for each in own_questions],
            bandit=None if bandit is None else pb.Bandit(**bandit.model_dump()),
            dimension=dimension,
            validate_only=validate_only,
            etag=etag,
        )
        return value_of(Experiment, self._call(self._experiment.UpdateExperiment, request).experiment)

    def start_experiment(self, experiment_id: str, *, etag: str = "", request_id: str | None = None) -> Experiment:
        """Put the arms on devices and open the collection."""
        request = pb.StartExperimentRequest(request_id=request_id or new_id(), experiment_id=experiment_id, etag=etag)
        return value_of(Experiment, self._call(self._experiment.StartExperiment, request).experiment)

    def stop_experiment(
        self, experiment_id: str, *, reason: str = "", etag: str = "", request_id: str | None = None
    ) -> Experiment:
        """Take the arms from devices and keep the decision; `reason` goes into the audit log."""
        request = pb.StopExperimentRequest(
            request_id=request_id or new_id(), experiment_id=experiment_id, reason=reason, etag=etag
        )
        return value_of(Experiment, self._call(self._experiment.StopExperiment, request).experiment)

    def delete_experiment(self, experiment_id: str, *, etag: str = "", request_id: str | None = None) -> Experiment:
        """Delete a draft; return it as it was."""
        request = pb.DeleteExperimentRequest(request_id=request_id or new_id(), experiment_id=experiment_id, etag=etag)
        return value_of(Experiment, self._call(self._experiment.DeleteExperiment, request).experiment)

    def experiment(self, experiment_id: str) -> Experiment:
        """Return one experiment."""
        request = pb.GetExperimentRequest(experiment_id=experiment_id)
        return value_of(Experiment, self._call(self._experiment.GetExperiment, request).experiment)

    def watch_experiment(self, experiment_id: str, *, timeout_s: float) -> Iterator[Experiment]:
        """Yield the experiment now and at each change, until it has stopped; DeadlineError after `timeout_s`."""
        request = pb.WatchExperimentRequest(experiment_id=experiment_id)
        for answer in self._stream(self._experiment.WatchExperiment, request, timeout_s=timeout_s):
            yield value_of(Experiment, answer.experiment)

    def results(self, experiment_id: str, *, with_cells: bool = False) -> ExperimentReport:
        """Return an experiment and what its reports show so far; with every cell where `with_cells` asks for them."""
        request = pb.GetResultsRequest(experiment_id=experiment_id, with_cells=with_cells)
        return value_of(ExperimentReport, self._call(self._experiment.GetResults, request))

    def experiments(
        self, app: str = "", feature: str = "", *, states: Sequence[str] = (), text: str = ""
    ) -> list[Experiment]:
        """Return all experiments that fit every filter, oldest first; filters as of `experiments_page`."""
        experiments: list[Experiment] = []
        token = ""
        while True:
            page = self.experiments_page(app, feature, states=states, text=text, token=token)
            experiments += page.items
            token = page.next_token
            if not token:
                return experiments

    def experiments_page(
        self,
        app: str = "",
        feature: str = "",
        *,
        states: Sequence[str] = (),
        text: str = "",
        order: Literal["oldest", "newest"] = "oldest",
        needs_decision: bool = False,
        size: int = 0,
        token: str = "",
    ) -> Page[Experiment]:
        """Return one page of the experiments that fit every filter.

        Args:
            app: only of this app; "": of any.
            feature: only of this feature; "": of any.
            states: "draft", "running", "stopped"; (): in any.
            text: words that must occur in id, app, feature, or an arm's name or version; "": any.
            order: by creation.
            needs_decision: only those that run and have a winner or are past their planned days; the page then says how
                many.
            size: most experiments; 0: as the server likes.
            token: of the page; "": the first one.
        """
        request = pb.ListExperimentsRequest(
            app=app,
            feature=feature,
            states=[pb.ExperimentState.Value(f"EXPERIMENT_STATE_{state.upper()}") for state in states],
            text=text,
            order=pb.ExperimentOrder.Value(f"EXPERIMENT_ORDER_{order.upper()}"),
            needs_decision=needs_decision,
            page_size=size,
            page_token=token,
        )
        answer: pb.ListExperimentsResponse = self._call(self._experiment.ListExperiments, request)
        items = tuple(value_of(Experiment, item) for item in answer.experiments)
        return Page(items, answer.next_page_token, answer.total_size)

    def plan_experiment(
        self,
        arm_shares_basis_points: Sequence[int],
        *,
        epsilon: str = "",
        latency_edges_ms: Sequence[float] = (),
        window_s: int = 0,
        minimum_cohort: int = 0,
        primary: Primary | None = None,
        guardrails: Sequence[GuardrailPlan] = (),
        plan: ExperimentPlan | None = None,
        pre_edges: Sequence[float] = (),
        mechanism: Mechanism = "unspecified",
        own_guardrails: Sequence[OwnGuardrail] = (),
        own_questions: Sequence[OwnQuestion] = (),
        feature: str = "",
        dimension: str = "",
    ) -> ExperimentForecast:
        """Return what an experiment would find, and when; nothing is created.

        `feature`: whose metrics are named; not needed where no metric of the team's own is.

        `arm_shares_basis_points`: part of the devices in each arm, in 1/10 000, the control first; everything else as
        in `create_experiment`.
        """
        request = planner_pb2.PlanExperimentRequest(
            arm_shares_basis_points=arm_shares_basis_points,
            epsilon=epsilon,
            latency_edges_ms=latency_edges_ms,
            window_s=window_s,
            minimum_cohort=minimum_cohort,
            primary=_primary(primary or Primary()),
            guardrails=map(_guardrail, guardrails),
            plan=_plan(plan or ExperimentPlan()),
            pre_edges=pre_edges,
            mechanism=pb.Mechanism.Value(f"MECHANISM_{mechanism.upper()}"),
            own_guardrails=[pb.OwnGuardrail(**each.model_dump()) for each in own_guardrails],
            own_questions=[pb.OwnQuestion(**each.model_dump()) for each in own_questions],
            feature=feature,
            dimension=dimension,
        )
        return value_of(ExperimentForecast, self._call(self._planner.PlanExperiment, request))


def _arm(arm: Arm) -> pb.Arm:
    return pb.Arm(
        name=arm.name,
        version=arm.version,
        share_basis_points=arm.share_basis_points,
        values=setting_messages(pb.Setting, arm.values),
    )


def _primary(primary: Primary) -> pb.Primary:
    return pb.Primary(
        kind=pb.PrimaryKind.Value(f"PRIMARY_KIND_{primary.kind.upper()}"),
        quantile=primary.quantile,
        numerator=map(_outcome, primary.numerator),
        denominator=map(_outcome, primary.denominator),
        less_is_better=primary.less_is_better,
        edge_ms=primary.edge_ms,
        metric=primary.metric,
        metric_version=primary.metric_version,
    )


def _outcome(name: OutcomeName) -> "pb.Outcome.ValueType":
    return pb.Outcome.Value(f"OUTCOME_{name.upper()}")


def _guardrail(guardrail: GuardrailPlan) -> pb.Guardrail:
    metric = pb.GuardMetric.Value(f"GUARD_METRIC_{guardrail.metric.upper()}")
    return pb.Guardrail(metric=metric, margin=guardrail.margin, quantile=guardrail.quantile, edge_ms=guardrail.edge_ms)


def _plan(plan: ExperimentPlan) -> pb.Plan:
    return pb.Plan(
        mde=plan.mde,
        base_rate=plan.base_rate,
        expected_devices=plan.expected_devices,
        interim_analyses=plan.interim_analyses,
        horizon_reports=plan.horizon_reports,
        denominator_share=plan.denominator_share,
        base_distribution=plan.base_distribution,
    )
