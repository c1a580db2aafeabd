"""Defines the values that the server answers with about plans.  As in `models`."""

from typing import Annotated, Literal

from alcove.platform.client.models import Value, without_prefix

__all__ = [
    "DetectableByDay",
    "DetectableByMonths",
    "ExperimentChoice",
    "ExperimentForecast",
    "GuardrailForecast",
    "PowerPoint",
    "ReadoutForecast",
    "RolloutChoice",
    "RolloutForecast",
    "StageForecast",
]


class PowerPoint(Value):
    """The chance to find a difference."""

    difference: float = 0.0
    power: float = 0.0


class GuardrailForecast(Value):
    """One guardrail at one stage; devices are the app's, and 0 where no number is enough or nothing is known.

    `own_metric`: name of the metric of the team's own that is watched; margin, rate and differences are in its unit.
    """

    metric: Annotated[
        Literal["unspecified", "crash_fallback", "error", "refused", "latency"], without_prefix("GUARD_METRIC_")
    ]
    own_metric: str = ""
    margin: float = 0.0
    base_rate: float = 0.0
    difference: float = 0.0
    devices_to_find_harm: int = 0
    harm_power: float = 0.0
    detectable: float = 0.0
    devices_to_be_safe: int = 0
    safe_power: float = 0.0
    curve: tuple[PowerPoint, ...] = ()
    is_planned: bool = False


class StageForecast(Value):
    """One stage that is compared with a control; `warning` where the stated devices are too few."""

    stage: int
    share_basis_points: int
    guardrails: tuple[GuardrailForecast, ...] = ()
    devices_to_be_safe: int = 0
    days_to_be_safe: int = 0
    warning: str = ""


class RolloutChoice(Value):
    """Another plan, by its first stage: what is different, what it costs, and what it needs."""

    change: str
    trade: str
    cell_count: int
    devices_to_be_safe: int = 0
    days_to_be_safe: int = 0
    is_offered: bool = False
    halves_the_devices: bool = False
    halves_the_days: bool = False


class RolloutForecast(Value):
    """What a rollout would find; `choices` that need the fewest devices first."""

    stages: tuple[StageForecast, ...] = ()
    cell_count: int = 0
    horizon_windows: int = 0
    horizon_days: int = 0
    choices: tuple[RolloutChoice, ...] = ()
    warnings: tuple[str, ...] = ()
    promise: str = ""


class DetectableByDay(Value):
    """The smallest difference that is found by the end of a day; 0: none."""

    day: int
    difference: float = 0.0


class ExperimentChoice(Value):
    """Another plan: what is different, what it costs, and what it needs."""

    change: str
    trade: str
    cell_count: int
    devices_needed: int = 0
    days_needed: int = 0
    is_offered: bool = False
    halves_the_devices: bool = False
    halves_the_days: bool = False


class DetectableByMonths(Value):
    """The smallest difference that so many measured months find; 0: none."""

    months: int
    difference: float = 0.0


class ReadoutForecast(Value):
    """What a read-out of a holdout would find; 0 where nothing is found."""

    group_devices: int = 0
    detectable: float = 0.0
    detectable_by_months: tuple[DetectableByMonths, ...] = ()
    devices_needed: int = 0
    cell_count: int = 0
    days: int = 0
    warnings: tuple[str, ...] = ()
    promise: str = ""


class ExperimentForecast(Value):
    """What an experiment would find; 0 where nothing is known or no number is enough."""

    devices_needed: int = 0
    devices_needed_in_30_days: int = 0
    days_needed: int = 0
    detectable_by_day: tuple[DetectableByDay, ...] = ()
    curve: tuple[PowerPoint, ...] = ()
    cell_count: int = 0
    choices: tuple[ExperimentChoice, ...] = ()
    warnings: tuple[str, ...] = ()
    promise: str = ""
    devices_needed_by_value: int = 0
