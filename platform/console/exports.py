"""Writes flat records as files to keep: CSV, Parquet and JSON.

A spreadsheet takes a cell that begins with one of `FORMULA_STARTS` for a formula; such a text gets an apostrophe before
it.  Numbers are written as they are: a negative one is none.  Source: OWASP, "CSV Injection".
"""

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

__all__ = ["FORMULA_STARTS", "Record", "can_write_parquet", "csv_of", "parquet_of"]

Record = dict[str, Any]
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_of(records: Sequence[Record]) -> str:
    """Return records of the same columns as CSV (RFC 4180); None is an empty cell; "" without records."""
    if not records:
        return ""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in record.items()} for record in records)
    return text.getvalue()


def can_write_parquet() -> bool:
    """Return whether pyarrow is there (alcove-platform[parquet])."""
    return find_spec("pyarrow") is not None


def parquet_of(records: Sequence[Record]) -> bytes:
    """Return records of the same columns as Parquet; a column without any value is of type null.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
    """
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")  # optional
    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(records)), data)
    return data.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
