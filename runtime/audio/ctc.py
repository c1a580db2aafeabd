"""Provides the decoding of connectionist temporal classification (CTC): frames of classes to labelings, and to text.

A network gives the logarithm of each class's probability at each frame; one class is the blank. A labeling is what is
left of an alignment when repeated classes are merged and blanks are left out. `ctc_greedy` takes the best class of each
frame; `ctc_beam` sums up all alignments of the most probable labelings, as the operator `ctc_beam` of a program does.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from alcove.runtime import _native
from alcove.runtime.tokenizers.modules import Detokenize, Text
from alcove.runtime.tokenizers.table import Model, Parts, Split
from alcove.runtime.tokenizers.tokenizer import Tokenizer
from torch import Tensor, nn

MOST_WIDTH: Final = 1024
"""Most prefixes that a search keeps."""


class Paths(NamedTuple):
    """Labelings.

    Attributes:
        ids: int64 [batch, frames], of `ctc_beam` [batch, paths, frames], the most probable first; blank behind each.
        counts: int64 [batch], [batch, paths]: how many ids are in use.
        scores: f32 of the same shape, logarithms: of the best alignment's probability, of `ctc_beam` the labeling's.
    """

    ids: Tensor
    counts: Tensor
    scores: Tensor


def ctc_greedy(log_probs: Tensor, blank: int) -> Paths:
    """Return the labeling of the best class at each frame; of equal ones the lower class.

    Args:
        log_probs: f32 [batch, frames, classes], each size >= 1; logits will do, if nobody reads the scores.
        blank: the class that stands for none, in [0, classes).

    Raises:
        ValueError: the shape is none of frames, or the blank is out of its range.
    """
    _check(log_probs, blank)
    best, classes = log_probs.max(-1)
    before = torch.cat([torch.full_like(classes[:, :1], blank), classes[:, :-1]], 1)
    is_new = (classes != before) & (classes != blank)
    places = is_new.cumsum(1)
    # What is left out goes to place 0, before the first.
    ids = torch.full_like(torch.cat([classes[:, :1], classes], 1), blank)
    ids = ids.scatter(1, torch.where(is_new, places, 0), classes)[:, 1:]
    return Paths(ids, places[:, -1], best.sum(-1))


@torch.library.custom_op("alcove::ctc_beam", mutates_args=(), device_types="cpu")
def ctc_beam_search(log_probs: Tensor, width: int, blank: int, paths: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable labelings; see `ctc_beam`.

    Args:
        log_probs: f32 [batch, frames, classes], each size >= 1.
        width: prefixes that are kept from frame to frame, in [1, 1024].
        blank: the class that stands for none, in [0, classes).
        paths: labelings of each of the batch, in [1, width].

    Returns:
        int64 [batch, paths, frames], int64 [batch, paths], f32 [batch, paths].

    Raises:
        InputError: a number is out of its range.

    Source: kernels/microkernels/ctc_beam/ctc_beam.h.
    """
    found = _native.ctc_beam(log_probs.detach().contiguous().numpy(), width, paths, blank)
    ids, counts, scores = (torch.from_numpy(array) for array in found)
    return ids, counts, scores


@ctc_beam_search.register_fake
def _(log_probs: Tensor, width: int, blank: int, paths: int) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001
    """Tell a tracer what comes out."""
    batch, frames = log_probs.shape[:2]
    counts = log_probs.new_empty((batch, paths), dtype=torch.int64)
    return counts.new_empty((batch, paths, frames)), counts, log_probs.new_empty((batch, paths))


def ctc_beam(log_probs: Tensor, width: int, blank: int, *, paths: int = 1) -> Paths:
    """Return the most probable labelings that a prefix beam search finds, the best first.

    Equal probabilities are told apart by a fixed rule, and the sums have a fixed order: the answer is the same on every
    device. Where there are fewer labelings than paths, the rest have a count of 0 and a score of -infinity.

    Args:
        log_probs: f32 [batch, frames, classes], each size >= 1, logarithms of probabilities; NaN is none.
        width: prefixes that are kept from frame to frame, in [1, 1024]; time grows with width * classes.
        blank: the class that stands for none, in [0, classes).
        paths: labelings of each of the batch, in [1, width].

    Raises:
        ValueError: a number is out of its range, or the shape is none of frames.

    Source: Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", section 7.5;
        Hannun et al. 2014, arXiv:1408.2873.
    """
    _check(log_probs, blank)
    if not 1 <= width <= MOST_WIDTH:
        raise ValueError(f"width must be in [1, {MOST_WIDTH}], not {width}")
    if not 1 <= paths <= width:
        raise ValueError(f"paths must be in [1, {width}], the width, not {paths}")
    return Paths(*ctc_beam_search(log_probs, width, blank, paths))


class CtcText(nn.Module):
    """Labelings to their text, inside a program; has no parameters, its table is a buffer.

    Args:
        labels: the text of each class, in order; that of the blank is not used.
        blank: the class that stands for none.
        capacity: most bytes of a text; what has no room, and all behind it, is left out.

    Raises:
        ValueError: the blank is no class, or the capacity is below 1.
    """

    def __init__(self, labels: Sequence[str], blank: int, capacity: int) -> None:
        super().__init__()
        if not 0 <= blank < len(labels):
            raise ValueError(f"blank must be in [0, {len(labels)}), the classes, not {blank}")
        texts = [b"" if number == blank else label.encode() for number, label in enumerate(labels)]
        tokenizer = Tokenizer.from_parts(Parts(Model.BYTE_PAIR, Split.NONE, texts, {}, padding=blank), {})
        self.detokenize = Detokenize(tokenizer, capacity)

    def forward(self, ids: Tensor) -> Text:
        """Return the text of int64 [frames] `ids`, one labeling with blanks behind it."""
        found: Text = self.detokenize(ids)
        return found


def _check(log_probs: Tensor, blank: int) -> None:
    if log_probs.dim() != 3:
        raise ValueError(f"log_probs must be [batch, frames, classes], not {list(log_probs.shape)}")
    if not 0 <= blank < log_probs.shape[2]:
        raise ValueError(f"blank must be in [0, {log_probs.shape[2]}), the classes, not {blank}")
