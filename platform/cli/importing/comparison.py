"""Compares an imported program's answers with its module's, on the team's pictures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import typer
from alcove.platform.cli.importing.pictures import Pixels
from alcove.runtime import load
from numpy.typing import NDArray
from torch import Tensor, nn

SHOWN: Final = 5

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A class's pictures whose answer is another one in the program.

    Attributes:
        folder: the class.
        torch: the answer of the module in float32.
        program: that of the program.
        pictures: how many.
    """

    folder: str
    torch: str
    program: str
    pictures: int


@dataclass(frozen=True)
class Accuracy:
    """How often the best output is the picture's class.

    Attributes:
        torch: share of pictures, of the module in float32.
        program: likewise.
        changes: what changed, most pictures first.
    """

    torch: float
    program: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Comparison:
    """The answers of a program beside those of its module in float32.

    Attributes:
        pictures: that both have seen.
        same_best: share of them with the same greatest output.
        mean_error: mean over the pictures of the largest |program - module|, as a share of the range of the module's
            outputs for the picture.
        worst_error: the largest over all pictures.
        accuracy: where the pictures' folders are classes.
    """

    pictures: int
    same_best: float
    mean_error: float
    worst_error: float
    accuracy: Accuracy | None


def read_classes(folder: Path, paths: Sequence[Path], outputs: int, names: Path | None) -> tuple[list[str], list[int]]:
    """Return the classes in the order of the outputs, and the class of each picture; both empty without labels.

    A picture's class is the folder below `folder` that it lies in.  Folders are labels if they are as many as outputs,
    in order of name, as torchvision's `ImageFolder` numbers them; or if a file names the outputs.

    Args:
        folder: of all pictures.
        paths: of the pictures, below it.
        outputs: of the model.
        names: a file with the name of each output in a line, or None.

    Raises:
        typer.BadParameter: the file has another number of names, or a folder is none of them.
    """
    of_pictures = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    folders = sorted({each.name for each in folder.iterdir() if each.is_dir()} & set(of_pictures))
    if names is None:
        is_labelled = "" not in of_pictures and len(folders) == outputs
        return (folders, [folders.index(each) for each in of_pictures]) if is_labelled else ([], [])
    classes = names.read_text(encoding="utf-8").splitlines()
    if len(classes) != outputs:
        raise typer.BadParameter(f"--classes {names}: {len(classes)} names, but the model has {outputs} outputs")
    strange = sorted(set(of_pictures) - set(classes))
    if strange:
        words = ", ".join(repr(each) for each in strange[:SHOWN])
        raise typer.BadParameter(f"--classes {names}: not all folders of pictures are in it: {words}")
    return classes, [classes.index(each) for each in of_pictures]


def module_answers(module: nn.Module, pictures: Sequence[Pixels]) -> Numbers:
    """Return the first output of a module for each picture, f64 [pictures, outputs]."""
    with torch.no_grad():
        return np.stack([_first(module(torch.from_numpy(pixels))) for pixels in pictures])


def program_answers(program: bytes, pictures: Sequence[Pixels]) -> Numbers:
    """Return the first output of a program for each picture, f64 [pictures, outputs]."""
    session = load(program).session()
    return np.stack([session(pixels)[0].astype(np.float64).reshape(-1) for pixels in pictures])


def _first(found: Any) -> Numbers:
    if isinstance(found, Mapping):
        found = next(iter(found.values()))
    first = found if isinstance(found, Tensor) else found[0]
    return first.numpy().astype(np.float64).reshape(-1)


def compare_answers(expected: Numbers, native: Numbers, classes: Sequence[str], labels: Sequence[int]) -> Comparison:
    """Compare the answers to pictures, both f64 [pictures, outputs]; `labels` are indices into `classes`, or empty."""
    spans = np.ptp(expected, axis=1)
    errors = np.abs(native - expected).max(axis=1) / np.where(spans > 0, spans, 1.0)
    before, after = expected.argmax(axis=1), native.argmax(axis=1)
    accuracy = None
    if labels:
        changed = Counter((labels[i], int(before[i]), int(after[i])) for i in map(int, np.flatnonzero(before != after)))
        changes = tuple(
            Change(classes[label], classes[old], classes[new], count)
            for (label, old, new), count in changed.most_common()
        )
        accuracy = Accuracy(float((before == labels).mean()), float((after == labels).mean()), changes)
    return Comparison(len(errors), float((before == after).mean()), float(errors.mean()), float(errors.max()), accuracy)
