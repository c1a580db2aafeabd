"""The translation example app, with a real client and the committed program, offers only the translations needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.features.language_id import LanguageAnswer, LanguageId
from alcove.features.language_id.example import TranslationOffer
from alcove.sdk import Client, FeatureHandle, NoPredictionError


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[FeatureHandle[LanguageAnswer]]:
    """A client that never reaches a server: the baseline answers."""
    with Client("messenger", tmp_path / "data", "https://models.example.org", b"") as client:
        yield client.feature(LanguageId)


@pytest.mark.parametrize(
    ("message", "offered"),
    [
        ("Où est la gare la plus proche ?", "fr"),
        ("Где ты был вчера вечером?", "ru"),
        ("Wo ist der nächste Bahnhof?", None),
        ("See you at the station, I am running late.", None),
        ("😀😀", None),
        ("", None),
    ],
)
def test_translation_is_offered_for_what_the_reader_does_not_read(
    message: str, offered: str | None, handle: FeatureHandle[LanguageAnswer]
) -> None:
    """German and English are read; what has no letters needs no translation."""
    assert TranslationOffer(handle, reads={"de", "en"}).translate_from(message) == offered


def test_word_of_a_close_language_that_is_read_gets_no_offer(handle: FeatureHandle[LanguageAnswer]) -> None:
    """Danish and Norwegian "hvordan" are alike: who reads one of them needs no translation of the other."""
    assert TranslationOffer(handle, reads={"da", "nb", "nn"}).translate_from("hvordan går det") is None
    assert TranslationOffer(handle, reads={"de"}).translate_from("hvordan går det") in {"da", "nb", "nn"}


def test_what_the_reader_did_is_noted_on_the_device(handle: FeatureHandle[LanguageAnswer]) -> None:
    """An outcome belongs to a prediction: without one it is an error."""
    offer = TranslationOffer(handle, reads={"de"})
    with pytest.raises(NoPredictionError):
        offer.was_used(True)
    offer.translate_from("Où est la gare ?")
    offer.was_used(True)


def test_language_that_no_answer_can_be_is_refused(handle: FeatureHandle[LanguageAnswer]) -> None:
    """A reader's languages are codes of the 75."""
    with pytest.raises(ValueError, match="75 languages; klingon: none of them"):
        TranslationOffer(handle, reads={"de", "klingon"})
