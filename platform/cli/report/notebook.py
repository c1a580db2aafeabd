"""Writes an experiment's results as a Jupyter notebook that has the cells inside and computes the numbers again.

Its code needs the standard library alone, so that nobody has to trust this package's statistics: estimates become sums,
sums a ratio in each arm, and the difference gets its standard error from sampling and from the noise's covariance.
Format: nbformat 4.5.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.cli.report.cells import cell_text, cells_in, table_of

if TYPE_CHECKING:
    from alcove.platform.client import ExperimentReport

__all__ = ["notebook_of"]

_INTRODUCTION: Final = """# Experiment {name}

The cells of its reports, and the numbers that `alcove experiment results` showed, computed again. The code needs the
standard library of Python alone.

- A cell is a place in the histogram of arm, outcome and latency, or of arm and bin of a team's own metric; `count` is
  what was reported, `estimate` what it says of the devices without the privacy noise's bias, in reports.
- The metric that decides is a ratio of two weighted sums of estimates in each arm.
- Standard errors hold sampling and privacy noise. The server adds one imagined report for each arm and outcome to the
  sampling part, so that they agree to about one in a thousand, not to the last digit.
"""
_DATA: Final = '''import csv, io, json, math

CELLS = {cells}
NOISE = json.loads({noise})  # covariance of the estimates, row by row up to the diagonal
SHOWN = json.loads({shown})

cells = list(csv.DictReader(io.StringIO(CELLS)))
arms = list(dict.fromkeys(cell["arm"] for cell in cells))
estimates = [float(cell["estimate"]) for cell in cells]
reports = SHOWN["reports"]


def covariance(one, other):
    """Covariance of the noise in two estimates."""
    high, low = max(one, other), min(one, other)
    return NOISE[high * (high + 1) // 2 + low]


print(f"{{len(cells)}} cells, {{reports:,}} reports, arms: {{', '.join(arms)}}")'''
_SHARES: Final = """for arm in arms:
    size = sum(n for cell, n in zip(cells, estimates) if cell["arm"] == arm)
    print(f"{arm}: {size / SHOWN['reports_per_device']:,.1f} devices, {size / reports:.2%} of the reports")"""
_DIFFERENCES: Final = """def read(arm):
    \"\"\"The metric of an arm, and what one report more in each cell would add to it.\"\"\"
    own = [cell["arm"] == arm for cell in cells]
    above = [float(cell["numerator_weight"]) if here else 0.0 for cell, here in zip(cells, own)]
    below = [float(cell["denominator_weight"]) if here else 0.0 for cell, here in zip(cells, own)]
    size = sum(w * n for w, n in zip(below, estimates))
    value = sum(w * n for w, n in zip(above, estimates)) / size
    return value, [(u - value * w) / size for u, w in zip(above, below)]


def differ(arm, versus):
    \"\"\"The difference of two arms and its standard error.\"\"\"
    (one, up), (other, down) = read(arm), read(versus)
    slopes = [a - b for a, b in zip(up, down)]
    counts = [max(n, 0.0) for n in estimates]
    mean = sum(s * n for s, n in zip(slopes, counts)) / reports
    sampling = sum(s * s * n for s, n in zip(slopes, counts)) - reports * mean**2
    noise = sum(
        a * b * covariance(i, j) for i, a in enumerate(slopes) if a for j, b in enumerate(slopes) if b
    )
    return one - other, math.sqrt(SHOWN["reports_per_device"] * sampling + noise)


computed = []
if cells[0]["numerator_weight"]:
    for pair in SHOWN["differences"]:
        value, error = differ(pair["arm"], pair["versus"])
        computed.append((value, error))
        low, high = value - 1.96 * error, value + 1.96 * error
        chance = 0.5 * math.erfc(-value / error / math.sqrt(2.0))
        print(f"{pair['arm']} - {pair['versus']}: {value:.6g}, shown {pair['value']:.6g}")
        print(f"  standard error {error:.3g}; read once: 95 % in [{low:.4g}, {high:.4g}]; above zero: {chance:.1%}")
        print(f"  always valid, as shown: [{pair['low']}, {pair['high']}]")
else:
    print("the metric that decides is a quantile: no ratio of sums")"""


def notebook_of(report: "ExperimentReport") -> str:
    """Return the notebook as JSON.

    Raises:
        InvalidFieldError: the report came without its cells.
    """
    experiment, found = report.experiment, report.results
    table = cells_in(report)
    shown = {
        "reports": found.report_count,
        "reports_per_device": table.reports_per_device,
        "decision": found.decision.model_dump(),
        "differences": [
            {
                "arm": cell_text(experiment.arms[pair.arm].name),
                "versus": cell_text(experiment.arms[pair.versus].name),
                **pair.difference.model_dump(),
            }
            for pair in found.pairs
            if pair.difference.value is not None
        ],
        "bayesian": found.bayesian.model_dump(),
    }
    data = _DATA.format(
        cells=_literal(table_of(report)),
        noise=_literal(json.dumps(table.noise_covariance)),
        shown=_literal(json.dumps(shown, ensure_ascii=True)),
    )
    cells = [
        _cell("markdown", "introduction", _INTRODUCTION.format(name=experiment.experiment_id)),
        _cell("code", "data", data),
        _cell("code", "shares", _SHARES),
        _cell("code", "differences", _DIFFERENCES),
    ]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    about["language_info"] = {"name": "python"}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _cell(kind: str, name: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _literal(text: str) -> str:
    """Return a Python literal of a text that others may have written a part of."""
    return ascii(text)
