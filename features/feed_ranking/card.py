"""Formats the card's figures: the goals, tables of each set and a picture, from what `evaluate.py` measured."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import numpy as np
from alcove.features.card_figures import replace_figures, table

Result = Mapping[str, Any]
"""What `evaluate.main` writes."""

OURS: Final = "feed_ranking, int8"
FLOAT: Final = "before int8, torch"
NETWORK: Final = "feed_ranking"
"""Of the seeds' figures: the network before int8."""
KNN: Final = "item-kNN"
KNN_MARGIN: Final = 0.03
"""By which item-kNN's HR@10 is to be beaten."""

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


def write(text: str, result: Result) -> str:
    """Return a card's text with the figures of an evaluation.

    Raises:
        ValueError: a marker is missing.
    """
    return replace_figures(replace_figures(text, goals(result["sets"]), "goals"), figures(result))


def figures(result: Result) -> str:
    """Return all figures of an evaluation but the goals."""
    sets = result["sets"]
    parts = [rivals(sets)]
    if "newcomers" in result:
        parts += [new_users(result["newcomers"]), new_items(result["newcomers"])]
    parts += [short_histories(sets), popularity_of_targets(sets), lists(sets), ties(sets)]
    parts += [of_set(name, found) for name, found in sets.items()]
    if "programs" in result:
        parts.append(programs(result["programs"]))
    if "studies" in result:
        parts.append(studies(result["studies"]))
    return "\n\n".join(parts)


def verdict(values: Sequence[float], wanted: float) -> str:
    """Return in words whether the figures of all seeds reach a goal: "met" if the mean is beyond it by their spread."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    if mean < wanted:
        return f"missed by {wanted - mean:.3f}"
    return f"met by {mean - wanted:.3f}" + (", less than the spread" if mean - wanted <= spread else "")


def goals(sets: Mapping[str, Any]) -> str:
    """Return the feature's figures on each set beside the goals."""
    rows = []
    for name, found in sets.items():
        wanted, knn = goal(name), found["scores"][KNN]["hit_rate"] + KNN_MARGIN
        for number, (key, metric) in enumerate((("hit_rate", "HR@10"), ("gain", "NDCG@10"))):
            values = [score[key] for score in found["seeds"][NETWORK]]
            error = np.sqrt(np.mean(values) * (1 - np.mean(values)) / found["questions"])
            row = [name, metric, f"{found['scores'][OURS][key]:.3f}", _spread(values)]
            row.append(f"{error:.3f}" if key == "hit_rate" else "–")
            if wanted:
                row += [f"{wanted[1][number]:.3f} ({wanted[0]})", verdict(values, wanted[1][number])]
            else:
                row += ["none published", "–"]
            rows.append([*row, verdict(values, knn) if key == "hit_rate" else "–"])
    heading = ["set", "", "int8 program", "all seeds", "standard error of the questions", "published", "reached"]
    heading.append("item-kNN + 0.03")
    return table(heading, rows)


def rivals(sets: Mapping[str, Any]) -> str:
    """Return HR@10 of the networks on each set, mean and spread of their seeds, and among all items."""
    names = list(dict.fromkeys(name for found in sets.values() for name in found["seeds"]))
    rows = []
    for name, found in sets.items():
        for title, key in (("drawn", "seeds"), ("all", "of_all")):
            given = found[key]
            row = [name, f"{found['negatives']} drawn" if title == "drawn" else "all items"]
            row += [
                _spread([score[metric] for score in given[model]]) if given.get(model) else "–"
                for model in names
                for metric in ("hit_rate", "gain")
            ]
            rows.append(row)
    heading = ["set", "among", *(f"{name} {metric}" for name in names for metric in ("HR@10", "NDCG@10"))]
    return "### Networks, mean ± standard deviation of the seeds\n\n" + table(heading, rows)


def new_users(found: Mapping[str, Any]) -> str:
    """Return HR@10 of users that training never saw, by how much is known of them."""
    lengths = list(dict.fromkeys(length for given in found.values() for length in given["users"]))
    rows = []
    for name, given in found.items():
        for model in ("feature", "popularity"):
            values = [given["users"].get(length, {}).get(model) for length in lengths]
            rows.append([name, model, *(f"{value['hit_rate']:.3f}" if value else "–" for value in values)])
    return "### New users: HR@10 by the items known of them\n\n" + table(["set", "", *lengths], rows)


def new_items(found: Mapping[str, Any]) -> str:
    """Return HR@10 and NDCG@10 of items that training never saw."""
    rows = []
    for name, given in found.items():
        for among, scores in given["items"].items():
            rows.append(
                [
                    name,
                    f"99 {'other new items' if among == 'new' else 'of all items'}",
                    *(f"{scores[model][key]:.3f}" for model in ("feature", "chance") for key in ("hit_rate", "gain")),
                    f"{scores['feature']['questions']:,}",
                ]
            )
    heading = ["set", "among", "HR@10", "NDCG@10", "chance HR@10", "chance NDCG@10", "questions"]
    return "### New items: rows made of attributes\n\n" + table(heading, rows)


def short_histories(sets: Mapping[str, Any]) -> str:
    """Return HR@10 where only the latest items of each history are known."""
    given = {name: found["by_length"] for name, found in sets.items() if "by_length" in found}
    lengths = list(dict.fromkeys(length for found in given.values() for length in found))
    rows = [
        [name, *(f"{found[length]['hit_rate']:.3f}" if length in found else "–" for length in lengths)]
        for name, found in given.items()
    ]
    return "### Short histories: HR@10 with the latest items alone\n\n" + table(["set", *lengths], rows)


def popularity_of_targets(sets: Mapping[str, Any]) -> str:
    """Return HR@10 of targets by how popular they are."""
    rows = []
    for name, found in sets.items():
        for third, given in found.get("by_popularity", {}).items():
            scores = [f"{score['hit_rate']:.3f}" for score in given["scores"].values()]
            rows.append([name, third, f"{given['interactions']:,}", f"{given['questions']:,}", *scores])
    models = next((list(g["scores"]) for f in sets.values() for g in f.get("by_popularity", {}).values()), [])
    heading = ["set", "third of items", "interactions", "questions", *(f"HR@10 {model}" for model in models)]
    return "### Rare and popular items\n\n" + table(heading, rows)


def lists(sets: Mapping[str, Any]) -> str:
    """Return what the ten best of all items are."""
    rows = [
        [
            name,
            f"{found['recommended']['recommended_count']:.1f}",
            f"{found['recommended']['taken_count']:.1f}",
            f"{found['recommended']['recommended_median']:.0f}",
            f"{found['recommended']['taken_median']:.0f}",
            f"{100 * found['recommended']['coverage']:.0f} %",
            f"{found['recommended']['gini']:.2f}",
            f"{found['recommended']['taken_gini']:.2f}",
        ]
        for name, found in sets.items()
        if "recommended" in found
    ]
    heading = ["set", "users of an item, mean", "of what was taken", "median", "of what was taken"]
    heading += ["items shown to anybody", "Gini of the shown", "of the taken"]
    return "### What would be shown: the first ten of all items\n\n" + table(heading, rows)


def ties(sets: Mapping[str, Any]) -> str:
    """Return how much hangs on how ties count."""
    rows = [
        [
            name,
            model,
            f"{100 * found['ties'][model]['share']:.2f} %",
            f"{found['ties'][model]['hit_rate_lost']:.4f}",
            f"{found['ties'][model]['hit_rate_won']:.4f}",
        ]
        for name, found in sets.items()
        for model in (OURS, KNN)
        if model in found.get("ties", {})
    ]
    heading = ["set", "", "questions with a tie", "HR@10, ties lost (here)", "HR@10, ties won"]
    return "### Ties with the item that came next\n\n" + table(heading, rows)


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
        f"{found['epochs']} epochs, {found['seconds'][NETWORK]:,.0f} s of training on {found['device']}; "
        f"attributes: {'yes' if found['with_attributes'] else 'none'}. "
        f"The program has {found['program_bytes']:,} bytes and answers a question in {found['question_us']:.0f} µs."
    )
    return f"### {name}, first seed\n\n{about}\n\n" + table(["model", "HR@10", "NDCG@10", "HR@1"], rows)


def programs(found: Mapping[str, Any]) -> str:
    """Return size and time of the committed programs."""
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


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
