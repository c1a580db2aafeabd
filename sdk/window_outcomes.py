"""Chooses which outcome of a window is reported: the worst, and of those that are alike one drawn evenly.

    fallback  >  error, where the task tells it apart  >  refused, accepted, another error  >  answered

A report is of one arm: where a device changes its arm in a window, the arm of its first outcome has the window, and
outcomes under another one are left out, so that the worst of two arms is not told of one.

A crash is not hidden by answers of the version that stood in, an error not by the answers around it, and a device whose
app notes nothing is counted as one that used the feature.
"""

from typing import TYPE_CHECKING

from alcove.privacy.entropy import Entropy, uniform_below
from alcove.registry.policy.outcome import Outcome
from alcove.sdk.report_files import PendingOutcome

if TYPE_CHECKING:
    from alcove.registry.policy.task import TaskPolicy

__all__ = ["add_outcome"]


def add_outcome(pending: list[PendingOutcome], noted: PendingOutcome, entropy: Entropy) -> None:
    """Let an outcome, drawn out of `noted.seen`, into the draw of its window.

    Args:
        pending: the outcomes of all tasks and windows; changed in place.
        noted: the outcome.
        entropy: source of the draw.
    """
    entry = next((one for one in pending if one.is_of(noted.task, noted.window)), None)
    if entry is None:
        pending.append(noted)
        return
    if not entry.is_in_arm(noted.task.layout.axes(noted.cell).arm):
        return
    before, after = (_severity(one.task, one.outcome) for one in (entry, noted))
    if after > before:
        entry.outcome, entry.cell, entry.seen = noted.outcome, noted.cell, noted.seen
    elif after == before:
        entry.seen += noted.seen
        if uniform_below(entry.seen, entropy) < noted.seen:
            entry.outcome, entry.cell = noted.outcome, noted.cell


def _severity(task: "TaskPolicy", outcome: Outcome) -> int:
    if outcome is Outcome.FALLBACK:
        return 3
    if outcome is Outcome.ERROR:
        return 2 if task.layout.tells_apart((outcome,)) else 1
    return 0 if outcome is Outcome.ANSWERED else 1
