"""Formats the card's figures as Markdown tables and a picture, from what `evaluate.py` measured."""

import base64
import html
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from alcove.features.card_figures import table
from alcove.features.photo_enhance.drawn import png_of
from numpy.typing import NDArray

Result = Mapping[str, Any]
"""What `evaluate.py` writes."""
WAYS: Final = {
    "none": "as it was",
    "mild": "a little darker and flatter",
    "low_light": "1 to 10 % of the light, photon noise",
    "curve": "darkened by a power, photon noise",
    "retouch": "haze",
    "noise": "photon noise",
}
"""What was done to photos, by the names of `degrade.HELD`."""
LABEL: Final = 16
GAP: Final = 8


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), enlarging(result), restoring(result), needs(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured, and whether that is enough."""
    large, small, restored = result["enlarge"]["x4"], result["enlarge"]["x2"], result["restore"]
    dark = restored["low_light"]
    gain4 = large["int8"]["psnr_db"] - large["bicubic"]["psnr_db"]
    gain2 = small["int8"]["psnr_db"] - small["bicubic"]["psnr_db"]
    lost = large["published, whole picture"]["psnr_db"] - large["int8"]["psnr_db"]
    rows = [
        _row("12 megapixels, light and colors, processor time", "<=", 2, result["times"]["enhance_12mp_s"], "s"),
        _row("x4 above bicubic", ">=", 0.5, gain4, "dB"),
        _row("x4 below the published network on the whole picture", "<=", 0.2, lost, "dB"),
        _row("x2 above bicubic", ">=", 0, gain2, "dB"),
        _row(
            "little light: automatic above histogram equalization",
            ">=",
            0,
            dark["automatic"]["psnr_db"] - dark["histogram equalization"]["psnr_db"],
            "dB",
        ),
        _row("tiles beside the whole picture", ">=", 40, result["enlarge"]["tiles_psnr_db"], "dB"),
        _row(
            "photos that need nothing, automatic beside as they were",
            ">=",
            30,
            restored["none"]["automatic"]["psnr_db"],
            "dB",
        ),
        _row("program", "<=", 4.5, result["bytes"]["int8"] / 1e6, "MB"),
    ]
    return "### Goals\n\n" + table(["", "goal", "measured", ""], rows)


def _row(what: str, sign: str, goal: float, value: float, unit: str) -> list[str]:
    shown = round(value, 2)
    is_met = shown >= goal if sign == ">=" else shown <= goal
    symbol = "≥" if sign == ">=" else "≤"
    return [what, f"{symbol} {goal:g} {unit}", f"{shown:.2f} {unit}", "met" if is_met else "**not met**"]


def _cell(scores: Mapping[str, float]) -> str:
    return f"{scores['psnr_db']:.2f} / {scores['ssim']:.3f}"


def enlarging(result: Result) -> str:
    """Return PSNR and SSIM of enlarging."""
    by_scale = result["enlarge"]
    rows = [
        [name, *(_cell(by_scale[scale][name]) if name in by_scale[scale] else "–" for scale in ("x4", "x2"))]
        for name in by_scale["x4"]
    ]
    count = result["photos"]["enlarged"]
    return f"### Enlarging, {count} photos (dB / SSIM)\n\n" + table(["", "x4", "x2"], rows)


def restoring(result: Result) -> str:
    """Return PSNR and SSIM of photos that were made worse."""
    by_way = result["restore"]
    methods = [name for name in by_way["none"] if name != "needs"]
    rows = [[title, *(_cell(by_way[way][name]) for name in methods)] for way, title in WAYS.items()]
    count = result["photos"]["restored"]
    return f"### Photos made worse, {count} (dB / SSIM)\n\n" + table(["", *methods], rows)


def needs(result: Result) -> str:
    """Return on how many photos each need is seen."""
    rows = [
        [title, *(f"{100 * result['restore'][way]['needs'][name]:.0f}" for name in ("low_light", "retouch", "clean"))]
        for way, title in WAYS.items()
    ]
    found = result["needs"]
    accuracy = ", ".join(f"{name} {100 * value:.0f} %" for name, value in found.items())
    head = ["", "needs light", "needs colors", "is clean"]
    accuracies = f"Balanced accuracy on ways and photos of neither kind in the fit: {accuracy}."
    return f"### What is seen (% of photos)\n\n{table(head, rows)}\n\n{accuracies}"


def sheet(before: Mapping[str, NDArray[np.uint8]], after: Mapping[str, NDArray[np.uint8]]) -> str:
    """Return an SVG: the drawn pictures, and below each what the automatic choice makes of it."""
    height, width = next(iter(before.values())).shape[:2]
    wide, high = len(before) * (width + GAP) + GAP, 2 * (height + GAP) + LABEL + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}">',
        '<style>text { font: 11px sans-serif }</style><rect width="100%" height="100%" fill="white"/>',
    ]
    for at, name in enumerate(before):
        left = GAP + at * (width + GAP)
        parts.append(f'<text x="{left}" y="{LABEL - 2}">{html.escape(name)}, and below it enhanced</text>')
        for row, pixels in enumerate((before[name], after[name])):
            data = base64.b64encode(png_of(pixels[::2, ::2])).decode()
            parts.append(
                f'<image x="{left}" y="{LABEL + row * (height + GAP)}" width="{width}" height="{height}" '
                f'href="data:image/png;base64,{data}"/>'
            )
    return "\n".join([*parts, "</svg>", ""])
