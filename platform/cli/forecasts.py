"""Prints forecasts of rollouts and experiments: tables, warnings, and a power curve of letters."""

from typing import TYPE_CHECKING, Final

from alcove.platform.cli.output import percent, print_rows, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.platform.client import (
        ExperimentChoice,
        ExperimentForecast,
        GuardrailForecast,
        PowerPoint,
        RolloutChoice,
        RolloutForecast,
    )

__all__ = ["curve_lines", "show_experiment_forecast", "show_rollout_forecast"]

_BAR: Final = 40  # characters of a certain find
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


def show_rollout_forecast(forecast: "RolloutForecast", *, devices: int) -> None:
    """Print what each stage needs, the first guardrail's curve, other plans, and the warnings last.

    Args:
        forecast: of the server.
        devices: of the app; 0: not known.
    """
    rows = [
        {
            "stage": f"{stage.stage}: {percent(stage.share_basis_points)}",
            "guardrail": f"{_name(found)}, margin {_amount(found, found.margin)}",
            "harm": _amount(found, found.difference),
            "found by (95 %)": _devices(found.devices_to_find_harm) if found.is_planned else "no plan",
            "smallest found": (_amount(found, found.detectable) if found.detectable else "none")
            if devices and found.is_planned
            else "-",
            "safe by (80 %)": _devices(found.devices_to_be_safe) if found.is_planned else "no plan",
            "chance to be safe": f"{found.safe_power:.0%}" if devices and found.is_planned else "-",
        }
        for stage in forecast.stages
        for found in stage.guardrails
    ]
    title = f"devices of the app that each stage needs; {forecast.cell_count} cells in a report, "
    title += f"{forecast.horizon_windows} reports of a device in {forecast.horizon_days} days"
    print_rows(rows, as_json=False, empty="no stage is compared with a control", title=title)
    for stage in forecast.stages[:1]:
        for found in stage.guardrails:
            _show_curve(stage.share_basis_points, found, devices)
    _show_choices(forecast.choices, "safe by")
    for stage in forecast.stages:
        if stage.days_to_be_safe:
            share = percent(stage.share_basis_points)
            say(f"the stage of {share} is found safe in {stage.days_to_be_safe} days (80 %)")
    say(forecast.promise)
    for warning in forecast.warnings:
        say(f"warning: {warning}")


def show_experiment_forecast(forecast: "ExperimentForecast", *, devices: int, mde: float, unit: str) -> None:
    """Print what an experiment needs and finds.

    Args:
        forecast: of the server.
        devices: that take part; 0: not known.
        mde: the difference that was asked for; 0: none.
        unit: of differences: "" for a share, " ms".
    """
    if mde:
        needs = _devices(forecast.devices_needed_in_30_days)
        one = _devices(forecast.devices_needed)
        say(f"a difference of {mde:g}{unit} needs {needs} devices within 30 days (80 %); {one} in one window")
    if forecast.devices_needed_by_value:
        say(f"a value of the dimension by itself needs {_devices(forecast.devices_needed_by_value)} devices of its own")
    if forecast.days_needed:
        say(f"{devices:,} devices find it in {forecast.days_needed} days")
    rows = [
        {
            "day": each.day,
            "smallest difference found (80 %)": f"{each.difference:.3g}{unit}" if each.difference else "none",
        }
        for each in forecast.detectable_by_day
    ]
    shown = devices or forecast.devices_needed_in_30_days
    print_rows(rows, as_json=False, empty="nothing is found by so many devices", title=f"by {shown:,} devices")
    for line in curve_lines(forecast.curve, unit):
        say(line)
    _show_choices(forecast.choices, "found by")
    say(forecast.promise)
    for warning in forecast.warnings:
        say(f"warning: {warning}")


def curve_lines(curve: "Sequence[PowerPoint]", unit: str, *, scale: float = 1.0) -> list[str]:
    """Return a line for each point of a power curve: the difference, a bar as long as the chance, the chance.

    Args:
        curve: rising differences.
        unit: of them, behind the number.
        scale: that they are multiplied by.
    """
    names = [f"{point.difference * scale:.3g}{unit}" for point in curve]
    width = max(map(len, names), default=0)
    lines = []
    for name, point in zip(names, curve, strict=True):
        eighths = round(point.power * _BAR * 8)
        bar = _FULL * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
        lines.append(f"{name:>{width}}  {bar:<{_BAR}}  {point.power:.0%}")
    return lines


def _show_curve(share_basis_points: int, found: "GuardrailForecast", devices: int) -> None:
    if not found.curve:
        return
    by = f"{devices:,}" if devices else f"{found.devices_to_find_harm:,}"
    unit, scale = ("its unit", 1.0) if found.own_metric else ("points", 100.0)
    if found.metric == "latency" and found.margin >= 1.0:
        unit, scale = "ms", 1.0
    where = f"at {percent(share_basis_points)} of {by} devices"
    say(f"{_name(found)}: chance that harm is found {where}, by {unit} worse")
    for line in curve_lines(found.curve, "", scale=scale):
        say(line)


def _show_choices(choices: "Sequence[RolloutChoice | ExperimentChoice]", title: str) -> None:
    from alcove.platform.client import RolloutChoice  # noqa: PLC0415 - loads gRPC

    if not choices:
        return
    rows = [
        {
            "another plan": choice.change,
            "cells": choice.cell_count,
            title: _devices(choice.devices_to_be_safe if isinstance(choice, RolloutChoice) else choice.devices_needed),
            "days": _days(choice),
            "halves": ", ".join(
                name
                for name, is_half in (("devices", choice.halves_the_devices), ("days", choice.halves_the_days))
                if is_half
            )
            or "-",
            "its price": choice.trade + ("" if choice.is_offered else " (no plan can say so yet)"),
        }
        for choice in choices
    ]
    print_rows(rows, as_json=False, empty="", title="what would need fewer devices")


def _days(choice: "RolloutChoice | ExperimentChoice") -> str:
    from alcove.platform.client import RolloutChoice  # noqa: PLC0415 - loads gRPC

    days = choice.days_to_be_safe if isinstance(choice, RolloutChoice) else choice.days_needed
    return str(days) if days else "-"


def _devices(devices: int) -> str:
    return f"{devices:,}" if devices else "more than there are"


def _name(found: "GuardrailForecast") -> str:
    return found.own_metric or found.metric


def _amount(found: "GuardrailForecast", value: float) -> str:
    if found.own_metric:
        return f"{value:.3g}"
    if found.metric == "latency" and found.margin >= 1.0:
        return f"{value:.3g} ms"
    return f"{100 * value:.3g} points"
