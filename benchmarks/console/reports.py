"""Makes what an experiment of the seed has heard: reports as devices would send them, and the analyses made of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from alcove.platform.domain.experiment_records import InterimAnalysis, PairRecord, StoredDecision
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.privacy.randomized_response import RandomizedResponse

__all__ = ["count_reports", "with_analyses"]

ACCEPTED: Final = (0.60, 0.614)  # share of the answers, by arm
REPORTS: Final = 400_000
LOOKS: Final = 4
DAY_S: Final = 86_400


def count_reports(record: ExperimentRecord) -> Mapping[tuple[str, int, int], int]:
    """Return counts by task, window and cell: as many as randomized reports of such devices are expected to name."""
    task = task_of(record)
    layout, arms = task.layout, len(record.arms)
    true = np.zeros(layout.cell_count)
    for arm, share in enumerate(ACCEPTED):
        true[layout.cell_index(arm, 0, 0, 0)] = (1.0 - share) / arms
        true[layout.cell_index(arm, 1, 0, 0)] = share / arms
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    expected = REPORTS * (other + (keep - other) * true)
    return {(task.task_id, 0, cell): int(count) for cell, count in enumerate(expected)}


def with_analyses(record: ExperimentRecord) -> ExperimentRecord:
    """Return the experiment with its interim analyses: intervals that get narrower with the reports."""
    started_s = record.started_at_s or record.created_at_s
    made = []
    for look in range(1, LOOKS + 1):
        reports = REPORTS * look // LOOKS
        middle, width = 0.014 + 0.008 / look * (-1) ** look, 0.028 / look**0.5
        low, high = middle - width, middle + width
        is_found = low > 0
        words = "treatment is better" if is_found else "no difference is shown yet"
        kind, code = ("winner", "better") if is_found else ("inconclusive", "interval_includes_zero")
        decision = StoredDecision(kind, 1 if is_found else None, code, words)
        pair = PairRecord(1, 0, middle, low, high, 0.04 if is_found else 0.3 / look)
        made.append(InterimAnalysis(reports, look / (LOOKS + 1), 2.4, started_s + look * DAY_S // 2, decision, (pair,)))
    planned = REPORTS * (LOOKS + 1) // LOOKS
    plan = replace(record.plan, interim_analyses=LOOKS + 1, planned_reports=planned, horizon_reports=planned)
    analyzed = replace(record, interim_analyses=tuple(made), plan=plan, decision=None)
    return replace(analyzed, task_id=task_of(analyzed).task_id)  # the digest of its terms, by which reports are counted
