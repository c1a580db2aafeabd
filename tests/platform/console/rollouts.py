"""Brings rollouts about for tests of their pages: published versions, a default, and reports that are given."""

from dataclasses import dataclass

import numpy as np
from alcove.platform.client import GuardrailPlan, Plan, PlatformClient, Rollout, StagePlan
from alcove.platform.domain.rollouts.analysis import StageCounts
from alcove.platform.services.rollouts.monitor import PRINCIPAL, analyze_rollout
from alcove.platform.stats import Aggregate
from alcove.platform.store import Store
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.testing import ServerWorld
from alcove.registry.policy import Outcome, TaskPolicy
from alcove.runtime.clock import SYSTEM_CLOCK
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["WATCHED", "analyze", "draft", "prepare"]

WATCHED = Plan(
    stages=(StagePlan(share_basis_points=1000, minimum_s=3600, minimum_cohort=50), StagePlan(share_basis_points=5000)),
    guardrails=(GuardrailPlan(metric="crash_fallback", margin=0.01), GuardrailPlan(metric="refused", margin=0.05)),
    mechanism="randomized_response",
    on_harm="pause",
)


@dataclass(frozen=True)
class Given:
    """Exact counts: devices of control and treatment, and the share of them that crash."""

    devices: tuple[int, int]
    crashed: tuple[float, float]

    async def read(self, session: AsyncSession, task: TaskPolicy) -> StageCounts:
        """As ReportSource."""
        estimates = np.zeros(task.layout.shape[:3])
        for arm, (devices, crashed) in enumerate(zip(self.devices, self.crashed, strict=True)):
            estimates[arm, Outcome.FALLBACK, 0] = round(devices * crashed)
            estimates[arm, Outcome.ACCEPTED, 0] = devices - estimates[arm].sum()
        noise = np.zeros((estimates.size, estimates.size))
        return StageCounts(Aggregate(estimates, noise, int(estimates.sum())), 1)


def prepare(world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str) -> None:
    """Publish 1.0.0 and 2.0.0, and make the first the app's default."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version)
    first = operator.create_rollout(app, feature, "1.0.0")
    operator.advance_rollout(first.rollout_id, 10_000, override_reason="the first version")


def draft(
    operator: PlatformClient, feature: str, app: str, *, plan: Plan | None = WATCHED, audience: str = ""
) -> Rollout:
    """A draft of 2.0.0."""
    return operator.create_rollout(app, feature, "2.0.0", plan=plan, audience=audience)


async def analyze(
    world: ServerWorld,
    rollout_id: str,
    *,
    devices: tuple[int, int],
    crashed: tuple[float, float] = (0.0, 0.0),
    after_s: int = 0,
) -> None:
    """Analyze a rollout with these reports, some time from now, as its server does, which has none itself."""
    store = await Store.open(world.data_dir / "alcove.db")
    try:
        async with store.write() as session:
            uow = UnitOfWork(session, PRINCIPAL, SYSTEM_CLOCK.now_s() + after_s)
            await analyze_rollout(uow, rollout_id, Given(devices, crashed))
    finally:
        await store.close()
