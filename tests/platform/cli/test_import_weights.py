"""Weights of others go into an architecture by torch's own rules: whatever a training script wrapped them in."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")

from alcove.platform.cli.importing.architectures import make_architecture  # noqa: E402 - they need torch
from alcove.platform.cli.importing.weights import load_weights, read_weights  # noqa: E402

State = dict[str, Any]


def network() -> Any:
    """Return a small network with a batch norm and two names for one weight."""
    torch.manual_seed(1)
    made = torch.nn.ModuleDict(
        {
            "stem": torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)),
            "head": torch.nn.Linear(4, 4, bias=False),
            "again": torch.nn.Linear(4, 4, bias=False),
        }
    )
    made["again"].weight = made["head"].weight
    return made.eval()


def make_state() -> State:
    """Return its state dict after some training: no number is as it was made."""
    state: State = network().state_dict()
    return {name: value + 1 for name, value in state.items()}


def leave_out(state: Mapping[str, Any], *endings: str) -> State:
    """Return the state dict without the names that end so."""
    return {name: value for name, value in state.items() if not name.endswith(endings)}


def add_prefix(state: Mapping[str, Any], prefix: str) -> State:
    """Return it with a prefix before all names."""
    return {prefix + name: value for name, value in state.items()}


def load(path: Path, saved: Any) -> tuple[Any, tuple[str, ...]]:
    """Save something, load it into the network, return this and the notes."""
    torch.save(saved, path / "weights.pt")
    module = network()
    return module, load_weights(module, read_weights(path / "weights.pt"), path / "weights.pt")


WAYS: Mapping[str, tuple[Callable[[State], Any], tuple[str, ...]]] = {
    "as it is": (lambda state: state, ()),
    "before batch norms counted": (lambda state: leave_out(state, "num_batches_tracked"), ()),
    "state_dict": (lambda state: {"epoch": 3, "state_dict": state}, ("taken from 'state_dict' of the checkpoint",)),
    "model beside an optimizer": (
        lambda state: {"model": state, "optimizer": {"state": {0: {"m": torch.ones(1)}}}, "lr": 0.1},
        ("taken from 'model' of the checkpoint",),
    ),
    "ema alone": (lambda state: {"ema": {"state_dict": state}}, ("taken from 'ema.state_dict' of the checkpoint",)),
    "model and its ema": (
        lambda state: {"model_ema": {name: value * 0 for name, value in state.items()}, "model": state},
        ("taken from 'model' of the checkpoint",),
    ),
    "an unknown name": (lambda state: {"student": state}, ("taken from 'student' of the checkpoint",)),
    "DataParallel": (lambda state: add_prefix(state, "module."), ("names without the prefix 'module.'",)),
    "compiled, in an attribute": (
        lambda state: {"state_dict": add_prefix(state, "_orig_mod.backbone.")},
        ("taken from 'state_dict' of the checkpoint", "names without the prefix '_orig_mod.backbone.'"),
    ),
    "one name of a tied weight": (lambda state: leave_out(state, "again.weight"), ()),
    "the other name": (lambda state: leave_out(state, "head.weight"), ()),
    "in half precision": (
        lambda state: {name: value.half() if value.is_floating_point() else value for name, value in state.items()},
        (),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_training_scripts_save_is_loaded(way: str, tmp_path: Path) -> None:
    """Every tensor, and what was taken off is said."""
    wrap, said = WAYS[way]
    module, notes = load(tmp_path, wrap(make_state()))
    assert notes == said
    for name, value in make_state().items():
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(module.state_dict()[name], value, atol=2e-3, rtol=1e-3)


def test_names_that_a_wrapper_has_and_the_file_has_not_are_found(tmp_path: Path) -> None:
    """The module is the wrapper, the weights are those of what it holds."""
    torch.save(make_state(), tmp_path / "weights.pt")
    wrapper = torch.nn.ModuleDict({"backbone": network()})
    notes = load_weights(wrapper, read_weights(tmp_path / "weights.pt"), tmp_path)
    assert notes == ("names with the prefix 'backbone.'",)
    torch.testing.assert_close(wrapper["backbone"]["head"].weight, make_state()["head.weight"])


WRONG: Mapping[str, tuple[Callable[[State], Any], str]] = {
    "batch norm without a mean": (lambda state: leave_out(state, "running_mean"), "1 missing: stem.1.running_mean"),
    "one more": (lambda state: state | {"stem.2.weight": torch.ones(1)}, "1 unexpected: stem.2.weight"),
    "a head of another size": (
        lambda state: leave_out(state, "again.weight") | {"head.weight": torch.ones(5, 4)},
        re.escape("head.weight [5, 4] instead of [4, 4]"),
    ),
    "weights in int8": (
        lambda state: leave_out(state, "again.weight") | {"head.weight": torch.ones(4, 4, dtype=torch.int8)},
        "1 of whole numbers instead of floating point: head.weight",
    ),
    "two models": (lambda state: {"generator": state, "critic": state}, "several state dicts .critic, generator."),
    "an optimizer alone": (lambda _: {"optimizer": {"m": torch.ones(1)}}, "holds tensors by name"),
    "nothing": (lambda _: {}, "holds tensors by name"),
    "the module itself": (lambda _: network(), "reading those runs code; save model.state_dict"),
}


@pytest.mark.parametrize("way", WRONG)
def test_what_does_not_fit_is_refused_and_nothing_is_loaded(way: str, tmp_path: Path) -> None:
    """As torch refuses it, in one sentence with the file's name."""
    wrap, message = WRONG[way]
    with pytest.raises(typer.BadParameter, match=message) as refused:
        load(tmp_path, wrap(make_state()))
    assert "weights.pt" in str(refused.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_archive_says_how_its_weights_are_had(tmp_path: Path) -> None:
    """It is no state dict."""
    path = tmp_path / "scripted.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), str(path))
    with pytest.raises(typer.BadParameter, match=r"TorchScript archive; save torch.jit.load\(FILE\).state_dict"):
        read_weights(path)


def fake_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put in the place of timm, which tests do not need, what import asks of it."""
    made = SimpleNamespace(
        is_model=lambda name: name == "mobilenetv3_small_100",
        list_models=lambda: ["mobilenetv3_small_100", "resnet18"],
        create_model=lambda _, pretrained, **options: torch.nn.Linear(2, options["num_classes"], bias=pretrained),
    )
    monkeypatch.setitem(sys.modules, "timm", made)


def test_public_architectures_are_made_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without weights of theirs, with the options; a wrong name gets those near it, a wrong option its reason."""
    fake_timm(monkeypatch)
    made: Any = make_architecture("timm:mobilenetv3_small_100", {"num_classes": 3})
    assert made.out_features == 3
    assert made.bias is None
    with pytest.raises(typer.BadParameter, match="no such architecture; near it: mobilenetv3_small_100"):
        make_architecture("timm:mobilenet_v3_small", {})
    with pytest.raises(typer.BadParameter, match="timm:mobilenetv3_small_100 raises KeyError"):
        make_architecture("timm:mobilenetv3_small_100", {})


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    for name in ("timm", "torchvision"):
        with pytest.raises(typer.BadParameter, match=f"--architecture {name}:resnet18: pip install {name}"):
            make_architecture(f"{name}:resnet18", {})
