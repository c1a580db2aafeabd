"""Names the privacy mechanisms by which reports become sums."""

from enum import StrEnum


class Mechanism(StrEnum):
    """Privacy mechanism of the reports."""

    EXACT = "exact"
    """None: the counts as they are, to compare the others with; no task has it."""
    RANDOMIZED_RESPONSE = "randomized-response"
    """Each device tells a randomized cell: what one server can do."""
    PRIO3 = "prio3"
    """Two aggregators add up shares of exact cells, and each adds discrete Laplace noise to each window's sums."""
