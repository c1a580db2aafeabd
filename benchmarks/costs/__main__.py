"""Measure and fit the costs that the exporter chooses by: `python -m benchmarks.costs [--only FORM] [--json FILE]`.

Times convolutions of many sizes in every form, by turns on one core, and fits the costs that
`runtime/compiler/costs.py` holds, so that the relative error is least.  Prints them beside those that are there, the
error of both, and every choice that the present costs get wrong by more than a tenth.
"""

from dataclasses import asdict
from typing import Final

from rich.table import Table

from benchmarks.costs import pointwise, separable, winograd
from benchmarks.costs.fit import Fit
from benchmarks.figures import pin
from benchmarks.options import parser, wide_console, write_json

FORMS: Final = {"winograd": winograd, "separable": separable, "pointwise": pointwise}


def main() -> None:
    """Measure, fit, print."""
    options = parser("benchmarks.costs", __doc__, list(FORMS)).parse_args()
    pin()
    console = wide_console()
    rows = []
    for name in options.only or FORMS:
        form = FORMS[name]
        measured = form.measure(is_quiet=not console.is_terminal)
        found = form.fits(measured)
        console.print(_table(found))
        problems = [each.problem for each in measured if each.problem]
        for problem in problems:
            console.print(f"wrong choice: {problem}")
        chosen, plain = (_shares([getattr(each, share) for each in measured]) for share in ("excess", "plain_excess"))
        console.print(f"{name}: the choices take {chosen} of the best form's time, without a choice {plain}")
        console.print(f"{name}: {len(problems)} of {len(measured)} choices are wrong by more than a tenth")
        rows.append({"measured": [asdict(each) for each in measured], "fits": [asdict(each) for each in found]})
    write_json(options.json, rows)


def _shares(excesses: list[float]) -> str:
    return f"{sum(excesses) / len(excesses):.3f} (mean) to {max(excesses):.2f}"


def _table(found: list[Fit]) -> Table:
    table = Table("form", "costs, ns", "fitted here", "expected / measured", "with the fitted")
    for each in found:
        costs, fitted = (", ".join(f"{cost:.3g}" for cost in costs) for costs in (each.present, each.fitted))
        spread = ["{:.2f} … {:.2f}".format(*ratios) for ratios in (each.spread, each.fitted_spread)]
        table.add_row(each.form, costs, fitted, *spread)
    return table


if __name__ == "__main__":
    main()
