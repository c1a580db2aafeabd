"""Formats the card's figures: tables of each set and a picture, from what `evaluate.py` measured."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from alcove.features.card_figures import table

Result = Mapping[str, Any]
"""What `evaluate.main` writes."""

OURS: Final = "feed_ranking, int8"

PUBLISHED: Final = {
    "beauty": {"SASRec": (0.470, 0.316), "S3-Rec": (0.551, 0.373)},
    "toys": {"SASRec": (0.466, 0.314), "S3-Rec": (0.553, 0.363)},
    "lastfm": {"SASRec": (0.471, 0.276), "S3-Rec": (0.584, 0.358)},
    "games": {"SASRec": (0.741, 0.536)},
}
"""HR@10 and NDCG@10: of S3-Rec and SASRec by Zhou et al. (2020); of SASRec on games by Kang and McAuley (2018)."""

LEFT, TOP, WIDTH, BAR = 150, 28, 420, 12
COLOURS: Final = ("#c0392b", "#1f618d", "#1e8449", "#7d3c98", "#b9770e", "#5d6d7e")


def goal(name: str) -> tuple[str, tuple[float, float]] | None:
    """Return whose published figures are the goal of a set, and the figures, if there are some."""
    published = PUBLISHED.get(name, {})
    return list(published.items())[-1] if published else None


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    parts = [sets(result)]
    parts += [of_set(name, found) for name, found in result["sets"].items()]
    if "device" in result:
        parts.append(device(result["device"]))
    if "studies" in result:
        parts.append(studies(result["studies"]))
    return "\n\n".join(parts)


def sets(result: Result) -> str:
    """Return the feature's figures on each set beside the goal."""
    rows = []
    for name, found in result["sets"].items():
        ours, wanted = found["scores"][OURS], goal(name)
        rows.append(
            [
                name,
                f"{ours['hit_rate']:.3f}",
                f"{wanted[1][0]:.3f}" if wanted else "–",
                f"{ours['gain']:.3f}",
                f"{wanted[1][1]:.3f}" if wanted else "–",
                wanted[0] if wanted else "–",
                f"{found['program_bytes']:,}",
                f"{found['question_us']:.0f}",
                f"{found['seconds'][OURS]:,.0f}",
            ]
        )
    heading = [
        "set",
        "HR@10",
        "goal",
        "NDCG@10",
        "goal",
        "goal is",
        "program (bytes)",
        "a question (µs)",
        "training (s)",
    ]
    return "### The int8 programs, each trained on its set\n\n" + table(heading, rows)


def of_set(name: str, found: Mapping[str, Any]) -> str:
    """Return all models on one set, the published ones too."""
    rows = [
        [
            f"**{model}**" if model == OURS else model,
            f"{score['hit_rate']:.4f}",
            f"{score['gain']:.4f}",
            f"{score['first_rate']:.4f}",
        ]
        for model, score in found["scores"].items()
    ]
    rows += [
        [f"{model}, published", f"{hit:.3f}", f"{gain:.3f}", "–"]
        for model, (hit, gain) in PUBLISHED.get(name, {}).items()
    ]
    about = (
        f"{found['users']:,} users, {found['items']:,} items, {found['interactions']:,} interactions to learn from; "
        f"{found['questions']:,} questions with {found['negatives']} negatives; "
        f"{found['epochs']} epochs; attributes: {'yes' if found['with_attributes'] else 'none'}."
    )
    return f"### {name}\n\n{about}\n\n" + table(["model", "HR@10", "NDCG@10", "HR@1"], rows)


def device(found: Mapping[str, Any]) -> str:
    """Return size and time of the committed program."""
    rows = [[name, f"{value:,.0f}"] for name, value in found.items()]
    return "### The committed program\n\n" + table(["what", "figure"], rows)


def studies(found: Mapping[str, Mapping[str, list[float]]]) -> str:
    """Return what deltas, the adapter and the re-ranking do, each with and without."""
    parts = []
    for title, rows in found.items():
        shown = [[name, *(f"{value:.3f}" for value in values)] for name, values in rows.items()]
        parts.append(f"### {title}\n\n" + table(["", "HR@10", "NDCG@10"], shown))
    return "\n\n".join(parts)


def picture(result: Result) -> str:
    """Return an SVG: HR@10 of every model on every set as bars, the goal as a line."""
    parts, y = [_text(LEFT, 14, "HR@10 (line: goal)", "start")], TOP
    for name, found in result["sets"].items():
        wanted, begin = goal(name), y
        for number, (model, score) in enumerate(found["scores"].items()):
            colour = COLOURS[number % len(COLOURS)]
            length = WIDTH * score["hit_rate"]
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            parts.append(_text(LEFT - 6, y + BAR - 3, model, "end"))
            parts.append(_text(LEFT + length + 4, y + BAR - 3, f"{score['hit_rate']:.3f}", "start"))
            y += BAR
        if wanted:
            x = LEFT + WIDTH * wanted[1][0]
            parts.append(f'<line x1="{x:.1f}" y1="{begin - 2}" x2="{x:.1f}" y2="{y}" stroke="black"/>')
        parts.append(_text(LEFT + WIDTH + 60, (begin + y) / 2, name, "start"))
        y += BAR
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 150}" height="{y}">'
    style = "<style>text { font: 10px sans-serif }</style>"
    return "\n".join([head, style, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
