"""Plots a simulation: the first run's guardrails window by window, and how soon harm is found in all runs."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.platform.simulation.scenario import Scenario
from alcove.platform.simulation.summary import Summary
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_plot"]


def write_plot(path: Path, scenario: Scenario, summary: Summary) -> None:
    """Write a picture, or a page of its own where the file's name ends in .html.

    Raises:
        ValueError: the name ends in nothing that can be drawn (.png, .svg, .pdf and .html can).
        OSError: the file cannot be written.
    """
    figure = _draw(scenario, summary)
    if path.suffix.lower() != ".html":
        figure.savefig(path)
        return
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    path.write_text(_page(scenario, summary, picture.getvalue()), encoding="utf-8")


def _draw(scenario: Scenario, summary: Summary) -> Figure:
    guardrails = scenario.plan.guardrails
    figure = Figure(figsize=(8, 2.6 * (len(guardrails) + 2)), layout="constrained", dpi=120)
    axes = list(figure.subplots(len(guardrails) + 2, 1))
    _draw_found(axes[0], summary)
    _draw_shares(axes[1], scenario, summary)
    for number, (guardrail, axis) in enumerate(zip(guardrails, axes[2:], strict=True)):
        scale, unit = (100.0, "%") if guardrail.quantile is None else (1.0, "ms")
        windows, lows, middles, highs = [], [], [], []
        for analysis in summary.analyses:
            low, middle, high = analysis.differences[number] if analysis.differences else (None, None, None)
            if low is None or middle is None or high is None:
                continue
            windows.append(analysis.window)
            lows.append(low * scale)
            middles.append(middle * scale)
            highs.append(high * scale)
        half_width = [[mid - low for mid, low in zip(middles, lows, strict=True)]]
        half_width.append([high - mid for mid, high in zip(middles, highs, strict=True)])
        axis.errorbar(windows, middles, yerr=half_width, fmt="o", capsize=4, label="estimate, always-valid interval")
        axis.axhline(guardrail.margin * scale, color="tab:red", linestyle="--", label="margin")
        axis.set(title=f"{guardrail.metric}: treatment less control, first run", xlabel="window", ylabel=unit)
        axis.set_xlim(0.5, scenario.windows + 0.5)
        axis.legend(loc="best", fontsize="small")
    return figure


def _draw_found(axis: "Axes", summary: Summary) -> None:
    windows = range(1, len(summary.harmed_within) + 1)
    axis.plot(windows, [100 * share for share in summary.harmed_within], marker="o", drawstyle="steps-post")
    axis.set(title=f"harm found by the end of a window, {summary.runs} runs", xlabel="window", ylabel="% of the runs")
    axis.set_ylim(-2, 102)


def _draw_shares(axis: "Axes", scenario: Scenario, summary: Summary) -> None:
    windows = [analysis.window for analysis in summary.analyses]
    axis.bar(windows, [analysis.share_basis_points / 100 for analysis in summary.analyses])
    axis.set_xlim(0.5, scenario.windows + 0.5)
    axis.set(title="share of the devices that run the new version, first run", xlabel="window", ylabel="%")


def _page(scenario: Scenario, summary: Summary, picture: bytes) -> str:
    rows = {
        "devices": f"{scenario.devices:,}",
        "reports by": f"{scenario.mechanism}, epsilon {scenario.plan.epsilon}",
        "harm found": f"{summary.harmed.share:.1%} of {summary.runs} runs "
        f"({summary.harmed.low:.1%} to {summary.harmed.high:.1%})",
        "windows until then, median": "-" if summary.windows_to_harm is None else f"{summary.windows_to_harm:g}",
        "reached everybody": f"{summary.completed.share:.1%}",
        "epsilon spent by a device": f"{summary.epsilon_mean:.3g} on average, {summary.epsilon_max:.3g} at most",
    }
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    image = base64.b64encode(picture).decode()
    style = "body{font-family:sans-serif;margin:2em;max-width:60em}th{text-align:left;padding-right:2em}img{width:100%}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>A simulated rollout</title>'
        f"<style>{style}</style>"
        f"<h1>A simulated rollout</h1><table>{cells}</table>"
        f'<img alt="plots" src="data:image/png;base64,{image}"></html>\n'
    )
