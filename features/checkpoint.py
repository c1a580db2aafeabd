"""Runs training with checkpoints to resume from: weights, optimizer and step in one file, replaced whole."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import nn


class Plan(Protocol):
    """What `run_steps` needs of a training plan: steps between lines of progress, and between checkpoints."""

    @property
    def report_every(self) -> int: ...  # noqa: D102

    @property
    def checkpoint_every(self) -> int: ...  # noqa: D102


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
    return float(np.mean(losses[-plan.report_every :])) if losses else written_loss(folder)


def written_loss(folder: Path) -> float:
    """Return the loss in the last line of a run's progress, NaN where there is none."""
    progress = folder / "progress.jsonl"
    lines = progress.read_text(encoding="utf-8").splitlines() if progress.exists() else []
    return float(json.loads(lines[-1])["loss"]) if lines else float("nan")


def save(path: Path, network: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint; whoever reads meanwhile sees the one before."""
    new = path.with_suffix(".new")
    torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, new)
    new.replace(path)


def restore(path: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Load a checkpoint into network and optimiser, and return its step."""
    state = torch.load(path, weights_only=True)
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])
