"""Who uses the demo's devices: people who write sentences in their language and accept a guess when it is right.

The sentences are Common Voice's (CC0), committed with the feature.  A person is simulated; everything that reads,
answers and counts what the person does is the product.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Sentence:
    """A text and the language that its writer knows it to be in (ISO 639-1)."""

    language: str
    text: str


@dataclass(frozen=True)
class Typing:
    """A sentence as it is typed: the app asks for its language after the opening words, and again when it is whole."""

    language: str
    opening: str
    whole: str


def load_sentences() -> tuple[Sentence, ...]:
    """Return the committed sentences, in file order."""
    raw = (files("alcove.features.language_id") / "sentences.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in raw.splitlines() if line and not line.startswith("#"))
    return tuple(Sentence(language, text) for language, text in rows)


class Person:
    """Someone who writes in one language; repeatable from the seed.

    Args:
        seed: picks the language, the sentences and where the app first asks.
        sentences: what may be written.
        canary: added to everything that is typed, so that a leak can be searched for.
    """

    LONGEST_OPENING = 2  # words; a keyboard that has not switched by then is in the way

    def __init__(self, seed: int, sentences: Sequence[Sentence], *, canary: str = "") -> None:
        self._choice = random.Random(seed)  # noqa: S311 - a simulated person, nothing secret
        languages = sorted({sentence.language for sentence in sentences})
        self.language = self._choice.choice(languages)
        self._sentences = [sentence for sentence in sentences if sentence.language == self.language]
        self._canary = f" {canary}" if canary else ""

    def write(self) -> Typing:
        """Return the next sentence that this person types."""
        sentence = self._choice.choice(self._sentences)
        words = sentence.text.split()
        opening = " ".join(words[: self._choice.randint(1, self.LONGEST_OPENING)])
        return Typing(sentence.language, opening + self._canary, sentence.text + self._canary)
