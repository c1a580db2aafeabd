"""How do experiments and their results look on the wire?"""

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.core import limits
from alcove.platform.core.records import ExperimentRecord, ExperimentState, StoredDecision
from alcove.platform.experiments.engine import ArmSpec, ExperimentSpec
from alcove.platform.experiments.results import ExperimentResults
from alcove.platform.stats import ArmEstimate, DecisionKind, Interval

__all__ = ["experiment_message", "experiment_spec", "results_message"]

EPSILON_DEFAULT = "2"

_STATES = {
    ExperimentState.DRAFT: pb.EXPERIMENT_STATE_DRAFT,
    ExperimentState.RUNNING: pb.EXPERIMENT_STATE_RUNNING,
    ExperimentState.STOPPED: pb.EXPERIMENT_STATE_STOPPED,
}
_KINDS = {
    DecisionKind.WINNER: pb.DECISION_KIND_WINNER,
    DecisionKind.INCONCLUSIVE: pb.DECISION_KIND_INCONCLUSIVE,
}


def experiment_spec(request: pb.CreateExperimentRequest) -> ExperimentSpec:
    """Return what a request asks for, defaults filled in."""
    return ExperimentSpec(
        app=request.app,
        feature=request.feature,
        arms=tuple(ArmSpec(arm.name, arm.version, arm.share_permyriad) for arm in request.arms),
        epsilon=request.epsilon or EPSILON_DEFAULT,
        latency_edges_ms=tuple(request.latency_edges_ms),
        window_s=request.window_s or limits.WINDOW_S_DEFAULT,
        minimum_cohort=request.minimum_cohort or limits.MINIMUM_COHORT_DEFAULT,
    )


def experiment_message(record: ExperimentRecord) -> pb.Experiment:
    """Return the message of an experiment."""
    return pb.Experiment(
        experiment_id=record.experiment_id,
        app=record.app,
        feature=record.feature,
        arms=[pb.Arm(name=arm.name, version=arm.version, share_permyriad=arm.share_permyriad) for arm in record.arms],
        state=_STATES[record.state],
        epsilon=record.epsilon,
        latency_edges_ms=record.latency_edges_ms,
        window_s=record.window_s,
        minimum_cohort=record.minimum_cohort,
        task_id=record.task_id or "",
        created_at_s=record.created_at_s,
        started_at_s=record.started_at_s or 0,
        stopped_at_s=record.stopped_at_s or 0,
        decision=None if record.decision is None else _decision(record.decision),
        policy_serial=record.policy_serial,
    )


def results_message(record: ExperimentRecord, results: ExperimentResults) -> pb.Results:
    """Return the message of an experiment's results."""
    comparison = results.comparison
    return pb.Results(
        report_count=comparison.reports,
        window_count=results.windows,
        cell_counts=results.counts,
        arms=[
            _arm(arm.name, arm.version, estimate) for arm, estimate in zip(record.arms, comparison.arms, strict=True)
        ],
        differences=[
            pb.ArmDifference(arm=pair.arm, accuracy=_estimate(pair.value, pair.interval))
            for pair in comparison.differences
        ],
        decision=_decision(results.decision),
        alpha=comparison.alpha,
    )


def _arm(name: str, version: str, estimate: ArmEstimate) -> pb.ArmResult:
    return pb.ArmResult(
        name=name,
        version=version,
        devices=estimate.devices,
        share=_estimate(estimate.share, estimate.share_interval),
        accuracy=_estimate(estimate.accuracy, estimate.accuracy_interval),
        latency_ms=_estimate(estimate.latency_ms, estimate.latency_interval),
        median_latency_ms=_estimate(estimate.median_latency_ms, estimate.median_latency_interval),
    )


def _estimate(value: float | None, interval: Interval | None) -> pb.Estimate:
    low, high = interval or (None, None)
    return pb.Estimate(value=value, low=low, high=high)


def _decision(decision: StoredDecision) -> pb.Decision:
    return pb.Decision(
        kind=_KINDS[DecisionKind(decision.kind)], winner=decision.winner, code=decision.code, reason=decision.reason
    )
