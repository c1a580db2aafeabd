"""Makes a contact sheet of versions, photos and hyper-parameters: small models are chosen by looking.

    python -m alcove.features.style_transfer.compare --out sheet.jpg --photos FOLDER --split dev --count 3 \
        --program style-int8.alc --run runs/style-1.0.0 --run runs/wider:width=48,blocks=5 --strength 0.5 1

A row is a photo at a strength, a column a version in a style; the first column is the photo.  Versions are programs,
and runs of `train.py` (their checkpoint as it is, of another size than version 1.0.0 with `:width=W,blocks=B`).  A
sheet is for looking at, not to be published: nobody asked the people in the photos.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.style_transfer.config import CONFIGS, STYLES, ModelConfig
from alcove.features.style_transfer.dataset import find_photos
from alcove.features.style_transfer.network import StyleModule, StyleNetwork, one_style
from alcove.runtime import load
from numpy.typing import NDArray

__all__ = ["Version", "make_sheet", "read_program", "read_run", "write_sheet"]

GAP: Final = 4
"""Pixels between pictures."""
HEADING: Final = 14
"""Rows above a column, for its name."""
MULTIPLE: Final = 8
"""A frame's sides are multiples of it."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Version:
    """What paints.

    Attributes:
        name: in the sheet.
        paint: returns a frame as painted, uint8 [rows, columns, 3], of a frame, a style's number and a strength.
        shape: rows and columns of the only frames it takes; None: any.
    """

    name: str
    paint: Callable[[Pixels, int, float], Pixels]
    shape: tuple[int, int] | None = None


def read_program(path: Path) -> Version:
    """Return a program as a version.

    Raises:
        AlcoveRuntimeError: it is none, or takes no frame, weights of styles and a strength.
    """
    model = load(path)
    rows, columns = (int(side) for side in model.inputs[0].shape[:2])

    def paint(frame: Pixels, style: int, strength: float) -> Pixels:
        inputs = frame, one_style(style).numpy(), np.array([strength], np.float32)
        return np.asarray(model(*inputs)[0])

    return Version(path.stem, paint, (rows, columns))


def read_run(text: str) -> Version:
    """Return the checkpoint of a run as a version: `FOLDER`, or `FOLDER:width=48,blocks=5`.

    Raises:
        ValueError: the text reads otherwise, or the checkpoint is of another size.
        OSError: there is no checkpoint.
    """
    folder, _, sizes = text.partition(":")
    config = CONFIGS["1.0.0"]
    if sizes:
        try:
            given = dict(part.split("=") for part in sizes.split(","))
            config = ModelConfig(int(given["width"]), int(given["blocks"]))
        except (KeyError, ValueError):
            msg = f"a run is written FOLDER or FOLDER:width=48,blocks=5; got {text!r}"
            raise ValueError(msg) from None
    network = StyleNetwork(config)
    try:
        network.load_state_dict(torch.load(Path(folder) / "checkpoint.pt", weights_only=True)["network"])
    except RuntimeError as error:
        msg = f"the checkpoint of {folder} is of another size than width {config.width}, {config.blocks} blocks"
        raise ValueError(msg) from error
    module = StyleModule(network).eval()

    def paint(frame: Pixels, style: int, strength: float) -> Pixels:
        with torch.no_grad():
            painted = module(torch.from_numpy(frame.copy()), one_style(style), torch.tensor([strength]))
        return np.asarray(painted.numpy())

    return Version(f"{Path(folder).name} {sizes}".strip(), paint)


def make_sheet(
    versions: Sequence[Version], photos: Sequence[Pixels], styles: Sequence[int], strengths: Sequence[float]
) -> Pixels:
    """Return the sheet, uint8 [rows, columns, 3].

    Args:
        versions: at least one.
        photos: uint8 [rows, columns, 3], cut to multiples of 8, or resized to what a version takes.
        styles: numbers.
        strengths: in [0, 1].
    """
    from PIL import Image, ImageDraw  # noqa: PLC0415 - not a dependency of the feature

    shown = [photo[: _cut(photo.shape[0]), : _cut(photo.shape[1])] for photo in photos]
    height, width = (max(photo.shape[axis] for photo in shown) for axis in (0, 1))
    columns = [
        ("photo", None, 0),
        *((f"{one.name} {STYLES[style]}", one, style) for one in versions for style in styles),
    ]
    rows = [(photo, strength) for photo in shown for strength in strengths]
    size = len(columns) * (width + GAP) - GAP, HEADING + len(rows) * (height + GAP) - GAP
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for across, (name, version, style) in enumerate(columns):
        left = across * (width + GAP)
        draw.text((left, 0), name[: width // 6], fill="black")
        for down, (photo, strength) in enumerate(rows):
            painted = photo if version is None else _paint(version, photo, style, strength)
            sheet.paste(Image.fromarray(painted), (left, HEADING + down * (height + GAP)))
    return np.asarray(sheet)


def _paint(version: Version, photo: Pixels, style: int, strength: float) -> Pixels:
    from PIL import Image  # noqa: PLC0415 - as above

    if version.shape is None or version.shape == photo.shape[:2]:
        return version.paint(photo, style, strength)
    rows, columns = version.shape
    frame = np.asarray(Image.fromarray(photo).resize((columns, rows), Image.Resampling.BICUBIC))
    back = Image.fromarray(version.paint(frame, style, strength))
    return np.asarray(back.resize((photo.shape[1], photo.shape[0]), Image.Resampling.LANCZOS))


def _cut(side: int) -> int:
    return side // MULTIPLE * MULTIPLE


def write_sheet(sheet: Pixels, path: Path) -> None:
    """Write a sheet as the name's ending says: .jpg, .png, .webp.

    Raises:
        ValueError: the ending is of no picture.
        OSError: it cannot be written.
    """
    from PIL import Image  # noqa: PLC0415 - as above

    Image.fromarray(sheet).save(path)


def main() -> None:
    """Write the sheet that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_single_person.csv")
    parser.add_argument("--split", default="dev", choices=("train", "dev"))
    parser.add_argument("--count", type=int, default=3, help="photos")
    parser.add_argument("--program", type=Path, action="append", default=[], help="program; repeatable")
    parser.add_argument("--run", action="append", default=[], help="FOLDER or FOLDER:width=W,blocks=B; repeatable")
    parser.add_argument("--style", nargs="+", default=list(STYLES), choices=STYLES)
    parser.add_argument("--strength", type=float, nargs="+", default=[1.0])
    arguments = parser.parse_args()
    versions = [*map(read_program, arguments.program), *map(read_run, arguments.run)]
    if not versions:
        parser.error("give at least one --program or --run")
    photos = [packed.pixels() for packed in find_photos(arguments.photos, arguments.split)[: arguments.count]]
    styles = [STYLES.index(name) for name in arguments.style]
    write_sheet(make_sheet(versions, photos, styles, arguments.strength), arguments.out)


if __name__ == "__main__":
    main()
