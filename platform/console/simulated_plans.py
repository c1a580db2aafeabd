"""Turns a plan as calls have it into scenarios that can be simulated: with a sound version, and with a harmful one."""

from collections.abc import Mapping

from alcove.platform.client import Plan
from alcove.platform.domain.rollout_records import GuardrailRecord, PlanAction, RolloutPlan, Stage
from alcove.platform.simulation.scenario import Behavior, Scenario
from alcove.platform.stats import Mechanism

__all__ = ["harmful", "scenario_of"]

_MOST: float = 0.9  # of a share that harm makes larger


def scenario_of(plan: Plan, behavior: Mapping[str, float], devices: int, windows: int, runs: int) -> Scenario:
    """Return a scenario in which the new version behaves as the one in use.

    Args:
        plan: with stages and guardrails, none of a team's own metrics.
        behavior: of the version in use, as `Behavior` names it.
        devices: of the app.
        windows: of each run, at most.
        runs: repetitions.

    Raises:
        InvalidFieldError: the plan is none that could be created.
        ValueError: the behavior is none.
    """
    usual = Behavior.model_validate(dict(behavior))
    mechanism = Mechanism.PRIO3 if plan.mechanism == "prio3" else Mechanism.RANDOMIZED_RESPONSE
    return Scenario(
        plan=_record(plan),
        devices=devices,
        windows=windows,
        control=usual,
        treatment=usual,
        mechanism=mechanism,
        runs=runs,
    )


def harmful(usual: Scenario, margins: float) -> tuple[str, Scenario]:
    """Return a scenario in which the new version is worse in what the first guardrail watches, and its name."""
    first, behavior = usual.plan.guardrails[0], usual.control
    metric = str(first.metric)
    if metric == "latency":
        worse = {"latency_ms": behavior.latency_ms + margins * first.margin if not first.edge_ms else first.edge_ms}
        title = f"A version that takes {worse['latency_ms']:g} ms (median)"
    else:
        now = getattr(behavior, metric)
        worse = {metric: min(_MOST, now + margins * first.margin)}
        title = f"A harmful version: {metric.replace('_', ' ')} {100 * now:.3g} % → {100 * worse[metric]:.3g} %"
    treatment = Behavior.model_validate(behavior.model_dump() | worse)
    return title, usual.model_copy(update={"treatment": treatment})


def _record(plan: Plan) -> RolloutPlan:
    return RolloutPlan(
        stages=tuple(Stage(each.share_basis_points, each.minimum_s, each.minimum_cohort) for each in plan.stages),
        guardrails=tuple(
            GuardrailRecord(each.metric, each.margin, each.quantile or None, each.edge_ms or None)
            for each in plan.guardrails
        ),
        on_harm=PlanAction.__members__.get(plan.on_harm.upper(), PlanAction.HALT),
        on_timeout=PlanAction.__members__.get(plan.on_timeout.upper(), PlanAction.HOLD),
        timeout_s=plan.timeout_s,
        auto_advance_reason=plan.auto_advance_reason,
        epsilon=plan.epsilon or ("1" if plan.mechanism == "prio3" else "2"),
        latency_edges_ms=plan.latency_edges_ms,
        window_s=plan.window_s,
        expected_devices=plan.expected_devices,
        horizon_windows=plan.horizon_windows,
        is_open_ended=plan.is_open_ended,
    )
