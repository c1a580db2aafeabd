"""Reads the published GTCRN weights into the network: batch norms folded, transposed convolutions turned round.

Source of the weights: "GTCRN" (Rong and others), MIT, trained on the DNS3 challenge's data.
"""

from pathlib import Path
from typing import Final

import torch
from alcove.features.noise_suppression.network import DualPathBlock, NoiseNetwork, TemporalBlock
from torch import Tensor, nn

EPSILON: Final = 1e-5
"""Of the batch norms."""

State = dict[str, Tensor]


def load_state(folder: Path) -> State:
    """Return the tensors of `folder`/model.safetensors.

    Raises:
        FileNotFoundError: there is no such file.
    """
    from safetensors.torch import load_file  # noqa: PLC0415 - not a dependency of the feature

    path = folder / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: --weights is the folder of the published weights")
    return load_file(path)


def published_network(folder: Path) -> NoiseNetwork:
    """Return the network with the published weights; its activity layers are new.

    Args:
        folder: with the folder "gtcrn".

    Raises:
        FileNotFoundError: the weights are missing.
        KeyError: a tensor of the network is not among them.
        ValueError: they hold a tensor that the network has no place for, or one of another shape.
    """
    state = load_state(folder / "gtcrn")
    network = NoiseNetwork().eval()
    with torch.no_grad():
        _fill(network, state)
    if state:
        raise ValueError(f"expected the tensors of GTCRN; {len(state)} are of no use, among them {min(state)!r}")
    return network


def _fill(network: NoiseNetwork, state: State) -> None:
    _copy(network.bands, state, "erb.erb_fc")
    _copy(network.bins, state, "erb.ierb_fc")
    for place, (conv, act) in enumerate(
        ((network.first, network.first_act), (network.second, network.second_act)),
    ):
        _fold(conv, state, f"encoder.en_convs.{place}.conv", f"encoder.en_convs.{place}.bn")
        _copy(act, state, f"encoder.en_convs.{place}.act")
    for place, block in enumerate(network.encoder):
        _temporal(block, state, f"encoder.en_convs.{place + 2}", transposed=False)
    for place, block in enumerate(network.decoder):
        _temporal(block, state, f"decoder.de_convs.{place}", transposed=True)
    for place, block in enumerate(network.middle):
        _dual_path(block, state, f"dpgrnn{place + 1}")
    _fold(network.third, state, "decoder.de_convs.3.conv", "decoder.de_convs.3.bn")
    _copy(network.third_act, state, "decoder.de_convs.3.act")
    _fold(network.last, state, "decoder.de_convs.4.conv", "decoder.de_convs.4.bn")


def _temporal(block: nn.Module, state: State, name: str, *, transposed: bool) -> None:
    if not isinstance(block, TemporalBlock):
        raise TypeError(f"expected a temporal block, not {type(block).__name__}")
    if transposed:
        # A transposed convolution of stride 1 is a convolution with the kernel turned round.
        for conv in ("point_conv1", "point_conv2"):
            state[f"{name}.{conv}.weight"] = state[f"{name}.{conv}.weight"].transpose(0, 1)
        state[f"{name}.depth_conv.weight"] = state[f"{name}.depth_conv.weight"].flip(2, 3)
    _fold(block.point_conv1, state, f"{name}.point_conv1", f"{name}.point_bn1")
    _copy(block.point_act, state, f"{name}.point_act")
    _fold(block.depth_conv, state, f"{name}.depth_conv", f"{name}.depth_bn")
    _copy(block.depth_act, state, f"{name}.depth_act")
    _fold(block.point_conv2, state, f"{name}.point_conv2", f"{name}.point_bn2")
    _copy(block.att_gru, state, f"{name}.tra.att_gru")
    _copy(block.att_fc, state, f"{name}.tra.att_fc")


def _dual_path(block: nn.Module, state: State, name: str) -> None:
    if not isinstance(block, DualPathBlock):
        raise TypeError(f"expected a dual-path block, not {type(block).__name__}")
    for path in ("intra", "inter"):
        for place, layer in enumerate(getattr(block, path)):
            _copy(layer, state, f"{name}.{path}_rnn.rnn{place + 1}")
        _copy(getattr(block, f"{path}_fc"), state, f"{name}.{path}_fc")
        _copy(getattr(block, f"{path}_ln"), state, f"{name}.{path}_ln")


def _copy(module: nn.Module, state: State, name: str) -> None:
    for key, parameter in module.named_parameters():
        value = state.pop(f"{name}.{key}")
        if value.shape != parameter.shape:
            raise ValueError(f"{name}.{key} must have the shape {list(parameter.shape)}, not {list(value.shape)}")
        parameter.copy_(value)


def _fold(conv: nn.Conv2d | nn.ConvTranspose2d, state: State, name: str, norm: str) -> None:
    """Copy a convolution with the batch norm behind it: the factor goes to the weights of each output channel."""
    factor = state.pop(f"{norm}.weight") / torch.sqrt(state.pop(f"{norm}.running_var") + EPSILON)
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    if isinstance(conv, nn.ConvTranspose2d):
        # [in, out / groups, ...]: the inputs of a group go to the outputs of that group.
        groups = conv.groups
        by_group = weight.reshape(groups, -1, *weight.shape[1:]) * factor.reshape(groups, 1, -1)[..., None, None]
        state[f"{name}.weight"] = by_group.flatten(0, 1)
    else:
        state[f"{name}.weight"] = weight * factor[:, None, None, None]
    mean, shift = state.pop(f"{norm}.running_mean"), state.pop(f"{norm}.bias")
    state[f"{name}.bias"] = (bias - mean) * factor + shift
    state.pop(f"{norm}.num_batches_tracked", None)
    _copy(conv, state, name)
