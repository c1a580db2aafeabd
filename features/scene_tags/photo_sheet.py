"""Shows photos that may be passed on beside what is said of them, right and wrong, and counts.

    python -m alcove.features.scene_tags.photo_sheet --packages FOLDER [--write features/scene_tags]

`photos.tsv` lists the photos: where they lie in published packages, whose they are, under which license, and every tag
that is right for them, judged by eye.  FOLDER holds these packages unpacked: the wheels scikit-image 0.26.0,
scikit-learn 1.9.1, matplotlib 3.11.2 and scipy 1.9.3, and the files in the resources of Debian's gcompris-qt-data 3.1
(Qt's `rcc --reverse`).  `--write` writes the sheet and the figures; needs Pillow (the `dev` extra).
"""

import argparse
import base64
import bz2
import csv
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from alcove.features.card_figures import replace_figures, table
from alcove.features.scene_tags.contract import SceneAnswer, SceneTags
from alcove.features.scene_tags.ranking import NAMED_FROM
from alcove.features.scene_tags.tags import ROOTS, TAGS, ancestors
from alcove.runtime import load
from numpy.typing import NDArray
from pydantic import BaseModel

FOLDER: Final = Path(__file__).parent
FILE: Final = FOLDER / "photos.tsv"
SHEET: Final = "photos.svg"
FIGURES: Final = "photos.json"
CARD_BLOCK: Final = "photos"
WRITER: Final = "photo_sheet.py"
HIGH: Final = 150
"""Pixels of a photo on the sheet; it is no wider than `WIDE`."""
WIDE: Final = 210
QUALITY: Final = 75
"""Of WebP."""
COLUMNS: Final = 5
CELL: Final = (222, 228)
SHOWN: Final = 4
"""Tags a photo."""

Verdict = Literal["right", "wrong", "not sure"]
COLORS: Final[Mapping[Verdict, str]] = {"right": "#1a7f37", "wrong": "#c4001a", "not sure": "#666666"}
MARKS: Final[Mapping[Verdict, str]] = {"right": "✓", "wrong": "✗", "not sure": "?"}


@dataclass(frozen=True)
class ShownPhoto:
    """A photo that may be passed on.

    Attributes:
        name: what it is.
        file: in the unpacked packages, with or without its ending.
        shows: tags that are right for it; broader ones are right too.
        by: whose it is.
        license: under which it may be passed on.
    """

    name: str
    file: str
    shows: tuple[str, ...]
    by: str
    license: str


class Said(BaseModel):
    """What was said of a photo: its first tags with their scores, best first."""

    tags: tuple[tuple[str, float], ...]


def shown_photos() -> list[ShownPhoto]:
    """Return the photos of `photos.tsv`, in its order.

    Raises:
        ValueError: a photo is said to show what is no tag.
    """
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = [
        ShownPhoto(row["photo"], row["file"], tuple(filter(None, row["shows"].split(", "))), row["by"], row["license"])
        for row in rows
    ]
    if unknown := {tag for photo in found for tag in photo.shows} - set(TAGS):
        raise ValueError(f"photos.tsv: no tags: {', '.join(sorted(unknown))}")
    return found


def judge(tag: str, score: float, photo: ShownPhoto) -> Verdict:
    """Return whether a tag is right for a photo: one that it shows, or a broader one that is no root.

    Below `NAMED_FROM` the feature does not claim it.
    """
    if score < NAMED_FROM:
        return "not sure"
    right = {name for each in photo.shows for name in (each, *ancestors(each))} - ROOTS
    return "right" if tag in right else "wrong"


def judge_photo(photo: ShownPhoto, said: Said) -> Verdict:
    """Return whether the first tag that is claimed is right; "not sure" where none is."""
    claimed = [(tag, score) for tag, score in said.tags if score >= NAMED_FROM]
    return judge(*claimed[0], photo) if claimed else "not sure"


def say(answer: SceneAnswer) -> Said:
    """Return what the sheet shows of an answer."""
    return Said(tags=tuple((each.tag, round(each.score, 2)) for each in answer.tags[:SHOWN]))


def read(packages: Path, photo: ShownPhoto) -> NDArray[np.uint8]:
    """Return a photo's pixels, uint8 [height, width, 3].

    Raises:
        FileNotFoundError: no unpacked package has it.
    """
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    path = next((each for each in sorted(packages.rglob(f"{Path(photo.file).name}*")) if photo.file in str(each)), None)
    if path is None:
        raise FileNotFoundError(f"{packages} has no {photo.file}: --packages is the folder of the unpacked packages")
    if path.suffix == ".dat":  # of scipy: 768 x 1024 pixels, packed
        return np.frombuffer(bz2.decompress(path.read_bytes()), np.uint8).reshape(768, 1024, 3)
    with Image.open(path) as image:
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        return np.asarray(opaque.convert("RGB"))


def thumbnail(pixels: NDArray[np.uint8]) -> tuple[bytes, int, int]:
    """Return a WebP file of a photo made small, its width and its height."""
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    image = Image.fromarray(pixels)
    image.thumbnail((WIDE, HIGH), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "WEBP", quality=QUALITY, method=6)
    return out.getvalue(), image.width, image.height


def sheet(photos: Sequence[ShownPhoto], said: Sequence[Said], pictures: Sequence[tuple[bytes, int, int]]) -> str:
    """Return an SVG of the photos and what is said of them: right in green, wrong in red, not claimed in gray."""
    wide, high = CELL
    rows = -(-len(photos) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * wide}" height="{rows * high}">',
        "<style>text { font: 11px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (photo, words, (data, across, down)) in enumerate(zip(photos, said, pictures, strict=True)):
        left, top = (at % COLUMNS) * wide + 6, (at // COLUMNS) * high + 6
        packed = base64.b64encode(data).decode()
        parts.append(
            f'<image x="{left}" y="{top}" width="{across}" height="{down}" href="data:image/webp;base64,{packed}"/>'
            f'<text x="{left}" y="{top + HIGH + 12}" font-weight="bold">{html.escape(photo.name)}</text>'
        )
        for row, (tag, score) in enumerate(words.tags):
            verdict = judge(tag, score, photo)
            parts.append(
                f'<text x="{left}" y="{top + HIGH + 25 + 12 * row}" fill="{COLORS[verdict]}">'
                f"{MARKS[verdict]} {html.escape(tag)} {100 * score:.0f} %</text>"
            )
    return "\n".join([*parts, "</svg>", ""])


def figures(photos: Sequence[ShownPhoto], said: Mapping[str, Said]) -> str:
    """Return how often the first claimed tag is right, and whose the photos are."""
    verdicts = [judge_photo(photo, said[photo.name]) for photo in photos]
    claims = [
        judge(tag, score, photo) for photo in photos for tag, score in said[photo.name].tags if score >= NAMED_FROM
    ]
    counts = [[verdict, f"{verdicts.count(verdict)}"] for verdict in COLORS]
    sources = [[photo.name, photo.by, photo.license] for photo in photos]
    right = claims.count("right")
    return (
        f"Of {len(photos)} photos the first tag of 50 % and more is:\n\n"
        + table(["", "photos"], counts)
        + f"\n\nOf {len(claims)} tags of 50 % and more, {right} are right ({100 * right / len(claims):.0f} %)."
        + "\n\n<details><summary>Whose the photos are</summary>\n\n"
        + table(["photo", "by", "license"], sources)
        + "\n\n</details>"
    )


def main() -> None:
    """Print what is said of the photos, and write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder of the unpacked packages")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the sheet, the figures and the card there")
    arguments = parser.parse_args()
    feature = SceneTags()
    session = load(feature.default_program).session()
    photos = shown_photos()
    pixels = [read(arguments.packages, photo) for photo in photos]
    said = [say(feature.decode(session(feature.prepare(each)))) for each in pixels]
    by_name = {photo.name: words for photo, words in zip(photos, said, strict=True)}
    for photo, words in zip(photos, said, strict=True):
        print(f"{judge_photo(photo, words):9}{photo.name}: {words.tags}")  # noqa: T201 (what the command is for)
    print(figures(photos, by_name))  # noqa: T201
    if arguments.write:
        folder: Path = arguments.write
        drawn = sheet(photos, said, [thumbnail(each) for each in pixels])
        (folder / SHEET).write_text(drawn, encoding="utf-8")
        kept: dict[str, Any] = {
            "version": feature.default_version,
            "said": {name: words.model_dump(mode="json")["tags"] for name, words in by_name.items()},
        }
        (folder / FIGURES).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        card = folder / "CARD.md"
        text = replace_figures(card.read_text(encoding="utf-8"), figures(photos, by_name), CARD_BLOCK, WRITER)
        card.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
