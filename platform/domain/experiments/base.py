"""Says how the control's devices are expected to spread over the bins of a team's own metric that decides.  Pure."""

import math
from typing import Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.stats import BinMetric, Primary

__all__ = ["base_of", "spread_of", "validate_base", "validate_distribution"]

_ROUNDING: Final = 1e-6  # of a sum of parts that people write in per cent


def base_of(plan: ExperimentPlan, metric: BinMetric) -> tuple[float, ...]:
    """Return the expected part of the devices in each bin, of sum 1.

    By default half of them are in the lowest bin with a result and half in the highest: no spread has a larger
    variance.  Of a metric with two bins `base_rate` is the part that recorded it.
    """
    return spread_of(plan.base_distribution, metric, plan.base_rate)


def spread_of(distribution: tuple[float, ...], metric: BinMetric, rate: float = 0.0) -> tuple[float, ...]:
    """Return the parts that are given, else those of a rate, else the worst case; see `base_of`."""
    if distribution:
        total = math.fsum(distribution)
        return tuple(part / total for part in distribution)
    bins = len(metric.bin_values)
    if rate:
        return (1.0 - rate, rate)
    ends = (int(metric.needs_record), bins - 1)
    return tuple(0.5 if place in ends else 0.0 for place in range(bins))


def validate_base(plan: ExperimentPlan, primary: Primary) -> None:
    """Refuse an expected spread that the metric cannot have.

    Raises:
        InvalidFieldError: parts for another metric than one of the team's own, a number of them that is not that of its
            bins, parts that are none or not of sum 1, or a rate beside them or of a metric with more than two bins.
    """
    own = primary.own
    if own is None:
        if plan.base_distribution:
            raise InvalidFieldError("base_distribution", f"absent for {primary.kind}", plan.base_distribution)
        return
    if plan.base_rate and (plan.base_distribution or len(own.bin_values) != 2):
        bound = "absent beside base_distribution, and for a metric of more than two bins, which that describes"
        raise InvalidFieldError("base_rate", bound, plan.base_rate)
    validate_distribution("base_distribution", plan.base_distribution, own)


def validate_distribution(field: str, parts: tuple[float, ...], metric: BinMetric) -> None:
    """Refuse parts of devices that are no spread over a metric's bins; none at all are.

    Raises:
        InvalidFieldError: another number of parts than of bins, a part outside [0, 1], a sum other than 1, or devices
            in fewer than two bins with a result.
    """
    if not parts:
        return
    bins = len(metric.bin_values)
    is_sound = all(math.isfinite(part) and 0.0 <= part <= 1.0 for part in parts)
    if len(parts) != bins or not is_sound or abs(math.fsum(parts) - 1.0) > _ROUNDING:
        bound = f"{bins} parts of the devices, one for each bin of {metric.name}, in [0, 1] and of sum 1"
        raise InvalidFieldError(field, bound, parts)
    if sum(part > 0.0 for part in parts[int(metric.needs_record) :]) < 2:
        bound = f"parts above 0 in at least two bins of {metric.name} that have a result"
        raise InvalidFieldError(field, bound, parts)
