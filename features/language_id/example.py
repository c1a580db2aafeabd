"""Shows how an app uses the feature: a messenger offers to translate messages that its reader may not read.

    handle = Client(app="messenger", …).feature(LanguageId)
    offer = TranslationOffer(handle, reads={"de", "en"})
    language = offer.translate_from("Où est la gare ?")       # "fr": show the button
    offer.was_used(True)                                      # stays here, except for one randomized cell of it

Short messages are right in several languages at once, so what counts is not the first guess but how likely it is that
the reader reads none of those in question.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from alcove.features.language_id.config import LANGUAGES

if TYPE_CHECKING:
    from alcove.features.language_id.contract import LanguageAnswer

OFFER_FROM: Final = 0.8
"""Least probability of a language that the reader does not read: a button too many annoys more than one too few."""


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def predict(self, *inputs: Any) -> Any:
        """Return an `alcove.sdk.Answer`, whose `value` is a `LanguageAnswer`; never uses the network."""
        ...

    def record_outcome(self, accepted: bool) -> Any:
        """Note whether people took what the answer led to; kept on the device."""
        ...


class TranslationOffer:
    """Decides for each message whether to offer a translation.

    Args:
        handle: of the feature.
        reads: languages that the reader reads, ISO 639-1.

    Raises:
        ValueError: a language is none of the 75.
    """

    def __init__(self, handle: Handle, reads: Iterable[str]) -> None:
        self._handle = handle
        self._reads = frozenset(reads)
        unknown = sorted(self._reads.difference(LANGUAGES))
        if unknown:
            raise ValueError(f"language_id knows {len(LANGUAGES)} languages; {', '.join(unknown)}: none of them")

    def translate_from(self, message: str) -> str | None:
        """Return the language to translate `message` from, or None for no offer: it is read, or nobody knows."""
        answer: LanguageAnswer = self._handle.predict(message).value
        foreign = [entry for entry in answer.ranked if entry.language not in self._reads]
        if answer.is_unknown or sum(entry.probability for entry in foreign) < OFFER_FROM:
            return None
        return foreign[0].language

    def was_used(self, accepted: bool) -> None:
        """Note whether the reader asked for the translation that was offered."""
        self._handle.record_outcome(accepted)
