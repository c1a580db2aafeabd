"""Shows how an app uses the feature: the camera of a call, whose frames go out with another background.

    camera = CallCamera(Client(app="messenger", …).feature(Background), Blur(), send=call.send)
    device.start(camera.on_frame)                  # uint8 [height, width, 3], as they come; returns at once
    camera.scene = Replacement(picture)            # from the next frame on
    camera.close()                                 # the part of frames that were late or dropped

Frames that come while one is at hand are dropped and counted, never queued; nothing leaves the device.  From a file,
without an app:

    python -m alcove.features.background.example photo.jpg out.png --mode replace --picture beach.jpg
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from alcove.features.background.composition import Scene
from alcove.features.background.contract import Background
from alcove.features.background.files import MODES
from alcove.features.background.frames import check_frame
from numpy.typing import NDArray

DEADLINE_MS: Final = 33.0
"""Of a frame: 30 a second."""


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def stream(self, *, deadline_ms: float | None, on_answer: Callable[[Any], object]) -> Any:
        """Return an `alcove.sdk.FeatureStream`, whose answers are `BackgroundAnswer`s."""
        ...


class CallCamera:
    """One camera of a call.

    Args:
        handle: of the feature.
        scene: that frames are shown in; may be changed.
        send: gets each frame that goes out, uint8 [height, width, 3].
        deadline_ms: longest time for the matte of a frame, or None.
    """

    def __init__(
        self,
        handle: Handle,
        scene: Scene,
        send: Callable[[NDArray[np.uint8]], object],
        deadline_ms: float | None = DEADLINE_MS,
    ) -> None:
        self.scene = scene
        self._send = send
        self._stream = handle.stream(deadline_ms=deadline_ms, on_answer=self._show)

    def on_frame(self, pixels: NDArray[np.uint8]) -> None:
        """Take a frame and return at once; it must stay as it is until it is sent or dropped.

        Raises:
            PictureError: it is no frame; the stream goes on.
        """
        frame = check_frame(pixels)
        self._stream.submit(frame, tag=frame)

    def _show(self, answer: Any) -> None:
        if answer.value is not None:
            self._send(answer.value.show(answer.tag, self.scene))

    def finish(self) -> None:
        """Take no more frames; the one that waits is sent."""
        self._stream.finish()
        self._stream.join()

    def close(self) -> float:
        """End the stream, and return the part of frames that were late, dropped or refused, 0 to 1."""
        self._stream.close()
        counters = self._stream.counters
        return 1 - counters.processed / counters.received if counters.received else 0.0


def main() -> None:
    """Write a picture, or a folder of frames, with another background."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a picture, or a folder of frames")
    parser.add_argument("target", type=Path, help="a picture, or a folder")
    parser.add_argument("--mode", choices=MODES, default="blur")
    parser.add_argument("--picture", type=Path, help="the background, or the stage")
    arguments = parser.parse_args()
    answer = Background().convert(arguments.source, arguments.target, arguments.mode, arguments.picture)
    print(f"{arguments.target}: people cover {answer.share:.1%}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
