"""Defines cutouts for apps: a picture and taps in; a mask out, from which alpha, crop and sticker are made."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.cutouts.config import DEFAULT_VERSION, MASK, SIZE
from alcove.features.cutouts.matte import Edges, bounds_of, make_sticker, png_of
from alcove.features.cutouts.request import Box, Request, Tap, read_line
from alcove.features.errors import FieldError
from alcove.features.picture import check_colors, fit, read_picture
from alcove.features.region import Region
from numpy.typing import NDArray

PROGRAMS: Final = Path(__file__).parent / "programs"
HALF: Final = 0.5
LEAST: Final = 1e-3
"""Share of the picture from which on something counts as found."""
BORDER: Final = 0.015
"""Width of a sticker's outline, as a share of the longer side of the cutout."""
CELLS: Final = MASK * MASK


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of a variant lies, whether or not there is one."""
    return PROGRAMS / f"cutouts-{version}{'' if variant == 'int8' else f'-{variant}'}.alc"


class Bounds(Region):
    """The smallest box around a cutout."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class CutoutAnswer:
    """What is cut out of a picture.

    Attributes:
        is_found: whether there is anything.
        share: of the picture that the cutout takes.
        certainty: in [0, 1]: how far from undecided the mask is on the cutout and as much around it.
        bounds: the box around it; None where nothing is found.
        runs: the mask row by row: how many cells are outside, then inside, then outside, ...; of `config.MASK` squared.
        edges: soft edges, for `alpha` and `sticker`; not a field, so that an answer is small as JSON.

    Raises:
        FieldError: the runs do not add up to the mask.
    """

    is_found: bool
    share: float
    certainty: float
    bounds: Bounds | None
    runs: tuple[int, ...]
    edges: InitVar[Edges | None] = None

    def __post_init__(self, edges: Edges | None) -> None:
        if sum(self.runs) != CELLS:
            raise FieldError("runs", f"numbers that add up to {CELLS}", sum(self.runs))
        object.__setattr__(self, "_edges", edges)

    def mask(self) -> NDArray[np.bool_]:
        """Return the mask without soft edges, bool [MASK, MASK]."""
        values = np.arange(len(self.runs)) % 2 == 1
        return np.repeat(values, self.runs).reshape(MASK, MASK)

    def alpha(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return how much of each pixel belongs to the cutout, f32 [height, width] in [0, 1].

        Args:
            pixels: uint8 [height, width, 3], the photo that was cut, at any size.

        Raises:
            PictureError: it is no picture.
            ValueError: the answer comes without edges.
        """
        check_colors(pixels)
        edges: Edges | None = getattr(self, "_edges", None)
        if edges is None:
            raise ValueError("this answer has no edges: take the one that a program's outputs were decoded to")
        return edges.alpha(pixels)

    def crop(self, pixels: NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
        """Return left, top, right, bottom in pixels of what is at least half covered; None where nothing is.

        Raises:
            PictureError: it is no picture.
            ValueError: the answer comes without edges.
        """
        return bounds_of(self.alpha(pixels))

    def sticker(self, pixels: NDArray[np.uint8], border: float = BORDER) -> bytes:
        """Return a PNG of the cutout with a white outline, transparent around it.

        Args:
            pixels: uint8 [height, width, 3], the photo that was cut, at any size.
            border: width of the outline as a share of the longer side of the cutout, 0 to 0.1.

        Raises:
            PictureError: it is no picture.
            FieldError: the border is out of its bounds.
            ValueError: nothing is cut out, or the answer comes without edges.
        """
        if not 0 <= border <= 0.1:
            raise FieldError("border", "0 to 0.1", border)
        alpha = self.alpha(pixels)
        bounds = bounds_of(alpha)
        longer = 0 if bounds is None else max(bounds[2] - bounds[0], bounds[3] - bounds[1])
        return png_of(make_sticker(pixels, alpha, round(border * longer)))


class Cutouts:
    """Cutouts: a picture, taps and a box in, `CutoutAnswer` out."""

    name: ClassVar[str] = "cutouts"
    summary: ClassVar[str] = "Cuts out what is tapped in a photo, or what stands out, with soft edges; makes stickers."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[Any], ...]:
        """Return the program's inputs for a line: the path of a picture, or JSON with taps; `request.read_line`.

        Raises:
            PictureError: there is no picture that can be read.
            FieldError: a tap or the box is not as it must be.
            ValueError: the line is neither.
        """
        path, request = read_line(line)
        return self.prepare(read_picture(path), request.taps, request.box)

    def prepare(
        self,
        pixels: NDArray[Any],
        taps: Sequence[Tap] = (),
        box: Box | None = None,
        before: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Return the program's inputs for a picture of any size.

        Args:
            pixels: uint8 [height, width, 3], red, green, blue.
            taps: what belongs to the cutout and what does not, in any order.
            box: around it, or None.
            before: f32 [MASK, MASK], the last mask of this picture, which the last tap corrects (`CutoutAnswer.mask`
                will do); or None.

        Raises:
            PictureError: it is no such picture, has no pixels or too many.
            FieldError: there are too many taps.
        """
        given = Request(taps=tuple(taps), box=box).arrays()
        last = np.zeros((MASK, MASK), np.float32) if before is None else before
        return (fit(pixels, SIZE), *given, last)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> CutoutAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: mask f32 [MASK, MASK], edges f32 [2, MASK, MASK]; what follows is for the next tap.

        Raises:
            ValueError: the outputs are not those, or hold what is no share.
        """
        shapes = [np.shape(output) for output in outputs[:2]]
        if shapes != [(MASK, MASK), (2, MASK, MASK)]:
            raise ValueError(f"cutouts expects [{MASK}, {MASK}] and [2, {MASK}, {MASK}]; the program gave {shapes}")
        mask, edges = (np.asarray(output) for output in outputs[:2])
        if not (np.isfinite(mask).all() and np.isfinite(edges).all()):
            raise ValueError("cutouts expects finite numbers; the program gave others")
        if mask.min() < 0 or mask.max() > 1:
            raise ValueError(f"cutouts expects a mask in [0, 1]; the program gave {mask.min()} to {mask.max()}")
        is_in = mask >= HALF
        share = float(is_in.mean())
        bounds = bounds_of(mask)
        is_found = bounds is not None and share >= LEAST
        return CutoutAnswer(
            is_found=is_found,
            share=share,
            certainty=_certainty(mask),
            bounds=None if bounds is None or not is_found else _shares(bounds),
            runs=_runs(is_in),
            edges=Edges(edges[0], edges[1]),
        )


def _certainty(mask: NDArray[np.float32]) -> float:
    """Return how far the most likely cells, twice as many as are inside, are from undecided."""
    count = min(mask.size, max(1, 2 * int((mask >= HALF).sum())))
    likely = np.partition(mask.ravel(), mask.size - count)[mask.size - count :]
    return float(np.abs(2 * likely - 1).mean())


def _shares(bounds: tuple[int, int, int, int]) -> Bounds:
    left, top, right, bottom = (each / MASK for each in bounds)
    return Bounds(left=left, top=top, right=right, bottom=bottom)


def _runs(is_in: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the lengths of runs row by row, beginning with one outside, which may be 0."""
    flat = is_in.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = [0, *changes.tolist(), flat.size]
    lengths = tuple(after - before for before, after in pairwise(edges))
    return (0, *lengths) if flat[0] else lengths
