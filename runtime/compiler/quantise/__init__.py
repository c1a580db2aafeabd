"""Which numbers of a program take fewer bits?"""

from typing import Final

from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.quantise.tables import with_int8_tables

MODES: Final = (None, "int8")


def quantise(graph: Graph, mode: str | None) -> Graph:
    """Return the graph with tables stored as `mode` says: None leaves everything as it is."""
    return graph if mode is None else with_int8_tables(graph)
