"""Cuts one photo again and again: its maps are computed once, and each tap costs the decoder alone.

cutting = Cutting(load(Cutouts.default_program), pixels)
answer = cutting.cut([Tap(0.5, 0.4)])                        # the first: picture and taps
answer = cutting.cut([Tap(0.5, 0.4), Tap(0.7, 0.9, adds=False)])    # later ones: taps alone
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from alcove.features.cutouts.config import MASK
from alcove.features.cutouts.contract import CutoutAnswer, Cutouts
from alcove.features.cutouts.request import Box, Request, Tap
from alcove.runtime import Model
from numpy.typing import NDArray


class Cutting:
    """One photo, and what was cut out of it last. For one thread at a time.

    Args:
        model: of the feature.
        pixels: uint8 [height, width, 3].

    Raises:
        PictureError: it is no picture that the feature takes.
    """

    def __init__(self, model: Model, pixels: NDArray[np.uint8]) -> None:
        self._session = model.session()
        self._feature = Cutouts()
        self._picture = self._feature.prepare(pixels)[0]
        self._maps: list[NDArray[Any]] = []
        self._mask: NDArray[np.float32] = np.zeros((MASK, MASK), np.float32)

    def cut(self, taps: Sequence[Tap] = (), box: Box | None = None, *, anew: bool = False) -> CutoutAnswer:
        """Return the cutout for all taps so far; without taps and box the thing that stands out.

        Args:
            taps: so far; the last one corrects the last cutout, unless there was none.
            box: around the thing, or None.
            anew: whether to forget the last cutout, as for another thing of the same photo.

        Raises:
            FieldError: there are too many taps.
        """
        given = Request(taps=tuple(taps), box=box).arrays()
        if anew or len(taps) <= 1:
            self._mask = np.zeros((MASK, MASK), np.float32)
        if self._maps:
            outputs = self._session.run("tap", *given, self._mask, *self._maps)
        else:
            outputs = self._session(self._picture, *given, self._mask)
            self._maps = outputs[2:]
        self._mask = outputs[0]
        return self._feature.decode(outputs)
