"""Chooses the mood of music for a picture by a small table of how bright and how lively each tag is.

The table is taste, written down so that it can be argued with: no music and no listener was asked.  A story app that
knows better passes a table of its own.
"""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

MoodName = Literal["upbeat", "calm", "tense", "melancholic", "neutral"]

TABLE: Final[Mapping[str, tuple[float, float]]] = {
    "animal": (0.3, 0.1),
    "bird": (0.5, 0.0),
    "boat": (0.3, -0.2),
    "bridge": (0.0, -0.1),
    "building": (-0.1, 0.0),
    "cat": (0.5, -0.4),
    "clothing": (0.2, 0.3),
    "container": (0.0, 0.0),
    "dog": (0.8, 0.5),
    "drink": (0.5, 0.3),
    "electronics": (-0.1, 0.3),
    "fish": (0.2, -0.4),
    "food": (0.6, 0.1),
    "fruit_vegetable": (0.5, 0.0),
    "indoor_furniture": (0.1, -0.5),
    "insect_bug": (-0.6, 0.4),
    "kitchen": (0.3, -0.1),
    "landscape": (0.4, -0.6),
    "mammal": (0.3, 0.1),
    "marine_life": (0.2, -0.5),
    "mountain": (-0.2, -0.6),
    "musical_instrument": (0.6, 0.5),
    "plant_fungus": (0.2, -0.6),
    "reptile_amphibian": (-0.5, 0.2),
    "road_vehicle": (0.1, 0.8),
    "shop_or_room": (0.2, 0.2),
    "sports": (0.6, 0.9),
    "street": (-0.1, 0.6),
    "text_or_screen": (0.0, 0.2),
    "train": (0.0, 0.5),
    "water_scene": (0.4, -0.7),
}
"""By tag: brightness and energy, each in [-1, 1]."""

NEUTRAL_WITHIN: Final = 0.1
"""How far from the middle a mood must be to have a name."""


class Mood(BaseModel):
    """The music that goes with a picture.

    Attributes:
        name: upbeat (bright, lively), calm (bright, quiet), tense (dark, lively), melancholic (dark, quiet), or
            neutral where the tags say nothing.
        brightness: dark -1 to bright 1.
        energy: quiet -1 to lively 1.
    """

    model_config = ConfigDict(frozen=True)

    name: MoodName
    brightness: float = Field(ge=-1, le=1)
    energy: float = Field(ge=-1, le=1)


def mood_of(scores: Mapping[str, float], table: Mapping[str, tuple[float, float]] = TABLE) -> Mood:
    """Return the mood of tags: the mean of the table, each tag counting as the square of its score.

    The mean is over one picture's worth of certainty at least, so that faint tags make a faint mood.

    Args:
        scores: of tags, in [0, 1]; tags that the table does not have count nothing.
        table: brightness and energy by tag, each in [-1, 1].
    """
    weights = {tag: score * score for tag, score in scores.items() if tag in table}
    total = max(1.0, sum(weights.values()))
    brightness = sum(weight * table[tag][0] for tag, weight in weights.items()) / total
    energy = sum(weight * table[tag][1] for tag, weight in weights.items()) / total
    return Mood(name=_name(brightness, energy), brightness=round(brightness, 4), energy=round(energy, 4))


def _name(brightness: float, energy: float) -> MoodName:
    if max(abs(brightness), abs(energy)) < NEUTRAL_WITHIN:
        return "neutral"
    if brightness >= 0:
        return "upbeat" if energy >= 0 else "calm"
    return "tense" if energy >= 0 else "melancholic"
