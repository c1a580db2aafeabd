"""Measures how answers hold up under what people do to text: typing errors, capitals, lost marks, emoji, digits.

Every change is deterministic: the same texts give the same figures.
"""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from alcove.features.language_id.dataset import SHORTEST_MISTYPED, mistype, strip_marks
from alcove.features.language_id.metrics import Prediction, mean_accuracy
from alcove.runtime import Session

SEED: Final = 75
EMOJI: Final = ("😀", "👍🏽", "❤️", "🎉🎉", "😂")
STOPS: Final = (",", "!!!", " –", "…", " (?)", ";")
NUMBERS: Final = ("2", "24", "3x", "1.000", "007", "№5")
KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
HAN: Final = re.compile("[\u4e00-\u9fff]")
LEAST_SEEN: Final = 3
"""Times that a character stands in the sentences of a language, to be asked for by itself."""

Texts = Sequence[tuple[str, str]]
Change = Callable[[str, random.Random], str]


def add_typing_errors(text: str, chance: random.Random) -> str:
    """Return the text with a typing error in every third word, one at least."""
    words = text.split(" ")
    places = [i for i, word in enumerate(words) if len(word) >= SHORTEST_MISTYPED]
    for i in places[:: 3 if len(places) > 2 else 1][: max(1, len(places) // 3)]:
        words[i] = mistype(words[i], words[i][::-1], chance.random())
    return " ".join(words)


def _add(pieces: Sequence[str]) -> Change:
    def change(text: str, chance: random.Random) -> str:
        words = text.split(" ")
        at = chance.randrange(len(words))
        words[at] += chance.choice(pieces)
        return " ".join([*words, chance.choice(pieces)])

    return change


CHANGES: Final[Mapping[str, Change]] = {
    "as it is": lambda text, _: text,
    "a typing error in every third word": add_typing_errors,
    "upper case": lambda text, _: text.upper(),
    "without diacritics (Latin script)": lambda text, _: " ".join(map(strip_marks, text.split(" "))),
    "decomposed (NFD)": lambda text, _: unicodedata.normalize("NFD", text),
    "emoji": _add(EMOJI),
    "punctuation": _add(STOPS),
    "digits": lambda text, chance: f"{chance.choice(NUMBERS)} {text} {chance.choice(NUMBERS)}",
}
"""What is done to a text, by the name that the card gives it."""


def measure_robustness(session: Session, kinds: Mapping[str, Texts]) -> dict[str, dict[str, float]]:
    """Return the accuracy of changed texts, by change and kind of text; each language counts the same."""
    return {
        name: {kind: round(_accuracy(session, texts, change), 4) for kind, texts in kinds.items()}
        for name, change in CHANGES.items()
    }


def _accuracy(session: Session, texts: Texts, change: Change) -> float:
    chance = random.Random(SEED)  # noqa: S311 (repeatable, nothing secret)
    return mean_accuracy([Prediction(code, str(session(change(text, chance))[1][0, 0]), 1.0) for code, text in texts])


def measure_characters(session: Session, sentences: Texts) -> dict[str, Any]:
    """Return how single characters of Japanese and Chinese are answered, by what they are.

    Args:
        session: of the program.
        sentences: their characters are asked for, those that a language has `LEAST_SEEN` times.

    Returns:
        by kind: how many characters, and the shares answered ja and zh; Han characters are those of the sentences of
        one language alone, or of both.
    """
    counts = {code: Counter(c for own, text in sentences if own == code for c in text) for code in ("ja", "zh")}
    frequent = {code: {c for c, n in own.items() if n >= LEAST_SEEN} for code, own in counts.items()}
    kana = {c for c in frequent["ja"] if KANA.match(c)}
    han = {code: {c for c in own if HAN.match(c)} for code, own in frequent.items()}
    groups = {
        "kana": kana,
        "Han, in Japanese sentences alone": {c for c in han["ja"] if c not in counts["zh"]},
        "Han, in Chinese sentences alone": {c for c in han["zh"] if c not in counts["ja"]},
        "Han, in both": han["ja"] & han["zh"],
    }
    return {name: _shares(session, sorted(characters)) for name, characters in groups.items()}


def _shares(session: Session, characters: Sequence[str]) -> dict[str, Any]:
    answers = Counter(str(session(character)[1][0, 0]) for character in characters)
    total = max(1, len(characters))
    return {"characters": len(characters)} | {code: round(answers[code] / total, 4) for code in ("ja", "zh")}
