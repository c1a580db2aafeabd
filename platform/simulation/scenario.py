"""Defines a simulation: devices, behavior of the two versions on them, the plan, and the privacy mechanism."""

from dataclasses import replace
from typing import Annotated, Final, Self

from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.stats import Mechanism
from alcove.privacy.limits import EPSILON_PER_30_DAYS
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Behavior", "Scenario"]

DEVICES_MAX: Final = 20_000_000  # two bytes of bucket and one for each of 30 days' reports: 640 MB


class Scenario(BaseModel):
    """A rollout that has not begun yet.

    Attributes:
        plan: of the rollout; with stages and guardrails.
        devices: of the app.
        windows: check-in periods that are simulated at most.
        active: share of the devices that report in a window.
        spent: privacy loss that each device has spent on other tasks, such as an experiment, when the rollout begins.
        lost_replies: chance that the reply to a randomized report is lost, so that the report counts twice.
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
    spent: Annotated[float, Field(ge=0, le=float(EPSILON_PER_30_DAYS))] = 0.0
    lost_replies: Annotated[float, Field(ge=0, lt=1)] = 0.0
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
        plan = validate_plan(self.plan)
        if self.mechanism is Mechanism.PRIO3:  # all devices are asked everything where aggregators add the noise
            plan = replace(plan, questions=())
        object.__setattr__(self, "plan", plan)
        return self
