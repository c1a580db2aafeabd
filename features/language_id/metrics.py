"""Computes accuracy, calibration and rejection metrics of predictions; reads no model and no files."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """One text's true language, the best guess and its probability.

    Attributes:
        language: the true one; "" where it is none of ours.
        guess: the most likely one.
        probability: of the guess, in [0, 1].
    """

    language: str
    guess: str
    probability: float

    @property
    def is_right(self) -> bool:
        """Whether the guess is the true language."""
        return self.guess == self.language


def accuracy_by_language(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Return the share of right guesses of each true language, in [0, 1], by code."""
    total = Counter(prediction.language for prediction in predictions)
    right = Counter(prediction.language for prediction in predictions if prediction.is_right)
    return {language: right[language] / total[language] for language in sorted(total)}


def mean_accuracy(predictions: Sequence[Prediction]) -> float:
    """Return the mean of the languages' accuracies: each counts the same, however many texts it has.

    Raises:
        ValueError: there are no predictions.
    """
    by_language = accuracy_by_language(predictions)
    if not by_language:
        raise ValueError("no predictions to average")
    return sum(by_language.values()) / len(by_language)


def group_accuracies(by_language: Mapping[str, float], groups: Iterable[Sequence[str]]) -> dict[str, float]:
    """Return the mean accuracy of each group's languages, by their codes ("bs, hr"); absent ones are left out."""
    found = {group: [by_language[code] for code in group if code in by_language] for group in map(tuple, groups)}
    return {", ".join(group): round(sum(own) / len(own), 4) for group, own in found.items() if own}


def confusions(predictions: Sequence[Prediction], most: int) -> list[tuple[str, str, int]]:
    """Return the `most` frequent (true, guessed, count) of wrong guesses, ties by code."""
    counts = Counter((p.language, p.guess) for p in predictions if not p.is_right)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(true, guess, count) for (true, guess), count in ranked[:most]]


def expected_calibration_error(predictions: Sequence[Prediction], bins: int = 15) -> float:
    """Return the mean gap between probability and share of right guesses, over equal bins, weighted by their texts.

    Source: Guo et al., "On Calibration of Modern Neural Networks", 2017, section 2.

    Raises:
        ValueError: there are no predictions.
    """
    if not predictions:
        raise ValueError("no predictions to calibrate")
    sums = [[0.0, 0] for _ in range(bins)]
    for prediction in predictions:
        at = min(int(prediction.probability * bins), bins - 1)
        sums[at][0] += prediction.probability
        sums[at][1] += prediction.is_right
    return sum(abs(probability - right) for probability, right in sums) / len(predictions)


def share_below(predictions: Sequence[Prediction], threshold: float) -> float:
    """Return the share of predictions whose probability is under `threshold`: those that count as unknown."""
    return sum(prediction.probability < threshold for prediction in predictions) / max(1, len(predictions))


def auroc(known: Sequence[float], others: Sequence[float]) -> float:
    """Return the share of pairs in which a known text has the higher probability than another, ties half; 1 is best.

    Args:
        known: probability of the best guess, for texts in our languages.
        others: the same for texts in languages outside them.

    Source: Hanley and McNeil, "The meaning and use of the area under a ROC curve", 1982.

    Raises:
        ValueError: one of them is empty.
    """
    if not known or not others:
        raise ValueError("no predictions to tell apart")
    ordered = sorted(others)
    below = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in known)
    return below / (2 * len(known) * len(others))
