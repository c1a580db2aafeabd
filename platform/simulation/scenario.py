"""Defines a simulation: devices, behavior of the two versions on them, the plan, and the privacy mechanism."""

import math
from typing import Annotated, Final, Self

from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.stats import Mechanism
from alcove.registry.policy import Outcome, TaskPolicy
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Behavior", "Scenario"]

Share = Annotated[float, Field(ge=0, le=1)]

DEVICES_MAX: Final = 20_000_000  # two bytes of bucket and one for each of 30 days' reports: 640 MB
LATENCY_SPREAD: Final = 0.5  # standard deviation of the logarithm of a latency: the slowest of twenty takes 2.3x


class Behavior(BaseModel):
    """Behavior of a version on devices, for one report of a device.

    Attributes:
        crash_fallback: share of the devices that leave the version because it crashes.
        error: share whose prediction is an error.
        refused: share of the answers that the user refuses, among refused and accepted ones.
        latency_ms: median of a log-normal latency, in ms.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    crash_fallback: Share = 0.001
    error: Share = 0.002
    refused: Share = 0.2
    latency_ms: Annotated[float, Field(gt=0, le=600_000)] = 20.0

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.crash_fallback + self.error > 1:
            msg = f"crash_fallback and error add up to {self.crash_fallback + self.error:g}, at most 1"
            raise ValueError(msg)
        return self

    def cells(self, task: TaskPolicy) -> list[float]:
        """Return the probability of each cell of one arm of a task, in its order; what makes no report is left out."""
        edges_ms, layout = task.latency_edges_ms, task.layout
        below = [
            0.5 * math.erfc(-math.log(edge / self.latency_ms) / LATENCY_SPREAD / math.sqrt(2)) for edge in edges_ms
        ]
        masses = [high - low for low, high in zip((0.0, *below), (*below, 1.0), strict=True)]
        answered = 1.0 - self.crash_fallback - self.error
        share = {Outcome.REFUSED: answered * self.refused, Outcome.ACCEPTED: answered * (1 - self.refused)}
        share |= {Outcome.ERROR: self.error, Outcome.FALLBACK: self.crash_fallback}
        found = [0.0] * layout.arm_cell_count
        for outcome, part in share.items():
            bins = layout.latency_bins_of(outcome)
            for bin_number, mass in enumerate(masses if bins > 1 else [1.0] * bins):
                found[layout.cell_index(0, outcome, bin_number)] += part * mass
        return found


class Scenario(BaseModel):
    """A rollout that has not begun yet.

    Attributes:
        plan: of the rollout; with stages and guardrails.
        devices: of the app.
        windows: check-in periods that are simulated at most.
        active: share of the devices that report in a window.
        control: how the default version behaves.
        treatment: how the new version behaves.
        mechanism: how reports become sums, not EXACT; the plan's epsilon is that of a report, or of a window's sums.
        is_advanced: a person advances as soon as a stage is found safe.
        runs: how often all of it is repeated.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    plan: RolloutPlan
    devices: Annotated[int, Field(ge=1, le=DEVICES_MAX)] = 1_000_000
    windows: Annotated[int, Field(ge=1, le=1000)] = 14
    active: Annotated[float, Field(gt=0, le=1)] = 1.0
    control: Behavior = Behavior()
    treatment: Behavior = Behavior()
    mechanism: Mechanism = Mechanism.RANDOMIZED_RESPONSE
    is_advanced: bool = True
    runs: Annotated[int, Field(ge=1, le=100_000)] = 1
    seed: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if not self.plan.guardrails:
            msg = "a plan without guardrails watches nothing: give at least one stage and one guardrail"
            raise ValueError(msg)
        if self.mechanism is Mechanism.EXACT:
            msg = "reports have a mechanism: randomized-response or prio3"
            raise ValueError(msg)
        object.__setattr__(self, "plan", validate_plan(self.plan))
        return self
