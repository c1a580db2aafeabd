"""Makes the torch module of an architecture: a team's own class, a public one by its name, a transformers config."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
import typer
from alcove.platform.cli.exporting import call_function
from alcove.platform.cli.importing.folders import PREFIX, is_folder
from alcove.platform.cli.importing.pretrained import import_transformers, read_config
from torch import nn

SHOWN: Final = 5


def make_architecture(name: str, options: Mapping[str, Any]) -> nn.Module:
    """Return the module of an architecture, in float32.

    Args:
        name: MODULE:CLASS, a module or a .py file and a class or function in it; `timm:NAME` or `torchvision:NAME`; a
            transformers `config.json` or its folder.
        options: keyword arguments of the class or of the public architecture.

    Raises:
        typer.BadParameter: there is no such architecture, it raises, or makes no torch module; the package that has it
            is not installed.
    """
    if is_folder(name):
        return _of_config(Path(name.removeprefix(PREFIX)))
    package, colon, model = name.partition(":")
    made = _PUBLIC[package](model, options) if colon and package in _PUBLIC else call_function(name, **options)
    if not isinstance(made, nn.Module):
        raise typer.BadParameter(f"{name} must make a torch module, not {type(made).__name__}")
    return made.float()


def _of_timm(model: str, options: Mapping[str, Any]) -> Any:
    timm = _package("timm", f"timm:{model}")
    if not timm.is_model(model):
        raise typer.BadParameter(f"timm:{model}: {_no_such(model, timm.list_models())}")
    return _make(f"timm:{model}", lambda: timm.create_model(model, pretrained=False, **options))


def _of_torchvision(model: str, options: Mapping[str, Any]) -> Any:
    models = _package("torchvision.models", f"torchvision:{model}")
    if model not in models.list_models():
        raise typer.BadParameter(f"torchvision:{model}: {_no_such(model, models.list_models())}")
    return _make(f"torchvision:{model}", lambda: models.get_model(model, weights=None, **options))


_PUBLIC: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Any]]] = {
    "timm": _of_timm,
    "torchvision": _of_torchvision,
}
"""Packages whose architectures have names."""


def _package(name: str, given: str) -> Any:
    """Import a package of architectures.

    Both load torchvision, whose wheel may be of another build than torch; architectures need none of its operators, but
    that there be any of these names.
    """
    try:
        if find_spec("torchvision") is not None and not hasattr(torch.ops.torchvision, "nms"):
            for operator in ("nms", "qnms"):
                signature = "(Tensor dets, Tensor scores, float threshold) -> Tensor"
                torch.library.define(f"torchvision::{operator}", signature)
        return import_module(name)
    except (ImportError, RuntimeError) as error:  # torchvision raises the second where it does not fit torch at all
        words = str(error).strip().partition("\n")[0]
        missing = (getattr(error, "name", None) or name).partition(".")[0]
        installed = missing if find_spec(missing) is None else name.partition(".")[0]
        raise typer.BadParameter(f"--architecture {given}: pip install {installed} ({words})") from None


def _no_such(model: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(model, names, SHOWN)
    return f"no such architecture{'; near it: ' + ', '.join(near) if near else f' among {len(names)}'}"


def _make(name: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"{name} raises {type(error).__name__}: {words}") from error


def _of_config(path: Path) -> nn.Module:
    transformers = import_transformers(path)
    config = read_config(transformers, path)
    try:
        named = (getattr(transformers, name, None) for name in config.architectures or ())
        maker = next(filter(None, named), transformers.AutoModelForImageClassification.from_config)
        made = maker(config)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--architecture {path}: transformers makes no picture model ({words})") from None
    module: nn.Module = made.float()
    return module
