"""Shows how an app uses the feature: a camera's frames are painted while a person moves the slider.

with client.feature("style_transfer") … as handle:
    camera = PaintedCamera(handle)
    for pixels in device:                       # uint8, of any size; it may change
        screen.show(camera.paint(pixels, Look(style="udnie", strength=slider.value)))
"""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol

import numpy as np
from alcove.features.style_transfer.contract import StyleTransfer
from alcove.features.style_transfer.look import Look
from numpy.typing import NDArray

__all__ = ["FrameStream", "Handle", "PaintedCamera"]

DEADLINE_MS: Final = 50.0
"""Of a frame at 20 frames a second."""


class FrameStream(AbstractContextManager[Any], Protocol):
    """What is used of `alcove.sdk.FeatureStream`."""

    def process(self, frame: tuple[NDArray[Any], ...]) -> Any:
        """Return an `alcove.sdk.FrameAnswer`, whose `value` is a `StyleAnswer`."""
        ...


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def stream(self, *, deadline_ms: float | None) -> Any:
        """Return a `FrameStream`."""
        ...


class PaintedCamera:
    """One camera; close it, or use it as a context.

    Args:
        handle: of the feature.
        deadline_ms: longest time for a frame; None: as long as it takes.
    """

    def __init__(self, handle: Handle, deadline_ms: float | None = DEADLINE_MS) -> None:
        self._stream: FrameStream = handle.stream(deadline_ms=deadline_ms)
        self._feature = StyleTransfer()

    def __enter__(self) -> "PaintedCamera":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.__exit__(kind, error, trace)

    def paint(self, pixels: NDArray[np.uint8], look: Look) -> NDArray[np.uint8]:
        """Return a painted frame at its own size; the frame as it is where it could not be painted in time.

        Raises:
            PictureError: it is no picture that the feature takes.
        """
        value = self._stream.process(self._feature.prepare(pixels, look)).value
        return pixels if value is None else value.apply(pixels)
