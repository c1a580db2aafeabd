"""Evaluates the committed program beside DeepLab on photos that nothing was trained on; writes the card's figures.

    python -m alcove.features.background.evaluate --photos FOLDER --weights FOLDER --write features/background/CARD.md

Frames of held photos: crops around people, and people cut out and put before held photos without people, as webcams see
them.  Clips of them (`clips.py`) measure flicker: how much alpha changes from a frame to the next at places where the
frames without noise are the same, by the stream as it is and by a new stream for every frame.  DeepLab sees each frame
enlarged to 513 pixels, as published, and its person class counts.  Times are those of one thread's processor time, as
the machine may do other work.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.background import card
from alcove.features.background.clips import Shot, camera_clip, webcam_clip
from alcove.features.background.composites import LEAST, Frame, FrameMaker
from alcove.features.background.composition import Blur, Replacement, Scene, Stage
from alcove.features.background.config import DEFAULT_VERSION
from alcove.features.background.contract import Background, program_path
from alcove.features.background.dataset import Still, dev_stills
from alcove.features.background.drawn import LOOKS, draw_clip
from alcove.features.background.stream import BackgroundStream
from alcove.features.card_figures import replace_figures
from alcove.features.cutouts.deep_lab import PERSON, load_deep_lab
from alcove.features.cutouts.metrics import boundary_f, iou
from alcove.runtime import Model, load
from numpy.typing import NDArray
from rich.progress import track
from torch.nn import functional

FRAMES: Final = 60
"""Frames of each kind."""
CLIPS: Final = 12
"""Clips of each kind."""
SAME: Final = 2.5
"""Levels of 255 by which a place may change and still count as unchanged: the light changes a little."""
WHOLE: Final = 513
"""Longer side of the picture that DeepLab sees."""
ROUNDS: Final = 15
"""Of measuring times; in each,"""
TIMED: Final = 5
"""calls of one kind in a row, after one that is not counted, as a stream runs one kind alone."""
SIZES: Final = ((144, 256), (360, 640), (720, 1280))
"""Rows and columns of the frames that times are measured with."""
SEED: Final = 2026

Matte = NDArray[np.float32]
Find = Callable[[NDArray[np.uint8]], Matte]


def deep_lab_of(weights: Path) -> Find:
    """Return what gives the matte of people in a frame, by the published network."""
    network = load_deep_lab(weights)

    @torch.no_grad()
    def find(pixels: NDArray[np.uint8]) -> Matte:
        height, width = pixels.shape[:2]
        scale = WHOLE / max(height, width)
        size = max(1, round(height * scale)), max(1, round(width * scale))
        x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
        x = functional.interpolate(x, size, mode="bilinear") / 128 - 1
        x = functional.pad(x, (0, WHOLE - size[1], 0, WHOLE - size[0]))
        scores = network(x)[:, :, : size[0], : size[1]]
        scores = functional.interpolate(scores, (height, width), mode="bilinear")
        return (scores.argmax(1)[0] == PERSON).float().numpy()

    return find


def frame_by_frame(model: Model) -> Find:
    """Return what gives the matte of a frame of which nothing is known before it."""
    session = model.session()

    def find(pixels: NDArray[np.uint8]) -> Matte:
        session.reset()
        return np.array(session(pixels)[0], np.float32)

    return find


def frames_of(stills: Sequence[Still], empty: Sequence[Still]) -> dict[str, list[Frame]]:
    """Return frames of held photos by what they are; none of them is spoiled."""
    maker = FrameMaker([*stills, *empty], SEED)
    return {
        "webcam": [maker.webcam() for _ in range(FRAMES)],
        "crop": [maker.crop() for _ in range(FRAMES)],
    }


def of_frames(systems: dict[str, Find], frames: Sequence[Frame], what: str) -> dict[str, Any]:
    """Return how right each system's masks are, on the mean."""
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    for pixels, alpha in track(frames, description=what, transient=True):
        for name, find in systems.items():
            mask, truth = find(pixels) >= 0.5, alpha >= 0.5
            rows[name].append((iou(mask, truth), boundary_f(mask, truth)))
    return {
        name: {"iou": _mean(each[0] for each in found), "boundary_f": _mean(each[1] for each in found)}
        for name, found in rows.items()
    } | {"frames": len(frames)}


def of_clips(model: Model, clips: Sequence[Sequence[Shot]], what: str) -> dict[str, Any]:
    """Return flicker and IoU of clips, of the stream and frame by frame."""
    found: dict[str, list[float]] = {"flicker": [], "flicker_apart": [], "iou": [], "iou_apart": []}
    session, apart = model.session(), frame_by_frame(model)
    for clip in track(clips, description=what, transient=True):
        session.reset()
        mattes = [np.array(session(shot.pixels)[0]) for shot in clip]
        others = [apart(shot.pixels) for shot in clip]
        for number in range(1, len(clip)):
            same = np.abs(clip[number].clean - clip[number - 1].clean).max(axis=2) <= SAME
            if same.any():
                for name, own in (("flicker", mattes), ("flicker_apart", others)):
                    found[name].append(float(np.abs(own[number] - own[number - 1])[same].mean()))
            truth = clip[number].alpha >= 0.5
            found["iou"].append(iou(mattes[number] >= 0.5, truth))
            found["iou_apart"].append(iou(others[number] >= 0.5, truth))
    return {name: _mean(values) for name, values in found.items()} | {
        "clips": len(clips),
        "ratio": float(np.mean(found["flicker"]) / np.mean(found["flicker_apart"])),
    }


def clips_of(stills: Sequence[Still], empty: Sequence[Still]) -> dict[str, list[list[Shot]]]:
    """Return clips of held photos by what moves."""
    rng = np.random.default_rng(SEED)
    seen = [still for still in stills if still.person.mean() >= LEAST]
    maker = FrameMaker([*stills, *empty], SEED + 1)
    chosen = [seen[at] for at in np.linspace(0, len(seen) - 1, CLIPS).astype(int)]
    return {
        "somebody moves": [webcam_clip(maker, rng) for _ in range(CLIPS)],
        "nothing moves": [camera_clip(still, rng, 0.0) for still in chosen],
        "the camera moves": [camera_clip(still, rng, 1.0) for still in chosen],
    }


def times(path: Path) -> dict[str, float]:
    """Return times in milliseconds of a thread's processor time: the program, and frames of three sizes."""
    model = load(path)
    session, feature = model.session(), Background()
    clip = [frame.pixels for frame in draw_clip(next(iter(LOOKS)), 12, sway=6)]
    given = [feature.prepare(frame) for frame in clip]
    calls: dict[str, list[Callable[[], object]]] = {"program": [partial(session, *each) for each in given]}
    for height, width in SIZES:
        large = [_enlarge(frame, height, width) for frame in clip]
        calls[f"shrink {height}"] = [partial(feature.prepare, each) for each in large]
        picture = np.ascontiguousarray(large[0][:, ::-1])
        scenes: dict[str, Scene] = {"blur": Blur(), "replace": Replacement(picture), "stage": Stage(picture)}
        for name, scene in scenes.items():
            stream = BackgroundStream(model, scene)
            calls[f"{name} {height}"] = [partial(stream.show, each) for each in large]
    return _medians_ms(calls)


def _enlarge(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    return np.ascontiguousarray(pixels[rows][:, columns])


def _medians_ms(calls: dict[str, list[Callable[[], object]]]) -> dict[str, float]:
    """Return the median and the least time of each kind of call, in rounds, so that a busy moment meets all kinds."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for each in range(ROUNDS):
        for name, kind in calls.items():
            for number in range(TIMED + 1):
                began = time.thread_time_ns()
                kind[(each + number) % len(kind)]()
                if number:
                    spent[name].append((time.thread_time_ns() - began) / 1e6)
    least = {f"{name} least": float(np.min(values)) for name, values in spent.items()}
    return {name: float(np.median(values)) for name, values in spent.items()} | least


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def evaluate(folder: Path, weights: Path) -> dict[str, Any]:
    """Return all figures as JSON values.

    Args:
        folder: of the photos, with coco_instances.csv and neighbors.
        weights: folder of the published weights.

    Raises:
        FileNotFoundError: data, weights or the program are missing.
    """
    path = program_path(DEFAULT_VERSION)
    model = load(path)
    systems = {"background": frame_by_frame(model), "deeplab": deep_lab_of(weights)}
    empty = dev_stills(folder, "things")
    held = {"people": dev_stills(folder, "people"), "clothes": dev_stills(folder, "clothes")}
    return {
        "version": DEFAULT_VERSION,
        "frames": {
            f"{kind}, {source}": of_frames(systems, frames, f"{kind}, {source}")
            for source, stills in held.items()
            for kind, frames in frames_of(stills, empty).items()
        },
        "clips": {name: of_clips(model, clips, name) for name, clips in clips_of(held["people"], empty).items()},
        "bytes": path.stat().st_size,
        "times_ms": times(path),
    }


def main() -> None:
    """Evaluate the committed version and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--times", action="store_true", help="measure times alone; the other figures stay")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and pictures to a card")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.times:
        kept = json.loads((Path(__file__).parent / "evaluation.json").read_text(encoding="utf-8"))
        result = kept | {"times_ms": times(program_path(DEFAULT_VERSION))}
    else:
        result = evaluate(arguments.photos, arguments.weights)
    print(card.figures(result))  # noqa: T201 (what the command is for)
    if arguments.write:
        path: Path = arguments.write
        path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
        (path.parent / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (path.parent / "contact_sheet.svg").write_text(card.sheet(), encoding="utf-8")


if __name__ == "__main__":
    main()
