"""Simulates the people of the demo: they write sentences in their language and accept a guess when it is right.

The sentences are Common Voice's (CC0), committed with the feature.  A person is simulated; everything that reads,
answers and counts what the person does is the product.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Typing:
    """A sentence as it is typed: the app asks for its language after the opening words, and again when it is whole.

    Attributes:
        language: the one that its writer knows it to be in (ISO 639-1).
        opening: its first words.
        whole: all of it.
    """

    language: str
    opening: str
    whole: str


def load_sentences() -> dict[str, list[str]]:
    """Return the committed sentences by language (ISO 639-1), in file order."""
    raw = (files("alcove.features.language_id") / "sentences.tsv").read_text(encoding="utf-8")
    sentences: dict[str, list[str]] = {}
    for line in raw.splitlines():
        if line and not line.startswith("#"):
            language, text = line.split("\t")
            sentences.setdefault(language, []).append(text)
    return sentences


class Person:
    """Someone who writes in one language; repeatable from the seed.

    Args:
        seed: picks the language, the sentences and where the app first asks.
        sentences: what may be written, by language.
        canary: added to everything that is typed, so that a leak can be searched for.
    """

    LONGEST_OPENING = 2  # words; a keyboard that has not switched by then is in the way

    def __init__(self, seed: int, sentences: Mapping[str, Sequence[str]], *, canary: str = "") -> None:
        self._choice = random.Random(seed)  # noqa: S311 - a simulated person, nothing secret
        self.language = self._choice.choice(list(sentences))
        self._sentences = sentences[self.language]
        self._canary = f" {canary}" if canary else ""

    def write(self) -> Typing:
        """Return the next sentence that this person types."""
        sentence = self._choice.choice(self._sentences)
        words = sentence.split()
        opening = " ".join(words[: self._choice.randint(1, self.LONGEST_OPENING)])
        return Typing(self.language, opening + self._canary, sentence + self._canary)
