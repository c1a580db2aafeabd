"""Detects the language of each part of a mixed text: windows of words through the program, smoothed by Viterbi.

    session = load(program_path(DEFAULT_VERSION)).session()
    detect_spans(session, "He said: ce n'est pas possible, and left.")

Each word is judged by all windows of at most `WIDEST` words that hold it; their mean log probability is its evidence.
The languages of the words are then the likeliest path, where going from one language to another costs `SWITCH_COST`: so
a name or a borrowed word does not make a span.

Source: Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm", 1967.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from alcove.features.errors import FieldError
from alcove.features.language_id.config import LANGUAGES, UNKNOWN_BELOW
from alcove.runtime import InvalidTextError

WIDEST: Final = 1
"""Words of the widest window: probabilities of single words are honest, so that wider ones only blur the borders."""

SWITCH_COST: Final = 6.0
"""What a change of language costs, in nats of a word's evidence."""

BLOCK: Final = 4096
"""Words that are decided together: memory is bounded, however long the text."""

_SPACELESS = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff"
WORD = re.compile(
    rf"[{_SPACELESS}]{{1,4}}|(?:(?![{_SPACELESS}])(?:[^\W\d_]|[{_MARKS}]|(?<=\w)['’ʼ·\u200c\u200d](?=\w)))+"
)
"""A word, or up to four characters of a script without spaces: 我love你 are three."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER: Final = {code: i for i, code in enumerate(LANGUAGES)}

Run = Callable[[str], Sequence[np.ndarray[Any, Any]]]
"""A session of a `language_id` program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSpan:
    """A stretch of a text in one language.

    Attributes:
        start: of its first word, in characters of the text.
        end: after its last word.
        language: ISO 639-1 code.
        probability: of this language for the stretch by itself, in [0, 1]; 0 where it is not among the five likeliest.
        is_unknown: that probability is too low to rely on.

    Raises:
        FieldError: the probability is none, or the stretch begins before the text or is empty.
    """

    start: int
    end: int
    language: str
    probability: float
    is_unknown: bool

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise FieldError("probability", "0 to 1", self.probability)
        if not 0 <= self.start < self.end:
            raise FieldError("end", f"more than start, {self.start}, which is 0 or more", self.end)


def detect_spans(session: Run, text: str) -> tuple[LanguageSpan, ...]:
    """Return the languages of a text by stretches, in order, no two neighbours alike; none where it has no letters.

    Takes about 20 µs a word.

    Args:
        session: of a loaded `language_id` program.
        text: any length.

    Raises:
        InvalidTextError: the text holds a lone surrogate; has its position.
    """
    if lone := _SURROGATE.search(text):
        raise InvalidTextError(None, lone.start(), f"the text holds a lone surrogate at character {lone.start()}")
    places = [match.span() for match in WORD.finditer(text)]
    runs: list[tuple[int, int, int]] = []
    for first in range(0, len(places), BLOCK):
        block = places[first : first + BLOCK]
        for (start, end), language in zip(block, likeliest_path(evidence(session, text, block)), strict=True):
            if runs and runs[-1][2] == language:
                runs[-1] = (runs[-1][0], end, language)
            else:
                runs.append((start, end, int(language)))
    return tuple(_span(session, text, *run) for run in runs)


def _span(session: Run, text: str, start: int, end: int, language: int) -> LanguageSpan:
    code = LANGUAGES[language]
    ranked = dict(_rank(session(text[start:end])))
    probability = min(ranked.get(code, 0.0), 1.0)
    return LanguageSpan(
        start=start, end=end, language=code, probability=probability, is_unknown=probability < UNKNOWN_BELOW
    )


def _rank(outputs: Sequence[np.ndarray[Any, Any]]) -> Iterator[tuple[str, float]]:
    yield from zip(outputs[1][0].tolist(), outputs[0][0].tolist(), strict=True)


def evidence(
    session: Run, text: str, places: Sequence[tuple[int, int]], widest: int = WIDEST
) -> npt.NDArray[np.float64]:
    """Return the mean log probability of each language over the windows of each word, f64[words, 75].

    A program names its five likeliest languages; the others share what is left.
    """
    total = np.zeros((len(places), len(LANGUAGES)))
    windows = np.zeros((len(places), 1))
    for width in range(1, min(widest, len(places)) + 1):
        for first in range(len(places) - width + 1):
            ranked = list(_rank(session(text[places[first][0] : places[first + width - 1][1]])))
            left = max(1.0 - sum(probability for _, probability in ranked), 1e-4)
            row = np.full(len(LANGUAGES), left / (len(LANGUAGES) - len(ranked)))
            for code, probability in ranked:
                row[_NUMBER[code]] = max(probability, 1e-6)
            total[first : first + width] += np.log(row)
            windows[first : first + width] += 1
    return total / np.maximum(windows, 1)


def likeliest_path(scores: npt.NDArray[np.floating[Any]], switch_cost: float = SWITCH_COST) -> npt.NDArray[np.intp]:
    """Return the row of choices with the highest sum of scores, less `switch_cost` for each change; intp[n].

    Args:
        scores: floats [n, choices] of each place.
        switch_cost: >= 0, in the scores' unit.
    """
    count, choices = scores.shape
    if not count:
        return np.zeros(0, np.intp)
    came_from = np.empty((count, choices), np.intp)
    stays = np.arange(choices)
    best = scores[0].astype(np.float64)
    for at in range(1, count):
        leader = int(best.argmax())
        switched = best[leader] - switch_cost
        is_switch = switched > best
        came_from[at] = np.where(is_switch, leader, stays)
        best = np.where(is_switch, switched, best) + scores[at]
    path = np.empty(count, np.intp)
    path[-1] = best.argmax()
    for at in range(count - 1, 0, -1):
        path[at - 1] = came_from[at, path[at]]
    return path
