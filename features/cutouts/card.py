"""Formats the card's figures as Markdown tables and a picture, from what `evaluate.py` measured."""

import base64
import html
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from alcove.features.card_figures import table
from alcove.features.cutouts.contract import CutoutAnswer
from alcove.features.cutouts.drawn import drawings
from alcove.features.cutouts.matte import png_of
from alcove.features.cutouts.metrics import iou
from alcove.features.picture import fit
from numpy.typing import NDArray

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

TILE: Final = 88
"""Pixels of a picture on the sheet."""
CELL: Final = (210, 124)
COLUMNS: Final = 3
CHECKS: Final = (205, 245)
"""Grays of the pattern behind a cutout,"""
CHECK: Final = 8
"""and its squares, in pixels."""


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), people(result), things(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured, and whether that is enough."""
    tapped, all_things = result["people"]["tap"], result["things"]["int8"]["all"]
    baseline, spent = result["people"]["deeplab"], result["times_ms"]
    rows = [
        _row("mean IoU of single people, one tap", ">=", 0.90, tapped["iou"], digits=3),
        _row(
            "mean IoU of one tap on things of at least 2 % of the picture", ">=", 0.75, all_things["taps"][0], digits=3
        ),
        _row(
            "boundary F of single people, one tap, against DeepLab's",
            ">=",
            round(baseline["boundary_f"], 3),
            tapped["boundary_f"],
            digits=3,
        ),
        _row("first cutout of a photo of 512 x 512", "<=", 40, spent["prepare"] + spent["first"], "ms", digits=1),
        _row("each tap after it", "<=", 5, spent["tap"], "ms", digits=1),
        _row("program", "<=", 6, result["bytes"]["int8"] / 1e6, "MB", digits=2),
    ]
    parts = ", ".join(f"{name} {spent[name]:.1f} ({spent[f'{name}_least']:.1f})" for name in _parts(spent))
    return (
        "### Goals\n\n"
        + table(["", "goal", "measured", ""], rows)
        + f"\n\nMedian (least) times in ms from Python on one core, photo of 512 x 512: {parts}."
    )


def _parts(spent: Mapping[str, float]) -> list[str]:
    return [name for name in spent if not name.endswith("_least")]


def _row(what: str, sign: str, goal: float, value: float, unit: str = "", *, digits: int = 1) -> list[str]:
    shown = round(value, digits)
    is_met = shown >= goal if sign == ">=" else shown <= goal
    symbol = "≥" if sign == ">=" else "≤"
    return [what, f"{symbol} {goal:g} {unit}".strip(), f"{value:.{digits}f} {unit}".strip(), verdict(is_met)]


def verdict(is_met: bool) -> str:
    """Return a word for whether a goal is met."""
    return "met" if is_met else "**not met**"


def people(result: Result) -> str:
    """Return the figures of photos of people, beside the baseline."""
    names = {"tap": "cutouts, one tap", "nothing": "cutouts, nothing tapped", "deeplab": "DeepLab v3, person class"}
    rows = []
    for key, what in (("people", "single people, COCO"), ("clothes", "whole persons, fashion photos")):
        part = result[key]
        for name, label in names.items():
            own = part[name]
            values = (own["iou"], own["boundary_f"], own["iou_large"], own["boundary_f_large"])
            rows.append([f"{what}: {label}", str(part["photos"]), *(f"{value:.3f}" for value in values)])
    head = ["", "photos", "IoU", "boundary F", "IoU, ≥ 2 % of the picture", "boundary F, ≥ 2 %"]
    return "### People\n\n" + table(head, rows)


def things(result: Result) -> str:
    """Return the figures of tapped things by size."""
    rows = []
    for name, found in result["things"].items():
        for size, own in found.items():
            if not own["things"]:
                continue
            what = (
                "2 % and more" if size == "all" else " to ".join(f"{100 * float(each):g} %" for each in size.split("-"))
            )
            values = (*own["taps"], own["box"], own["boundary_f"])
            rows.append([f"{name}: {what}", str(own["things"]), *(f"{value:.3f}" for value in values)])
    head = ["size of the thing", "things", "IoU, 1 tap", "2 taps", "3 taps", "a box", "boundary F, 1 tap"]
    return "### Things of 80 kinds, by size\n\n" + table(head, rows)


def sheet(answers: Mapping[str, CutoutAnswer]) -> str:
    """Return an SVG: the drawn pictures with their taps, and what the committed version cuts out of them."""
    wide, high = CELL
    pictures = drawings()
    rows = -(-len(pictures) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * wide}" height="{rows * high}">',
        "<style>text { font: 10px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (name, drawing) in enumerate(pictures.items()):
        left, top = (at % COLUMNS) * wide + 8, (at // COLUMNS) * high + 8
        alpha = answers[name].alpha(drawing.pixels)
        for place, pixels in enumerate((drawing.pixels, _on_checks(drawing.pixels, alpha))):
            data = base64.b64encode(png_of(fit(pixels, TILE))).decode()
            parts.append(
                f'<image x="{left + place * (TILE + 8)}" y="{top}" width="{TILE}" height="{TILE}" '
                f'href="data:image/png;base64,{data}"/>'
            )
        parts += [
            f'<circle cx="{left + tap.across * TILE:.1f}" cy="{top + tap.down * TILE:.1f}" r="4" fill="white" '
            'stroke="black"/>'
            for tap in drawing.taps
        ]
        overlap = iou(alpha >= 0.5, drawing.truth)
        text = html.escape(f"{name}: IoU {overlap:.2f}")
        parts.append(f'<text x="{left}" y="{top + TILE + 14}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _on_checks(pixels: NDArray[np.uint8], alpha: NDArray[np.float32]) -> NDArray[np.uint8]:
    rows, columns = np.indices(alpha.shape) // CHECK
    behind = np.where((rows + columns) % 2, *CHECKS)[..., None]
    mixed: NDArray[np.uint8] = (pixels * alpha[..., None] + behind * (1 - alpha[..., None])).astype(np.uint8)
    return mixed
