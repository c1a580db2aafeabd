"""Reads folders of transformers: what the model is for, its module with its weights, its tokenizer and labels."""

import contextlib
import io
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
from alcove.platform.cli.importing.folders import Folder

HEADS: Final = {
    "classification": ("ForSequenceClassification", "ForAudioClassification"),
    "tokens": ("ForTokenClassification", "ForCTC"),
    "embedding": (),
}
"""How classes with the weights of a task's head are called."""
SHOWN: Final = 5


@dataclass(frozen=True)
class Pretrained:
    """A model of transformers.

    Attributes:
        module: in float32 and eval mode, with its weights; for an embedding without its heads and decoder.
        config: of transformers.
        task: one of `options.TASKS`.
        labels: names of the outputs, in order; empty for an embedding.
        notes: what was left out, in words.
    """

    module: Any
    config: Any
    task: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]


def read_pretrained(folder: Folder, task: str | None) -> Pretrained:
    """Return the model in a folder, whose weights are all taken and none is missing.

    Args:
        folder: has `config.json`, and `model.safetensors` or `pytorch_model.bin`.
        task: one of `options.TASKS`; None for what the config says.

    Raises:
        typer.BadParameter: transformers is not installed, does not know the model, or weights are missing or left over.
    """
    transformers = import_transformers(folder.path)
    config = read_config(transformers, folder.path)
    chosen = task or folder.task
    maker = _class_of(transformers, config, folder, chosen)
    try:
        with quiet(transformers):
            module, found = maker.from_pretrained(
                str(folder.path), local_files_only=True, output_loading_info=True, dtype="float32"
            )
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--architecture {folder.path}: {type(error).__name__}: {words}") from error
    _check_keys(folder.path, maker.__name__, chosen, found)
    notes = []
    if chosen == "embedding":
        inner = _encoder_of(module)
        if inner is not module:
            notes.append(f"{type(inner).__name__} of {type(module).__name__}")
        module = inner
    labels = () if chosen == "embedding" else _labels_of(config, folder.path, chosen)
    return Pretrained(module.float().eval(), config, chosen, labels, tuple(notes))


def import_transformers(path: Path) -> Any:
    """Return the package.

    Raises:
        typer.BadParameter: it is not installed.
    """
    try:
        import transformers  # noqa: PLC0415 - optional
    except ImportError as error:
        raise typer.BadParameter(f"--architecture {path}: pip install transformers ({error})") from None
    return transformers


def read_config(transformers: Any, path: Path) -> Any:
    """Return the config of transformers in a folder.

    Raises:
        typer.BadParameter: there is none, or it is of a model that the package does not know.
    """
    try:
        with quiet(transformers):
            return transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError) as error:
        words = str(error).strip().partition("\n")[0]
        raise typer.BadParameter(f"--architecture {path}: no transformers config ({words})") from None


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Keep what transformers prints while it reads a folder to itself."""
    log = logging.getLogger("transformers")
    level = log.level
    log.setLevel(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        log.setLevel(level)


def _class_of(transformers: Any, config: Any, folder: Folder, task: str) -> Any:
    """Return the class that has a task's head; for an embedding the one whose weights the folder has."""
    named = [getattr(transformers, name, None) for name in folder.architectures]
    suffixes = HEADS[task]
    for each in filter(None, named):
        if not suffixes or each.__name__.endswith(suffixes):
            return each
    autos = {
        "classification": ("AutoModelForSequenceClassification", "AutoModelForAudioClassification"),
        "tokens": ("AutoModelForTokenClassification", "AutoModelForCTC"),
        "embedding": ("AutoModel",),
    }[task]
    for auto in autos:
        mapping = getattr(transformers, auto)._model_mapping  # noqa: SLF001 - names the class before any is made
        if type(config) in mapping:
            return mapping[type(config)]
    raise typer.BadParameter(f"--architecture {folder.path}: transformers has no {config.model_type} for --task {task}")


def _check_keys(path: Path, name: str, task: str, found: Mapping[str, Any]) -> None:
    kinds = {
        "missing": sorted(found["missing_keys"]),
        "unexpected": sorted(found["unexpected_keys"]),
        "of another shape": sorted(str(each) for each in found["mismatched_keys"]),
    }
    lines = [
        f"{len(names)} {kind}: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for kind, names in kinds.items()
        if names
    ]
    if lines:
        other = "" if task == "embedding" else "; without a trained head give --task embedding"
        raise typer.BadParameter(f"--architecture {path}: weights do not fit {name}; {'; '.join(lines)}{other}")


def _encoder_of(module: Any) -> Any:
    """Return what makes vectors: without heads, of two halves the encoder."""
    if getattr(module.config, "is_encoder_decoder", False):
        return module.get_encoder()
    return getattr(module, module.base_model_prefix, module) if module.base_model_prefix else module


def _labels_of(config: Any, path: Path, task: str) -> tuple[str, ...]:
    if task == "tokens" and path.joinpath("vocab.json").is_file() and not getattr(config, "id2label", None):
        names = json.loads(path.joinpath("vocab.json").read_text("utf-8"))
        return tuple(sorted(names, key=names.__getitem__))
    known = dict(config.id2label)
    return tuple(str(known[index]) for index in sorted(known))
