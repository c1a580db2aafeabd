"""Says when the interim analyses of an experiment that are still to come are due, and what a difference must reach."""

import math
from dataclasses import dataclass

from alcove.platform.client import Experiment
from alcove.platform.domain.experiments.analysis import ALPHA
from alcove.platform.domain.experiments.schedule import later_analyses
from alcove.platform.stats import GroupSequential, StatsError

__all__ = ["LaterLook", "list_later_looks"]


@dataclass(frozen=True)
class LaterLook:
    """An interim analysis that is planned.

    Attributes:
        report_count: at which it is due.
        fraction: of the planned information that is in then, at most 1.
        boundary: standard errors that a difference must reach then; None: nothing can be called so early.
    """

    report_count: int
    fraction: float
    boundary: float | None


def list_later_looks(experiment: Experiment) -> tuple[LaterLook, ...]:
    """Return the looks after those that were made, if none is late; () where no other follows.

    The first boundaries of a plan take a tenth of a second; call it in a thread.
    """
    plan, made = experiment.plan, experiment.interim_analyses
    is_over = experiment.state == "stopped" or (made and made[-1].decision.kind == "winner")
    if is_over or not plan.interim_analyses or not plan.planned_reports:
        return ()
    reports = [look.report_count for look in made]
    found = []
    try:
        for due in later_analyses(reports, plan.interim_analyses, plan.planned_reports):
            reports.append(due)
            test = GroupSequential(tuple(reports), plan.planned_reports)
            boundary = test.critical_value(reports=due, alpha=ALPHA)
            found.append(LaterLook(due, test.fraction, boundary if math.isfinite(boundary) else None))
    except StatsError:  # looks nearer to each other than statistics accept: nothing is promised of those that follow
        return tuple(found)
    return tuple(found)
