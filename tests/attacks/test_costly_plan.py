"""`costly_plan`: small requests whose plans would take a server minutes, and numbers at the edges of their range."""

import asyncio
import contextlib
import itertools
import math
import threading
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.core.turns import Computations
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.planning.experiment import forecast_experiment, validate_question
from alcove.platform.domain.planning.rollout import forecast_rollout
from alcove.platform.server.planner_convert import experiment_draft, rollout_question
from alcove.platform.server.rollout_convert import plan_from
from alcove.platform.stats import Mechanism, _crossing
from alcove.platform.stats.power import MAX_ANALYSES, PowerModel, analyses_of, share_model

HOURLY: dict[str, Any] = {"window_s": 3600, "epsilon": "0.01"}  # 720 reports of a device in 30 days
CRASH = rollout_pb2.Guardrail(metric=rollout_pb2.GUARD_METRIC_CRASH_FALLBACK, margin=0.005)
EDGES = [math.nan, math.inf, -math.inf, 1e308, -1.0, 5e-324, 1.0 - 2**-53]


def experiment(*, window_s: int = 0, epsilon: str = "", **plan: Any) -> pb.PlanExperimentRequest:
    """Return a question about two arms."""
    return pb.PlanExperimentRequest(
        arm_shares_basis_points=[5000, 5000],
        window_s=window_s,
        epsilon=epsilon,
        plan=experiment_pb2.Plan(**plan),
    )


def test_windows_without_number_are_read_at_a_bounded_number_of_analyses() -> None:
    """However many windows: each analysis costs as much as the last, and all of them took minutes."""
    for windows in (1, MAX_ANALYSES, MAX_ANALYSES + 1, 720):
        parts = analyses_of(0, windows, 0.05).parts
        assert len(parts) == min(windows, MAX_ANALYSES)
        assert parts[-1] == 1.0
        assert all(after > before for before, after in itertools.pairwise(parts))


def test_the_windows_that_are_needed_are_searched_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 windows six are tried, and the one found is the first that is enough."""
    model = PowerModel(share_model(0.5), (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, Fraction(1))
    tried: list[int] = []
    power = PowerModel._power

    def count(self: PowerModel, covariance: object, effect: float, devices: float, windows: int) -> float:
        tried.append(windows)
        return power(self, covariance, effect, devices, windows)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(PowerModel, "_power", count)
    found = model.windows_needed(0.02, 150_000, most=60)
    assert found is not None
    assert len(tried) <= 7
    monkeypatch.undo()
    assert model.power(0.02, 150_000, found) >= 0.8 > model.power(0.02, 150_000, found - 1)


def test_plan_of_hours_costs_a_bounded_number_of_integrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment of 720 windows, by the sum of the points that its plan integrates over."""
    points = Counter[str]()
    after = _crossing.Uncalled.after

    def count(self: _crossing.Uncalled, *args: float, **options: float) -> _crossing.Uncalled:
        points["products"] += len(self.points)
        return after(self, *args, **options)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(_crossing.Uncalled, "after", count)
    record = experiment_draft(experiment(**HOURLY, mde=0.05, expected_devices=10**6), None)
    validate_question(record)
    assert points["products"] < 10**6


@pytest.mark.parametrize("value", EDGES)
@pytest.mark.parametrize("name", ["mde", "base_rate", "denominator_share"])
def test_numbers_at_the_edges_give_a_forecast_or_a_typed_refusal(name: str, value: float) -> None:
    """Never an error of the arithmetic."""
    fields: dict[str, Any] = {"mde": 0.02, name: value}
    with contextlib.suppress(InvalidFieldError):
        record = experiment_draft(experiment(**fields), None)
        validate_question(record)
        forecast_experiment(record)


@pytest.mark.parametrize("value", [*EDGES, 0.0, 1.0])
@pytest.mark.parametrize("name", ["crash_fallback", "error", "refused", "feedback", "latency_ms"])
def test_behavior_at_the_edges_gives_a_forecast_or_a_typed_refusal(name: str, value: float) -> None:
    """Of each guardrail: shares of nothing have no plan, and the others are numbers."""
    watched = [CRASH, rollout_pb2.Guardrail(metric=rollout_pb2.GUARD_METRIC_REFUSED, margin=0.01)]
    stage = rollout_pb2.Stage(share_basis_points=100)
    plan = rollout_pb2.Plan(stages=[stage], guardrails=watched, expected_devices=10**6, horizon_windows=1)
    request = pb.PlanRolloutRequest(plan=plan, behavior=pb.Behavior(**{name: value}))
    with contextlib.suppress(InvalidFieldError):
        (forecast,) = forecast_rollout(rollout_question(request, plan_from(plan, None))).stages
        for each in forecast.guardrails:
            assert math.isfinite(each.base_rate + each.harm_power + each.safe_power + each.detectable)
            assert each.is_planned or each.metric == "refused"


def test_more_reports_than_there_can_be_are_counted_as_the_most() -> None:
    """Ten thousand million devices, each with hundreds of reports, are no error of the server's."""
    draft = experiment_draft(experiment(**HOURLY, expected_devices=10**10), None)
    assert 0.0 < make_plan(draft, task_of(draft)).detectable < 0.01
    plan = rollout_pb2.Plan(
        stages=[rollout_pb2.Stage(share_basis_points=5000)], guardrails=[CRASH], expected_devices=10**10, **HOURLY
    )
    (stage,) = forecast_rollout(rollout_question(pb.PlanRolloutRequest(plan=plan), plan_from(plan, None))).stages
    assert stage.guardrails[0].safe_power > 0.99


def test_forecast_of_too_many_stages_is_refused_before_it_is_computed() -> None:
    """Guardrails times stages are bounded, and the refusal says by how many."""
    stages = [rollout_pb2.Stage(share_basis_points=100 * share) for share in range(1, 34)]
    request = pb.PlanRolloutRequest(plan=rollout_pb2.Plan(stages=stages[:32], guardrails=[CRASH, CRASH]))
    with pytest.raises(InvalidFieldError, match="at most 32 guardrails times stages"):
        rollout_question(request, plan_from(request.plan, None))


async def test_who_gives_up_a_computation_begins_no_other_before_it_is_over() -> None:
    """Calls that are begun and cancelled in a loop have one thread, and another caller's is computed beside it."""
    computations, begun, may_end = Computations(2, "test"), Counter[str](), threading.Event()
    loop, are_begun = asyncio.get_running_loop(), asyncio.Event()

    def work(caller: str) -> str:
        begun[caller] += 1
        if begun.total() == 2:
            loop.call_soon_threadsafe(are_begun.set)
        assert may_end.wait(60)
        return caller

    async def call(caller: str) -> str:
        return await computations.run(caller, lambda: work(caller))

    calls = [asyncio.create_task(call("loops")) for _ in range(100)]
    other = asyncio.create_task(call("other"))
    await are_begun.wait()
    for each in calls:
        each.cancel()
    await asyncio.sleep(0.01)
    assert begun == {"loops": 1, "other": 1}
    assert not calls[0].done()
    may_end.set()
    assert await other == "other"
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*calls, return_exceptions=True)
    )
    assert begun["loops"] == 1
