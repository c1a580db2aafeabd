"""Defines language identification for apps: one text in, the likely languages out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.language_id.config import CANDIDATE_SHARE, DEFAULT_VERSION, LANGUAGES, UNKNOWN_BELOW

if TYPE_CHECKING:
    from alcove.features.language_id.spans import LanguageSpan, Run

_KNOWN: Final = frozenset(LANGUAGES)

PROGRAMS: Final = Path(__file__).parent / "programs"
SENTENCES: Final = Path(__file__).parent / "sentences.tsv"
LEFT_OUT: Final = Path(__file__).parent / "left_out.json"
"""Figures on sources never seen, and the temperature that they gave; written by `cross_validate.py`."""
TRIALS: Final = Path(__file__).parent / "trials.json"
"""What was tried in training and what it gave, by seed; a record that nothing writes again."""


def program_path(version: str) -> Path:
    """Return where the committed program of `version` lies, whether or not there is one."""
    return PROGRAMS / f"language_id-{version}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedLanguage:
    """One language and how likely it is.

    Attributes:
        language: ISO 639-1 code, one of `config.LANGUAGES`.
        probability: in [0, 1]; over all 75 languages they add up to 1.

    Raises:
        FieldError: the probability is none.
    """

    language: str
    probability: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise FieldError("probability", "0 to 1", self.probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageAnswer:
    """The languages that a text may be in.

    Attributes:
        language: the most likely one; a guess like any other where `is_unknown`.
        ranked: the most likely ones, best first; never empty.
        is_unknown: nothing can be said: no letters, too little text, or a language outside the 75.
        candidates: the languages that the text may as well be in, best first: `language`, and those nearly as likely.
            One where the text tells, ("hr", "bs") where it is right in both; those of `ranked` with at least
            `config.CANDIDATE_SHARE` of the best one's probability.  Nothing to rely on where `is_unknown`.

    Raises:
        FieldError: no language is ranked.
    """

    language: str
    ranked: tuple[RankedLanguage, ...]
    is_unknown: bool
    candidates: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.ranked:
            raise FieldError("ranked", "at least one language", self.ranked)
        least = CANDIDATE_SHARE * self.ranked[0].probability
        likely = tuple(entry.language for entry in self.ranked if entry.probability >= least)
        object.__setattr__(self, "candidates", likely)


class LanguageId:
    """Language identification: one text in, `LanguageAnswer` out."""

    name: ClassVar[str] = "language_id"
    summary: ClassVar[str] = f"Identifies which of {len(LANGUAGES)} languages a text is in."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[bytes]:
        """Return the program's inputs in a line: the text, all of it, as it stands; the program checks its UTF-8."""
        return (line,)

    def detect_spans(self, session: "Run", text: str) -> "tuple[LanguageSpan, ...]":
        """Return the languages of a mixed text by stretches; `spans.detect_spans`, which has the details.

        Raises:
            InvalidTextError: the text holds a lone surrogate.
        """
        from alcove.features.language_id.spans import detect_spans  # noqa: PLC0415 - it needs this module

        return detect_spans(session, text)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> LanguageAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: probabilities f32 [1, k], descending, and their languages, str [1, k].

        Raises:
            ValueError: the outputs are not two arrays of one shape [1, k], k >= 1, probabilities and known languages.
        """
        shapes = [output.shape for output in outputs]
        if len(shapes) != 2 or shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != 1 or not shapes[0][1]:
            raise ValueError(f"language_id expects probabilities and languages, both [1, k]; the program gave {shapes}")
        probabilities, languages = outputs[0][0].tolist(), outputs[1][0].tolist()
        for language in languages:
            if language not in _KNOWN:
                raise ValueError(f"language_id knows {len(LANGUAGES)} languages; {language!r} is none of them")
        ranked = tuple(
            RankedLanguage(language=language, probability=min(probability, 1.0))
            for probability, language in zip(probabilities, languages, strict=True)
        )
        best = ranked[0]
        return LanguageAnswer(language=best.language, ranked=ranked, is_unknown=best.probability < UNKNOWN_BELOW)
