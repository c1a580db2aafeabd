"""Cuts a module that shows something down to the lines that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.modules.source import Source, Step

if TYPE_CHECKING:
    from collections.abc import Callable


def minimise(source: Source, shows: Callable[[Source], bool]) -> Source:
    """Return the smallest module that was found for which `shows` holds; it holds for `source`."""
    found = _one_output(source, shows)
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(found):
            if shows(smaller):
                found, changed = smaller, True
                break
    return found


def _one_output(source: Source, shows: Callable[[Source], bool]) -> Source:
    for step in source.steps:
        smaller = source.cut((step.name,))
        if shows(smaller):
            return smaller
    for output in source.outputs:
        smaller = source.cut((output,))
        if shows(smaller):
            return smaller
    return source


def _smaller(source: Source) -> list[Source]:
    """Return the module with one line replaced by a value before it, for each line and value; in eager it must run."""
    results = []
    for at, step in enumerate(source.steps):
        if step.name in source.outputs:
            continue
        for earlier in [each.name for each in source.inputs] + [each.name for each in source.steps[:at]]:
            steps = (*source.steps[:at], Step(step.name, earlier), *source.steps[at + 1 :])
            if step.expression == earlier:
                continue
            smaller = source.cut(source.outputs, steps)
            if _runs(smaller):
                results.append(smaller)
    return results


def _runs(source: Source) -> bool:
    try:
        module = source.module()
        for sizes in source.all_sizes():
            module(*source.arguments(sizes))
    except Exception:  # noqa: BLE001 - whatever eager says
        return False
    return True
