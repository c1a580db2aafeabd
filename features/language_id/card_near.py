"""Formats the card's tables of near languages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from alcove.features.card_figures import table

NEAR: Final = {
    "accuracy": "right",
    "in_group": "one of the group",
    "held": "among the candidates",
    "several": "several candidates",
    "over_confidence": "too sure by",
}
"""What the card calls the figures of `near.measure_near`."""


TEMPERATURES: Final = {
    "source": "calibration error of a source and kind, mean",
    "worst_source": "the same, worst source and kind",
    "worst_kind": "calibration error of all sources together, worst kind",
    "near": "how far near languages are too sure or too doubtful, mean of groups and kinds",
    "near_held": "candidates of near languages hold the right one, mean of groups and kinds",
}
"""What the card calls the figures of `cross_validate.summarize`'s temperatures."""


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * share:.1f}"


def near_figures(left_out: Mapping[str, Any], held_out: Mapping[str, Any] | None) -> str:
    """Return how near languages are told apart on sources never seen, and how other libraries do it on one of them.

    Args:
        left_out: what `cross_validate.summarize` gave.
        held_out: what `evaluate.evaluate_held_out` gave, if that was measured.
    """
    rows = [
        [name, kind, f"{own['texts']:,}", *(percent(own[key]) for key in NEAR)]
        for name, kinds in left_out["near"].items()
        for kind, own in kinds.items()
    ]
    what = (
        "Answers of the same models, each to texts of the sources it was trained without, in %; each language of a"
        "\ngroup counts the same. *One of the group*: the first guess is one of its languages. *Candidates*: what"
        "\n`LanguageAnswer.candidates` names. *Too sure by*: mean probability of the first guess less share right."
    )
    title = f"### Near languages, sources never seen: {left_out['version']}"
    text = f"{title}\n\n{what}\n\n" + table(["group", "kind", "texts", *NEAR.values()], rows)
    peers = (held_out or {}).get("peers", {}).get("rows", [])
    measured = [row for row in peers if any(kind.get("near") for kind in row.get("kinds", {}).values())]
    return f"{text}\n\n{_beside(measured, held_out)}" if held_out and measured else text


def _beside(rows: Sequence[Mapping[str, Any]], held_out: Mapping[str, Any]) -> str:
    """Return the groups' accuracies of our program and of the best other library, by kind."""
    ours, *others = rows
    kinds = list(ours["kinds"])
    body = []
    for name, shared in held_out["shared_words"].items():
        line = [name, percent(shared)]
        for kind in kinds:
            share, library = max((row["kinds"][kind]["near"][name], row["name"]) for row in others)
            line += [percent(ours["kinds"][kind]["near"][name]), f"{percent(share)} ({library})"]
        body.append(line)
    heading = [cell for kind in kinds for cell in (kind, f"{kind}, best other")]
    what = (
        f"The same groups on {held_out['source']}, right first guesses of the model trained without it, beside the best"
        "\nother library of each cell, in %. *Shared*: words of 5 letters or more that stand in the translation into"
        "\nanother language of the group too, letter by letter; nobody can tell these apart."
    )
    return f"{what}\n\n" + table(["group", "shared", *heading], body)


def temperature_figures(left_out: Mapping[str, Any]) -> str:
    """Return what a temperature for each language is better at than one for all, on sources never seen."""
    compared = left_out["temperatures"]
    rows = [[what, *(percent(own[key]) for own in compared.values())] for key, what in TEMPERATURES.items()]
    what = "Each source under temperatures that were fitted to the other sources (%)."
    title = "### One temperature, or one for each language"
    return f"{title}\n\n{what}\n\n" + table(["", *compared], rows)


TRIALS: Final = {
    "mean": "all languages, mean of kinds",
    "words": "near, words",
    "words_between": "near, words, among the group's",
    "pairs_between": "near, pairs, among the group's",
    "sentences_between": "near, sentences, among the group's",
    "plain": "all, without diacritics",
}
"""What the card calls the figures of each seed of a trial."""


def near_trials(trials: Mapping[str, Any]) -> str:
    """Return what was tried for near languages: the mean of the seeds, and the least and most of several.

    Args:
        trials: `near` has rows with what was tried and a list of figures, a share for each seed; `near_texts` is how
            many texts of each language and kind they are of.
    """
    rows = [
        [row["what"], str(len(row["mean"])), *(_spread(row.get(key, [])) for key in TRIALS)] for row in trials["near"]
    ]
    what = (
        f"Accuracy (%) on ntrex, at most {trials['near_texts']} texts of each language and kind, of the model trained"
        " without it and then for"
        "\n150 more steps; least to most of several seeds. *Near*: mean of seven groups. *Among the group's*: the"
        "\nlikeliest of the group's languages alone, so that it doesn't count how often the group is guessed."
    )
    return f"### What was tried for near languages\n\n{what}\n\n" + table(["", "seeds", *TRIALS.values()], rows)


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return "–"
    mean = percent(sum(shares) / len(shares))
    return mean if len(shares) == 1 else f"{mean} ({percent(min(shares))} to {percent(max(shares))})"
