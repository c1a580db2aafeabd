"""Prints results by the values of an experiment's dimension."""

from typing import TYPE_CHECKING, Final

import typer
from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.few_reports import TOO_FEW, spell_p_value
from alcove.platform.cli.output import print_table, say
from alcove.platform.cli.secondary_metrics import spell_estimate

if TYPE_CHECKING:
    from alcove.platform.client import DimensionView, Experiment

__all__ = ["COLUMNS", "DIMENSION_HELP", "dimension_notes", "dimension_rows", "one_dimension", "show_dimension"]

DIMENSION_HELP: Final = (
    "Attribute and up to three values by which results are told apart, stated before the start: words such as "
    "os=android,ios+ipados, or cuts such as app_version=2.0,3.0; all other devices are 'other'. Each value has a task "
    "of its own; a device reports one, at the same cost. '' for none."
)
COLUMNS: Final = ("value", "reports", "arms", "difference, 95 %", "p", "adjusted p")


def one_dimension(texts: list[str] | None) -> str | None:
    """Return the dimension of an option; None: it was not given.

    Raises:
        typer.BadParameter: it was given twice, so that two dimensions would be crossed.
    """
    if texts is None:
        return None
    if len(texts) > 1:
        bound = "one dimension: two together would leave each pair of values too few devices"
        raise typer.BadParameter(f"{bound}; got {' and '.join(texts)}", param_hint="--dimension")
    return texts[0]


def dimension_rows(experiment: "Experiment", view: "DimensionView") -> list[list[str]]:
    """Return a row for each value and arm, under `COLUMNS`."""
    rows = []
    for stratum in view.strata:
        count = f"{stratum.report_count:,}"
        if not stratum.differences:
            obstacle = name_arms(stratum.obstacle, experiment.arms) or TOO_FEW
            rows.append([stratum.value, count, "none", obstacle, "none yet", "none yet"])
        for each in stratum.differences:
            names = f"{experiment.arms[each.arm].name} - {experiment.arms[each.versus].name}"
            shown = spell_estimate(each.difference, experiment.primary)
            rows.append([stratum.value, count, names, shown, spell_p_value(each.p), spell_p_value(each.adjusted_p)])
    return rows


def dimension_notes(experiment: "Experiment", view: "DimensionView") -> list[str]:
    """Return what stands beside the rows: one sentence each."""
    first = (
        f"By {view.dimension}; this decides nothing. Intervals hold one by one; p-values are valid whenever they are"
        " read, and adjusted for all values and arms (Benjamini and Hochberg)."
    )
    tests = [
        f"{experiment.arms[each.arm].name} - {experiment.arms[0].name}, the same in all values that are shown?"
        f" Cochran's Q = {each.q:.2f} with {each.degrees} degrees of freedom, p = {each.p:.2g} (at one reading)."
        for each in view.heterogeneity
    ]
    return [first, *tests]


def show_dimension(experiment: "Experiment", view: "DimensionView | None") -> None:
    """Print each arm against the control in each value, if there is a dimension."""
    if view is None:
        return
    first, *others = dimension_notes(experiment, view)
    say(first)
    print_table(list(COLUMNS), dimension_rows(experiment, view))
    for note in others:
        say(note)
