"""Checks all samples of one operator: what a worker process does."""

from dataclasses import dataclass

import torch

from benchmarks.coverage.case import NativeRun, Outcome, Status, check, run_natively
from benchmarks.coverage.samples import samples_of
from benchmarks.coverage.sources import FIRST_OUTPUT_ONLY


@dataclass(frozen=True)
class OperatorCheck:
    """Called with the name of an operator, checks its samples.

    Attributes:
        per_group: as `samples_of` takes it.
        run: runs a program; a test passes a wrong one.
    """

    per_group: int
    run: NativeRun = run_natively

    def __call__(self, name: str) -> list[Outcome]:
        """Return the outcomes of all samples, in their order."""
        torch.set_num_threads(1)
        first_output_only = name in FIRST_OUTPUT_ONLY
        samples = samples_of(name, self.per_group)
        return [check(sample, first_output_only=first_output_only, run=self.run) for sample in samples]


def lost_outcomes(name: str, reason: str) -> list[Outcome]:
    """Return what stands for an operator whose process died."""
    return [Outcome(Status.WRONG, "", name, reason)]
