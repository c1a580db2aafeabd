"""`decode` turns outputs of language_id into typed answers, and refuses outputs of any other form."""

import json
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import numpy as np
import pytest
from alcove.features.language_id import LanguageAnswer, LanguageId, RankedLanguage
from alcove.features.language_id.config import CANDIDATE_SHARE, LANGUAGES, UNKNOWN_BELOW
from pydantic import TypeAdapter


def outputs(probabilities: list[float], languages: list[str]) -> list[np.ndarray[Any, Any]]:
    """Return what a program gives."""
    return [np.array([probabilities], np.float32), np.array([languages])]


def test_outputs_become_an_answer_with_the_best_language_first() -> None:
    """Order and probabilities are the program's."""
    answer = LanguageId().decode(outputs([0.75, 0.125, 0.0625], ["nb", "da", "sv"]))
    assert answer == LanguageAnswer(
        language="nb",
        ranked=(
            RankedLanguage(language="nb", probability=0.75),
            RankedLanguage(language="da", probability=0.125),
            RankedLanguage(language="sv", probability=0.0625),
        ),
        is_unknown=False,
    )


def test_answer_is_unknown_exactly_under_the_threshold() -> None:
    """At the bound it counts as known, one step of f32 under it not."""
    at = float(np.nextafter(np.float32(UNKNOWN_BELOW), np.float32(1)))
    under = float(np.nextafter(np.float32(UNKNOWN_BELOW), np.float32(0)))
    assert not LanguageId().decode(outputs([at], ["fi"])).is_unknown
    assert LanguageId().decode(outputs([under], ["fi"])).is_unknown


def test_candidates_are_the_languages_a_text_may_as_well_be_in() -> None:
    """A word of Croatian and Bosnian names both; at the bound counts, a step under it not; JSON has them."""
    both = LanguageId().decode(outputs([0.5, 0.4, 0.05], ["hr", "bs", "sl"]))
    assert both.candidates == ("hr", "bs")
    assert asdict(both)["candidates"] == ("hr", "bs")
    assert LanguageId().decode(outputs([0.9, 0.05], ["hr", "bs"])).candidates == ("hr",)
    at = np.float32(0.5 * CANDIDATE_SHARE)
    under = float(np.nextafter(at, np.float32(0)))
    assert LanguageId().decode(outputs([0.5, float(at)], ["id", "ms"])).candidates == ("id", "ms")
    assert LanguageId().decode(outputs([0.5, under], ["id", "ms"])).candidates == ("id",)


def test_probability_rounded_above_one_is_one() -> None:
    """A softmax may round to just above 1; the answer stays a probability."""
    above = float(np.nextafter(np.float32(1), np.float32(2)))
    assert LanguageId().decode(outputs([above], ["th"])).ranked[0].probability == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        outputs([0.5], ["de"])[:1],
        [*outputs([0.5], ["de"]), np.zeros(1)],
        outputs([0.5, 0.2], ["de"]),
        outputs([], []),
        [np.array([0.5], np.float32), np.array(["de"])],
        [np.full((2, 1), 0.5, np.float32), np.array([["de"], ["en"]])],
        outputs([0.5], ["klingon"]),
        outputs([-0.5], ["de"]),
        outputs([float("nan")], ["de"]),
    ],
)
def test_outputs_of_another_feature_are_refused(wrong: list[np.ndarray[Any, Any]]) -> None:
    """Too few, too many, another shape, an unknown language, no probability: an error, not an answer."""
    with pytest.raises(ValueError):  # noqa: PT011 (the message differs by case)
        LanguageId().decode(wrong)


def test_a_line_is_one_text_as_it_stands() -> None:
    """Nothing is decoded or cut off: the program sees the bytes and judges their UTF-8."""
    for line in (b"", "Grüße, Jürgen".encode(), b"\xff\xfe", b"  two words\t"):
        assert LanguageId().parse(line) == (line,)


def test_answers_are_immutable_and_survive_json() -> None:
    """An app may keep and send them to itself."""
    answer = LanguageId().decode(outputs([0.9, 0.1], ["ka", "hy"]))
    with pytest.raises(FrozenInstanceError):
        answer.language = "hy"  # type: ignore[misc]
    assert TypeAdapter(LanguageAnswer).validate_json(json.dumps(asdict(answer))) == answer


def test_languages_are_75_codes_without_repetition() -> None:
    """What the models' outputs mean never changes silently: the order is part of the weights."""
    assert len(LANGUAGES) == len(set(LANGUAGES)) == 75
    assert LANGUAGES[:3] == ("af", "sq", "ar")
    assert LANGUAGES[-3:] == ("xh", "yo", "zu")
