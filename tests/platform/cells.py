"""Puts counts by arm, outcome and bin into the cells of a task."""

import numpy as np
from alcove.registry.policy import TaskPolicy
from numpy.typing import ArrayLike, NDArray


def cells_of(task: TaskPolicy, counts: ArrayLike) -> NDArray[np.float64]:
    """Per cell of a task the sum of the counts [arm, outcome, bins] in it; what the task does not count is left out.

    Bins are those of latency times those of the earlier share; a group without latency has all of them in its one.
    """
    layout = task.layout
    full = np.asarray(counts, np.float64)
    full = full.reshape(*full.shape[:2], -1, layout.covariate_bins)
    found = np.zeros(layout.cell_count)
    for (arm, outcome, latency, covariate), count in np.ndenumerate(full):
        if layout.is_counted(outcome):
            place = min(latency, layout.latency_bins_of(outcome) - 1)
            found[layout.cell_index(arm, outcome, place, covariate)] += count
    return found
