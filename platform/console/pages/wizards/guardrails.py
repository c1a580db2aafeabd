"""Defines the fields of guardrails, which rollouts and experiments have in common, and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from alcove.platform.client import GuardrailPlan, Metric, OwnGuardrail
from alcove.platform.console.sheets import Input, Section, Sheet
from alcove.platform.domain.limits import LATENCY_MARGIN_MAX_MS

__all__ = ["Watched", "guardrail_inputs", "guardrail_section", "latency_edges", "read_guardrails"]

_SHARES: Final[tuple[tuple[Literal["crash_fallback", "error", "refused"], str, str, str], ...]] = (
    ("crash_fallback", "Crashes", "Devices that leave the version because it crashes.", "0.5"),
    ("error", "Errors", "Predictions that end in an error.", "1"),
    ("refused", "Refused answers", "Answers that people do not keep.", ""),
)
_OWN: Final = "guard.own."
_BELOW_ALL: Final = 99.99


@dataclass(frozen=True)
class Watched:
    """What must not get worse."""

    guardrails: tuple[GuardrailPlan, ...]
    own: tuple[OwnGuardrail, ...]

    @property
    def is_anything(self) -> bool:
        """Whether there is a guardrail at all."""
        return bool(self.guardrails or self.own)


def guardrail_inputs(metrics: Sequence[Metric], *, is_prefilled: bool) -> list[Input]:
    """Return the fields.

    Args:
        metrics: of the feature's team.
        is_prefilled: whether the usual margins stand there at first.
    """
    shares = [
        Input(
            f"guard.{metric}",
            title,
            words,
            "number",
            unit="percentage points",
            default=margin if is_prefilled else "",
            high=_BELOW_ALL,
        )
        for metric, title, words, margin in _SHARES
    ]
    latency = [
        Input(
            "guard.latency",
            "Slower answers",
            "How much slower the slow answers may be.",
            "number",
            unit="ms",
            high=LATENCY_MARGIN_MAX_MS,
        ),
        Input("guard.quantile", "… at the quantile", "0.95: the slowest twentieth.", "number", low=0.01, high=0.999),
        Input(
            "guard.slow", "More slow answers", "How many more may be slow.", "number", unit="points", high=_BELOW_ALL
        ),
        Input("guard.edge_ms", "… slow from", "One of the edges below.", "number", unit="ms", high=10**7),
        Input(
            "latency_edges_ms",
            "Edges of latency bins",
            "In ms, rising, with commas; only where latency is watched. Bins no wider than the margin.",
            unit="ms",
            length=400,
        ),
    ]
    own = [
        Input(
            _OWN + metric.name,
            metric.name,
            f"{'Less' if metric.more_is_better else 'More'} is worse. {metric.description[:200]}",
            "number",
            unit=f"in its unit, up to {metric.cap:g}",
            high=metric.cap,
        )
        for metric in metrics
        if not metric.deprecated_at_s
    ]
    return [*shares, *latency, *own]


def guardrail_section(metrics: Sequence[Metric], number: int, intro: str) -> Section:
    """Return the part of the form with the fields; own metrics three beside each other."""
    own = [_OWN + metric.name for metric in metrics if not metric.deprecated_at_s]
    return Section(
        "guardrails",
        f"{number}. What must not get worse",
        intro,
        (
            tuple(f"guard.{metric}" for metric, *_ in _SHARES),
            *(tuple(own[first : first + 3]) for first in range(0, len(own), 3)),
        ),
        rare=(
            "Latency, and bins of it",
            (("guard.latency", "guard.quantile"), ("guard.slow", "guard.edge_ms"), ("latency_edges_ms",)),
        ),
    )


def read_guardrails(sheet: Sheet) -> Watched:
    """Return what a sheet watches; a field without a margin is not watched."""
    guardrails = [
        GuardrailPlan(metric=metric, margin=margin)
        for metric, *_ in _SHARES
        if (margin := sheet.part(f"guard.{metric}")) is not None
    ]
    slower, quantile = sheet.number("guard.latency"), sheet.number("guard.quantile")
    if slower is not None:
        guardrails.append(GuardrailPlan(metric="latency", margin=slower, quantile=quantile or 0.0))
    slow, edge_ms = sheet.part("guard.slow"), sheet.number("guard.edge_ms")
    if slow is not None and edge_ms is None:
        sheet.expect("guard.edge_ms", "a number of ms, from which an answer is slow")
    elif slow is not None:
        guardrails.append(GuardrailPlan(metric="latency", margin=slow, edge_ms=edge_ms or 0.0))
    if (slower is not None or slow is not None) and not latency_edges(sheet):
        sheet.expect("latency_edges_ms", "at least one edge, since latency is watched")
    own = [
        OwnGuardrail(metric=name.removeprefix(_OWN), margin=margin)
        for name in sheet.inputs
        if name.startswith(_OWN) and (margin := sheet.number(name)) is not None
    ]
    return Watched(tuple(guardrails), tuple(own))


def latency_edges(sheet: Sheet) -> tuple[float, ...]:
    """Return the edges of latency bins."""
    return sheet.numbers("latency_edges_ms")
