"""Spells values of metrics for people: shares in per cent, latencies in milliseconds, own metrics in their own unit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.platform.client import Primary


__all__ = ["is_in_ms", "spell_value", "unit_of"]

_IN_MS = ("latency_mean", "latency_quantile")


def is_in_ms(metric: "Primary") -> bool:
    """Tell whether a metric's values are milliseconds."""
    return metric.kind in _IN_MS


def unit_of(metric: "Primary") -> str:
    """Return what follows a difference, with a space before it; "" for a share."""
    if metric.metric:
        return f" in {metric.metric}"
    return " ms" if is_in_ms(metric) else ""


def spell_value(metric: "Primary", value: float) -> str:
    """Return a value or a difference in a few characters."""
    if metric.metric:
        return f"{value:.4g}"
    return f"{value:.3g} ms" if is_in_ms(metric) else f"{100 * value:.2f} %"
