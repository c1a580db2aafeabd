"""Compares an imported program's answers with its module's, on the team's samples."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import typer
from alcove.runtime import load
from numpy.typing import NDArray
from torch import Tensor, nn

SHOWN: Final = 5

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]
Input = str | NDArray[Any]
"""What a program takes: a text, pixels, or a sound."""


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
class ClassAccuracy:
    """How often the best output is one class, for its pictures.

    Attributes:
        folder: the class.
        pictures: how many it has.
        torch: for how many of them the module in float32 says so.
        program: likewise.
    """

    folder: str
    pictures: int
    torch: int
    program: int


@dataclass(frozen=True)
class Accuracy:
    """How often the best output is the picture's class.

    Attributes:
        torch: share of pictures, of the module in float32.
        program: likewise.
        changes: what changed, most pictures first.
        classes: each that has pictures, in the order of the outputs.
    """

    torch: float
    program: float
    changes: tuple[Change, ...]
    classes: tuple[ClassAccuracy, ...] = ()


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


def best_output(answers: Numbers) -> Places:
    """Return the place of the greatest output of each row, [samples, rows]."""
    found: Places = answers.argmax(axis=2)
    return found


def nearest_sample(answers: Numbers) -> Places:
    """Return the place of the other sample whose vector has the least angle to each one's, [samples, 1]."""
    flat = answers.reshape(len(answers), -1)
    unit = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    near = unit @ unit.T
    np.fill_diagonal(near, -2.0)
    found: Places = near.argmax(axis=1)[:, None]
    return found


@dataclass(frozen=True)
class Reading:
    """How answers are read.

    Attributes:
        best: what counts as the answer, [samples, rows], of f64 [samples, rows, outputs].
        by_row: whether the output's last axis is compared for each of the others, as labels of tokens are.
        word: what is best.
        has_angles: whether answers are vectors, which agree by the cosine of their angle while int8 is chosen.
    """

    best: Callable[[Numbers], Places] = best_output
    by_row: bool = False
    word: str = "best output"
    has_angles: bool = False

    def agreement(self, expected: Numbers, found: Numbers) -> float:
        """Return how much of the answers is the same, up to 1: samples with the same best, or the mean cosine."""
        if not self.has_angles:
            return float((self.best(expected) == self.best(found)).all(axis=1).mean())
        left, right = expected.reshape(len(expected), -1), found.reshape(len(found), -1)
        lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        return float(((left * right).sum(axis=1) / np.maximum(lengths, 1e-12)).mean())

    def numbers(self, output: NDArray[Any]) -> Numbers:
        """Return the output for one sample as f64 [rows, outputs]."""
        return output.astype(np.float64).reshape((-1, output.shape[-1]) if self.by_row else (1, -1))


def tensor_of(value: Input) -> Tensor:
    """Return a sample as a torch module takes it."""
    if isinstance(value, str):
        return torch.tensor(list(value.encode("utf-8")), dtype=torch.uint8)
    return torch.from_numpy(value)


def module_answers(module: nn.Module, samples: Sequence[Input], reading: Reading) -> Numbers:
    """Return the first output of a module for each sample, f64 [samples, rows, outputs]."""
    with torch.no_grad():
        return np.stack([reading.numbers(_first(module(tensor_of(sample)))) for sample in samples])


def program_answers(program: bytes, samples: Sequence[Input], reading: Reading) -> Numbers:
    """Return the first output of a program for each sample, f64 [samples, rows, outputs]."""
    session = load(program).session()
    return np.stack([reading.numbers(session(sample)[0]) for sample in samples])


def _first(found: Any) -> NDArray[Any]:
    if isinstance(found, Mapping):
        found = next(iter(found.values()))
    first = found if isinstance(found, Tensor) else found[0]
    array: NDArray[Any] = first.numpy()
    return array


def compare_answers(
    expected: Numbers, native: Numbers, classes: Sequence[str], labels: Sequence[int], reading: Reading
) -> Comparison:
    """Compare answers to samples, both f64 [samples, rows, outputs]; `labels` are indices into `classes`, or empty."""
    flat, other = expected.reshape(len(expected), -1), native.reshape(len(native), -1)
    spans = np.ptp(flat, axis=1)
    errors = np.abs(other - flat).max(axis=1) / np.where(spans > 0, spans, 1.0)
    before, after = reading.best(expected), reading.best(native)
    is_same = (before == after).all(axis=1)
    accuracy = None
    if labels:
        changed = Counter((labels[i], int(before[i, 0]), int(after[i, 0])) for i in map(int, np.flatnonzero(~is_same)))
        changes = tuple(
            Change(classes[label], classes[old], classes[new], count)
            for (label, old, new), count in changed.most_common()
        )
        right = np.asarray(labels)
        was, is_now = before[:, 0] == right, after[:, 0] == right
        by_class = tuple(
            ClassAccuracy(
                classes[label],
                int((right == label).sum()),
                int(was[right == label].sum()),
                int(is_now[right == label].sum()),
            )
            for label in sorted(set(labels))
        )
        accuracy = Accuracy(float(was.mean()), float(is_now.mean()), changes, by_class)
    return Comparison(len(errors), float(is_same.mean()), float(errors.mean()), float(errors.max()), accuracy)
