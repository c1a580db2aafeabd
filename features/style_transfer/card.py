"""Formats the card's figures as Markdown tables and a picture, from what `evaluate.py` measured."""

import base64
import html
import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from alcove.features.card_figures import table
from alcove.features.style_transfer.config import STYLES
from numpy.typing import NDArray

__all__ = ["figures", "goals", "losses", "sheet"]

Result = Mapping[str, Any]
"""What `evaluate.py` writes."""
COLUMNS: Final = 2
"""Of the sheet."""
TILE: Final = (320, 180)
"""Width and height of a picture in it."""
LABEL: Final = 16
GAP: Final = 8
QUALITY: Final = 80
"""Of JPEG."""


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), losses(result)])


def mean_of(result: Result, way: str, loss: str) -> float:
    """Return the mean of a loss over styles."""
    return float(np.mean([each[loss] for each in result["losses"][way].values()]))


def goals(result: Result) -> str:
    """Return the goals, what was measured, baselines, and whether that is enough."""
    rate = 1000 / result["frame_ms"]["median"]
    manner = {way: mean_of(result, way, "style") for way in result["losses"]}
    boil = result["boil"]
    rows = [
        _row("frames a second, 640 x 360, one core, int8", ">=", 20, rate, "", "–", 1),
        _row("program", "<=", 1.5, result["bytes"]["int8"] / 1e6, "MB", "–", 2),
        _row("styles", ">=", 4, len(STYLES), "", "–", 0),
        _row(
            "distance to the painting's manner, mean",
            "<=",
            round(manner["color transfer"] / 2, 3),
            manner["int8"],
            "",
            f"{manner['as it is']:.3f} as it is, {manner['color transfer']:.3f} colors alone",
            3,
        ),
        _row("int8 beside float32", ">=", 30, result["int8_psnr_db"], "dB", "–", 1),
        _row(
            "boil of a standing camera with noise, of 255",
            "<=",
            round(2 * boil["as it is"]["standing"], 2),
            boil["int8"]["standing"],
            "",
            _changes(boil, "standing"),
            2,
        ),
        _row(
            "change against the frame moved with the camera, of 255",
            "<=",
            round(4 * max(boil["as it is"]["moving"], 1), 2),
            boil["int8"]["moving"],
            "",
            _changes(boil, "moving"),
            2,
        ),
    ]
    head = ["", "goal", "measured", "baselines", ""]
    spent = result["frame_ms"]
    return (
        "### Goals\n\n"
        + table(head, rows)
        + f"\n\nProcessor time of a frame from Python: median {spent['median']:.1f} ms, least {spent['least']:.1f} ms."
    )


def _changes(boil: Mapping[str, Mapping[str, float]], which: str) -> str:
    return f"{boil['as it is'][which]:.2f} as it is, {boil['color transfer'][which]:.2f} colors alone"


def _row(  # noqa: PLR0917 - a row of a table
    what: str, sign: str, goal: float, value: float, unit: str, baselines: str, digits: int
) -> list[str]:
    shown = round(value, digits)
    is_met = shown >= goal if sign == ">=" else shown <= goal
    symbol = "≥" if sign == ">=" else "≤"
    verdict = "met" if is_met else "**not met**"
    return [what, f"{symbol} {goal:g} {unit}".strip(), f"{value:.{digits}f} {unit}".strip(), baselines, verdict]


def losses(result: Result) -> str:
    """Return losses of style and content, style by style."""
    ways = list(result["losses"])
    rows = [
        [style, *(f"{each[style]['style']:.3f} / {each[style]['content']:.2f}" for each in result["losses"].values())]
        for style in STYLES
    ]
    title = f"### Distance to the painting's manner / to what the photo shows, {result['photos']} photos"
    return title + "\n\n" + table(["", *ways], rows)


def sheet(shown: Mapping[str, NDArray[np.uint8]]) -> str:
    """Return an SVG: a drawn picture, and what the committed version makes of it in each style; needs Pillow."""
    wide, high = TILE[0] + GAP, TILE[1] + LABEL + GAP
    rows = -(-len(shown) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * wide + GAP}" height="{rows * high + GAP}">',
        '<style>text { font: 11px sans-serif }</style><rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (name, pixels) in enumerate(shown.items()):
        left, top = GAP + (at % COLUMNS) * wide, GAP + (at // COLUMNS) * high
        data = base64.b64encode(_jpeg_of(pixels)).decode()
        parts.append(f'<text x="{left}" y="{top + LABEL - 5}">{html.escape(name)}</text>')
        parts.append(
            f'<image x="{left}" y="{top + LABEL}" width="{TILE[0]}" height="{TILE[1]}" '
            f'href="data:image/jpeg;base64,{data}"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _jpeg_of(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    file = io.BytesIO()
    Image.fromarray(pixels).resize(TILE, Image.Resampling.BOX).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
