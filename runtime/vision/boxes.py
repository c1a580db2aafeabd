"""Chooses among overlapping boxes: greedy non-maximum suppression, as detectors of things and of text end in it.

    kept = non_maximum_suppression(boxes, scores, iou_threshold=0.5, max_output=20, score_threshold=0.3)
    best = boxes.gather(1, kept.indices.clamp(min=0)[..., None].expand(-1, -1, 4))     # the first kept.counts are boxes

The answer has a fixed size. Steps and their order are fixed, so eager mode and every device keep the same boxes.
"""

import math
from typing import NamedTuple

import torch
from alcove.runtime import _native
from torch import Tensor

__all__ = ["KeptBoxes", "non_maximum_suppression"]

_CORNERS = 4


class KeptBoxes(NamedTuple):
    """Which boxes are kept, best first.

    Attributes:
        indices: int64 [batch, max_output]; -1 behind those that are in use.
        counts: int64 [batch]: how many are in use.
    """

    indices: Tensor
    counts: Tensor


@torch.library.custom_op("alcove::non_maximum_suppression", mutates_args=(), device_types="cpu")
def suppress_boxes(
    boxes: Tensor,
    scores: Tensor,
    classes: Tensor | None,
    *,
    iou_threshold: float,
    score_threshold: float,
    max_output: int,
) -> tuple[Tensor, Tensor]:
    """Return indices and counts; see `non_maximum_suppression`.

    Args:
        boxes: f32 [batch, count, 4], each size >= 1.
        scores: f32 [batch, count].
        classes: int64 [batch, count], or None: all are of one class.
        iou_threshold: in [0, 1].
        score_threshold: not NaN.
        max_output: >= 1.

    Returns:
        int64 [batch, max_output], int64 [batch].

    Raises:
        InputError: a number is out of its range, or the shapes don't agree.

    Source: kernels/microkernels/non_maximum_suppression/non_maximum_suppression.h.
    """
    labels = None if classes is None else classes.detach().contiguous().numpy()
    indices, counts = _native.non_maximum_suppression(
        boxes.detach().contiguous().numpy(),
        scores.detach().contiguous().numpy(),
        labels,
        iou_threshold,
        score_threshold,
        max_output,
    )
    return torch.from_numpy(indices), torch.from_numpy(counts)


@suppress_boxes.register_fake
def _(
    boxes: Tensor,
    scores: Tensor,  # noqa: ARG001
    classes: Tensor | None,  # noqa: ARG001
    *,
    iou_threshold: float,  # noqa: ARG001
    score_threshold: float,  # noqa: ARG001
    max_output: int,
) -> tuple[Tensor, Tensor]:
    """Tell a tracer what comes out."""
    batch = boxes.shape[0]
    indices = boxes.new_empty((batch, max_output), dtype=torch.int64)
    return indices, boxes.new_empty((batch,), dtype=torch.int64)


def non_maximum_suppression(
    boxes: Tensor,
    scores: Tensor,
    *,
    iou_threshold: float,
    max_output: int,
    score_threshold: float = -math.inf,
    classes: Tensor | None = None,
) -> KeptBoxes:
    """Return the best boxes, of which none overlaps a better one by more than the threshold.

    Boxes are taken by score descending, equal ones by index; the overlap is the area of what two share over that of
    both. A box without an area, turned around or with a NaN overlaps none; a score of NaN is none.

    Args:
        boxes: f32 [batch, count, 4]: left, top, right, bottom, in any unit; count >= 1.
        scores: f32 [batch, count].
        iou_threshold: overlap above which the worse of two boxes is dropped, in [0, 1].
        max_output: most boxes that are kept of each of the batch, >= 1; time grows with count * max_output at worst.
        score_threshold: only boxes with a score above it are kept.
        classes: int64 [batch, count]: boxes of different classes don't drop each other; None: all are of one.

    Raises:
        ValueError: a number is out of its range, or the shapes don't agree.
    """
    if boxes.dim() != 3 or boxes.shape[2] != _CORNERS or scores.shape != boxes.shape[:2]:
        raise ValueError(
            f"boxes must be [batch, count, 4] and scores [batch, count], not {list(boxes.shape)} and "
            f"{list(scores.shape)}"
        )
    if classes is not None and classes.shape != scores.shape:
        raise ValueError(f"classes must be of the scores' shape, {list(scores.shape)}, not {list(classes.shape)}")
    if not 0 <= iou_threshold <= 1:
        raise ValueError(f"iou_threshold must be in [0, 1], not {iou_threshold}")
    if math.isnan(score_threshold):
        raise ValueError("score_threshold must be a number, not nan")
    if max_output < 1:
        raise ValueError(f"max_output must be 1 box or more, not {max_output}")
    indices, counts = suppress_boxes(
        boxes,
        scores,
        classes,
        iou_threshold=iou_threshold,
        score_threshold=score_threshold,
        max_output=max_output,
    )
    return KeptBoxes(indices, counts)
