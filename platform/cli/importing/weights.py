"""Reads a trained model's weights and puts them into its architecture, by torch's own strict rules.

A checkpoint may hold the state dict under a name (`state_dict`, `model`, `ema`, …), beside what an optimizer keeps, and
its names may have a prefix that a wrapper gave them (`module.` of DataParallel, `_orig_mod.` of torch.compile, the name
of an attribute).  Both are taken off where the names then fit; what was done is said.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import typer
from alcove.platform.cli.importing.first_look import check_weights, is_safetensors
from torch import Tensor, nn

KNOWN: Final = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "params",
    "weights",
    "state_dict_ema",
    "model_ema",
    "ema_state_dict",
    "ema",
    "params_ema",
)
"""What training scripts keep a state dict under; where there are several, the first is taken."""
NOT_WEIGHTS: Final = ("optim", "sched", "scaler", "rng", "args", "config", "hyper")
"""Beginnings of names in a checkpoint under which no weights are."""
COUNTER: Final = "num_batches_tracked"
"""Of a batch norm; torch takes state dicts that were saved before there was one."""
SHOWN: Final = 5


@dataclass(frozen=True)
class Weights:
    """A state dict, and how it was found.

    Attributes:
        state: tensors by name.
        notes: what was taken off, in words; empty if nothing.
    """

    state: dict[str, Tensor]
    notes: tuple[str, ...] = ()


def read_weights(path: Path) -> Weights:
    """Return the state dict in a file; no code in the file runs.

    Raises:
        typer.BadParameter: the file holds no state dict, several under unknown names, or code instead of tensors.
    """
    check_weights(path)
    found, place = _unwrap(path, _read(path))
    return Weights(found, (f"taken from {place!r} of the checkpoint",) if place else ())


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            first = file.read(16)
        if is_safetensors(first):
            from safetensors.torch import load_file  # noqa: PLC0415 - comes with transformers

            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's form, which is refused or read
            return torch.load(path, map_location="cpu", weights_only=True)
    except ImportError as error:
        raise typer.BadParameter(f"--weights {path}: pip install safetensors ({error})") from None
    except Exception as error:  # noqa: BLE001 - torch and safetensors raise what their parsers raise
        raise typer.BadParameter(f"--weights {path}: {_reason(str(error))}") from None


def _reason(error: str) -> str:
    """Return what a reader's error means for whoever gave the file."""
    if "Unsupported global" in error or "weights_only" in error.lower():
        return (
            "no state dict can be read: it holds Python objects, and reading those runs code; save "
            "model.state_dict() where the file was made: torch.save(model.state_dict(), 'weights.pt')"
        )
    words = error.strip().partition("\n")[0]
    return f"no state dict can be read ({words})"


def _unwrap(path: Path, found: Any) -> tuple[dict[str, Tensor], str]:
    """Return the tensors by name in what was read, and under which names they were."""
    place: list[str] = []
    while True:
        if isinstance(found, Mapping) and found and all(isinstance(value, Tensor) for value in found.values()):
            return {str(name): value for name, value in found.items()}, ".".join(place)
        inner = _inner(found) if isinstance(found, Mapping) else {}
        known = [name for name in KNOWN if name in inner]
        if not known and len(inner) > 1:
            raise typer.BadParameter(
                f"--weights {path}: several state dicts ({', '.join(sorted(inner)[:SHOWN])}); save this model's alone"
            )
        if not inner:
            raise typer.BadParameter(f"--weights {path}: a state dict holds tensors by name; this is something else")
        place.append(known[0] if known else next(iter(inner)))
        found = inner[place[-1]]


def _inner(checkpoint: Mapping[Any, Any]) -> dict[str, Mapping[Any, Any]]:
    """Return what may hold the weights in a checkpoint, by name."""
    return {
        str(name): value
        for name, value in checkpoint.items()
        if isinstance(value, Mapping) and not str(name).lower().startswith(NOT_WEIGHTS) and _holds_tensors(value)
    }


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_tensors(each) for each in value.values())
    return isinstance(value, Tensor)


def load_weights(module: nn.Module, weights: Weights, path: Path) -> tuple[str, ...]:
    """Put a state dict into a module, all of it and nothing else, as `load_state_dict(strict=True)` does.

    Returns:
        The notes of `weights`, and which prefix of its names was taken off or put before them.

    Raises:
        typer.BadParameter: names or shapes differ, numbers are whole where the module's are not, or a value is not
            finite; all kinds at once, some names of each.
    """
    own = module.state_dict(keep_vars=True)
    state, note = _fit_names(weights.state, own)
    problems = {
        "missing": list(_missing(module, own, state)),
        "unexpected": [name for name in state if name not in own and not _is_ignored(module, name)],
        "of another shape": [
            f"{name} {list(value.shape)} instead of {list(own[name].shape)}"
            for name, value in state.items()
            if name in own and value.shape != own[name].shape
        ],
        "of whole numbers instead of floating point": [
            name
            for name, value in state.items()
            if name in own and own[name].is_floating_point() and not value.is_floating_point()
        ],
        "not finite": [name for name, value in state.items() if not torch.isfinite(value).all()],
    }
    lines = [
        f"{len(names)} {kind}: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for kind, names in problems.items()
        if names
    ]
    if lines:
        raise typer.BadParameter(f"--weights {path} do not fit the architecture; {'; '.join(lines)}")
    module.load_state_dict({name: value for name, value in state.items() if name in own}, strict=False)
    return (*weights.notes, *([note] if note else []))


def _fit_names(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], str]:
    """Return the state dict with the names that fit the module's best, and what was done to them in words."""
    best, note = dict(state), ""
    fitting = _count_fitting(best, own)
    for candidate, words in _rename(state, own):
        count = _count_fitting(candidate, own)
        if count > fitting:
            best, note, fitting = candidate, words, count
    return best, note


def _count_fitting(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> int:
    return sum(name in own and own[name].shape == value.shape for name, value in state.items())


def _rename(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Iterator[tuple[dict[str, Tensor], str]]:
    """Yield the state dict without the prefixes that most of its names share, one more each time; then with one."""
    prefix = ""
    names = list(state)
    while names:
        first, count = Counter(name[len(prefix) :].partition(".")[0] for name in names).most_common(1)[0]
        if 2 * count < len(state):
            break
        prefix += first + "."
        names = [name for name in names if name.startswith(prefix)]
        # A name twice, with the prefix and without, would be lost.
        if any(name[len(prefix) :] in state for name in names):
            continue
        yield (
            {name.removeprefix(prefix): value for name, value in state.items()},
            f"names without the prefix {prefix!r}",
        )
    for first, _ in Counter(name.partition(".")[0] for name in own).most_common(1):
        yield {f"{first}.{name}": value for name, value in state.items()}, f"names with the prefix {first + '.'!r}"


def _missing(module: nn.Module, own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield what the module has and the state dict has not; a tensor under two names is there if one of them is."""
    there = {id(own[name]) for name in state if name in own}
    counted = {
        f"{name}.{COUNTER}" if name else COUNTER
        for name, each in module.named_modules()
        if isinstance(each, nn.modules.batchnorm._NormBase)  # noqa: SLF001 - all batch norms, and nothing else
    }
    for name, value in own.items():
        if name not in state and id(value) not in there and name not in counted:
            yield name


def _is_ignored(module: nn.Module, name: str) -> bool:
    """Return whether a transformers model says of itself that such a name means nothing."""
    patterns = getattr(module, "_keys_to_ignore_on_load_unexpected", None) or ()
    return any(re.search(pattern, name) for pattern in patterns)
