"""Labelings are the most probable ones, the same in eager mode and in a program, whatever the frames hold."""

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, _native, export, load
from alcove.runtime.audio import CtcText, ctc_beam, ctc_greedy
from torch import Tensor, nn

from tests.kernels.reference.decoding import ctc_beam as reference

BLANK = 3


def merge(alignment: Sequence[int], blank: int) -> tuple[int, ...]:
    """The definition: repeated classes are one, then blanks are left out."""
    return tuple(each for each, _ in itertools.groupby(alignment) if each != blank)


def labelings(frames: Tensor, blank: int) -> dict[tuple[int, ...], float]:
    """The probability of every labeling, by adding up every alignment."""
    found: dict[tuple[int, ...], float] = {}
    for alignment in itertools.product(range(frames.shape[1]), repeat=frames.shape[0]):
        chance = math.exp(sum(float(frames[t, c]) for t, c in enumerate(alignment)))
        found[merge(alignment, blank)] = found.get(merge(alignment, blank), 0.0) + chance
    return found


class Both(nn.Module):
    """Greedy and beam labelings of the same frames, and the text of the first."""

    def __init__(self, width: int, paths: int, capacity: int = 64) -> None:
        super().__init__()
        self.width, self.paths = width, paths
        self.text = CtcText(["a", "é", " ", "<blank>", "xyz"], BLANK, capacity)

    def forward(self, log_probs: Tensor) -> tuple[Tensor, ...]:
        """Return all that both give."""
        greedy, beam = ctc_greedy(log_probs, BLANK), ctc_beam(log_probs, self.width, BLANK, paths=self.paths)
        return (*greedy, *beam, *self.text(greedy.ids[0]))


@pytest.mark.parametrize("seed", range(2))
def test_a_search_that_keeps_all_prefixes_finds_the_most_probable_labelings(seed: int) -> None:
    """Against the sum over all 4^6 alignments: labels, order and scores of the ten best."""
    torch.manual_seed(seed)
    frames = (2 * torch.randn(6, 4, dtype=torch.float64)).log_softmax(-1)
    best = sorted(labelings(frames, 1).items(), key=lambda item: -item[1])[:10]
    found = ctc_beam(frames.float()[None], 1024, 1, paths=10)
    for path, (labels, chance) in enumerate(best):
        count = int(found.counts[0, path])
        assert tuple(found.ids[0, path, :count].tolist()) == labels
        assert (found.ids[0, path, count:] == 1).all()
        assert float(found.scores[0, path]) == pytest.approx(math.log(chance), abs=1e-5)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 32])
def test_a_narrow_search_keeps_what_the_reference_keeps(width: int) -> None:
    """Frames enough for prefixes to be dropped and found again; sharp and flat ones."""
    rng = np.random.default_rng(width)
    for spread in (0.3, 3.0):
        x = torch.from_numpy(rng.normal(0, spread, (3, 40, 6))).log_softmax(-1).float()
        paths = min(width, 3)
        attributes = SimpleNamespace(width=width, blank=2)
        wanted = reference(attributes, x.numpy(), shape=(3, paths, 40))
        found = ctc_beam(x, width, 2, paths=paths)
        np.testing.assert_array_equal(found.ids.numpy(), wanted[0])
        np.testing.assert_array_equal(found.counts.numpy(), wanted[1])
        np.testing.assert_allclose(found.scores.numpy(), wanted[2], rtol=1e-5, atol=1e-5)


def test_searches_of_any_size_keep_what_the_reference_keeps() -> None:
    """One frame, one class, more prefixes than there are labelings, any blank."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        frames, classes = int(rng.integers(1, 14)), int(rng.integers(1, 7))
        width = int(rng.choice([1, 2, 3, 5, 17, 60]))
        paths, blank = int(rng.integers(1, width + 1)), int(rng.integers(0, classes))
        x = torch.from_numpy(rng.normal(0, 2, (2, frames, classes))).log_softmax(-1).float()
        attributes = SimpleNamespace(width=width, blank=blank)
        wanted = reference(attributes, x.numpy(), shape=(2, paths, frames))
        found = ctc_beam(x, width, blank, paths=paths)
        np.testing.assert_array_equal(found.ids.numpy(), wanted[0])
        np.testing.assert_array_equal(found.counts.numpy(), wanted[1])
        np.testing.assert_allclose(found.scores.numpy(), wanted[2], rtol=1e-4, atol=1e-5)


def test_a_beam_finds_what_greedy_misses() -> None:
    """The example of Graves: blank is the best class of each frame, yet "a" is more probable than nothing."""
    x = torch.tensor([[[0.4, 0.6], [0.4, 0.6]]]).log()
    assert int(ctc_greedy(x, 1).counts[0]) == 0
    found = ctc_beam(x, 4, 1, paths=3)
    assert found.ids[0, :, 0].tolist() == [0, 1, 1]
    assert found.counts[0].tolist() == [1, 0, 0]
    np.testing.assert_allclose(found.scores[0].exp(), [0.64, 0.36, 0.0], rtol=1e-6)


def test_equal_labelings_have_a_fixed_order() -> None:
    """Of equals: what stays before what grows, the prefix kept before, the lower class."""
    found = ctc_beam(torch.full((1, 1, 4), math.log(0.25)), 4, 2, paths=4)
    assert found.counts[0].tolist() == [0, 1, 1, 1]
    assert found.ids[0, 1:, 0].tolist() == [0, 1, 3]
    again = ctc_beam(torch.zeros(1, 3, 5), 2, 0, paths=2)
    assert again.ids[0].tolist() == [[1, 0, 0], [1, 2, 0]]


@pytest.mark.parametrize(("frames", "width", "paths"), [(1, 1, 1), (23, 8, 3)])
def test_a_program_gives_what_eager_mode_gives(frames: int, width: int, paths: int) -> None:
    """Ids, counts and scores to the bit, and the text of the labels."""
    torch.manual_seed(frames)
    x = (2 * torch.randn(2, frames, 5)).log_softmax(-1)
    module = Both(width, paths).eval()
    found = load(bytes(export(module, (x,))))(x.numpy())
    for index, (ours, wanted) in enumerate(zip(found, module(x), strict=True)):
        if index == 2:  # a sum of float32
            np.testing.assert_allclose(ours, wanted.numpy(), rtol=1e-6)
        else:
            np.testing.assert_array_equal(ours, wanted.numpy())
    labels = merge(x[0].argmax(-1).tolist(), BLANK)
    size = int(found[-1][0])
    assert found[-2][:size].tobytes().decode() == "".join(["a", "é", " ", "", "xyz"][each] for each in labels)
    assert found[0][0].tolist() == [*labels, *[BLANK] * (frames - len(labels))]


def test_frames_of_any_number_are_one_program() -> None:
    """The number of frames is an input's, as a line's width is."""
    module = Both(6, 2).eval()
    dynamic = {"log_probs": {1: torch.export.Dim("frames", min=2, max=50)}}
    model = load(bytes(export(module, (torch.randn(1, 12, 5),), dynamic_shapes=dynamic)))
    for count in (2, 17, 50):
        x = torch.randn(1, count, 5).log_softmax(-1)
        for ours, wanted in zip(model(x.numpy())[3:6], module(x)[3:6], strict=True):
            np.testing.assert_array_equal(ours, wanted.numpy())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38, -3e38])
def test_frames_of_any_bits_have_a_defined_answer(value: float) -> None:
    """NaN is no probability, infinity the greatest number; a frame without any leaves the labeling as it was."""
    x = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]]).log()
    plain = ctc_beam(x, 8, 2)
    x[0, 1] = value
    found = ctc_beam(x, 8, 2)
    if math.isnan(value) or value == -math.inf:
        assert found.ids[0, 0].tolist() == [0, 2, 2]
        assert float(found.scores[0, 0]) == -math.inf
    else:
        assert 0 <= int(found.counts[0, 0]) <= 3
        assert not found.scores.isnan().any()
    x[0, 1] = torch.tensor([-math.inf, 0.0, math.nan])
    assert plain.ids[0, 0].tolist() == [0, 1, 2]
    assert ctc_beam(x, 8, 2).ids[0, 0].tolist() == [0, 1, 2]


def test_a_labeling_that_has_no_room_is_cut_and_none_is_written_beyond() -> None:
    """A text of three bytes in two leaves the character out."""
    text = CtcText(["abc", "é", ""], 2, 4)
    utf8, size = text(torch.tensor([1, 1, 0, 2]))
    assert utf8.tolist() == [*"éé".encode()]
    assert int(size) == 4


def test_a_search_that_cannot_be_is_refused() -> None:
    """By the functions with ValueError, by the operator with InputError; each names the bound and the value."""
    x = torch.zeros(1, 4, 3)
    with pytest.raises(ValueError, match=r"width must be in \[1, 1024\], not 0"):
        ctc_beam(x, 0, 0)
    with pytest.raises(ValueError, match=r"paths must be in \[1, 4\], the width, not 5"):
        ctc_beam(x, 4, 0, paths=5)
    with pytest.raises(ValueError, match=r"blank must be in \[0, 3\), the classes, not 3"):
        ctc_greedy(x, 3)
    with pytest.raises(ValueError, match=r"\[batch, frames, classes\], not \[4, 3\]"):
        ctc_greedy(x[0], 0)
    with pytest.raises(ValueError, match=r"blank must be in \[0, 2\), the classes, not 2"):
        CtcText(["a", "b"], 2, 8)
    with pytest.raises(InputError, match="width 2000, 1 paths and blank 0; allowed"):
        _native.ctc_beam(x.numpy(), 2000, 1, 0)
    with pytest.raises(InputError, match="0 x 4 x 3"):
        _native.ctc_beam(x[:0].numpy(), 4, 1, 0)
