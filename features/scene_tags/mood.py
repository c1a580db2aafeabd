"""Chooses the mood of music for a picture by a table of how bright and how lively each tag is.

The table is a column of `tags.tsv`.  It is taste, written down so that it can be argued with: no music and no listener
was asked.  A story app that knows better passes a table of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from alcove.features.errors import FieldError
from alcove.features.scene_tags.tags import mood

MoodName = Literal["upbeat", "calm", "tense", "melancholic", "neutral"]

NEUTRAL_WITHIN: Final = 0.1
"""How far from the middle a mood must be to have a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """The music that goes with a picture.

    Attributes:
        name: upbeat (bright, lively), calm (bright, quiet), tense (dark, lively), melancholic (dark, quiet), or
            neutral where the tags say nothing.
        brightness: dark -1 to bright 1.
        energy: quiet -1 to lively 1.

    Raises:
        FieldError: a number is out of its bounds.
    """

    name: MoodName
    brightness: float
    energy: float

    def __post_init__(self) -> None:
        for field, value in (("brightness", self.brightness), ("energy", self.energy)):
            if not -1 <= value <= 1:
                raise FieldError(field, "-1 to 1", value)


def mood_of(scores: Mapping[str, float], table: Mapping[str, tuple[float, float]] | None = None) -> Mood:
    """Return the mood of tags: the mean of the table, each tag counting as the square of its score.

    The mean is over one picture's worth of certainty at least, so that faint tags make a faint mood.

    Args:
        scores: of tags, in [0, 1].
        table: brightness and energy by tag, each in [-1, 1]; tags that it does not have count nothing. Without one,
            that of the feature, where a tag has what the nearest broader one has.
    """
    moods = {tag: mood(tag) if table is None else table.get(tag) for tag in scores}
    weights = {tag: scores[tag] ** 2 for tag, own in moods.items() if own is not None}
    total = max(1.0, sum(weights.values()))
    brightness, energy = (
        sum(weights[tag] * own[at] for tag, own in moods.items() if own is not None) / total for at in (0, 1)
    )
    return Mood(name=_name(brightness, energy), brightness=round(brightness, 4), energy=round(energy, 4))


def _name(brightness: float, energy: float) -> MoodName:
    if max(abs(brightness), abs(energy)) < NEUTRAL_WITHIN:
        return "neutral"
    if brightness >= 0:
        return "upbeat" if energy >= 0 else "calm"
    return "tense" if energy >= 0 else "melancholic"
