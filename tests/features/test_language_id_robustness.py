"""Changes that people make to text: what each does, and how answers to changed texts and characters are counted."""

import random
import unicodedata

import numpy as np
from alcove.features.language_id.robustness import (
    CHANGES,
    add_typing_errors,
    measure_characters,
    measure_robustness,
)

SENTENCE = "Où est la gare la plus proche, demandait Zoë"


def change(name: str, text: str) -> str:
    """Return the text with a change made to it."""
    return CHANGES[name](text, random.Random(3))


def test_each_change_does_what_its_name_says() -> None:
    """Letters stay where only something is added; nothing happens to the text as it is."""
    assert change("as it is", SENTENCE) == SENTENCE
    assert change("upper case", SENTENCE) == SENTENCE.upper()
    assert change("without diacritics (Latin script)", SENTENCE) == "Ou est la gare la plus proche, demandait Zoe"
    decomposed = change("decomposed (NFD)", SENTENCE)
    assert len(decomposed) == len(SENTENCE) + 2
    assert unicodedata.normalize("NFC", decomposed) == SENTENCE
    for name in ("emoji", "punctuation", "digits"):
        changed = change(name, SENTENCE)
        assert len(changed) > len(SENTENCE)
        assert [c for c in changed if c.isalpha() and c != "x"] == [c for c in SENTENCE if c.isalpha()]


def test_typing_errors_are_in_long_words_and_in_one_at_least() -> None:
    """Every third word; a text of short words has nothing to mistype."""
    chance = random.Random(1)
    assert add_typing_errors("a la", chance) == "a la"
    for text, most in (("bahnhof", 1), ("bahnhof strasse", 1), ("eins zwei drei vier fünf sechs", 2)):
        made = [add_typing_errors(text, chance).split(" ") for _ in range(60)]
        differing = [sum(a != b for a, b in zip(words, text.split(" "), strict=True)) for words in made]
        assert max(differing) == most
        assert sum(differing) > 40  # now and then the wrong letter is the right one


class Answers:
    """A session that answers by the first letter."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def __call__(self, text: str) -> list[np.ndarray]:
        """Return one answer as a program does."""
        return [np.array([[1.0]]), np.array([[self.answers.get(text[:1], "en")]], dtype=object)]


def test_accuracy_is_by_change_and_kind() -> None:
    """A library that knows small letters alone fails on capitals."""
    session = Answers({"d": "de", "f": "fr"})
    found = measure_robustness(session, {"words": [("de", "der"), ("fr", "fin")]})  # type: ignore[arg-type]
    assert list(found) == list(CHANGES)
    assert found["as it is"] == {"words": 1.0}
    assert found["upper case"] == {"words": 0.0}


def test_characters_are_counted_by_the_sentences_they_are_in() -> None:
    """Three times in a language; kana apart; in one language alone or in both."""
    sentences = [("ja", "日日日のののの駅駅駅少"), ("zh", "日日日们们们")]
    session = Answers({"日": "zh", "の": "ja", "駅": "ja"})
    found = measure_characters(session, sentences)  # type: ignore[arg-type]
    assert found["kana"] == {"characters": 1, "ja": 1.0, "zh": 0.0}
    assert found["Han, in both"] == {"characters": 1, "ja": 0.0, "zh": 1.0}
    assert found["Han, in Japanese sentences alone"]["characters"] == 1
    assert found["Han, in Chinese sentences alone"] == {"characters": 1, "ja": 0.0, "zh": 0.0}
