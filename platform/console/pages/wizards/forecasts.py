"""Shows forecasts: what a plan would find, as sentences, tables and charts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alcove.platform.client import (
    ExperimentChoice,
    ExperimentForecast,
    GuardrailForecast,
    PowerPoint,
    RolloutChoice,
    RolloutForecast,
    StageForecast,
)
from alcove.platform.console.charts import Axis, Chart, Line, Point, Series
from alcove.platform.console.tables import Column, Table

__all__ = ["Unit", "experiment_charts", "experiment_choices", "rollout_charts", "rollout_choices", "stage_table"]


@dataclass(frozen=True)
class Unit:
    """Unit of a difference.

    Attributes:
        name: for people.
        scale: what a difference is multiplied by to be in it.
    """

    name: str
    scale: float = 1.0

    def spell(self, difference: float) -> str:
        """Return a difference for people; 0: none."""
        return f"{difference * self.scale:.3g} {self.name}".rstrip() if difference else "none"

    def short(self, difference: float) -> str:
        """Return a difference for a cell of a table."""
        return self.spell(difference).replace("percentage ", "")


POINTS = Unit("percentage points", 100.0)


@dataclass(frozen=True)
class _Row:
    stage: StageForecast
    found: GuardrailForecast


def stage_table(forecast: RolloutForecast, devices: int) -> Table[_Row]:
    """Return what each stage finds by each guardrail.

    Args:
        forecast: of the server.
        devices: of the app; 0: not known.
    """
    rows = [_Row(stage, found) for stage in forecast.stages for found in stage.guardrails]
    known = (
        Column[_Row]("detectable", "Smallest harm found", lambda row: _unit(row.found).short(row.found.detectable)),
        Column[_Row]("safe_power", "Chance to be found safe", lambda row: f"{row.found.safe_power:.0%}"),
    )
    return Table(
        "forecast-stages",
        "What each stage finds; devices are those of the app, points are percentage points",
        (
            Column("stage", "Stage", lambda row: f"{row.stage.stage}: {row.stage.share_basis_points / 100:g} %"),
            Column("guardrail", "Guardrail", lambda row: _name(row.found)),
            Column("margin", "Margin", lambda row: _unit(row.found).short(row.found.margin)),
            Column("harm", "Harm", lambda row: _unit(row.found).short(row.found.difference)),
            Column(
                "devices_to_find_harm",
                "Devices that find it",
                lambda row: _count(row.found.devices_to_find_harm),
                "text",
            ),
            Column("devices_to_be_safe", "Devices to be found safe", lambda row: _count(row.found.devices_to_be_safe)),
            *(known if devices else ()),
        ),
        rows,
        "/rollouts/new",
        empty="No stage is compared with a control.",
    )


def rollout_charts(forecast: RolloutForecast) -> list[Chart]:
    """Return the chance that the first stage finds harm: a picture of each unit."""
    charts: list[Chart] = []
    if not forecast.stages:
        return charts
    stage = forecast.stages[0]
    units: dict[Unit, list[Series]] = {}
    for found in stage.guardrails:
        if found.curve:
            unit = _unit(found)
            units.setdefault(unit, []).append(Series(_name(found), tuple(_curve(found.curve, unit)), "curve"))
    for number, (unit, series) in enumerate(units.items(), 1):
        charts.append(
            Chart(
                f"harm-{number}",
                f"Chance that the first stage ({stage.share_basis_points / 100:g} %) finds harm",
                Axis("How much worse the version is", unit.name),
                Axis("Chance to find it", "%"),
                series,
                (Line("95 %", 95.0, is_bound=False),),
            )
        )
    return charts


def rollout_choices(choices: Sequence[RolloutChoice]) -> Table[RolloutChoice]:
    """Return other plans for a rollout."""
    return Table(
        "forecast-choices",
        "Other plans, those that need the fewest devices first",
        (
            Column("change", "Another plan", lambda one: one.change),
            Column("devices", "Devices to be found safe", lambda one: _count(one.devices_to_be_safe)),
            Column("days", "Days", lambda one: one.days_to_be_safe or None, "number"),
            Column("trade", "Its price", _price),
        ),
        choices,
        "/rollouts/new",
        empty="No other plan needs fewer devices.",
    )


def experiment_charts(forecast: ExperimentForecast, unit: Unit, mde: float) -> list[Chart]:
    """Return what is found by each day, and the chance to find a difference."""
    line = (Line("asked for", mde * unit.scale),) if mde else ()
    by_day = tuple(
        Point(each.day, each.difference * unit.scale if each.difference else None)
        for each in forecast.detectable_by_day
    )
    return [
        Chart(
            "by-day",
            "Smallest difference that is found by the end of a day (80 %)",
            Axis("Day"),
            Axis("Smallest difference found", unit.name),
            (Series("smallest difference", by_day, "curve"),),
            line,
            empty="So many devices find no difference, however large it is.",
        ),
        Chart(
            "power",
            "Chance that a difference is found within 30 days",
            Axis("Difference", unit.name),
            Axis("Chance to find it", "%"),
            (Series("chance", tuple(_curve(forecast.curve, unit)), "curve"),),
            (Line("80 %", 80.0, is_bound=False),),
            empty="So many devices find no difference, however large it is.",
        ),
    ]


def experiment_choices(choices: Sequence[ExperimentChoice], path: str) -> Table[ExperimentChoice]:
    """Return other plans for an experiment."""
    return Table(
        "forecast-choices",
        "Other plans, those that need the fewest devices first",
        (
            Column("change", "Another plan", lambda one: one.change),
            Column("devices", "Devices within 30 days", lambda one: _count(one.devices_needed)),
            Column("days", "Days", lambda one: one.days_needed or None, "number"),
            Column("trade", "Its price", _price),
        ),
        choices,
        path,
        empty="No other plan needs fewer devices.",
    )


def _curve(curve: Sequence[PowerPoint], unit: Unit) -> Iterator[Point]:
    for point in curve:
        yield Point(round(point.difference * unit.scale, 6), round(100.0 * point.power, 2))


def _unit(found: GuardrailForecast) -> Unit:
    if found.own_metric:
        return Unit("")
    return Unit("ms") if found.metric == "latency" and found.margin >= 1.0 else POINTS


def _name(found: GuardrailForecast) -> str:
    return found.own_metric or found.metric.replace("_", " ")


def _count(devices: int) -> str:
    return f"{devices:,}".replace(",", " ") if devices else "more than there are"


def _price(choice: RolloutChoice | ExperimentChoice) -> str:
    return choice.trade + ("" if choice.is_offered else " (no plan can say so yet)")
