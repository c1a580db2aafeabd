"""Shows how an app uses the feature: a gallery offers to improve photos, and the person chooses how much.

gallery = Gallery(Client(app="gallery", …).feature(PhotoEnhance))
offer = gallery.offer(pixels)                    # None where the photo needs nothing; nothing leaves the device
better = gallery.apply(pixels, offer)
softer = gallery.apply(pixels, offer, amount=0.5)
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from alcove.features.photo_enhance.contract import EnhanceAnswer, PhotoEnhance, Recipe
from alcove.features.photo_enhance.enhance import Enhancer
from numpy.typing import NDArray


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def predict(self, *inputs: Any) -> Any:
        """Return an `alcove.sdk.Answer`, whose `value` is an `EnhanceAnswer`; never uses the network."""
        ...


@dataclass(frozen=True)
class Offer:
    """What a photo needs.

    Attributes:
        answer: of the feature.
        recipe: suggested.
    """

    answer: EnhanceAnswer
    recipe: Recipe


class Gallery:
    """Offers to improve photos.

    Args:
        handle: of the feature.
        enhancer: that changes pixels; None for the program that ships.
    """

    def __init__(self, handle: Handle, enhancer: Enhancer | None = None) -> None:
        self._handle = handle
        self._feature = PhotoEnhance()
        self._enhancer = Enhancer() if enhancer is None else enhancer

    def offer(self, pixels: NDArray[np.uint8]) -> Offer | None:
        """Return what a photo needs; None where it needs nothing, or the feature could not answer.

        Raises:
            PictureError: it is no picture that the feature takes.
        """
        answer = self._handle.predict(*self._feature.prepare(pixels)).value
        if answer is None or answer.light == answer.colors == 0:
            return None
        return Offer(answer, Recipe(light=answer.light, colors=answer.colors))

    def apply(self, pixels: NDArray[np.uint8], offer: Offer, *, amount: float = 1.0) -> NDArray[np.uint8]:
        """Return the photo, changed by a share of what is suggested.

        Raises:
            FieldError: the amount is not between 0 and 1.
        """
        recipe = Recipe(light=offer.recipe.light * amount, colors=offer.recipe.colors * amount)
        return self._enhancer.enhance(pixels, recipe, offer.answer)
