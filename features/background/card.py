"""Formats the card's figures as Markdown tables and a picture, from what `evaluate.py` measured."""

import base64
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from alcove.features.background.composition import Blur, Replacement, Scene, Stage
from alcove.features.background.contract import Background
from alcove.features.background.drawn import LOOKS, draw_clip, draw_slide
from alcove.features.background.frames import resize
from alcove.features.background.stream import BackgroundStream
from alcove.features.card_figures import table
from alcove.features.cutouts.matte import png_of
from alcove.runtime import load
from numpy.typing import NDArray

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

TILE: Final = (128, 72)
"""Columns and rows of a picture on the sheet."""
SHOWN: Final = 2
"""Frames of a clip before the one that is shown."""
KINDS: Final = {
    "webcam, people": "webcam-like frames of COCO's people",
    "crop, people": "crops around COCO's people",
} | {
    "webcam, clothes": "webcam-like frames of fashion photos",
    "crop, clothes": "crops around people of fashion photos",
}


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), frames(result), clips(result), times(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured, and whether that is enough."""
    spent, worst = result["times_ms"], max(each["ratio"] for each in result["clips"].values())
    own, other = (_over_frames(result, name) for name in ("background", "deeplab"))
    rows = [
        _row("matte of a frame, 256 x 144", "<=", 8, spent["program"], "ms"),
        _row("frame of 1280 x 720, background blurred", "<=", 15, spent["blur 720"], "ms"),
        _row("frame of 1280 x 720, background replaced", "<=", 15, spent["replace 720"], "ms"),
        _row("frame of 1280 x 720, on a stage", "<=", 15, spent["stage 720"], "ms"),
        _row("flicker over that of frame by frame, worst kind of clip", "<=", 0.5, worst, digits=2),
        _row("mean IoU of people, against DeepLab's", ">=", round(other["iou"], 3), own["iou"], digits=3),
        _row("mean boundary F, against DeepLab's", ">=", round(other["boundary_f"], 3), own["boundary_f"], digits=3),
        ["program", "", f"{result['bytes'] / 1e6:.2f} MB", ""],
    ]
    return "### Goals\n\n" + table(["", "goal", "measured", ""], rows)


def _over_frames(result: Result, name: str) -> dict[str, float]:
    """Return the means of a system over all kinds of frames."""
    kinds = result["frames"].values()
    return {key: float(np.mean([kind[name][key] for kind in kinds])) for key in ("iou", "boundary_f")}


def _row(what: str, sign: str, goal: float, value: float, unit: str = "", *, digits: int = 1) -> list[str]:
    shown = round(value, digits)
    is_met = shown >= goal if sign == ">=" else shown <= goal
    symbol = "≥" if sign == ">=" else "≤"
    return [
        what,
        f"{symbol} {goal:g} {unit}".strip(),
        f"{value:.{digits}f} {unit}".strip(),
        "met" if is_met else "**not met**",
    ]


def frames(result: Result) -> str:
    """Return the figures of single frames, beside the baseline."""
    rows = []
    for key, what in KINDS.items():
        own = result["frames"][key]
        for name, label in (("background", "background"), ("deeplab", "DeepLab v3, person class")):
            rows.append(
                [f"{what}: {label}", str(own["frames"]), f"{own[name]['iou']:.3f}", f"{own[name]['boundary_f']:.3f}"]
            )
    return "### Single frames, nothing known before\n\n" + table(["", "frames", "IoU", "boundary F"], rows)


def clips(result: Result) -> str:
    """Return the figures of clips, of the stream and frame by frame."""
    rows = [
        [
            what,
            str(own["clips"]),
            f"{1000 * own['flicker']:.2f}",
            f"{1000 * own['flicker_apart']:.2f}",
            f"{own['ratio']:.2f}",
            f"{own['iou']:.3f}",
            f"{own['iou_apart']:.3f}",
        ]
        for what, own in result["clips"].items()
    ]
    head = ["", "clips", "flicker, stream", "frame by frame", "ratio", "IoU, stream", "frame by frame"]
    return "### Clips\n\n" + table(head, rows) + "\n\nFlicker in thousandths of alpha a frame."


def times(result: Result) -> str:
    """Return how long frames of several sizes take, and how many a second that makes."""
    spent = result["times_ms"]
    rows = []
    for key, size in (("144", "256 x 144"), ("360", "640 x 360"), ("720", "1280 x 720")):
        names = [f"{name} {key}" for name in ("shrink", "blur", "replace", "stage")]
        values = [f"{spent[name]:.1f} ({spent[f'{name} least']:.1f})" for name in names]
        rows.append([size, *values, f"{1000 / spent[names[1]]:.0f}"])
    head = ["frame", "made smaller", "blurred", "replaced", "on a stage", "blurred frames a second"]
    return (
        "### Times of whole frames, ms of one thread: median (least)\n\n"
        + table(head, rows)
        + f"\n\nThe program takes {spent['program']:.1f} ({spent['program least']:.1f}) ms. "
        "Times are processor time on a machine that did other work."
    )


def sheet() -> str:
    """Return an SVG: drawn people as the camera gives them, their mattes, and three scenes, by the shipped program."""
    wide, high = TILE
    columns = ("frame", "matte", "blur", "replace", "stage")
    size = f'width="{len(columns) * (wide + 6)}" height="{len(LOOKS) * (high + 6) + 16}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        "<style>text { font: 10px sans-serif; fill: #808080 }</style>",
        *(f'<text x="{at * (wide + 6)}" y="11">{name}</text>' for at, name in enumerate(columns)),
    ]
    for row, look in enumerate(LOOKS):
        for column, pixels in enumerate(_pictures(look)):
            data = base64.b64encode(png_of(resize(pixels, high, wide) & 0xF8)).decode()
            parts.append(
                f'<image x="{column * (wide + 6)}" y="{16 + row * (high + 6)}" width="{wide}" height="{high}" '
                f'href="data:image/png;base64,{data}"/>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _pictures(look: str) -> list[NDArray[np.uint8]]:
    clip = [frame.pixels for frame in draw_clip(look, SHOWN + 1, sway=4)]
    slide = draw_slide()
    beach = np.linspace((120, 190, 240), (240, 220, 170), clip[0].shape[0])[:, None].repeat(clip[0].shape[1], axis=1)
    stream = BackgroundStream(load(Background.default_program), Blur(1.0))
    scenes: tuple[Scene, ...] = (Blur(1.0), Replacement(beach.astype(np.uint8)), Stage(slide))
    for frame in clip:
        stream.show(frame)
    if stream.answer is None:
        raise ValueError("no frame was answered")
    answer, last = stream.answer, clip[-1]
    return [last, np.repeat(answer.alpha(last)[..., None], 3, axis=2), *(answer.show(last, each) for each in scenes)]
