"""Do the torch operators of a program work in training code and under export?"""

import numpy as np
import pytest
import torch
from alcove.runtime import InvalidTextError, _native
from alcove.runtime.ops import LabelledTopK, NgramHash, ngram_hash


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


def test_modules_refuse_arguments_out_of_range() -> None:
    """Each bound of the hash and of top-k is named when it is broken."""
    good = {"min_order": 1, "max_order": 4, "buckets": 10, "seed": 0, "capacity": 8}
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
