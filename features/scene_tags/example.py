"""Shows how an app uses the feature: a story maker finds pictures, cuts them to the screen and chooses music.

handle = Client(app="stories", …).feature(SceneTags)
album = Album(handle)
album.add("beach.jpg", pixels)                       # uint8 [height, width, 3]; nothing leaves the device
album.find("sea")                            # ["beach.jpg", …], surest first
album.like("beach.jpg")                              # pictures most alike
page = album.page("beach.jpg", aspect=9 / 16)        # the part to show, in pixels, and the music's mood
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from alcove.features.scene_tags.contract import SceneAnswer, SceneTags
from alcove.features.scene_tags.mood import MoodName
from alcove.features.scene_tags.tags import TAGS
from alcove.features.scene_tags.vocabulary import Vocabulary
from numpy.typing import NDArray


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def predict(self, *inputs: Any) -> Any:
        """Return an `alcove.sdk.Answer`, whose `value` is a `SceneAnswer`; never uses the network."""
        ...


@dataclass(frozen=True)
class Page:
    """One picture of a story.

    Attributes:
        left: of the part to show, in pixels; so are `top`, `right` and `bottom`.
        top: see there.
        right: see there.
        bottom: see there.
        mood: of the music.
    """

    left: int
    top: int
    right: int
    bottom: int
    mood: MoodName


class Album:
    """Pictures and what is in them.

    Args:
        handle: of the feature.
        vocabulary: the product's own tags, besides those of the feature.
    """

    def __init__(self, handle: Handle, vocabulary: Vocabulary | None = None) -> None:
        self._handle = handle
        self._feature = SceneTags()
        self._vocabulary = Vocabulary() if vocabulary is None else vocabulary
        self._answers: dict[str, SceneAnswer] = {}
        self._sizes: dict[str, tuple[int, int]] = {}

    def add(self, name: str, pixels: NDArray[np.uint8]) -> bool:
        """Look at a picture; return whether the feature could answer.

        Raises:
            PictureError: it is no picture that the feature takes.
        """
        answer = self._handle.predict(self._feature.prepare(pixels))
        if answer.value is None:
            return False
        self._answers[name] = answer.value
        self._sizes[name] = (pixels.shape[1], pixels.shape[0])
        return True

    def teach(self, tag: str, names: list[str]) -> None:
        """Make a tag of pictures in the album; five are usual.

        Raises:
            KeyError: a picture is not in the album.
            VocabularyError: the tag is there already, or the pictures have nothing in common.
        """
        self._vocabulary = self._vocabulary.with_tag(tag, [self._answers[name] for name in names])

    def find(self, tag: str) -> list[str]:
        """Return the pictures that have a tag, the feature's or the product's own, the surest first."""
        found: dict[str, float] = {}
        for name, answer in self._answers.items():
            if tag in TAGS:
                has = [each.score for each in answer.tags if each.tag == tag and tag in answer.named]
            else:
                own = self._vocabulary.rank(answer)
                has = [each.margin for each in own if each.tag == tag and each.fits]
            if has:
                found[name] = has[0]
        return sorted(found, key=lambda name: -found[name])

    def like(self, name: str) -> list[str]:
        """Return the other pictures, the most alike first.

        Raises:
            KeyError: the picture is not in the album.
        """
        mine = np.array(self._answers[name].embedding)
        others = [other for other in self._answers if other != name]
        return sorted(others, key=lambda other: -float(mine @ np.array(self._answers[other].embedding)))

    def page(self, name: str, *, aspect: float) -> Page:
        """Return how to show a picture in a frame of width over height = `aspect`.

        Raises:
            KeyError: the picture is not in the album.
            ValueError: the aspect is not a positive, finite number.
        """
        answer, (width, height) = self._answers[name], self._sizes[name]
        left, top, right, bottom = answer.crop_to(width, height, aspect).pixels(width, height)
        return Page(left, top, right, bottom, answer.mood.name)
