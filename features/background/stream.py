"""Gives frames of one camera another background, one after the other, with a session that remembers."""

from typing import Any

import numpy as np
from alcove.features.background.answer import BackgroundAnswer, decode
from alcove.features.background.composition import Scene
from alcove.features.background.frames import check_frame, shrink
from alcove.runtime import Model
from numpy.typing import NDArray

__all__ = ["BackgroundStream"]


class BackgroundStream:
    """One camera. For one thread at a time; late frames are the caller's to drop (`sdk.stream` does and counts them).

    A frame of another size than the last one begins anew, as nothing is known of what it shows.  A frame that is
    refused changes nothing.

    Args:
        model: a loaded program of the feature.
        scene: that frames are shown in.
    """

    def __init__(self, model: Model, scene: Scene) -> None:
        self._session = model.session()
        self._size: tuple[int, int] | None = None
        self.scene = scene
        """May be changed between frames."""
        self.answer: BackgroundAnswer | None = None
        """To the latest frame; None before the first and after `reset`."""
        self.resets = 0
        """How often a frame of another size came."""

    def show(self, frame: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the next frame with another background, uint8 [height, width, 3].

        Args:
            frame: uint8 [height, width, 3], red, green, blue, with any strides.

        Raises:
            PictureError: it is no such frame.
        """
        pixels = check_frame(frame)
        size = pixels.shape[0], pixels.shape[1]
        if self._size is not None and self._size != size:
            self.resets += 1
            self._session.reset()
        self._size = size
        small = shrink(pixels)
        self.answer = decode(self._session(small))
        return self.answer.show(pixels, self.scene, small)

    def reset(self) -> None:
        """Forget the frames so far, as after a pause."""
        self._session.reset()
        self._size = self.answer = None
