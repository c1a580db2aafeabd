"""Defines the states of rollouts, experiments and versions; loads nothing, so that a command line can name them."""

from enum import StrEnum

__all__ = ["ExperimentState", "RolloutState", "VersionState"]


class RolloutState(StrEnum):
    """State of a rollout; the transitions are drawn in `rollouts/machine.py`."""

    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    HALTED = "halted"


class ExperimentState(StrEnum):
    """State of an experiment; the transitions are drawn in `experiments/machine.py`."""

    DRAFT = "draft"
    RUNNING = "running"
    STOPPED = "stopped"


class VersionState(StrEnum):
    """State of a version; the transitions are drawn in `catalog/lifecycle.py`."""

    REGISTERED = "registered"
    VALIDATED = "validated"
    RELEASED = "released"
    DEPRECATED = "deprecated"
    REVOKED = "revoked"
