"""Makes certified programs of folders of transformers that take texts or sounds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import typer
from alcove.platform.cli.importing.comparison import (
    Numbers,
    Reading,
    best_output,
    module_answers,
    nearest_sample,
)
from alcove.platform.cli.importing.folders import Folder
from alcove.platform.cli.importing.front_ends import make_front_end
from alcove.platform.cli.importing.pictures import spread
from alcove.platform.cli.importing.pretrained import Pretrained, read_pretrained
from alcove.platform.cli.importing.programs import CERTIFIED, Imported, Int8, Labels, Samples, make_program
from alcove.platform.cli.importing.sounds import (
    SoundModel,
    check_seconds,
    feature_difference,
    read_sound,
    sound_files,
)
from alcove.platform.cli.importing.texts import (
    OWN,
    TextModel,
    check_length,
    count_other_tokens,
    read_pooling,
    read_texts,
    read_tokenizer,
)
from alcove.runtime.certificate import Procedural, Sample

COMPARED: Final = 3
"""Sounds on which the front end is compared with transformers'."""
MADE: Final = 4
"""Sounds by a rule, from which those of a certificate are chosen."""


def import_texts(
    folder: Folder,
    path: Path,
    *,
    task: str | None,
    length: int | None,
    samples: int,
    int8: Int8 | None,
    classes: Path | None = None,
) -> Imported:
    """Return the certified program of a text model, behind its tokenizer.

    Args:
        folder: of transformers, with weights and a tokenizer.
        path: a file of texts, with labels or without.
        task: what the program gives; None for what the weights were trained for.
        length: most tokens of a text; None for 128, or fewer where the model has fewer places.
        samples: at most this number of texts for the calibration, and as many for the comparison.
        int8: None for float32.
        classes: a file with the name of each output in a line, in place of the config's names.

    Raises:
        typer.BadParameter: anything of these is not as above; names the file, the keys or the argument.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    texts = read_texts(path)
    places = check_length(folder, length)
    tokenizer = read_tokenizer(folder)
    pretrained = _rename_outputs(read_pretrained(folder, task), classes)
    module = TextModel(pretrained, tokenizer, places, read_pooling(folder)).eval()
    reading = _reading(pretrained)
    order = spread(range(len(texts.texts)), 2 * samples)
    chosen = [texts.texts[index] for index in order]
    own = _clearest(module_answers(module, OWN, reading), reading)
    given = Samples(chosen, samples, [Sample(inputs=(OWN[i],), source="alcove") for i in own], "own text")
    notes = list(pretrained.notes)
    others = count_other_tokens(folder, tokenizer, chosen, places)
    if others is not None:
        notes.append(f"same tokens as transformers for {len(chosen) - others} of {len(chosen)} texts")
    cut = sum(len(tokenizer.encode(text)) > places for text in chosen)
    if cut:
        notes.append(f"{cut} of {len(chosen)} texts are longer than {places} tokens and were cut (--length)")
    labels = Labels()
    if texts.labels and pretrained.task == "classification":
        compared = [texts.labels[order[i]] for i in given.compared]
        labels = Labels(pretrained.labels, _indices(path, compared, pretrained.labels))
    expected = module_answers(module, [given.inputs[i] for i in given.compared], reading)
    return make_program(module, given, expected, labels, reading=reading, int8=int8, notes=tuple(notes))


def import_sounds(
    folder: Folder,
    path: Path,
    *,
    task: str | None,
    seconds: float | None,
    samples: int,
    int8: Int8 | None,
    classes: Path | None = None,
) -> Imported:
    """Return the certified program of an audio model, behind its front end.

    Args:
        folder: of transformers, with weights and `preprocessor_config.json`.
        path: a folder of WAV files; its folders are labels where they have the names of the model's.
        task: as `import_texts` takes it.
        seconds: of sound that the program takes; None for the model's own length, or 5.
        samples: at most this number of sounds for the calibration, and as many for the comparison.
        int8: None for float32.
        classes: a file with the name of each output in a line, in place of the config's names.

    Raises:
        typer.BadParameter: anything of these is not as above; names the file, the keys or the argument.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    files = spread(sound_files(path), 2 * samples)
    front = make_front_end(folder)
    count = check_seconds(front, seconds)
    sounds = [read_sound(each, front.rate, count) for each in files]
    pretrained = _rename_outputs(read_pretrained(folder, task), classes)
    if pretrained.config.model_type == "whisper" and pretrained.task == "tokens":
        raise typer.BadParameter("--task tokens is for models with one label a frame; Whisper gives an embedding")
    module = SoundModel(pretrained, front).eval()
    reading = _reading(pretrained)
    rules = [Procedural("smooth", "f32", (count,), seed, -0.5, 0.5) for seed in range(MADE)]
    clearest = _clearest(module_answers(module, [rule.elements() for rule in rules], reading), reading)
    made = [Sample(inputs=(rules[i],), source="made by a rule") for i in clearest]
    given = Samples(sounds, samples, made)
    notes = list(pretrained.notes)
    share = feature_difference(folder, front, sounds[:COMPARED])
    if share is not None:
        notes.append(f"what the model takes differs from transformers' by {share:.1e} of its range at most")
    labels = Labels()
    compared = [files[i] for i in given.compared]
    if pretrained.task == "classification":
        labels = _folder_labels(path, compared, pretrained.labels)
    expected = module_answers(module, [given.inputs[i] for i in given.compared], reading)
    return make_program(module, given, expected, labels, reading=reading, int8=int8, notes=tuple(notes))


def _reading(pretrained: Pretrained) -> Reading:
    if pretrained.task == "embedding":
        return Reading(nearest_sample, word="nearest other one", has_angles=True)
    by_row = pretrained.task == "tokens"
    return Reading(best_output, by_row, "label of every token" if by_row else "best output")


def _clearest(answers: Numbers, reading: Reading) -> list[int]:
    """Return the places of those texts of ours whose best output is clearest: labels of certificates are exact."""
    if reading.best is not best_output:
        return list(range(CERTIFIED))
    ordered = np.sort(answers, axis=2)
    margins = (ordered[:, :, -1] - ordered[:, :, -2]).min(axis=1) if answers.shape[2] > 1 else np.ones(len(answers))
    return sorted(int(i) for i in np.argsort(-margins, kind="stable")[:CERTIFIED])


def _indices(path: Path, labels: Sequence[str], names: Sequence[str]) -> list[int]:
    known = {name: index for index, name in enumerate(names)} | {str(i): i for i in range(len(names))}
    known |= {name.lower(): index for name, index in known.items()}
    strange = sorted({label for label in labels if label not in known and label.lower() not in known})
    if strange:
        shown = ", ".join(repr(each) for each in strange[:5])
        raise typer.BadParameter(
            f"--texts {path}: labels {shown} are none of the model's: {', '.join(names[:20])}; name its outputs "
            "in order: --classes FILE"
        )
    return [known[label] if label in known else known[label.lower()] for label in labels]


def _folder_labels(path: Path, files: Sequence[Path], names: Sequence[str]) -> Labels:
    folders = [file.relative_to(path).parts[0] if file.parent != path else "" for file in files]
    known = {name: index for index, name in enumerate(names)}
    if not set(folders) <= set(known):
        return Labels()
    return Labels(names, [known[each] for each in folders])


def _rename_outputs(pretrained: Pretrained, classes: Path | None) -> Pretrained:
    """Return the model with the names of its outputs that a file has.

    Raises:
        typer.BadParameter: the file has another number of names, or the model has no outputs with names.
    """
    if classes is None:
        return pretrained
    names = tuple(classes.read_text("utf-8").splitlines())
    if len(names) != len(pretrained.labels) or len(set(names)) != len(names):
        raise typer.BadParameter(
            f"--classes {classes}: {len(set(names))} different names, but the model has {len(pretrained.labels)} "
            f"outputs with names (--task {pretrained.task})"
        )
    return replace(pretrained, labels=names)
