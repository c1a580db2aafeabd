"""The native runtime gives what torch gives for text models and MLPs, and refuses the same bytes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, InvalidTextError, export, load
from alcove.runtime.compiler import load_state
from torch import Tensor, nn

TEXTS = (
    "Wo ist der Bahnhof?",
    "Where is the station?",
    "où est la gare",
    "где вокзал",
    "駅はどこですか",
    "",
    " ",
    "1234 !? 🙂",
    "a",
    "long " * 4000,
)
NAMES = ("de", "en", "fr", "nl", "sv")
TOLERANCE = 2e-6
"""Sums of at most a few hundred f32 numbers in another order, and exp by another polynomial: a few units of 2**-23."""


def utf8(text: str) -> Tensor:
    """Return the text as the module sees it."""
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("mode", "hidden", "dim"), [("mean", 0, 1), ("sum", 20, 12), ("mean", 33, 64), ("sum", 0, 65), ("mean", 16, 16)]
)
def test_text_model_gives_what_torch_gives(
    make_text_model: Callable[..., nn.Module], mode: str, hidden: int, dim: int
) -> None:
    """Probabilities within the tolerance, labels equal, for texts of several scripts, empty and long."""
    module = make_text_model(dim=dim, hidden=hidden, mode=mode).eval()
    model = load(bytes(export(module, ("example",))))
    for text in TEXTS:
        with torch.no_grad():
            expected = module(utf8(text))
        values, labels = model(text)
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, expected.values.numpy(), rtol=0, atol=TOLERANCE, err_msg=text[:20])
        if np.abs(np.diff(expected.values.numpy())).min(initial=1) > 10 * TOLERANCE:
            assert [NAMES[i] for i in expected.indices[0].tolist()] == labels[0].tolist()


def test_int8_model_gives_what_its_dequantized_module_gives(make_text_model: Callable[..., nn.Module]) -> None:
    """A module loaded from the int8 program agrees with it as closely as f32 with f32."""
    module = make_text_model(buckets=2048, dim=64).eval()
    program = export(module, ("a",), quantize="int8")
    loaded = make_text_model(buckets=2048, dim=64)
    loaded.load_state_dict({name: torch.from_numpy(array) for name, array in load_state(program.spec).items()})
    loaded.eval()
    model = load(bytes(program))
    for text in TEXTS:
        with torch.no_grad():
            expected = loaded(utf8(text))
        np.testing.assert_allclose(model(text)[0], expected.values.numpy(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("rows", "widths"), [(1, (4, 3)), (2, (16, 32, 16)), (7, (5, 17, 33, 1)), (1, (100, 64, 64, 10)), (9, (3, 40, 2))]
)
def test_mlp_gives_what_torch_gives(make_mlp: Callable[..., nn.Module], widths: tuple[int, ...], rows: int) -> None:
    """Numbers in, probabilities out, for one row and for several, tails of panels included."""
    module = make_mlp(*widths).eval()
    x = torch.randn(rows, widths[0])
    with torch.no_grad():
        expected = module(x).numpy()
    (seen,) = load(bytes(export(module, (x,))))(x.numpy())
    np.testing.assert_allclose(seen, expected, rtol=0, atol=TOLERANCE)


def test_ids_of_varying_number_are_an_input(make_mlp: Callable[..., nn.Module]) -> None:
    """A bag of the caller's own ids beside a tensor of numbers, two outputs by key."""

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(50, 6, mode="sum")
            self.out = nn.Linear(6, 4)
            self.dense = nn.Linear(3, 2)

        def forward(self, ids: Tensor, x: Tensor) -> dict[str, Tensor]:
            """Run."""
            pooled = self.out(self.bag(ids, torch.zeros(1, dtype=torch.int32)))
            return {"dense": torch.relu(self.dense(x)), "bag": pooled}

    module = Bag().eval()
    ids, x = torch.tensor([3, 49, 3], dtype=torch.int32), torch.randn(1, 3)
    program = export(module, (ids, x), dynamic_shapes={"ids": {0: torch.export.Dim("n", max=20)}})
    model = load(bytes(program))
    for count in (1, 3, 20):
        some = torch.arange(count, dtype=torch.int32)
        with torch.no_grad():
            expected = module(some, x)
        outputs = dict(zip([port.name for port in model.outputs], model(some.numpy(), x.numpy()), strict=True))
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value.numpy(), rtol=0, atol=TOLERANCE)
    for bad, words in (
        (np.arange(21, dtype=np.int32), r"\(n\) is 21, allowed are 1 to 20"),
        (np.arange(0, dtype=np.int32), r"\(n\) is 0, allowed are 1 to 20"),
        (np.array([50], dtype=np.int32), "is 50, allowed are 0 to 49"),
        (np.array([-1], dtype=np.int32), "is -1, allowed are 0 to 49"),
    ):
        with pytest.raises(InputError, match=words):
            model(bad, x.numpy())


def test_torch_and_program_refuse_the_same_bytes(text_model: nn.Module) -> None:
    """What is not UTF-8 is the same typed error in training and on the device."""
    model = load(bytes(export(text_model, ("a",))))
    bad = b"ab\xff"
    with pytest.raises(InvalidTextError):
        model(bad)
    with pytest.raises(InvalidTextError):
        text_model(torch.tensor(list(bad), dtype=torch.uint8))
