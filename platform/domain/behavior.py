"""Models how a version behaves on devices, as the cells of their reports tell it."""

import math
from typing import Annotated, Final, Self

from alcove.registry.policy import Outcome, TaskPolicy
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Behavior"]

Share = Annotated[float, Field(ge=0, le=1)]

LEAST_SHARE: Final = 1e-9  # of a behavior, but 0: of fewer, no plan could be computed in floats
LATENCY_SPREAD: Final = 0.5  # standard deviation of the logarithm of a latency: the slowest of twenty takes 2.3x


class Behavior(BaseModel):
    """Behavior of a version on devices, for one report of a device.

    Attributes:
        crash_fallback: share of the devices that leave the version because it crashes.
        error: share whose prediction is an error.
        refused: share of the answers that the user refuses, among refused and accepted ones.
        feedback: share of the devices with an answer whose app notes what the user made of it.
        latency_ms: median of a log-normal latency, in ms.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    crash_fallback: Share = 0.001
    error: Share = 0.002
    refused: Share = 0.2
    feedback: Share = 1.0
    latency_ms: Annotated[float, Field(gt=0, le=600_000)] = 20.0

    @model_validator(mode="after")
    def _validate(self) -> Self:
        for name in ("crash_fallback", "error", "refused", "feedback"):
            if 0.0 < getattr(self, name) < LEAST_SHARE:
                msg = f"{name} is 0, or at least {LEAST_SHARE:g}"
                raise ValueError(msg)
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
        noted = answered * self.feedback
        share = {Outcome.REFUSED: noted * self.refused, Outcome.ACCEPTED: noted * (1 - self.refused)}
        share |= {Outcome.ERROR: self.error, Outcome.FALLBACK: self.crash_fallback}
        share[Outcome.ANSWERED] = answered - noted
        found = [0.0] * layout.arm_cell_count
        for outcome, part in share.items():
            bins = layout.latency_bins_of(outcome)
            for bin_number, mass in enumerate(masses if bins > 1 else [1.0] * bins):
                found[layout.cell_index(0, outcome, bin_number)] += part * mass
        return found
