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


def load_sentences() -> tuple[Sentence, ...]:
    """Return the committed sentences, in file order."""
    raw = (files("alcove.features.language_id") / "sentences.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in raw.splitlines() if line and not line.startswith("#"))
    return tuple(Sentence(language, text) for language, text in rows)


def as_typed(sentence: Sentence, choice: random.Random, *, longest_words: int) -> Sentence:
    """Return what a person would send of a sentence: a run of at most `longest_words` words, as in a chat."""
    words = sentence.text.split()
    count = choice.randint(1, longest_words)
    start = choice.randint(0, max(0, len(words) - count))
    return Sentence(sentence.language, " ".join(words[start : start + count]))


class Person:
    """Someone who writes in one language; repeatable from the seed."""

    LONGEST_WORDS = 4

    def __init__(self, seed: int, sentences: Sequence[Sentence], *, canary: str = "") -> None:
        """Pick the person's language and what they will write; `canary` is added to every text (egress tests)."""
        self._choice = random.Random(seed)  # noqa: S311 - a simulated person, nothing secret
        languages = sorted({sentence.language for sentence in sentences})
        self.language = self._choice.choice(languages)
        self._sentences = [sentence for sentence in sentences if sentence.language == self.language]
        self._canary = canary

    def write(self) -> Sentence:
        """Return the next thing this person types."""
        typed = as_typed(self._choice.choice(self._sentences), self._choice, longest_words=self.LONGEST_WORDS)
        return Sentence(typed.language, f"{typed.text} {self._canary}" if self._canary else typed.text)
