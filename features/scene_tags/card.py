"""Formats the card's figures as Markdown tables and pictures, from what `evaluate.py` measured."""

import base64
import html
from collections.abc import Mapping
from typing import Any, Final

from alcove.features.card_figures import table
from alcove.features.scene_tags.contract import SceneAnswer
from alcove.features.scene_tags.drawn import drawings, png_of
from alcove.features.scene_tags.picture import fit

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

SHIPPED: Final = "scene_tags int8"
FLOAT: Final = "scene_tags float32"
PLAIN: Final = "plain float32"
SETS: Final = {"tiny": "Tiny ImageNet", "scenes": "Intel scenes", "left_out": "classes left out of training"}
ROW: Final = 13
LEFT: Final = 130
ACROSS: Final = 440
TOP: Final = 34
TILE: Final = 112
"""Pixels of a picture on the sheet."""
COLUMNS: Final = 4
CELL: Final = (180, 206)


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), networks(result), tags(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured, and whether that is enough."""
    by_name, spent = result["networks"], result["times_ms"]
    shipped, exact, plain = by_name[SHIPPED], by_name[FLOAT], by_name[PLAIN]
    better = 100 * (exact["map"] - plain["map"])
    lost = 100 * (exact["map"] - shipped["map"])
    size_mb = result["size_bytes"] / 1e6
    found, alone = shipped["few_shot"]["precision_at_10"], shipped["few_shot"]["left_out_only"]
    cost = plain["multiply_adds"] / exact["multiply_adds"] - 1
    new = "precision of ten with a new tag of five pictures"
    whole = "a picture of 224 x 224, resizing and typed answer included"
    rows = [
        ["mean average precision above the plain network", "≥ 5 points", f"{better:+.1f} points", verdict(better >= 5)],
        ["multiply-adds of the plain network", "± 5 %", f"{100 * cost:+.1f} %", verdict(abs(cost) <= 0.05)],
        ["lost by int8", "≤ 1 point", f"{lost:.2f} points", verdict(lost <= 1)],
        ["size", "≤ 3 MB", f"{size_mb:.2f} MB", verdict(size_mb <= 3)],
        [whole, "≤ 2 ms", f"{spent['all']:.2f} ms", verdict(spent["all"] <= 2)],
        [f"{new}, among the left-out classes", "≥ 0.6", f"{alone:.2f}", verdict(alone >= 0.6)],
        [f"{new}, among the dev pictures too", "≥ 0.6", f"{found:.2f}", verdict(found >= 0.6)],
    ]
    parts = ", ".join(f"{name} {spent[name]:.2f}" for name in ("prepare", "program", "decode"))
    return (
        "### Goals\n\n"
        + table(["", "goal", "measured", ""], rows)
        + f"\n\nOf the time, median in ms from Python: {parts}."
    )


def verdict(is_met: bool) -> str:
    """Return a word for whether a goal is met."""
    return "met" if is_met else "**not met**"


def networks(result: Result) -> str:
    """Return the figures of the shipped program, its float32 network and the plain one, side by side."""
    by_name = result["networks"]
    names = [SHIPPED, FLOAT, PLAIN]
    pictures = result["pictures"]

    def row(label: str, *keys: str, percent: bool = True) -> list[str]:
        values = []
        for name in names:
            value: Any = by_name[name]
            for key in keys:
                value = value[key]
            values.append(f"{100 * value:.1f}" if percent else f"{value:.3f}")
        return [label, *values]

    dev = pictures["tiny"] + pictures["scenes"]
    rows = [
        row(f"**mean average precision, {dev:,} dev pictures (%)**", "map"),
        *(row(f"{text}, {pictures[key]:,} pictures (%)", "map_by_set", key) for key, text in SETS.items()),
        row("scores of 0.5 and more that are right (%)", "named_right"),
        row("calibration error of scores", "calibration_error", percent=False),
        row("new tag of five pictures: precision at 10 among all", "few_shot", "precision_at_10", percent=False),
        row("the same among the left-out classes alone", "few_shot", "left_out_only", percent=False),
        row("the same by chance, among all", "few_shot", "chance", percent=False),
        row("its pictures that are said to have it (%)", "few_shot", "kept"),
        row("others that are said to have it (%)", "few_shot", "kept_of_others"),
        ["multiply-adds (million)", *(f"{by_name[name]['multiply_adds'] / 1e6:.1f}" for name in names)],
    ]
    return "### Beside the plain network\n\n" + table(["", *names], rows)


def tags(result: Result) -> str:
    """Return the average precision by tag."""
    by_name = result["networks"]
    shipped, plain = by_name[SHIPPED]["by_tag"], by_name[PLAIN]["by_tag"]
    order = sorted(shipped, key=lambda tag: -shipped[tag])
    rows = [[tag, f"{100 * shipped[tag]:.1f}", f"{100 * plain[tag]:.1f}"] for tag in order]
    return "### Average precision by tag (%)\n\n" + table(["tag", SHIPPED, PLAIN], rows)


def precision_picture(result: Result) -> str:
    """Return an SVG: a row for each tag, a bar for the shipped program, a dot for the plain network."""
    shipped, plain = (result["networks"][name]["by_tag"] for name in (SHIPPED, PLAIN))
    order = sorted(shipped, key=lambda tag: -shipped[tag])
    height = TOP + ROW * len(order) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + ACROSS + 20}" height="{height}">',
        "<style>text { font: 10px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="4" y="12">average precision by tag: {SHIPPED} (bar), {PLAIN} (dot)</text>',
    ]
    for tick in range(0, 101, 20):
        x = LEFT + ACROSS * tick / 100
        parts.append(
            f'<line x1="{x:.0f}" y1="{TOP - 6}" x2="{x:.0f}" y2="{height - 6}" stroke="#ddd"/>'
            f'<text x="{x:.0f}" y="{TOP - 9}" text-anchor="middle">{tick} %</text>'
        )
    for row, tag in enumerate(order):
        y = TOP + ROW * row
        parts.append(
            f'<text x="8" y="{y + 9}">{tag}</text>'
            f'<rect x="{LEFT}" y="{y + 2}" width="{ACROSS * shipped[tag]:.1f}" height="8" fill="#4a7fb5"/>'
            f'<circle cx="{LEFT + ACROSS * plain[tag]:.1f}" cy="{y + 6}" r="3" fill="#c8452f"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


def sheet(answers: Mapping[str, SceneAnswer]) -> str:
    """Return an SVG: the drawn pictures, the suggested square crop in white, and what the committed version says."""
    pictures = drawings()
    wide, high = CELL
    rows = -(-len(pictures) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * wide}" height="{rows * high}">',
        "<style>text { font: 10px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (name, pixels) in enumerate(pictures.items()):
        left, top = (at % COLUMNS) * wide + 8, (at // COLUMNS) * high + 8
        height, width = pixels.shape[:2]
        across = round(TILE * width / height)
        data = base64.b64encode(png_of(fit(pixels, TILE))).decode()
        crop = answers[name].crop_to(width, height, 1.0)
        parts.append(
            f'<image x="{left}" y="{top}" width="{across}" height="{TILE}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"/>'
            f'<rect x="{left + crop.left * across:.1f}" y="{top + crop.top * TILE:.1f}" '
            f'width="{(crop.right - crop.left) * across:.1f}" height="{(crop.bottom - crop.top) * TILE:.1f}" '
            'fill="none" stroke="white" stroke-width="2"/>'
        )
        tags = [f"{each.tag} {100 * each.score:.0f} %" for each in answers[name].tags[:4]]
        lines = [f"drawn: {name}", *tags, f"music: {answers[name].mood.name}"]
        for row, text in enumerate(lines):
            weight = ' font-weight="bold"' if row == 0 else ""
            parts.append(f'<text x="{left}" y="{top + TILE + 13 + 12 * row}"{weight}>{html.escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])
