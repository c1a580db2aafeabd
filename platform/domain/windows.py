"""Says until when reports of a window are taken.  Pure."""

from alcove.platform.domain import limits
from alcove.registry.policy import TaskPolicy

__all__ = ["first_open_window"]


def first_open_window(task: TaskPolicy, now_s: int) -> int | None:
    """Return the first window of which randomized reports are still taken; None: the first has not begun."""
    late_s = limits.WINDOW_OPEN_S + limits.WINDOWS_OPEN * task.window_s
    return task.window_at(max(task.first_window_start_s, now_s - late_s))
