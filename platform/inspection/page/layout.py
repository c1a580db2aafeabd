"""Lays out the picture of a graph: each operator in the row after the last one that it waits for."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["layout_of"]


def layout_of(ops: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the places of operators and the edges between them.

    Args:
        ops: in the order in which they run, each with the indices of its `inputs` and `outputs`.

    Returns:
        `nodes`: (row, column) of each operator, columns from 0; `edges`: (from, to, tensor), operators by index;
        `rows` and `columns`: how many.
    """
    writer = {tensor: index for index, op in enumerate(ops) for tensor in op["outputs"]}
    edges = [
        (writer[tensor], index, tensor)
        for index, op in enumerate(ops)
        for tensor in dict.fromkeys(op["inputs"])
        if tensor in writer and writer[tensor] < index
    ]
    parents: dict[int, list[int]] = {}
    for start, end, _ in edges:
        parents.setdefault(end, []).append(start)
    rows = [0] * len(ops)
    for index in range(len(ops)):
        rows[index] = max((rows[parent] + 1 for parent in parents.get(index, ())), default=0)
    columns = _columns(rows, parents)
    return {
        "nodes": list(zip(rows, columns, strict=True)),
        "edges": edges,
        "rows": max(rows, default=-1) + 1,
        "columns": max(columns, default=-1) + 1,
    }


def _columns(rows: Sequence[int], parents: Mapping[int, Sequence[int]]) -> list[int]:
    """Return a column for each: as near to those of its parents as its row has room, in a sweep from the top."""
    columns = [0] * len(rows)
    for row in range(max(rows, default=-1) + 1):
        here = [index for index, at in enumerate(rows) if at == row]
        wanted = {
            index: sum(columns[p] for p in parents[index]) / len(parents[index]) if parents.get(index) else 0.0
            for index in here
        }
        last_row = -1
        for index in sorted(here, key=lambda index: (wanted[index], index)):
            last_row = max(last_row + 1, round(wanted[index]))
            columns[index] = last_row
    return columns
