"""Defines what a policy assigns to a device, the reason, and the steps on the way to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.registry.parameters import Setting
    from alcove.registry.policy.audience import Audience
    from alcove.registry.policy.document import ExperimentPolicy, RolloutPolicy, VersionRef
    from alcove.registry.policy.task import TaskPolicy

__all__ = ["Candidate", "Check", "Kept", "Reason", "Resolution", "Step"]


class Reason(StrEnum):
    """Why a device runs the version it runs."""

    HOLDOUT = "holdout"
    EXPERIMENT = "experiment"
    ROLLOUT = "rollout"
    DEFAULT = "default"


class Check(StrEnum):
    """One question of the drawing above."""

    HALT = "halt"
    HOLDOUT = "holdout"
    LAYER = "layer"
    AUDIENCE = "audience"
    BUCKET = "bucket"
    DIMENSION = "dimension"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Step:
    """One question that was asked on the way to a version.

    Attributes:
        subject: what it is about, such as "experiment ex-1".
        check: the question.
        passed: whether the resolution continues here; False: this part of the policy does not choose.
        detail: with the bound and the value.
    """

    subject: str
    check: Check
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """The version that one device runs for one feature, and the reason.

    Attributes:
        version: the version to run.
        reason: which part of the policy chose it.
        arm: number of the arm, in an experiment or a rollout that compares (0 = control, 1 = treatment).
        experiment_id: only in an experiment.
        task: what the device may report, in an experiment, a rollout with tasks or a read-out: the one that is drawn
            for it.
        group: of the read-out whose task it is (`readout.py`); None: the task is of an experiment or a rollout.
        values: what the part that chose it gives parameters of the version.
        strata: of an experiment with a dimension, as long as the device's value is open: the task of each value.
    """

    version: VersionRef
    reason: Reason
    arm: int | None = None
    experiment_id: str | None = None
    task: TaskPolicy | None = None
    group: int | None = None
    strata: tuple[TaskPolicy, ...] = ()
    values: tuple[Setting, ...] = ()

    def place(self, value: int) -> Resolution:
        """Return it for a device with this value of the dimension, counted from 0."""
        return replace(self, task=self.strata[value], strata=()) if self.strata else self

    @property
    def reported_arm(self) -> int | None:
        """Number of the arm in the cells of the task."""
        return self.arm if self.group is None else self.group


@dataclass(frozen=True, slots=True)
class Kept:
    """The version that held-out devices of a read-out keep for one feature.

    Attributes:
        version: of the read-out's first day.
        resolution: of a device that keeps it; None on devices of the mirror group, which only fetch it.
    """

    version: VersionRef
    resolution: Resolution | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One part of a policy that has this device, as far as its audience does not keep the device out.

    Attributes:
        part: the experiment or the rollout; None for the default.
        resolution: what the device runs if it is in the audience; None: its default, which is halted.
        kept: what it runs instead, in a read-out's holdout, where it can; both of its groups fetch it.
    """

    part: ExperimentPolicy | RolloutPolicy | None
    resolution: Resolution | None
    kept: Kept | None = None

    @property
    def assigned(self) -> Resolution | None:
        """What the policy assigns to a device in the audience; None: its default, which is halted."""
        mine = None if self.kept is None else self.kept.resolution
        return self.resolution if mine is None else mine

    @property
    def audience(self) -> Audience | None:
        """Devices that may be in it; None for all."""
        return None if self.part is None else self.part.audience
