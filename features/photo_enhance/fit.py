"""Fits what a picture needs to photos that were made worse.

    python -m alcove.features.photo_enhance.fit --photos FOLDER

Logistic regression over the statistics and their square roots, with a penalty on the weights, by Newton's method: 39
numbers, written to `needs.json`.  Photos are those whose license allows it.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.photo_enhance.config import NEEDS, STATISTICS
from alcove.features.photo_enhance.contract import PhotoEnhance
from alcove.features.photo_enhance.dataset import photos
from alcove.features.photo_enhance.degrade import FIT, HELD, mild, to_bytes
from alcove.features.photo_enhance.model import statistics
from numpy.typing import NDArray

NEEDS_FILE: Final = Path(__file__).parent / "needs.json"
PENALTY: Final = 1e-3
"""On squared weights, as a share of the samples."""
PHOTOS: Final = 240
STEPS: Final = 60


def measure(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the terms of the regression for a picture, [12]."""
    small, detail = (
        torch.from_numpy(given).to(torch.float32).permute(2, 0, 1).unsqueeze(0) / 255
        for given in PhotoEnhance().prepare(pixels)
    )
    found = statistics(small, detail).numpy().astype(np.float64)
    return np.concatenate([found, np.sqrt(found)])


def samples(pictures: list[NDArray[np.uint8]], *, is_held: bool, seed: int) -> tuple[Any, Any]:
    """Return terms and truths of photos and of what was made of them, [samples, 12] and bool [samples, 3].

    Args:
        pictures: uint8 [height, width, 3].
        is_held: whether they are made worse by `degrade.HELD`, not by `degrade.FIT`.
        seed: of the randomness.
    """
    rng, ways = np.random.default_rng(seed), HELD if is_held else FIT
    terms, truths = [], []
    for pixels in pictures:
        picture = (pixels / 255).astype(np.float32)
        worse = [(name, way(picture, rng)) for name, way in ways.items()]
        for name, changed in [("none", picture), ("none", mild(picture, rng)), *worse]:
            terms.append(measure(to_bytes(changed)))
            truths.append((name in {"low_light", "curve"}, name == "retouch", name != "noise"))
    return np.array(terms), np.array(truths)


def regress(terms: NDArray[np.float64], truth: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Return weights and bias of a logistic regression in which both answers count the same."""
    mean, spread = terms.mean(0), terms.std(0)
    given = np.concatenate([(terms - mean) / spread, np.ones((len(terms), 1))], 1)
    counts = np.where(truth, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
    penalty = PENALTY * len(terms) * np.diag([*np.ones(terms.shape[1]), 0.0])
    found = np.zeros(given.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-given @ found))
        gradient = given.T @ (counts * (likely - truth)) + penalty @ found
        curve = (given * (counts * likely * (1 - likely))[:, None]).T @ given + penalty + 1e-9 * np.eye(len(found))
        found -= np.linalg.solve(curve, gradient)
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)


def balanced_accuracy(terms: NDArray[np.float64], truth: NDArray[np.bool_], fitted: dict[str, Any]) -> dict[str, float]:
    """Return the mean of the shares that are right among pictures with and without each need."""
    scores = terms @ np.array(fitted["weights"]).T + np.array(fitted["bias"]) > 0
    found = {}
    for at, name in enumerate(NEEDS):
        has = truth[:, at]
        found[name] = float(scores[has, at].mean() + (~scores[~has, at]).mean()) / 2
    return found


def main() -> None:
    """Fit, judge on other photos made worse in other ways, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_single_person.csv and neighbors")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    terms, truth = samples(photos(arguments.photos, "train", PHOTOS), is_held=False, seed=1)
    pairs = [regress(terms, truth[:, at]) for at in range(len(NEEDS))]
    fitted = {
        "terms": [*STATISTICS, *(f"sqrt({name})" for name in STATISTICS)],
        "needs": list(NEEDS),
        "weights": [[round(float(each), 5) for each in weights] for weights, _ in pairs],
        "bias": [round(bias, 5) for _, bias in pairs],
        "photos": PHOTOS,
        "fitted": balanced_accuracy(terms, truth, {"weights": [w for w, _ in pairs], "bias": [b for _, b in pairs]}),
    }
    held = samples(photos(arguments.photos, "dev", PHOTOS // 2), is_held=True, seed=2)
    fitted["held"] = balanced_accuracy(*held, fitted)
    NEEDS_FILE.write_text(json.dumps(fitted, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({"fitted": fitted["fitted"], "held": fitted["held"]}))  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
