"""Shows how an app uses the feature: a sticker maker for photos.

handle = Client(app="stickers", …).feature(Cutouts)
maker = StickerMaker(handle)
maker.open(pixels)                             # uint8 [height, width, 3]; nothing leaves the device
maker.tap(0.5, 0.4)                            # True: something is cut out; shares of the picture from its upper left
maker.tap(0.7, 0.9, adds=False)                # takes away what should not be there
maker.undo()
png = maker.sticker()                          # with transparency and a white outline

From a file, without an app:

    python -m alcove.features.cutouts.example photo.jpg sticker.png --add 0.5,0.4 --remove 0.7,0.9
"""

import argparse
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from alcove.features.cutouts.contract import CutoutAnswer, Cutouts
from alcove.features.cutouts.cutting import Cutting
from alcove.features.cutouts.request import Tap
from alcove.features.picture import read_picture
from alcove.runtime import load
from numpy.typing import NDArray


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def predict(self, *inputs: Any) -> Any:
        """Return an `alcove.sdk.Answer`, whose `value` is a `CutoutAnswer`; never uses the network."""
        ...


class StickerMaker:
    """One photo, its taps, and what is cut out of it.

    Args:
        handle: of the feature.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._feature = Cutouts()
        self._pixels: NDArray[np.uint8] | None = None
        self._taps: list[Tap] = []
        self._answers: list[CutoutAnswer | None] = []

    def open(self, pixels: NDArray[np.uint8]) -> bool:
        """Cut out what stands out in a photo; return whether anything does.

        Raises:
            PictureError: it is no picture that the feature takes.
        """
        self._feature.prepare(pixels)
        self._pixels, self._taps, self._answers = pixels, [], []
        return self._cut()

    def tap(self, across: float, down: float, *, adds: bool = True) -> bool:
        """Add a tap; return whether anything is cut out now.

        Raises:
            FieldError: it is outside the photo, or one too many.
            ValueError: no photo is open.
        """
        tap = Tap(across, down, adds)
        self._feature.prepare(self._open(), [*self._taps, tap])
        self._taps.append(tap)
        return self._cut()

    def undo(self) -> bool:
        """Take back the last tap, if there is one; return whether anything is cut out now.

        Raises:
            ValueError: no photo is open.
        """
        self._open()
        if self._taps:
            del self._taps[-1], self._answers[-1]
        return self._is_found()

    def sticker(self) -> bytes:
        """Return a PNG of what is cut out.

        Raises:
            ValueError: no photo is open, or nothing is cut out.
        """
        pixels = self._open()
        answer = self._answers[-1]
        if answer is None or not answer.is_found:
            raise ValueError("nothing is cut out: tap something first")
        return answer.sticker(pixels)

    def _open(self) -> NDArray[np.uint8]:
        if self._pixels is None:
            raise ValueError("no photo is open")
        return self._pixels

    def _cut(self) -> bool:
        # The first tap begins anew; each later one corrects the last mask.
        last = self._answers[-1] if len(self._taps) > 1 else None
        before = None if last is None else last.mask().astype(np.float32)
        self._answers.append(
            self._handle.predict(*self._feature.prepare(self._open(), self._taps, before=before)).value
        )
        return self._is_found()

    def _is_found(self) -> bool:
        answer = self._answers[-1]
        return answer is not None and answer.is_found


def _tap(place: str, *, adds: bool) -> Tap:
    across, down = map(float, place.split(","))
    return Tap(across, down, adds=adds)


def main() -> None:
    """Write the sticker of a photo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", type=Path)
    parser.add_argument("sticker", type=Path, help="PNG file to write")
    parser.add_argument("--add", action="append", default=[], metavar="ACROSS,DOWN", help="a place that belongs to it")
    parser.add_argument("--remove", action="append", default=[], metavar="ACROSS,DOWN", help="one that does not")
    arguments = parser.parse_args()
    pixels = read_picture(arguments.photo)
    taps = [_tap(place, adds=True) for place in arguments.add]
    taps += [_tap(place, adds=False) for place in arguments.remove]
    answer = Cutting(load(Cutouts.default_program), pixels).cut(taps)
    arguments.sticker.write_bytes(answer.sticker(pixels))
    print(f"{arguments.sticker}: {answer.share:.1%} of the photo")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
