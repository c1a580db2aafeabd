"""Runs training with checkpoints to resume from: weights, optimizer and step in one file, replaced whole."""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

Show = Callable[[int, float], None]


class Plan(Protocol):
    """What is needed of a training plan: steps in all, between lines of progress, and between checkpoints."""

    @property
    def steps(self) -> int: ...  # noqa: D102

    @property
    def report_every(self) -> int: ...  # noqa: D102

    @property
    def checkpoint_every(self) -> int: ...  # noqa: D102

    def learning_rate_at(self, step: int) -> float: ...  # noqa: D102


class ResumableTraining:
    """Trains in steps, and continues from the folder's checkpoint if there is one.

    Args:
        plan: how often progress is written and a checkpoint is made, and the learning rate of each step.
        folder: of the run.
        network: whose weights are kept.
        optimiser: of the network.
    """

    def __init__(self, plan: Plan, folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        self._plan = plan
        self._trained = network
        self.folder = folder
        self.optimiser = optimiser
        self.step = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint(self) -> Path:
        """Where the state is kept."""
        return self.folder / "checkpoint.pt"

    def resume(self) -> bool:
        """Load the checkpoint; return whether there was one."""
        if not self.checkpoint.exists():
            return False
        self.step = restore(self.checkpoint, self._trained, self.optimiser)
        return True

    def save(self) -> None:
        """Make a checkpoint."""
        save(self.checkpoint, self._trained, self.optimiser, self.step)

    def run_batches(self, train_batch: Callable[[], float], until: int | None, show: Show | None) -> float:
        """Train to the end, or to step `until`, and return the mean loss of the last steps (NaN if there were none).

        Args:
            train_batch: trains the next batch, counts it in `step`, and returns its loss.
            until: the last step.
            show: is called with the step and its loss after each.
        """
        last = self._plan.steps if until is None else min(until, self._plan.steps)

        def train_and_show() -> float:
            for group in self.optimiser.param_groups:
                group["lr"] = self._plan.learning_rate_at(self.step)
            loss = train_batch()
            if show is not None:
                show(self.step, loss)
            return loss

        return run_steps(range(self.step, last), self._plan, self.folder, train_and_show, self.save)


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json`: what is known about a run, and the versions of what trained it."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    (folder / "run.json").write_text(json.dumps(record | versions, indent=2) + "\n", encoding="utf-8")


def run_steps(
    steps: range, plan: Plan, folder: Path, train_batch: Callable[[], float], save_now: Callable[[], None]
) -> float:
    """Train, and return the mean loss of the last steps; of a run that was at its end already, as it was written down.

    A line of `progress.jsonl` in the folder has step, mean loss since the line before, and seconds since the beginning.

    Args:
        steps: numbers of the batches to train.
        plan: how often progress is written and a checkpoint is made; both also after the last step.
        folder: of the run.
        train_batch: trains the next batch and returns its loss.
        save_now: makes a checkpoint.
    """
    began_s = time.monotonic()
    losses: list[float] = []
    for done in range(steps.start + 1, steps.stop + 1):
        losses.append(train_batch())
        if done % plan.report_every == 0 or done == steps.stop:
            mean = float(np.mean(losses[-plan.report_every :]))
            line = {"step": done, "loss": round(mean, 5), "seconds": round(time.monotonic() - began_s, 1)}
            with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if done % plan.checkpoint_every == 0 or done == steps.stop:
            save_now()
    return float(np.mean(losses[-plan.report_every :])) if losses else read_last_loss(folder)


def read_last_loss(folder: Path) -> float:
    """Return the loss in the last line of a run's progress, NaN where there is none."""
    progress = folder / "progress.jsonl"
    lines = progress.read_text(encoding="utf-8").splitlines() if progress.exists() else []
    return float(json.loads(lines[-1])["loss"]) if lines else float("nan")


def save(path: Path, network: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint; a concurrent reader sees the one before."""
    new = path.with_suffix(".new")
    torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, new)
    new.replace(path)


def restore(path: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Load a checkpoint into network and optimiser, and return its step."""
    state = torch.load(path, weights_only=True)
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])
