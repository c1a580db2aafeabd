"""Provides pre- and post-processing for torch modules, in training and in export.

`alcove::ngram_hash` is registered with torch as a custom operator: eager calls run the same native code as a program on
a device, and `torch.export` sees one node with a known bound.  The modules below are the usual way to use it, to take a
picture as bytes, and to give names.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import _native
from torch import Tensor, nn

NGRAM_MAX_ORDER: Final = 8
NGRAM_MAX_BUCKETS: Final = 2**31 - 1
SEED_LIMIT: Final = 2**63  # torch's integers are signed; the format's seed has 64 bits


@torch.library.custom_op("alcove::ngram_hash", mutates_args=(), device_types="cpu")
def ngram_hash(  # noqa: PLR0917 - the operator's schema
    utf8: Tensor, min_order: int, max_order: int, buckets: int, seed: int, capacity: int, table: Tensor | None = None
) -> Tensor:
    """Return the ids of the hashed character n-grams and words of a text.

    Args:
        utf8: uint8 [bytes], the text in UTF-8; may be empty.
        min_order: shortest n-gram in characters, >= 1.
        max_order: longest n-gram in characters, <= 8.
        buckets: ids are in [0, buckets).
        seed: start of the hash, in [0, 2**63).
        capacity: at most this many ids are made; later text is not read.
        table: uint8 [bytes], composes text first (`composition.make_composition_table`); None: text as it is.

    Returns:
        int64 [ids], ids <= capacity, in the order of the text.

    Raises:
        InvalidTextError: the bytes that were read are not UTF-8.
        InputError: the table is none.

    Source: kernels/microkernels/ngram_hash/README.md.
    """
    bytes_ = None if table is None else table.numpy().tobytes()
    ids = _native.ngram_hash(utf8.numpy().tobytes(), min_order, max_order, buckets, seed, capacity, bytes_)
    return torch.from_numpy(ids).to(torch.int64)


@ngram_hash.register_fake
def _(  # noqa: PLR0917 - the operator's schema
    utf8: Tensor,
    min_order: int,  # noqa: ARG001
    max_order: int,  # noqa: ARG001
    buckets: int,  # noqa: ARG001
    seed: int,  # noqa: ARG001
    capacity: int,
    table: Tensor | None = None,  # noqa: ARG001
) -> Tensor:
    """Tell a tracer what comes out: between 0 and `capacity` ids."""
    count = torch.library.get_ctx().new_dynamic_size(min=0, max=capacity)
    return utf8.new_empty((count,), dtype=torch.int64)


class NgramHash(nn.Module):
    """Text to ids, as `ngram_hash`; has no parameters, and a buffer `table` where there is one.

    Args:
        min_order: shortest n-gram in characters, 1 <= min_order <= max_order.
        max_order: longest n-gram in characters, <= 8.
        buckets: ids are in [0, buckets); the rows of the table that they index.
        seed: start of the hash, in [0, 2**63).
        capacity: most ids of one text, >= 1; it bounds the time and the memory of a prediction.
        table: composes text first, as `composition.make_composition_table` gives it; None for text as it is.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(  # noqa: PLR0917 - those of the operator
        self, min_order: int, max_order: int, buckets: int, seed: int, capacity: int, table: bytes | None = None
    ) -> None:
        super().__init__()
        if not 1 <= min_order <= max_order <= NGRAM_MAX_ORDER:
            raise ValueError(f"orders must hold 1 <= min <= max <= {NGRAM_MAX_ORDER}, not {min_order}, {max_order}")
        if not 1 <= buckets <= NGRAM_MAX_BUCKETS:
            raise ValueError(f"buckets must be in [1, {NGRAM_MAX_BUCKETS}], not {buckets}")
        if not 0 <= seed < SEED_LIMIT:
            raise ValueError(f"seed must be in [0, 2**63), not {seed}")
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.min_order = min_order
        self.max_order = max_order
        self.buckets = buckets
        self.seed = seed
        self.capacity = capacity
        held = None if table is None else torch.frombuffer(bytearray(table), dtype=torch.uint8)
        self.register_buffer("table", held)

    def forward(self, utf8: Tensor) -> Tensor:
        """Return int64 [ids] of the uint8 [bytes] `utf8`."""
        arguments = (self.min_order, self.max_order, self.buckets, self.seed, self.capacity)
        ids: Tensor = ngram_hash(utf8, *arguments, self.table)
        return ids

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return (
            f"min_order={self.min_order}, max_order={self.max_order}, buckets={self.buckets}, "
            f"seed={self.seed}, capacity={self.capacity}"
        )


class ImageToTensor(nn.Module):
    """A picture as a camera or a decoder gives it, to what a vision model takes; has no parameters.

    The picture is resized so that its shorter side becomes `resize`, the middle is cut out, and each channel is
    normalised.  All of it becomes part of a program, so that every device does the same.

    Args:
        size: (height, width) of what comes out, in pixels.
        resize: length of the shorter side before cutting, in pixels; None resizes to `size` without cutting.
        mean: of each channel, in [0, 1].
        std: of each channel, > 0.
        antialias: average over pixels when it makes smaller, as image libraries do.

    Raises:
        ValueError: a size is not positive, `resize` is below `size`, or a std is not positive.
    """

    def __init__(
        self,
        size: tuple[int, int],
        *,
        resize: int | None = None,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        antialias: bool = True,
    ) -> None:
        super().__init__()
        if min(size) < 1 or (resize is not None and resize < max(size)):
            raise ValueError(f"size must be positive and at most resize, got {size} and {resize}")
        if len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"std must hold {len(mean)} positive numbers, got {list(std)}")
        self.size = size
        self.resize = resize
        self.antialias = antialias
        self.register_buffer("scale", torch.tensor([1 / (255 * value) for value in std]), persistent=False)
        self.register_buffer("shift", torch.tensor([-m / s for m, s in zip(mean, std, strict=True)]), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return f32 [1, channels, height, width] of uint8 [height, width, channels] `pixels`."""
        scale, shift = self.get_buffer("scale"), self.get_buffer("shift")
        x = (pixels.to(torch.float32) * scale + shift).permute(2, 0, 1).unsqueeze(0)
        height, width = pixels.shape[0], pixels.shape[1]
        target = self.size
        if self.resize is not None:
            short = min(height, width)
            target = (height * self.resize // short, width * self.resize // short)
        x = F.interpolate(x, size=target, mode="bilinear", align_corners=False, antialias=self.antialias)
        top, left = (target[0] - self.size[0]) // 2, (target[1] - self.size[1]) // 2
        return x[:, :, top : top + self.size[0], left : left + self.size[1]]

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"size={self.size}, resize={self.resize}, antialias={self.antialias}"


class Ranked(NamedTuple):
    """The k largest of some scores: `values` f32 [1, k], descending, and their `indices` int64 [1, k]."""

    values: Tensor
    indices: Tensor


class LabelledTopK(nn.Module):
    """The k best of n scores; in an exported program the indices come back as labels.

    Args:
        labels: the name of each of the n scores, in order; unique and not empty.
        k: how many to give, 1 <= k <= n.

    Raises:
        ValueError: k is out of range, or a label is empty or repeated.
    """

    def __init__(self, labels: Sequence[str], k: int) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self.k = k
        if not 1 <= k <= len(self.labels):
            raise ValueError(f"k must be in [1, {len(self.labels)}], the number of labels, not {k}")
        if len(set(self.labels)) != len(self.labels) or not all(self.labels):
            raise ValueError("labels must be unique and not empty")

    def forward(self, scores: Tensor) -> Ranked:
        """Return the k largest of f32 [1, n] `scores` and their indices."""
        values, indices = torch.topk(scores, self.k)
        return Ranked(values, indices)

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"labels={len(self.labels)}, k={self.k}"
