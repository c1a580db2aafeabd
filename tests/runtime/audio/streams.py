"""What tests of streams share: hops of a signal, and a session that is fed with them."""

import torch
from alcove.runtime import export, load
from torch import Tensor, nn


def hops(signal: Tensor, hop: int) -> list[Tensor]:
    """Cut a signal into what a stream takes."""
    return [part.contiguous() for part in torch.split(signal, hop, -1) if part.shape[-1] == hop]


def run_session(module: nn.Module, parts: list[Tensor]) -> list[Tensor]:
    """Answers of one session of the exported module."""
    session = load(bytes(export(module.eval(), (torch.zeros_like(parts[0]),)))).session()
    return [torch.from_numpy(session(part.numpy())[0]) for part in parts]
