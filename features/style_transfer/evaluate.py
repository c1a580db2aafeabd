"""Measures the committed program beside baselines, and writes `evaluation.json`, the card's figures and the sheet.

    python -m alcove.features.style_transfer.evaluate --run RUN --weights FOLDER --paintings FOLDER --photos FOLDER

Photos of the development split, which nothing learned from.  Losses are those of `losses.py`; boil is the mean change
of a frame between two pictures of a camera: standing, with the noise of a sensor, and moving, against the first frame
moved as the camera was.  Needs torch and Pillow.
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
from alcove.features.photo_enhance.drawn import scene
from alcove.features.style_transfer import card
from alcove.features.style_transfer.baselines import transfer_colors
from alcove.features.style_transfer.build import module_of
from alcove.features.style_transfer.config import COLUMNS, DEFAULT_VERSION, ROWS, STYLES
from alcove.features.style_transfer.contract import program_path
from alcove.features.style_transfer.dataset import find_photos, read_painting
from alcove.features.style_transfer.frames import fit_frame
from alcove.features.style_transfer.losses import camera_motion, content_loss, gram, load_maps, move, style_loss
from alcove.features.style_transfer.network import one_style
from alcove.features.style_transfer.train import TrainingPlan
from alcove.runtime import load
from numpy.typing import NDArray
from torch import Tensor

FOLDER: Final = Path(__file__).parent
PHOTOS: Final = 4
SENSOR_NOISE: Final = 2.55
"""Standard deviation of a sensor's noise, of values 0 to 255; that of the training."""
FRAMES: Final = 15
WARM_UP: Final = 3
Pixels = NDArray[np.uint8]
Paint = Callable[[Pixels, int], Pixels]


def to_tensor(pixels: Pixels) -> Tensor:
    """Return f32 [1, 3, rows, columns] in [0, 1] of uint8 [rows, columns, 3]."""
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(torch.float32) / 255.0


def measure_losses(
    ways: dict[str, Paint], photos: Sequence[Pixels], paintings: Sequence[Tensor], weights: Path
) -> dict[str, Any]:
    """Return losses of style and content by way, style by style."""
    maps = load_maps(weights)
    result: dict[str, Any] = {name: {} for name in ways}
    with torch.no_grad():
        shown = [maps(to_tensor(photo)) for photo in photos]
        for number, style in enumerate(STYLES):
            targets = [gram(each) for each in maps(paintings[number])]
            for name, paint in ways.items():
                found = [maps(to_tensor(paint(photo, number))) for photo in photos]
                result[name][style] = {
                    "style": float(np.mean([float(style_loss(each, targets)) for each in found])),
                    "content": float(
                        np.mean([float(content_loss(each, of)) for each, of in zip(found, shown, strict=True)])
                    ),
                }
    return result


def measure_boil(ways: dict[str, Paint], photos: Sequence[Pixels]) -> dict[str, dict[str, float]]:
    """Return mean changes of frames, of values 0 to 255, by way; "as it is" is the camera's own."""
    rng, generator = np.random.default_rng(3), torch.Generator().manual_seed(3)
    changes: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number, photo in enumerate(photos):
        noisy = [_with_noise(photo, rng) for _ in range(2)]
        motion = camera_motion(1, generator, shift=0.02, zoom=0.01)
        moved = _move_photo(photo, motion)[0]
        for name, paint in ways.items():
            style = number % len(STYLES)
            standing = np.abs(paint(noisy[0], style).astype(np.float32) - paint(noisy[1], style)).mean()
            expected, is_seen = _move_photo(paint(photo, style), motion)
            difference = np.abs(paint(moved, style).astype(np.float32) - expected)[is_seen]
            changes[name].append((float(standing), float(difference.mean())))
    return {
        name: dict(zip(("standing", "moving"), np.mean(each, 0).tolist(), strict=True))
        for name, each in changes.items()
    }


def _with_noise(photo: Pixels, rng: np.random.Generator) -> Pixels:
    noisy: Pixels = np.rint(np.clip(photo + rng.normal(0, SENSOR_NOISE, photo.shape), 0, 255)).astype(np.uint8)
    return noisy


def _move_photo(photo: Pixels, motion: Tensor) -> tuple[Pixels, NDArray[np.bool_]]:
    moved, is_seen = move(to_tensor(photo), motion)
    pixels = (moved[0].permute(1, 2, 0).clamp(0, 1) * 255 + 0.5).to(torch.uint8).numpy()
    return pixels, is_seen[0, 0].numpy() > 0


def peak_signal_db(one: Sequence[Pixels], other: Sequence[Pixels]) -> float:
    """Return PSNR of all pictures together."""
    error = np.mean([np.mean((a.astype(np.float64) - b) ** 2) for a, b in zip(one, other, strict=True)])
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def time_frames(path: Path) -> dict[str, float]:
    """Return processor time of a frame, in ms on one core: the median and the least."""
    session = load(path).session()
    inputs = scene(ROWS, COLUMNS), one_style(0).numpy(), np.ones(1, np.float32)
    times_ms = []
    for _ in range(WARM_UP + FRAMES):
        began_s = time.process_time()
        session(*inputs)
        times_ms.append(1000 * (time.process_time() - began_s))
    return {"median": float(np.median(times_ms[WARM_UP:])), "least": min(times_ms[WARM_UP:])}


def main() -> None:
    """Measure, and write the record, the card's figures and the contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (
        ("--run", "folder that train.py filled"),
        ("--weights", "folder of the published weights"),
        ("--paintings", "folder with paintings.csv"),
        ("--photos", "folder with coco_single_person.csv"),
    ):
        parser.add_argument(name, type=Path, required=True, help=what)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    path = program_path(DEFAULT_VERSION)
    session, module = load(path).session(), module_of(arguments.run)
    paintings = [read_painting(arguments.paintings, name, TrainingPlan.painting_side) for name in STYLES]

    def run_program(frame: Pixels, style: int) -> Pixels:
        return np.array(session(frame, one_style(style).numpy(), np.ones(1, np.float32))[0])

    def run_module(frame: Pixels, style: int) -> Pixels:
        with torch.no_grad():
            painted: Pixels = module(torch.from_numpy(frame), one_style(style), torch.ones(1)).numpy()
        return painted

    ways: dict[str, Paint] = {
        "as it is": lambda frame, _: frame,
        "color transfer": lambda frame, style: transfer_colors(frame, paintings[style]),
        "int8": run_program,
    }
    photos = [fit_frame(packed.pixels()) for packed in find_photos(arguments.photos, "dev")[:PHOTOS]]
    pairs = [(photo, number % len(STYLES)) for number, photo in enumerate([*photos, *photos])]
    result = {
        "version": DEFAULT_VERSION,
        "photos": len(photos),
        "losses": measure_losses(ways, photos, [to_tensor(each) for each in paintings], arguments.weights),
        "boil": measure_boil(ways, photos),
        "int8_psnr_db": peak_signal_db([run_program(*each) for each in pairs], [run_module(*each) for each in pairs]),
        "frame_ms": time_frames(path),
        "bytes": {"int8": path.stat().st_size},
    }
    (FOLDER / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    page = FOLDER / "CARD.md"
    page.write_text(replace_figures(page.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
    drawn = scene(ROWS, COLUMNS)
    shown = {"drawn": drawn} | {name: run_program(drawn, number) for number, name in enumerate(STYLES)}
    (FOLDER / "contact_sheet.svg").write_text(card.sheet(shown), encoding="utf-8")


if __name__ == "__main__":
    main()
