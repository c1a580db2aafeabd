"""Chooses which analyses of a rollout are kept: those that found something new, of older ones fewer.  Pure.

     oldest                                                  newest
    |  the last of each period, at most 128  |  all, at most 32  |

A period is 1/24 of the reporting window, doubled until so many fit: each doubling joins two periods to one, so what a
longer period keeps the shorter one has kept.  A picture of a rollout of any age has so many points, and the number of
rows does not grow with time.
"""

from collections.abc import Sequence
from typing import Final

from alcove.platform.domain.rollout_records import AnalysisRecord, KeptAnalysis

__all__ = ["KEPT_NEWEST", "KEPT_OLDER", "is_news", "select_superfluous"]

KEPT_NEWEST: Final = 32  # analyses; half an hour of a busy rollout, which people watch
KEPT_OLDER: Final = 128  # analyses; a picture is about a thousand pixels wide
PERIODS_OF_WINDOW: Final = 24  # an hour of a day's window
SHORTEST_S: Final = 60  # seconds of a period


def is_news(last: KeptAnalysis | None, stage: int, found: AnalysisRecord) -> bool:
    """Return whether an analysis of a stage says anything that the last one that was kept does not.

    What changes with the clock alone is no news: when it was, how long the stage still lasts.
    """
    return last is None or (last.stage, *_findings(last.analysis)) != (stage, *_findings(found))


def select_superfluous(times_s: Sequence[int], window_s: int) -> list[int]:
    """Return the places of the analyses that need not be kept.

    Args:
        times_s: when all that are kept were made, the oldest first; seconds since 1970.
        window_s: reporting window of the rollout, seconds.
    """
    older = max(0, len(times_s) - KEPT_NEWEST)
    period_s = max(SHORTEST_S, window_s // PERIODS_OF_WINDOW)
    while True:
        last_of = {times_s[place] // period_s: place for place in range(older)}
        if len(last_of) <= KEPT_OLDER:
            kept = set(last_of.values())
            return [place for place in range(older) if place not in kept]
        period_s *= 2


def _findings(found: AnalysisRecord) -> tuple[object, ...]:
    return (found.decision, found.code, found.reports, found.pooled_reports, found.looks)
