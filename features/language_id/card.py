"""Formats the card's figures as Markdown tables and one picture, from what `evaluate.py` measured."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from alcove.features.card_figures import table
from alcove.features.language_id.card_near import near_figures, near_trials, percent, temperature_figures

Result = Mapping[str, Any]
"""What `evaluate.evaluate` returns."""

OTHERS: Final = {
    "taught": "24 languages taught as none of the 75",
    "never seen": "6 near languages never seen",
}
"""What the card calls the texts outside the 75 languages; `evaluate.other_texts` has them."""

GOALS: Final = {"left_out": 0.87, "development": 0.925, "calibration": 0.02, "hidden": 0.005, "size": 3_000_000}
"""What the default version is to reach; shares in [0, 1], and bytes."""

COLOURS: Final = ("#c0392b", "#e59866", "#1f618d")
ROW_HEIGHT, LEFT, WIDTH, TOP = 13, 40, 560, 34


def figures(
    results: Sequence[Result],
    *,
    held_out: Mapping[str, Any] | None = None,
    left_out: Mapping[str, Any] | None = None,
    trials: Mapping[str, Any] | None = None,
    peers: Mapping[str, Any] | None = None,
) -> str:
    """Return the figures of the versions: goals first, totals side by side, then the last one's details.

    Args:
        results: of the versions.
        held_out: what `evaluate.evaluate_held_out` gave, if that was measured.
        left_out: what `cross_validate.summarize` gave, likewise.
        trials: what was tried in training, likewise.
        peers: what `evaluate.compare_peers` gave, likewise.
    """
    kinds = list(results[0]["kinds"])
    parts = [_goals(results[-1], left_out)] if left_out else []
    parts.append(_totals(results, kinds))
    if left_out:
        parts.append(_left_out_table(left_out))
        if "near" in left_out:
            parts.append(near_figures(left_out, held_out))
        if "temperatures" in left_out:
            parts.append(temperature_figures(left_out))
    if "robustness" in results[-1]:
        parts.extend([_robustness(results[-1], kinds), _characters(results[-1])])
    if held_out:
        parts.append(_held_out_table(held_out))
    if peers:
        what = f"at most {peers['per_language']} development texts of each language and kind, one core, one run"
        parts.append(f"### Beside other libraries\n\nAccuracy in %; {what}.\n\n" + peers_table(peers["rows"]))
        parts.append(_not_compared(peers["rows"]))
    if "others" in results[-1]:
        parts.append(_others(results[-1]))
    if trials:
        parts.append(_trials(trials))
        if "near" in trials:
            parts.append(near_trials(trials))
    return "\n\n".join([*parts, _languages(results[-1], kinds), _confusions(results[-1], kinds)])


def _goals(result: Result, left_out: Mapping[str, Any]) -> str:
    """Return each goal, what was reached, and whether that is enough."""
    errors = [kind["calibration_error"] for kind in left_out["all"].values()]
    hidden = [kind["accuracy"] * kind["right_unknown"] for kind in result["kinds"].values()]
    rows = [
        ("sources never seen, mean over sources and kinds (%)", "≥", GOALS["left_out"], left_out["mean_accuracy"]),
        ("development texts, mean over kinds (%)", "≥", GOALS["development"], result["mean_accuracy"]),
        ("calibration error on sources never seen, worst kind (%)", "≤", GOALS["calibration"], max(errors)),
        ("right answers hidden as unknown, mean over kinds (points)", "≤", GOALS["hidden"], sum(hidden) / len(hidden)),
    ]
    body = [
        [what, f"{sign} {percent(goal)}", percent(got), "yes" if (got >= goal) == (sign == "≥") else "no"]
        for what, sign, goal, got in rows
    ]
    size = result["size_bytes"]
    body.append(["program (bytes)", f"≤ {GOALS['size']:,}", f"{size:,}", "yes" if size <= GOALS["size"] else "no"])
    return table([f"goal of {result['version']}", "", "reached", "met"], body)


def _left_out_table(result: Mapping[str, Any]) -> str:
    """Return how models do on the sources that they were trained without."""
    kinds = list(result["all"])
    heading = ["left out", "languages", *kinds, "mean", *(f"calibration error, {kind}" for kind in kinds)]
    rows = []
    for name, fold in result["folds"].items():
        own = [fold["kinds"].get(kind) for kind in kinds]
        errors = ["–" if kind is None else percent(kind["calibration_error"]) for kind in own]
        shares = ["–" if kind is None else percent(kind["accuracy"]) for kind in own]
        rows.append([name, str(fold["languages"]), *shares, percent(fold["mean_accuracy"]), *errors])
    every = [result["all"][kind] for kind in kinds]
    errors = [percent(kind["calibration_error"]) for kind in every]
    rows.append(
        ["**all**", "", *(percent(k["accuracy"]) for k in every), f"**{percent(result['mean_accuracy'])}**", *errors]
    )
    steps = [fold["steps"] for fold in result["folds"].values()]
    what = (
        f"{len(steps)} models of {min(steps):,} to {max(steps):,} steps, each measured on the sources it was trained"
        "\nwithout; all in %. The calibration error of a source is under a temperature fitted to the other sources;"
        "\nin the last row that of all these texts together, where small sources weigh little."
    )
    return f"### Sources never seen: {result['version']} trained without each\n\n{what}\n\n" + table(heading, rows)


def _trials(trials: Mapping[str, Any]) -> str:
    """Return what was tried, on which texts, and what it gave."""
    kinds = ("words", "pairs", "sentences", "mean")
    rows = [
        [f"{row['what']}, seed {row['seed']}", row["texts"], f"{row['steps']:,}", *(percent(row[k]) for k in kinds)]
        for row in trials["rows"]
    ]
    what = f"Left out of training: ntrex where it is named. Of the development texts {trials['development_texts']}"
    what += " of each language and kind."
    return f"### What was tried in training: accuracy (%)\n\n{what}\n\n" + table(["", "texts", "steps", *kinds], rows)


def _robustness(result: Result, kinds: Sequence[str]) -> str:
    rows = [[name, *(percent(shares[kind]) for kind in kinds)] for name, shares in result["robustness"].items()]
    title = f"### Changed texts, {result['version']}: accuracy (%)"
    what = "At most 200 development texts of each language and kind."
    return f"{title}\n\n{what}\n\n" + table(["", *kinds], rows)


def _characters(result: Result) -> str:
    rows = [
        [name, f"{own['characters']:,}", *(percent(own[code]) for code in ("ja", "zh")), percent(own["ja"] + own["zh"])]
        for name, own in result["characters"].items()
    ]
    title = f"### Single characters of Japanese and Chinese, {result['version']}: answers (%)"
    return f"{title}\n\n" + table(["", "characters", "ja", "zh", "ja or zh"], rows)


def peers_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the comparison with other libraries as a table."""
    measured = [row for row in rows if "error" not in row]
    kinds = list(measured[0]["kinds"])
    heading = ["", *kinds, "mean", "languages it names", "mean over these", "memory (MB)", "words a second"]
    body = [
        [
            f"{row['name']} {row['version'] if row['name'] != 'alcove' else ''}".strip(),
            *(percent(row["kinds"][kind]["accuracy"]) for kind in kinds),
            f"**{percent(row['mean_accuracy'])}**",
            str(row["languages"]),
            percent(row["mean_accuracy_known"]),
            f"{row['memory_bytes'] / 1e6:,.0f}",
            f"{row['kinds'][kinds[0]]['texts_per_s']:,}",
        ]
        for row in measured
    ]
    return table(heading, body)


def _not_compared(rows: Sequence[Mapping[str, Any]]) -> str:
    return "Not compared:\n\n" + "\n".join(f"- {row['name']}: {row['error']}" for row in rows if "error" in row)


def _others(result: Result) -> str:
    """Return how many sentences in each language outside the 75 are counted as unknown."""
    rows = [
        [what, ", ".join(f"{code} {100 * share:.0f}" for code, share in by_language.items())]
        for name, what in OTHERS.items()
        if (by_language := result["others"].get(name, {}).get("unknown_by_language"))
    ]
    title = f"### Sentences outside the 75 languages counted as unknown, {result['version']} (%)"
    return f"{title}\n\n" + table(["", "by language"], rows)


def _held_out_table(result: Mapping[str, Any]) -> str:
    kinds = list(result["kinds"])
    rows = [
        [name, *(percent(result["kinds"][kind][key]) for kind in kinds), percent(result[mean]) if mean else ""]
        for name, key, mean in (
            ("accuracy (%)", "accuracy", "mean_accuracy"),
            ("calibration error (%)", "calibration_error", ""),
            ("mean probability less accuracy (%)", "over_confidence", ""),
        )
    ]
    title = f"### A source never seen: {result['version']} trained without {result['source']}"
    what = f"{result['steps']:,} steps; words of 5 letters or more, pairs of such, and sentences of {result['source']}"
    text = f"{title}\n\n{what}, {result['languages']} languages.\n\n" + table(["", *kinds, "mean"], rows)
    if "peers" not in result:
        return text
    beside = (
        f"Beside other libraries, at most {result['peers']['per_language']} of these texts of each language and kind"
    )
    return f"{text}\n\n{beside}:\n\n" + peers_table(result["peers"]["rows"])


def _totals(results: Sequence[Result], kinds: Sequence[str]) -> str:
    def line(name: str, key: str, kind: str) -> list[str]:
        return [f"{name}, {kind} (%)", *(percent(result["kinds"][kind][key]) for result in results)]

    rows = [line("accuracy", "accuracy", kind) for kind in kinds]
    rows.append(["**accuracy, mean of these (%)**", *(f"**{percent(r['mean_accuracy'])}**" for r in results)])
    rows.extend(line("calibration error", "calibration_error", kind) for kind in kinds)
    rows.extend(line("right guesses counted as unknown", "right_unknown", kind) for kind in kinds)
    rows.extend(line("wrong guesses counted as unknown", "wrong_unknown", kind) for kind in kinds)
    for name, what in OTHERS.items():
        if name in results[0].get("others", {}):
            own = [r["others"][name] for r in results]
            rows.append([f"counted as unknown, sentences in {what} (%)", *(percent(o["unknown"]) for o in own)])
            rows.append([f"AUROC, sentences against those in {what} (%)", *(percent(o["auroc"]) for o in own)])
    if "spans" in results[0]:
        spans = "words in the right language, two sentences in one text (`detect_spans`, %)"
        rows.append([spans, *(percent(r["spans"]) for r in results)])
    rows.extend(
        [f"time of one prediction, {kind}, median (µs)", *(f"{r['kinds'][kind]['latency_us']:.0f}" for r in results)]
        for kind in kinds
    )
    rows.append(["program (bytes)", *(f"{r['size_bytes']:,}" for r in results)])
    rows.append(["memory in use beside it, at most (bytes)", *(f"{r['memory_ceiling_bytes']:,}" for r in results)])
    return table(["", *(str(r["version"]) for r in results)], rows)


def _languages(result: Result, kinds: Sequence[str]) -> str:
    codes = sorted({code for kind in kinds for code in result["kinds"][kind]["by_language"]})
    rows = []
    for code in codes:
        shares = [result["kinds"][kind]["by_language"].get(code) for kind in kinds]
        rows.append([code, *("–" if share is None else percent(share) for share in shares)])
    return f"### Accuracy by language, {result['version']} (%)\n\n" + table(["language", *kinds], rows)


def _confusions(result: Result, kinds: Sequence[str]) -> str:
    rows = [
        [kind, ", ".join(f"{true} → {guess} {count}" for true, guess, count in result["kinds"][kind]["confusions"])]
        for kind in kinds
    ]
    return f"### Most frequent confusions, {result['version']} (true → guess, texts)\n\n" + table(
        ["kind", "which"], rows
    )


def accuracy_picture(result: Result) -> str:
    """Return an SVG: a row per language, a dot per kind of text, hardest languages first."""
    kinds = list(result["kinds"])
    by_language = [result["kinds"][kind]["by_language"] for kind in kinds]
    codes = sorted(
        {code for shares in by_language for code in shares}, key=lambda code: (_mean(by_language, code), code)
    )
    height = TOP + ROW_HEIGHT * len(codes) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}">',
        "<style>text { font: 10px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="4" y="12">accuracy by language, {result["version"]}: {", ".join(kinds)} (red, orange, blue)</text>',
    ]
    for tick in range(0, 101, 20):
        x = LEFT + WIDTH * tick / 100
        parts.append(
            f'<line x1="{x:.0f}" y1="{TOP - 6}" x2="{x:.0f}" y2="{height - 8}" stroke="#ddd"/>'
            f'<text x="{x:.0f}" y="{TOP - 9}" text-anchor="middle">{tick} %</text>'
        )
    for row, code in enumerate(codes):
        y = TOP + ROW_HEIGHT * row + 6
        parts.append(f'<text x="8" y="{y + 3}">{code}</text>')
        for shares, colour in zip(by_language, COLOURS, strict=False):
            if code in shares:
                parts.append(f'<circle cx="{LEFT + WIDTH * shares[code]:.1f}" cy="{y}" r="3.2" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _mean(by_language: Sequence[Mapping[str, float]], code: str) -> float:
    shares = [shares[code] for shares in by_language if code in shares]
    return sum(shares) / len(shares)
