"""Writes the cells of an experiment's reports as CSV or Parquet: one row a cell, in the order of the counts."""

import csv
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.cli.few_reports import arm_note
from alcove.platform.domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from alcove.platform.client import CellTable, ExperimentReport

__all__ = ["COLUMNS", "cell_text", "cells_in", "parquet_of", "rows_of", "table_of"]

COLUMNS: Final[tuple[str, ...]] = (
    "arm",
    "version",
    "outcomes",
    "latency_from_ms",
    "latency_below_ms",
    "earlier_share_bin",
    "count",
    "estimate",
    "noise_standard_error",
    "numerator_weight",
    "denominator_weight",
    "metric_bin",
    "note",
)
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def cells_in(report: "ExperimentReport") -> "CellTable":
    """Return the cells of a report.

    Raises:
        InvalidFieldError: it came without them.
    """
    cells = report.results.cells
    if cells is None:
        raise InvalidFieldError("results.cells", "there: a server of the version of this command sends them", None)
    return cells


def rows_of(report: "ExperimentReport") -> list[dict[str, Any]]:
    """Return one row for each cell, by the names of `COLUMNS`; None where a cell has no such thing.

    `note` says of which arms nothing can be read yet, and is "" for the others.
    """
    arms = report.experiment.arms
    notes = [arm_note(report.experiment, arm) for arm in report.results.arms]
    return [
        {
            "arm": arms[row.arm].name,
            "version": arms[row.arm].version,
            "outcomes": " ".join(row.outcomes),
            **{name: getattr(row, name) for name in COLUMNS[3:-1]},
            "note": notes[row.arm],
        }
        for row in cells_in(report).rows
    ]


def table_of(report: "ExperimentReport") -> str:
    """Return the cells as CSV (RFC 4180), numbers by their shortest exact spelling."""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for row in rows_of(report):
        writer.writerow({**row, "arm": cell_text(row["arm"])})
    return text.getvalue()


def parquet_of(report: "ExperimentReport") -> bytes:
    """Return the cells as Parquet."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")  # optional
    rows = rows_of(report)
    kinds = {"arm": pa.string(), "version": pa.string(), "outcomes": pa.string(), "note": pa.string()}
    kinds |= {"earlier_share_bin": pa.int32(), "count": pa.int64(), "metric_bin": pa.int32()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in COLUMNS])
    table = pa.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=schema)
    data = io.BytesIO()
    pq.write_table(table, data)
    return data.getvalue()


def cell_text(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(_FORMULA_STARTS) else name
