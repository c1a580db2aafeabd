"""Defines the fields of what decides an experiment, and reads it."""

from collections.abc import Sequence
from typing import Final, Literal, cast

from alcove.platform.client import Metric, OutcomeName, Primary
from alcove.platform.console.pages.wizards.forecasts import POINTS, Unit
from alcove.platform.console.sheets import Input, Sheet

__all__ = ["primary_inputs", "read_primary", "read_secondary", "secondary_inputs", "unit_of"]

_OWN: Final = "metric:"
_KINDS: Final = (
    ("accepted", "Accepted share of the answers (more is better)"),
    ("latency_mean", "Mean latency (less is better)"),
    ("latency_quantile", "A quantile of latency (less is better)"),
    ("latency_share", "Share of slow answers (less is better)"),
    ("error", "Share of errors (less is better)"),
    ("fallback", "Share of crashes (less is better)"),
)
_RATIOS: Final[dict[str, tuple[tuple[OutcomeName, ...], tuple[OutcomeName, ...]]]] = {
    "error": (("error",), ("refused", "accepted", "error", "fallback", "answered")),
    "refused": (("refused",), ("refused", "accepted")),
    "fallback": (("fallback",), ("refused", "accepted", "error", "fallback", "answered")),
}
_SECONDARY: Final = (
    ("second.accepted", "Accepted share"),
    ("second.refused", "Refused share"),
    ("second.error", "Errors"),
    ("second.fallback", "Crashes"),
    ("second.latency_mean", "Mean latency"),
)


def primary_inputs(metrics: Sequence[Metric]) -> list[Input]:
    """Return the fields of what decides; metrics of the feature's team are offered, too."""
    own = [
        (_OWN + one.name, f"{one.name}: {one.description[:80]} ({'more' if one.more_is_better else 'less'} is better)")
        for one in metrics
        if not one.deprecated_at_s
    ]
    return [
        Input("primary", "What decides", "", "choice", options=(*_KINDS, *own), default="accepted"),
        Input("primary.quantile", "Quantile", "Of a quantile only; empty: 0.5.", "number", low=0.01, high=0.999),
        Input(
            "primary.edge_ms", "Slow from", "Of the share of slow answers only: one of the edges below.", "number",
            unit="ms", high=10**7,
        ),
    ]  # fmt: skip


def secondary_inputs() -> list[Input]:
    """Return the boxes of metrics that are shown beside, and decide nothing."""
    return [Input(name, title, kind="tick") for name, title in _SECONDARY]


def read_primary(sheet: Sheet) -> Primary:
    """Return what decides."""
    kind = sheet.text("primary") or "accepted"
    quantile, edge_ms = sheet.number("primary.quantile"), sheet.number("primary.edge_ms")
    if kind == "latency_share" and edge_ms is None:
        sheet.expect("primary.edge_ms", "a number of ms, from which an answer is slow")
    return _metric(kind, quantile or 0.5, edge_ms or 0.0)


def read_secondary(sheet: Sheet) -> list[Primary]:
    """Return what is shown beside."""
    found = [_metric(name.removeprefix("second."), 0.5, 0.0) for name, _ in _SECONDARY if sheet.is_ticked(name)]
    # Beside, a share of all that is counted has no denominator: what is counted follows from what decides.
    return [one.model_copy(update={"denominator": ()}) if "error" in one.denominator else one for one in found]


def unit_of(primary: Primary) -> Unit:
    """Return the unit of a difference in what decides."""
    if primary.metric:
        return Unit("")
    return Unit("ms") if primary.kind in ("latency_mean", "latency_quantile") else POINTS


def _metric(kind: str, quantile: float, edge_ms: float) -> Primary:
    if kind.startswith(_OWN):
        return Primary(kind="metric", metric=kind.removeprefix(_OWN))
    if kind in _RATIOS:
        numerator, denominator = _RATIOS[kind]
        return Primary(kind="ratio", numerator=numerator, denominator=denominator, less_is_better=True)
    named = cast('Literal["accepted", "latency_mean", "latency_quantile", "latency_share"]', kind)
    return Primary(
        kind=named,
        quantile=quantile if kind == "latency_quantile" else 0.0,
        edge_ms=edge_ms if kind == "latency_share" else 0.0,
    )
