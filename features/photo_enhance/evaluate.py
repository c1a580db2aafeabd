"""Measures the committed programs beside baselines, and writes `evaluation.json` and the figures of CARD.md.

    python -m alcove.features.photo_enhance.evaluate --weights FOLDER --photos FOLDER

Photos of the development split, made worse by ways that nothing was fitted on.  PSNR and SSIM are against the photo as
it was.  Needs torch and Pillow.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.photo_enhance import card
from alcove.features.photo_enhance.baselines import bicubic, equalize
from alcove.features.photo_enhance.config import DEFAULT_VERSION, VARIANTS
from alcove.features.photo_enhance.contract import Recipe, program_path
from alcove.features.photo_enhance.dataset import photos
from alcove.features.photo_enhance.degrade import HELD, mild, to_bytes
from alcove.features.photo_enhance.drawn import drawings, scene
from alcove.features.photo_enhance.enhance import Enhancer
from alcove.features.photo_enhance.metrics import luma, psnr, ssim
from alcove.features.photo_enhance.networks.illumination import relight
from alcove.features.photo_enhance.weights import load_networks
from alcove.runtime import load
from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parent
LARGE: Final = 12
"""Photos that are enlarged."""
SIDE: Final = 192
"""Of their middle, in pixels; the small one has a quarter."""
LIGHT: Final = 24
"""Photos that light, colors and needs are measured on."""
Pixels = NDArray[np.uint8]


def _score(given: Pixels, truth: Pixels) -> list[float]:
    return [psnr(given, truth), ssim(luma(given), luma(truth))]


def _mean(rows: list[list[float]]) -> dict[str, float]:
    return dict(zip(("psnr_db", "ssim"), (float(each) for each in np.mean(rows, 0)), strict=True))


def _bicubic_by(scale: int, small: Pixels) -> Pixels:
    return bicubic(small, small.shape[0] * scale, small.shape[1] * scale)


def _keep(picture: Any, rng: np.random.Generator) -> Any:
    del rng
    return picture


def enlarge(pictures: list[Pixels], programs: Mapping[str, Enhancer], weights: Path) -> dict[str, Any]:
    """Return PSNR and SSIM of enlarging by 4 and by 2, by method."""
    network = load_networks(weights)[2]

    def run_network(small: Pixels) -> Pixels:
        with torch.no_grad():
            found = network(torch.from_numpy(small).permute(2, 0, 1).unsqueeze(0).float())
        enlarged: Pixels = found.clamp(0, 255).round()[0].permute(1, 2, 0).to(torch.uint8).numpy()
        return enlarged

    result: dict[str, Any] = {}
    for scale in (4, 2):
        ways: dict[str, Callable[[Pixels], Pixels]] = {"bicubic": partial(_bicubic_by, scale)}
        ways |= {name: partial(each.upscale, scale=scale) for name, each in programs.items()}
        if scale == 4:
            ways["published, whole picture"] = run_network
        rows: dict[str, list[list[float]]] = {name: [] for name in ways}
        for picture in pictures:
            small = bicubic(picture, picture.shape[0] // scale, picture.shape[1] // scale)
            for name, way in ways.items():
                rows[name].append(_score(way(small), picture))
        result[f"x{scale}"] = {name: _mean(each) for name, each in rows.items()}
    drawing = scene(240, 320)
    tiled = programs["f32" if "f32" in programs else "int8"].upscale(drawing, 4)
    result["tiles_psnr_db"] = psnr(tiled, run_network(drawing))
    return result


def restore(pictures: list[Pixels], enhancer: Enhancer, weights: Path) -> dict[str, Any]:
    """Return PSNR and SSIM of photos that were made worse, by way and by method; "none" are photos as they were."""
    network = load_networks(weights)[0]

    def run_network(given: Pixels) -> Pixels:
        with torch.no_grad():
            picture = torch.from_numpy(given).permute(2, 0, 1).unsqueeze(0).float() / 255
            return to_bytes(relight(picture, network(picture))[0].permute(1, 2, 0).numpy())

    ways: dict[str, Callable[[Pixels], Pixels]] = {
        "as it is": lambda given: given,
        "histogram equalization": equalize,
        "published SCI, full size": run_network,
        "light, full strength": lambda given: enhancer.enhance(given, Recipe(light=1, colors=0)),
        "colors, full strength": lambda given: enhancer.enhance(given, Recipe(light=0, colors=1)),
        "automatic": enhancer.enhance,
    }
    result: dict[str, Any] = {}
    rng = np.random.default_rng(11)
    for kind, change in [("none", _keep), ("mild", mild), *HELD.items()]:
        rows: dict[str, list[list[float]]] = {name: [] for name in ways}
        needs = []
        for truth in pictures:
            given = to_bytes(change((truth / 255).astype(np.float32), rng))
            answer = enhancer.analyze(given)
            needs.append([answer.low_light >= 0.5, answer.retouch >= 0.5, answer.clean >= 0.5])
            for name, way in ways.items():
                rows[name].append(_score(way(given), truth))
        result[kind] = {name: _mean(each) for name, each in rows.items()}
        result[kind]["needs"] = dict(zip(("low_light", "retouch", "clean"), np.mean(needs, 0).tolist(), strict=True))
    return result


def time_large(enhancer: Enhancer) -> dict[str, float]:
    """Return seconds of processor time for 12 megapixels, and for a small picture enlarged, medians of three."""
    large, small = np.ascontiguousarray(np.tile(scene(300, 400) // 3, (10, 10, 1))), scene()
    times: list[list[float]] = []
    for _ in range(3):
        began = time.process_time()
        enhancer.enhance(large, Recipe(light=1, colors=1))
        middle = time.process_time()
        enhancer.upscale(small, 4)
        times.append([middle - began, time.process_time() - middle])
    return dict(zip(("enhance_12mp_s", "upscale_240x180_s"), np.median(times, 0).tolist(), strict=True))


def main() -> None:
    """Measure, and write the record, the card's figures and the contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_single_person.csv and neighbors")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    there = [variant for variant in VARIANTS if program_path(DEFAULT_VERSION, variant).is_file()]
    programs = {each: Enhancer(load(program_path(DEFAULT_VERSION, each))) for each in there}
    chosen = photos(arguments.photos, "dev", LIGHT)
    large = [each for each in chosen if min(each.shape[:2]) >= SIDE][:LARGE]
    parts = [np.ascontiguousarray(each[:SIDE, :SIDE]) for each in large]
    result = {
        "version": DEFAULT_VERSION,
        "photos": {"enlarged": len(parts), "restored": len(chosen)},
        "needs": json.loads((FOLDER / "needs.json").read_text(encoding="utf-8"))["held"],
        "enlarge": enlarge(parts, programs, arguments.weights),
        "restore": restore(chosen, programs["int8"], arguments.weights),
        "times": time_large(programs["int8"]),
        "bytes": {each: program_path(DEFAULT_VERSION, each).stat().st_size for each in there},
    }
    (FOLDER / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    page = FOLDER / "CARD.md"
    page.write_text(replace_figures(page.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
    enhancer = programs["int8"]
    changed = {name: enhancer.enhance(pixels) for name, pixels in drawings().items()}
    (FOLDER / "contact_sheet.svg").write_text(card.sheet(drawings(), changed), encoding="utf-8")


if __name__ == "__main__":
    main()
