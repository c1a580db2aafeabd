"""Formats the card's figures as Markdown tables and a picture, from what `evaluate.py` measured."""

import base64
import html
from collections.abc import Mapping
from typing import Any, Final

from alcove.features.card_figures import table
from alcove.features.picture import fit
from alcove.features.scene_tags.contract import SceneAnswer
from alcove.features.scene_tags.drawn import drawings, png_of

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

FULL: Final = "full, int8"
FLOAT: Final = "full, float32"
SMALL: Final = "small, int8"
TILE: Final = 112
"""Pixels of a picture on the sheet."""
COLUMNS: Final = 4
CELL: Final = (200, 218)


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), programs(result), conditions(result), categories(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured, and whether that is enough."""
    full, exact = result["programs"][FULL], result["programs"][FLOAT]
    lost = 100 * (exact["map"] - full["map"])
    spent = result["full"]["times_ms"]
    size, small = result["full"]["bytes"] / 1e6, result["small"]["bytes"] / 1e6
    alone = full["few_shot"]["left_out_only"]
    rows = [
        _row(f"mean average precision over {full['categories']} categories", ">=", 75, 100 * full["map"], "%"),
        _row("a right tag first", ">=", 85, 100 * full["right_first"], "%"),
        _row("photos on which nothing is named", "<=", 8, 100 * full["nothing_named"], "%"),
        _row("the right one of six scenes", ">=", 92, 100 * full["scenes"], "%"),
        _row("lost by int8, mean average precision", "<=", 0.5, lost, "points", digits=2),
        _row("precision of ten with a new tag of five pictures", ">=", 0.8, alone, "", digits=2),
        _row("tags", ">=", 300, result["tags"], "", digits=0),
        _row("program", "<=", 4.5, size, "MB", digits=2),
        _row("small program", "<=", 2, small, "MB", digits=2),
        _row("a picture of 640 x 480, resizing and typed answer included", "<=", 6, spent["all"], "ms", digits=1),
    ]
    parts = ", ".join(f"{name} {spent[name]:.2f}" for name in ("prepare", "program", "decode"))
    return (
        "### Goals\n\n"
        + table(["", "goal", "measured", ""], rows)
        + f"\n\nOf the time, median in ms from Python on one core: {parts}."
    )


def _row(what: str, sign: str, goal: float, value: float, unit: str, *, digits: int = 1) -> list[str]:
    shown = round(value, digits)
    is_met = shown >= goal if sign == ">=" else shown <= goal
    symbol = "≥" if sign == ">=" else "≤"
    return [what, f"{symbol} {goal:g} {unit}".strip(), f"{value:.{digits}f} {unit}".strip(), verdict(is_met)]


def verdict(is_met: bool) -> str:
    """Return a word for whether a goal is met."""
    return "met" if is_met else "**not met**"


def programs(result: Result) -> str:
    """Return the figures of the programs side by side."""
    by_name, pictures = result["programs"], result["pictures"]
    names = [FULL, FLOAT, SMALL]

    def row(label: str, *keys: str, percent: bool = True) -> list[str]:
        values = []
        for name in names:
            value: Any = by_name[name]
            for key in keys:
                value = value.get(key) if value is not None else None
            values.append("–" if value is None else f"{100 * value:.1f}" if percent else f"{value:.3f}")
        return [label, *values]

    things = by_name[FULL]["photos_with_things"]
    rows = [
        row(f"**mean average precision, {pictures['photos']:,} photos (%)**", "map"),
        row(f"a right tag first, {things:,} photos with something listed (%)", "right_first"),
        row("photos on which nothing is named (%)", "nothing_named"),
        row("listed categories that are named and there (%)", "named_right"),
        row("calibration error of scores", "calibration_error", percent=False),
        row(f"the right one of six scenes, {pictures['scenes']:,} pictures (%)", "scenes"),
        row(
            f"new tag of five pictures: precision at 10, {pictures['left out']:,} pictures",
            "few_shot",
            "left_out_only",
            percent=False,
        ),
        row(f"the same among {pictures['others']:,} others too", "few_shot", "among_all", percent=False),
        ["bytes", f"{result['full']['bytes']:,}", "–", f"{result['small']['bytes']:,}"],
        [
            "program alone, median (ms)",
            f"{result['full']['times_ms']['program']:.2f}",
            "–",
            f"{result['small']['times_ms']['program']:.2f}",
        ],
    ]
    return "### The programs\n\n" + table(["", *names], rows)


def conditions(result: Result) -> str:
    """Return what is left under conditions that pictures are taken and sent in."""
    rows = []
    for name, by_program in result["conditions"].items():
        full, small = by_program[FULL], by_program[SMALL]
        values = [full["map"], full["right_first"], full["nothing_named"], small["map"], small["right_first"]]
        rows.append([name, *(f"{100 * value:.1f}" for value in values)])
    head = ["", "full: mean average precision (%)", "a right tag first (%)", "nothing named (%)"]
    return "### Under worse conditions\n\n" + table(
        [*head, "small: mean average precision (%)", "a right tag first (%)"], rows
    )


def categories(result: Result) -> str:
    """Return the average precision by category."""
    full, small = (result["programs"][name]["by_category"] for name in (FULL, SMALL))
    count = result["programs"][FULL]["pictures_of"]
    order = sorted(full, key=lambda name: -full[name])
    rows = [[name, f"{count[name]}", f"{100 * full[name]:.0f}", f"{100 * small[name]:.0f}"] for name in order]
    return "### Average precision by category (%)\n\n" + table(["category", "photos", FULL, SMALL], rows)


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
        answer = answers[name]
        crop = answer.crop_to(width, height, 1.0)
        parts.append(
            f'<image x="{left}" y="{top}" width="{across}" height="{TILE}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"/>'
            f'<rect x="{left + crop.left * across:.1f}" y="{top + crop.top * TILE:.1f}" '
            f'width="{(crop.right - crop.left) * across:.1f}" height="{(crop.bottom - crop.top) * TILE:.1f}" '
            'fill="none" stroke="white" stroke-width="2"/>'
        )
        tags = [f"{each.tag} {100 * each.score:.0f} %" for each in answer.tags[:4]]
        against = ", ".join(answer.decoration.reasons)
        lines = [name, *tags, f"music: {answer.mood.name}", f"leave as it is: {against}" if against else "decorate"]
        for row, text in enumerate(lines):
            weight = ' font-weight="bold"' if row == 0 else ""
            parts.append(f'<text x="{left}" y="{top + TILE + 13 + 12 * row}"{weight}>{html.escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])
