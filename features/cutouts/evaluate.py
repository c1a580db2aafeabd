"""Evaluates the committed programs beside DeepLab on photos that nothing was trained on; writes the card's figures.

    python -m alcove.features.cutouts.evaluate --photos FOLDER --weights FOLDER --run RUN

Masks are compared at the photo's size.  A tap is in the middle of the thing; a second and third one where the mask is
most wrong.  DeepLab sees the photo with its longer side at 513 pixels, as published; it knows classes, not taps: of
people its person class counts, of a tapped thing the connected part of the tapped class would be more than an app gets
from it, so it has no row there.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.cutouts import card
from alcove.features.cutouts.config import DEFAULT_VERSION, SIZE
from alcove.features.cutouts.contract import Cutouts, program_path
from alcove.features.cutouts.cutting import Cutting
from alcove.features.cutouts.dataset import Photo, read_photos
from alcove.features.cutouts.deep_lab import PERSON, load_deep_lab
from alcove.features.cutouts.drawn import drawings
from alcove.features.cutouts.metrics import boundary_f, inner_point, iou, next_tap
from alcove.features.cutouts.request import Box, Tap
from alcove.runtime import Model, load
from numpy.typing import NDArray
from rich.progress import track
from torch.nn import functional

LEAST: Final = 0.02
"""Share of the picture from which on a thing counts for the goal of one tap."""
SIZES: Final = ((0.005, 0.02), (0.02, 0.05), (0.05, 0.15), (0.15, 1.0))
"""Shares of the picture, from and to."""
LOOKED_AT: Final = {"people": 60, "things": 35, "clothes": 20}
"""Photos of the development split, the first ones of each set."""
TAPPED: Final = 3
"""Taps, at most."""
WHOLE: Final = 513
"""Longer side of the picture that DeepLab sees."""
TIMED: Final = 30
SIDE: Final = 512
"""Of the photo that times are measured with."""

Mask = NDArray[np.bool_]
Person = Callable[[NDArray[np.uint8]], Mask]


def deep_lab_of(weights: Path) -> Person:
    """Return what gives the mask of people in a photo, by the published network."""
    network = load_deep_lab(weights)

    @torch.no_grad()
    def find(pixels: NDArray[np.uint8]) -> Mask:
        height, width = pixels.shape[:2]
        scale = WHOLE / max(height, width)
        size = max(1, round(height * scale)), max(1, round(width * scale))
        x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
        x = functional.interpolate(x, size, mode="bilinear", antialias=True) / 128 - 1
        x = functional.pad(x, (0, WHOLE - size[1], 0, WHOLE - size[0]))
        scores = network(x)[:, :, : size[0], : size[1]]
        scores = functional.interpolate(scores, (height, width), mode="bilinear")
        return (scores.argmax(1)[0] == PERSON).numpy()

    return find


def of_people(model: Model, baseline: Person, photos: Sequence[Photo], what: str) -> dict[str, Any]:
    """Return how right masks of people are: with nothing, with one tap, and of DeepLab."""
    rows: dict[str, list[tuple[float, float]]] = {"nothing": [], "tap": [], "deeplab": []}
    shares = []
    for photo in track(photos, description=what, transient=True):
        pixels, truth = photo.pixels(), photo.objects() > 0
        cutting = Cutting(model, pixels)
        masks = {
            "nothing": cutting.cut().alpha(pixels) >= 0.5,
            "tap": cutting.cut([Tap(*inner_point(truth))], anew=True).alpha(pixels) >= 0.5,
            "deeplab": baseline(pixels),
        }
        for name, mask in masks.items():
            rows[name].append((iou(mask, truth), boundary_f(mask, truth)))
        shares.append(float(truth.mean()))
    large = np.array(shares) >= LEAST
    return {
        name: {
            "iou": float(np.mean([row[0] for row in found])),
            "boundary_f": float(np.mean([row[1] for row in found])),
            "iou_large": float(np.array([row[0] for row in found])[large].mean()),
            "boundary_f_large": float(np.array([row[1] for row in found])[large].mean()),
        }
        for name, found in rows.items()
    } | {"photos": len(photos), "large": int(large.sum())}


def of_things(model: Model, photos: Sequence[Photo], what: str) -> dict[str, Any]:
    """Return how right masks of tapped things are, by size: after one, two and three taps, and with a box."""
    found: list[tuple[float, list[float], float, float]] = []
    for photo in track(photos, description=what, transient=True):
        pixels, objects = photo.pixels(), photo.objects()
        cutting = Cutting(model, pixels)
        for value in np.unique(objects[objects > 0]):
            truth = objects == value
            share = float(truth.mean())
            if share < SIZES[0][0]:
                continue
            taps = [Tap(*inner_point(truth))]
            mask = cutting.cut(taps, anew=True).alpha(pixels) >= 0.5
            overlap, edge = [iou(mask, truth)], boundary_f(mask, truth)
            while len(overlap) < TAPPED:
                if (place := next_tap(mask, truth)) is not None:
                    taps.append(Tap(*place))
                    mask = cutting.cut(taps).alpha(pixels) >= 0.5
                overlap.append(iou(mask, truth))
            mask = cutting.cut(box=_box_of(truth), anew=True).alpha(pixels) >= 0.5
            found.append((share, overlap, iou(mask, truth), edge))
    return {f"{low:g}-{high:g}": _mean([each for each in found if low <= each[0] < high]) for low, high in SIZES} | {
        "all": _mean([each for each in found if each[0] >= LEAST])
    }


def _box_of(truth: Mask) -> Box:
    columns, rows = np.flatnonzero(truth.any(axis=0)), np.flatnonzero(truth.any(axis=1))
    height, width = truth.shape
    return Box(columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)


def _mean(found: Sequence[tuple[float, list[float], float, float]]) -> dict[str, Any]:
    if not found:
        return {"things": 0}
    return {
        "things": len(found),
        "taps": np.mean([each[1] for each in found], axis=0).tolist(),
        "box": float(np.mean([each[2] for each in found])),
        "boundary_f": float(np.mean([each[3] for each in found])),
    }


def times(path: Path) -> dict[str, float]:
    """Return least and median times for a photo of 512 x 512 in milliseconds, from Python, one thread."""
    feature, model = Cutouts(), load(path)
    session = model.session()
    pixels = np.ascontiguousarray(np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8))
    spent: dict[str, list[float]] = {"prepare": [], "first": [], "tap": [], "alpha": [], "sticker": []}

    def add(name: str, began: float) -> float:
        now = time.perf_counter()
        spent[name].append(1000 * (now - began))
        return now

    for _ in range(TIMED):
        at = time.perf_counter()
        given = feature.prepare(pixels, [Tap(0.5, 0.5)])
        at = add("prepare", at)
        outputs = session(*given)
        at = add("first", at)
        outputs[:2] = session.run("tap", *given[1:3], outputs[0], *outputs[2:])
        answer = feature.decode(outputs)
        at = add("tap", at)
        answer.alpha(pixels)
        at = add("alpha", at)
        if answer.is_found:
            answer.sticker(pixels)
            add("sticker", at)
    least = {f"{name}_least": float(np.min(values)) for name, values in spent.items() if values}
    return {name: float(np.median(values)) for name, values in spent.items() if values} | least


def evaluate(folder: Path, weights: Path, run: Path) -> dict[str, Any]:
    """Return all figures as JSON values.

    Args:
        folder: of the photos, with coco_instances.csv and neighbors.
        weights: folder of the published weights.
        run: folder with the float32 program.

    Raises:
        FileNotFoundError: data, weights or a program are missing.
    """
    committed = program_path(DEFAULT_VERSION)
    exact = run / f"{committed.stem}-f32.alc"
    models = {"int8": load(committed), "float32": load(exact)}
    baseline = deep_lab_of(weights)
    people, things, clothes = (
        [photo for photo in read_photos(folder, kind) if photo.is_dev][:most] for kind, most in LOOKED_AT.items()
    )
    return {
        "version": DEFAULT_VERSION,
        "size": SIZE,
        "people": of_people(models["int8"], baseline, people, "people"),
        "clothes": of_people(models["int8"], baseline, clothes, "fashion photos"),
        "things": {name: of_things(model, things, f"things, {name}") for name, model in models.items()},
        "bytes": {"int8": committed.stat().st_size, "float32": exact.stat().st_size},
        "times_ms": times(committed),
    }


def answers_of_drawings() -> dict[str, Any]:
    """Return what the committed version cuts out of the drawn pictures."""
    feature = Cutouts()
    session = load(feature.default_program).session()
    return {
        name: feature.decode(session(*feature.prepare(each.pixels, each.taps))) for name, each in drawings().items()
    }


def main() -> None:
    """Evaluate the committed version and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--run", type=Path, required=True, help="folder with the float32 program")
    parser.add_argument("--times", action="store_true", help="measure times alone; the other figures stay")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and pictures to a card")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.times:
        kept = json.loads((Path(__file__).parent / "evaluation.json").read_text(encoding="utf-8"))
        result = kept | {"times_ms": times(program_path(DEFAULT_VERSION))}
    else:
        result = evaluate(arguments.photos, arguments.weights, arguments.run)
    print(card.figures(result))  # noqa: T201 (what the command is for)
    if arguments.write:
        path: Path = arguments.write
        path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
        (path.parent / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (path.parent / "contact_sheet.svg").write_text(card.sheet(answers_of_drawings()), encoding="utf-8")


if __name__ == "__main__":
    main()
