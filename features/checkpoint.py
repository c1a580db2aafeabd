"""How does a training run survive being cut off?  Weights, optimiser and step in one file, replaced whole."""

from pathlib import Path

import torch
from torch import nn


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
