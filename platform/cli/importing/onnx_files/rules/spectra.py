"""Rules of discrete Fourier transforms, as products with cosines and sines."""

import math
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Call, Function, Node, normalize_axis, rule
from torch import Tensor

LARGEST_MATRIX: Final = 1 << 24
"""Elements of a matrix of cosines: 64 MiB in float32."""


def waves(length: int, bins: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of 2 pi n k / length, f32 [length, bins].

    Raises:
        UnsupportedError: there are too many.
    """
    if length < 1 or length * bins > LARGEST_MATRIX:
        raise UnsupportedError(f"a transform of length {length}")
    # Whole turns are taken off in integers: large angles would lose digits.
    turns = (torch.arange(length)[:, None] * torch.arange(bins)[None, :]) % length
    angles = turns.double() * (2 * math.pi / length)
    return torch.cos(angles).float(), torch.sin(angles).float()


@rule("DFT")
def dft(node: Node) -> Call:
    """Of real or complex numbers along one axis; zeros are added, or what is too long is cut off."""
    inverse, onesided = bool(node.int_of("inverse")), bool(node.int_of("onesided"))
    if inverse and onesided:
        raise UnsupportedError("inverse and onesided at once")
    given = node.integers(2, "axis")[0] if node.has(2) else node.int_of("axis", 1 if node.opset < 20 else -2)
    axis = normalize_axis(given, node.rank())
    is_complex = node.shape()[-1] == 2
    have = node.shape()[axis]
    length = node.integers(1, "length")[0] if node.has(1) else have
    cosines, sines = waves(length, length // 2 + 1 if onesided else length)
    sign, factor = (-1.0, 1.0 / length) if inverse else (1.0, 1.0)
    used = min(have, length)

    def transform(part: Tensor, matrix: Tensor) -> Tensor:
        return torch.matmul(part.movedim(axis, -1), matrix).movedim(-1, axis)

    def function(*given: Tensor) -> Tensor:
        x, cosines, sines = given[0].narrow(axis, 0, used), given[-2], given[-1]
        real = x[..., 0]
        left, right = transform(real, cosines), -sign * transform(real, sines)
        if is_complex:
            left = left + sign * transform(x[..., 1], sines)
            right = right + transform(x[..., 1], cosines)
        return torch.stack([left, right], -1)

    return Call(function, (cosines[:used] * factor, sines[:used] * factor), frozenset({1, 2}))


@rule("STFT")
def stft(node: Node) -> Call:
    """Of real numbers in frames, each times a window: a convolution with windowed waves."""
    batch, samples = node.shape()[:2]
    if node.rank() == 3 and node.shape()[2] == 2:
        raise UnsupportedError("complex numbers")
    step = node.integers(1, "frame_step")[0]
    window = node.constant(2, "window").float() if node.has(2) else None
    if node.has(3):
        length = node.integers(3, "frame_length")[0]
    elif window is not None:
        length = window.numel()
    else:
        raise UnsupportedError("neither a window nor frame_length")
    if not 1 <= length <= samples or step < 1 or (window is not None and window.numel() > length):
        raise UnsupportedError(f"frames of {length} at every {step} of {samples} samples")
    window = torch.ones(length) if window is None else window
    before = (length - window.numel()) // 2
    window = F.pad(window, (before, length - window.numel() - before))
    bins = length // 2 + 1 if node.int_of("onesided", 1) else length
    cosines, sines = waves(length, bins)
    weight = torch.cat([cosines.T * window, -sines.T * window])[:, None].contiguous()
    frames = (samples - length) // step + 1

    def function(*given: Tensor) -> Tensor:
        found = F.conv1d(given[0].reshape(batch, 1, samples), given[-1], stride=step)
        return found.reshape(batch, 2, bins, frames).permute(0, 3, 2, 1)

    return Call(function, (weight,), frozenset({1, 2, 3}))


@rule("MelWeightMatrix")
def mel_weights(node: Node) -> Function:
    """Triangles over bins of a spectrum, evenly apart in mel, as ONNX defines them: edges are rounded to bins."""
    bands, length, rate = (node.integers(index, "sizes")[0] for index in range(3))
    low, high = (float(node.constant(index, "bounds").item()) for index in (3, 4))
    bins = length // 2 + 1
    if bands < 1 or bins < 1 or bands * bins > LARGEST_MATRIX:
        raise UnsupportedError(f"{bands} bands of {bins} bins")
    first, last = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    edges = [first + (last - first) / (bands + 2) * index for index in range(bands + 2)]
    places = [math.floor((length + 1) * 700 * (10 ** (edge / 2595) - 1) / rate) for edge in edges]
    matrix = torch.zeros((bins, bands))
    for band in range(bands):
        begin, center, end = places[band : band + 3]
        if begin == center:
            matrix[center, band] = 1
        for place in range(begin, center + 1 if center > begin else begin):
            matrix[place, band] = (place - begin) / (center - begin)
        for place in range(center, end):
            matrix[place, band] = (end - place) / (end - center)
    return lambda *_bounds: matrix
