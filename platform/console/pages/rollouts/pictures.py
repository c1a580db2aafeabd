"""Makes the pictures of a rollout: its share over time, and each guardrail with its always-valid interval over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from alcove.platform.client import AuditLine, KeptAnalysis, Rollout
from alcove.platform.client.records import Analysis, GuardrailName, Interval, find_analyses, guardrails_of
from alcove.platform.console.charts import Axis, Chart, Line, Point, Series
from alcove.platform.console.pages.rollouts.words import VERDICTS

__all__ = ["Guardrail", "make_guardrails", "picture_share"]

SCALES: Final[Mapping[str, tuple[float, str]]] = MappingProxyType(
    {"share": (100.0, "percentage points"), "ms": (1.0, "ms"), "own": (1.0, "its own unit")}
)
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "crash_fallback": "Devices that left the version because it crashed",
        "error": "Answers that were errors",
        "refused": "Answers that the user refused",
    }
)


@dataclass(frozen=True)
class Guardrail:
    """A guardrail with what the last analysis says of it.

    Attributes:
        name: of what it watches, for people.
        unit: of its numbers.
        margin: by how much worse than the control it may be, in the unit.
        verdict: "safe", "harmful" or "inconclusive"; "": not analyzed yet.
        words: the verdict in words.
        difference, low, high: to the control, and its interval, in the unit; None: too few reports, unbounded.
        reason: the server's sentence; "": not analyzed yet.
        chart: over time.
    """

    name: str
    unit: str
    margin: float
    verdict: str
    words: str
    difference: float | None
    low: float | None
    high: float | None
    reason: str
    chart: Chart

    def to_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        return vars(self) | {"chart": self.chart.to_json()}


def make_guardrails(rollout: Rollout, analyses: Sequence[KeptAnalysis]) -> list[Guardrail]:
    """Return the guardrails of a rollout, those of own metrics last.

    Args:
        rollout: as it is.
        analyses: that are kept, the oldest first.
    """
    found = find_analyses(rollout, analyses)
    return [_guardrail(number, rail, found) for number, rail in enumerate(guardrails_of(rollout))]


def picture_share(rollout: Rollout, history: Sequence[AuditLine], now_s: int) -> Chart:
    """Return the share of devices over time, up to now while it is on devices."""
    points = []
    for line in reversed(history):
        if line.action == "create rollout":
            points.append(Point(line.at_s, 0.0))
        elif line.action == "advance rollout":
            points.append(Point(line.at_s, _per_cent(line.details.get("to_basis_points"))))
        elif line.action in ("rollback rollout", "halt rollout"):
            points.append(Point(line.at_s, 0.0))
    if points and rollout.state in ("running", "paused"):
        points.append(Point(max(now_s, int(points[-1].x)), rollout.share_basis_points / 100))
    return Chart(
        "share",
        "Share of the devices that may run the version",
        Axis("Time", kind="time"),
        Axis("Share", "%"),
        [Series("Share", points, "steps")],
        empty="It was on no device yet.",
    )


def _guardrail(number: int, rail: GuardrailName, analyses: Sequence[Analysis]) -> Guardrail:
    scale, unit = SCALES[rail.unit]
    name = NAMES.get(rail.name) or (f"Own metric {rail.name}" if rail.unit == "own" else _latency(rail))
    points = []
    last: Interval | None = None
    for analysis in analyses:
        if number < len(analysis.intervals):
            last = analysis.intervals[number]
            points.append(Point(analysis.analyzed_at_s, *_scale(last, scale)))
    margin = rail.margin * scale
    chart = Chart(
        f"guardrail-{number + 1}",
        f"{name}: difference to the control group",
        Axis("Time", kind="time"),
        Axis("Difference", unit),
        [Series("treatment − control", points)],
        [Line("margin", margin), Line("no difference", 0.0, is_bound=False)],
        "No analysis yet: reports come from devices that run the version and from their control group.",
    )
    if last is None:
        return Guardrail(name, unit, margin, "", "not analyzed yet", None, None, None, "", chart)
    return Guardrail(name, unit, margin, last.kind, VERDICTS[last.kind], *_scale(last, scale), last.reason, chart)


def _latency(rail: GuardrailName) -> str:
    return f"Share of answers with {rail.name}" if rail.unit == "share" else f"Quantile of the {rail.name}"


def _scale(interval: Interval, scale: float) -> tuple[float | None, float | None, float | None]:
    return (_times(interval.difference, scale), _times(interval.low, scale), _times(interval.high, scale))


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _per_cent(basis_points: object) -> float:
    return basis_points / 100 if isinstance(basis_points, int) else 0.0
