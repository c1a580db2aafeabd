"""Measures size, accuracy and agreement with float32 of each quantized variant of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from alcove.features.language_id.build import module_of_program
from alcove.features.language_id.contract import program_path
from alcove.features.language_id.evaluate import KINDS, dev_texts, predict
from alcove.features.language_id.metrics import Prediction, mean_accuracy
from alcove.runtime import Quantization, export, load
from alcove.runtime.program import Program

from benchmarks.quantization import data
from benchmarks.quantization.train import PLAN, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from alcove.runtime.compiler.quantize import QuantizationReport
    from numpy.typing import NDArray

BATCH: Final = 10
CALIBRATION: Final = 32  # batches
TITLES: Final = {
    "mobilenet": "MobileNetV3-small's blocks on CIFAR-10",
    "resnet": "ResNet-18, quarter width, on Intel scenes",
}
LANGUAGE_ID: Final = "4.1.0"
LANGUAGE_DATA: Final = data.SHARED.parent / "lid"
LANGUAGE_SAMPLES: Final = 256
LANGUAGE_TEXTS: Final = 20_000  # of each kind

STATIC: Final[dict[str, dict[str, Any]]] = {
    "int8": {},
    "int8, whole ranges": {"clipping": "minmax"},
    "int8, entropy": {"clipping": "entropy"},
    "int8, not equalized": {"equalize": False},
    "int8, biases not corrected": {"correct_bias": False},
    "int8, neither": {"equalize": False, "correct_bias": False},
}


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        variant: what was done.
        size_bytes: of the program.
        accuracy: share of right answers on held-out data.
        agreement: share of answers that are those of float32.
        note: where a budget kept layers in float32: how many.
    """

    variant: str
    size_bytes: int
    accuracy: float
    agreement: float
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """One model.

    Attributes:
        title: for people.
        rows: float32 first.
        report: of the plain int8 variant.
        tested: what the accuracy is of.
    """

    title: str
    rows: tuple[Row, ...]
    report: QuantizationReport | None
    tested: str


def vision(name: str, folder: Path = data.CACHE) -> Measured:
    """Return the variants of a vision model with weights from `folder`.

    Raises:
        FileNotFoundError: it was not trained there.
    """
    images = PLAN[name].load(data.SHARED)
    model = PLAN[name].make()
    model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    model.eval()
    cpu = torch.device("cpu")
    batches = [normalize(images.train[i * BATCH : (i + 1) * BATCH], cpu).contiguous() for i in range(CALIBRATION)]
    half = len(images.test) // 2 // BATCH * BATCH

    def right(run: Any, start: int, stop: int | None = None) -> float:
        return float((_answers(run, images.test[start:stop]) == images.test_labels[start:stop]).mean())

    programs = {"float32": export(model, (batches[0],))}
    for variant, options in STATIC.items():
        quantization = Quantization("int8", **options)
        programs[variant] = export(model, (batches[0],), quantize=quantization, calibration=batches)
    programs["int8, at most 0.2 points worse"] = export(
        model,
        (batches[0],),
        quantize="int8",
        calibration=batches,
        max_drop=0.002,
        metric=lambda run: right(run, 0, half),
    )
    labels = images.test_labels[half:]
    rows = _rows(
        programs,
        lambda run: _answers(run, images.test[half:]),
        lambda answers: float((answers == labels).mean()),
    )
    tested = f"{len(images.test) - half} images that neither training nor the budget saw"
    return Measured(TITLES[name], rows, programs["int8"].quantization, tested)


def language_id() -> Measured:
    """Return the variants of the committed language_id."""
    program = Program(program_path(LANGUAGE_ID).read_bytes())
    module = module_of_program(program, LANGUAGE_ID)
    kinds = dev_texts(LANGUAGE_DATA)
    samples = [text for texts in kinds.values() for _, text in texts[:: max(1, len(texts) // LANGUAGE_SAMPLES)]]
    tests = {kind: texts[1 :: max(2, len(texts) // LANGUAGE_TEXTS)] for kind, texts in kinds.items()}
    programs = {"float32": export(module, ("text",)), "int8 tables": export(module, ("text",), quantize="int8")}
    programs["int8"] = export(module, ("text",), quantize="int8", calibration=samples)
    for mode in ("int8_dynamic", "int8_weights", "int4_dynamic", "int4_weights"):
        programs[mode.replace("_", " ")] = export(module, ("text",), quantize=mode)

    predictions: dict[str, list[Prediction]] = {}

    def answers(run: Any) -> NDArray[Any]:
        predictions.update({kind: predict(run, tests[kind]) for kind in KINDS})
        return np.array([prediction.guess for kind in KINDS for prediction in predictions[kind]])

    def accuracy(_answers: NDArray[Any]) -> float:
        return float(np.mean([mean_accuracy(predictions[kind]) for kind in KINDS]))

    rows = _rows(programs, answers, accuracy)
    tested = f"{sum(map(len, tests.values()))} development texts, mean over kinds"
    return Measured(f"language_id {LANGUAGE_ID}", rows, programs["int8"].quantization, tested)


def _answers(run: Callable[..., list[Any]], pixels: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the class that a program gives for each image."""
    found = []
    for start in range(0, len(pixels), BATCH):
        part = pixels[start : start + BATCH]
        padded = np.concatenate([part, pixels[: BATCH - len(part)]])
        x = normalize(padded, torch.device("cpu")).contiguous().numpy()
        found.append(run(x)[0].argmax(axis=1)[: len(part)])
    return np.concatenate(found)


def _rows(
    programs: dict[str, Program], answer: Callable[[Any], NDArray[Any]], accuracy: Callable[[NDArray[Any]], float]
) -> tuple[Row, ...]:
    """Return a row for each program; `accuracy` judges the answers that `answer` has just given."""
    sessions = {variant: load(bytes(program)).session() for variant, program in programs.items()}
    rows = []
    exact: NDArray[Any] | None = None
    for variant, program in programs.items():
        answers = answer(sessions[variant])
        exact = answers if exact is None else exact
        agreement = float((answers == exact).mean())
        row = Row(variant, len(bytes(program)), accuracy(answers), agreement, _note(program))
        rows.append(row)
    return tuple(rows)


def _note(program: Program) -> str:
    report = program.quantization
    if report is None or report.max_drop is None:
        return ""
    kept: Sequence[str] = [layer.layer for layer in report.kept_float if layer.reason == "it costs too much accuracy"]
    return "nothing kept in float32" if not kept else f"in float32: {', '.join(kept)}"
