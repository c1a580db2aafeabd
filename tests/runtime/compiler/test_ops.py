"""The torch operators of a program (n-gram hash, top-k, pictures) work in training code and under export."""

import unicodedata
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import InputError, InvalidTextError, _native, export, load
from alcove.runtime.composition import make_composition_table
from alcove.runtime.ops import ImageToTensor, LabelledTopK, NgramHash, ngram_hash


def _utf8(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def test_operator_gives_what_the_native_code_gives() -> None:
    """The same ids as int64, for texts of several scripts, the empty one included."""
    for text in ("", "Wo ist der Bahnhof?", "где", "駅はどこですか", "a" * 5000):
        ids = ngram_hash(_utf8(text), 1, 4, 1000, 7, 64)
        assert ids.dtype == torch.int64
        assert np.array_equal(ids.numpy(), _native.ngram_hash(text, 1, 4, 1000, 7, 64))


def test_operator_passes_torchs_own_checks() -> None:
    """Schema, fake kernel and registration agree."""
    torch.library.opcheck(
        ngram_hash,
        (_utf8("hello world"), 1, 4, 1000, 7, 64),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


def test_bytes_that_are_not_utf8_are_refused() -> None:
    """The typed error of the runtime comes through torch's dispatcher."""
    with pytest.raises(InvalidTextError):
        ngram_hash(torch.tensor([0x61, 0xFF], dtype=torch.uint8), 1, 4, 1000, 7, 64)


class Counted(torch.nn.Module):
    """The sum of the rows of a text's n-grams.

    Args:
        table: of the hash.
    """

    def __init__(self, table: bytes | None) -> None:
        super().__init__()
        self.hash = NgramHash(1, 4, 64, 7, 256, table)
        self.rows = torch.nn.EmbeddingBag(64, 4, mode="sum")

    def forward(self, utf8: torch.Tensor) -> torch.Tensor:
        """Return f32 [1, 4] of the text."""
        ids = self.hash(utf8)
        result: torch.Tensor = self.rows(ids, ids.new_zeros(1))
        return result


def test_a_hash_with_a_table_composes_text_in_the_program_as_in_torch() -> None:
    """Decomposed and composed letters give one answer, in both; without a table they do not."""
    module, plain = Counted(make_composition_table()).eval(), Counted(None).eval()
    plain.rows.load_state_dict(module.rows.state_dict())
    composes, passes = load(bytes(export(module, ("text",)))), load(bytes(export(plain, ("text",))))
    for text in ("가장 가까운 역", "Ọ̀rọ̀ àkọ́kọ́", "việt", "plain", ""):
        decomposed = unicodedata.normalize("NFD", text)
        (expected,) = passes(unicodedata.normalize("NFC", text))
        for given in (text, decomposed):
            assert np.array_equal(composes(given)[0], expected)
            assert np.allclose(module(_utf8(given)).detach().numpy(), expected, atol=1e-5)
        if decomposed != text:
            assert not np.array_equal(passes(decomposed)[0], expected)


def test_a_table_that_is_none_stops_the_run_and_not_the_load() -> None:
    """Weights prove nothing: the error is of the run, and names the table."""
    module = Counted(make_composition_table()).eval()
    module.hash.table = torch.zeros(100, dtype=torch.uint8)
    model = load(bytes(export(module, ("text",), calibration=None)))
    with pytest.raises(InputError, match="table"):
        model("text")


def test_modules_refuse_arguments_out_of_range() -> None:
    """Each bound of the hash and of top-k is named when it is broken."""
    good: dict[str, Any] = {"min_order": 1, "max_order": 4, "buckets": 10, "seed": 0, "capacity": 8}
    NgramHash(**good)
    bad = [
        {"min_order": 0},
        {"min_order": 5},
        {"max_order": 9},
        {"buckets": 0},
        {"buckets": 2**31},
        {"seed": -1},
        {"seed": 2**63},
        {"capacity": 0},
    ]
    for change in bad:
        with pytest.raises(ValueError, match=next(iter(change)).partition("_")[2] or next(iter(change))):
            NgramHash(**{**good, **change})
    for labels, k in ((("a", "b"), 0), (("a", "b"), 3), (("a", "a"), 1), (("a", ""), 1)):
        with pytest.raises(ValueError, match="label"):
            LabelledTopK(labels, k)


def test_labelled_topk_ranks_scores() -> None:
    """Values and indices, best first."""
    ranked = LabelledTopK(("a", "b", "c"), 2)(torch.tensor([[0.2, 0.5, 0.3]]))
    assert ranked.indices.tolist() == [[1, 2]]
    assert torch.equal(ranked.values, torch.tensor([[0.5, 0.3]]))


def _picture(height: int, width: int, channels: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (height, width, channels), dtype=torch.uint8)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(
    ("picture", "size", "resize"),
    [
        ((40, 31), (16, 16), None),
        ((9, 13), (24, 20), None),
        ((40, 61), (16, 16), 20),
        ((61, 40), (12, 16), 16),
        ((20, 20), (20, 20), 20),
        ((33, 33), (8, 8), 9),
    ],
)
def test_picture_becomes_what_torch_makes_of_it(
    picture: tuple[int, int], size: tuple[int, int], resize: int | None, antialias: bool
) -> None:
    """Bytes to a normalized f32 [1, 3, height, width], larger or smaller, cut or not: the program gives torch's."""
    pixels = _picture(*picture)
    module = ImageToTensor(size, resize=resize, antialias=antialias).eval()
    expected = module(pixels)
    (seen,) = load(bytes(export(module, (pixels,))))(pixels.numpy())
    assert seen.shape == (1, 3, *size)
    assert np.abs(seen - expected.numpy()).max() <= 1e-5


def test_picture_is_normalized_resized_and_cut_in_the_middle() -> None:
    """By the formula in its own words: (pixel / 255 - mean) / std, the shorter side to `resize`, then the middle."""
    pixels = _picture(24, 36)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    plain = ((pixels.float() / 255 - mean) / std).permute(2, 0, 1)[None]
    torch.testing.assert_close(ImageToTensor((24, 36))(pixels), plain, rtol=1e-5, atol=1e-5)
    resized = F.interpolate(plain, size=(12, 18), mode="bilinear", antialias=True)
    torch.testing.assert_close(
        ImageToTensor((8, 10), resize=12)(pixels), resized[:, :, 2:10, 4:14], rtol=1e-5, atol=1e-5
    )


def test_grey_picture_has_one_channel() -> None:
    """As many channels as there are means."""
    pixels = _picture(10, 12, 1)
    module = ImageToTensor((10, 12), mean=(0.5,), std=(0.25,)).eval()
    (seen,) = load(bytes(export(module, (pixels,))))(pixels.numpy())
    np.testing.assert_allclose(seen[0, 0], (pixels.numpy()[..., 0] / 255 - 0.5) / 0.25, rtol=1e-5, atol=1e-5)


def test_picture_and_model_are_one_program() -> None:
    """A device takes the camera's bytes; nothing is left to do beside the program."""
    module = torch.nn.Sequential(ImageToTensor((8, 8)), torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten()).eval()
    pixels = _picture(17, 19)
    (seen,) = load(bytes(export(module, (pixels,))))(pixels.numpy())
    np.testing.assert_allclose(seen, module(pixels).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_picture_of_impossible_sizes_is_refused() -> None:
    """A size of nothing, a cut larger than what is left, and numbers of channels that differ."""
    with pytest.raises(ValueError, match="at most resize"):
        ImageToTensor((0, 4))
    with pytest.raises(ValueError, match="at most resize"):
        ImageToTensor((8, 8), resize=7)
    for std in ((0.5,), (0.5, 0.5, 0.0)):
        with pytest.raises(ValueError, match="std"):
            ImageToTensor((8, 8), std=std)
    assert "resize=9" in repr(ImageToTensor((8, 8), resize=9))
