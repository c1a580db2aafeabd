"""Evaluates the committed programs on pictures that nothing was fitted on; prints and writes the card's figures.

    python -m alcove.features.scene_tags.evaluate --photos FOLDER --tagging FOLDER --weights FOLDER --run RUN

`--sheet DIR` also writes a contact sheet of photos with their tags, right and wrong; whose they are forbids to commit
it.
"""

import argparse
import html
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.picture import fit
from alcove.features.scene_tags import card
from alcove.features.scene_tags.conditions import CONDITIONS
from alcove.features.scene_tags.config import CATEGORIES, DEFAULT_VERSION, SIZE, VARIANTS
from alcove.features.scene_tags.contract import SceneTags, program_path
from alcove.features.scene_tags.dataset import SHOWN, Photo, is_left_out, photos, scenes, small, truth
from alcove.features.scene_tags.drawn import drawings, png_of
from alcove.features.scene_tags.fit import fitted_module
from alcove.features.scene_tags.metrics import average_precision, calibration_error, precision_at
from alcove.features.scene_tags.ranking import NAMED_FROM, rank_tags
from alcove.features.scene_tags.tags import ROOTS, TAGS, TREE, ancestors
from alcove.features.scene_tags.vocabulary import Vocabulary
from alcove.runtime import load
from numpy.typing import NDArray
from rich.progress import track

TAG_OF: Final = {tag.category: tag.name for tag in TREE if tag.category}
SIX: Final = ("building", "forest", "glacier", "mountain", "sea", "street")
"""Of `SCENES`, in the order of the scenes' labels."""
EXAMPLES: Final = 5
"""Pictures that make a new tag."""
DRAWS: Final = 5
"""Times that they are drawn."""
OTHERS: Final = 2000
"""Pictures of other classes that are searched too, at most."""
TIMED: Final = 200
SHEET: Final = 60

Run = Callable[[NDArray[np.uint8]], Sequence[NDArray[np.float32]]]
"""What gives a program's outputs for a picture of its size."""


class Answers(NamedTuple):
    """What was said of pictures.

    Attributes:
        scores: f32 [n, tags].
        embeddings: f32 [n, 128].
        commonness: f32 [n].
    """

    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32]
    commonness: NDArray[np.float32]

    def look(self, at: int) -> "Look":
        """Return what a `Vocabulary` reads of one of them."""
        return Look(self.embeddings[at].tolist(), float(self.commonness[at]))


class Look(NamedTuple):
    """What a `Vocabulary` reads of one answer."""

    embedding: list[float]
    commonness: float


def answers(run: Run, pictures: Iterable[NDArray[np.uint8]], count: int, what: str) -> Answers:
    """Return what a program says of pictures of any size."""
    said = [
        [np.array(output) for output in run(fit(pixels, SIZE))[:4]]
        for pixels in track(pictures, description=what, total=count, transient=True)
    ]
    scores, embeddings, _, commonness = (np.concatenate(each) for each in zip(*said, strict=True))
    return Answers(scores, embeddings, commonness[:, 0])


def of_program(path: Path) -> Run:
    """Return what runs a program."""
    return load(path).session()


def of_module(weights: Path, run: Path) -> Run:
    """Return what runs the full variant in torch."""
    module = fitted_module(weights, run)

    @torch.no_grad()
    def answer(pixels: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        return [output.numpy() for output in module(torch.from_numpy(pixels))]

    return answer


def of_photos(scores: NDArray[np.float32], shown: Sequence[Photo]) -> dict[str, Any]:
    """Return how right the tags of photos are whose categories are known.

    Mean average precision: over the categories that some photo shows, each among the photos that show it, at least
    `dataset.SHOWN` of the picture, and those without it.  Right first: the first tag is that of a thing in the photo,
    or a broader or narrower one, no root.
    """
    has, counts = truth(shown, CATEGORIES)
    columns = [TAGS.index(TAG_OF[category]) for category in CATEGORIES]
    asked = [at for at in range(len(CATEGORIES)) if has[:, at].any()]
    precision = {
        CATEGORIES[at]: average_precision(scores[counts[:, at], columns[at]], has[counts[:, at], at]) for at in asked
    }
    right, named = [], []
    for row, photo in zip(scores, shown, strict=True):
        ranked = rank_tags(row, 8)
        named.append(row[ranked].max() >= NAMED_FROM)
        if any(share >= SHOWN for share in photo.shares.values()):
            right.append(_is_right(TAGS[ranked[0]], photo))
    of_categories = scores[:, columns]
    return {
        "map": float(np.mean(list(precision.values()))),
        "categories": len(asked),
        "by_category": precision,
        "pictures_of": {CATEGORIES[at]: int(has[:, at].sum()) for at in asked},
        "right_first": float(np.mean(right)),
        "photos_with_things": len(right),
        "nothing_named": float(1 - np.mean(named)),
        "named_right": float(has[(of_categories >= NAMED_FROM) & counts].mean()),
        "calibration_error": calibration_error(of_categories[counts], has[counts]),
    }


def _is_right(tag: str, photo: Photo) -> bool:
    there = [TAG_OF[category] for category in photo.shares]
    return any(tag in (each, *ancestors(each)) or each in ancestors(tag) for each in there) and tag not in ROOTS


def of_scenes(scores: NDArray[np.float32], shown: Sequence[Photo]) -> float:
    """Return the share of scenes of which the right one of the six has the highest score."""
    columns = [TAGS.index(name) for name in SIX]
    return float(np.mean(scores[:, columns].argmax(1) == np.array([photo.label for photo in shown])))


def few_shot(left_out: Answers, labels: NDArray[np.int64], others: Answers) -> dict[str, float]:
    """Return how many of the first ten that a new tag of five pictures finds are of its class.

    Args:
        left_out: answers for pictures of classes that new tags are tried on.
        labels: their classes.
        others: answers for pictures of other classes, which are searched too.
    """
    rng = np.random.default_rng(0)
    with_others, alone = [], []
    for label in np.unique(labels):
        for _ in range(DRAWS):
            mine = rng.permutation(np.flatnonzero(labels == label))
            tag = Vocabulary().with_tag("new", [left_out.look(at) for at in mine[:EXAMPLES]]).tags[0]
            rest = np.setdiff1d(np.arange(len(labels)), mine[:EXAMPLES])
            pool = np.concatenate([left_out.embeddings[rest], others.embeddings])
            common = np.concatenate([left_out.commonness[rest], others.commonness])
            is_right = np.concatenate([labels[rest] == label, np.zeros(len(others.commonness), bool)])
            margins = pool @ np.array(tag.prototype) - common
            with_others.append(precision_at(margins, is_right))
            alone.append(precision_at(margins[: len(rest)], is_right[: len(rest)]))
    return {"among_all": float(np.mean(with_others)), "left_out_only": float(np.mean(alone))}


def times(path: Path) -> dict[str, float]:
    """Return median times for a picture of 640 x 480 pixels in milliseconds, from Python, one thread."""
    feature = SceneTags()
    session = load(path).session()
    picture = np.ascontiguousarray(np.random.default_rng(0).integers(0, 256, (480, 640, 3)).astype(np.uint8))
    spent: dict[str, list[float]] = {"prepare": [], "program": [], "decode": [], "all": []}
    for _ in range(TIMED):
        began = time.perf_counter_ns()
        given = feature.prepare(picture)
        prepared = time.perf_counter_ns()
        outputs = session(given)
        ran = time.perf_counter_ns()
        feature.decode(outputs)
        done = time.perf_counter_ns()
        for name, value in zip(spent, (prepared - began, ran - prepared, done - ran, done - began), strict=True):
            spent[name].append(value / 1e6)
    return {name: float(np.median(values)) for name, values in spent.items()}


def evaluate(photo_folder: Path, tagging: Path, weights: Path, run: Path) -> dict[str, Any]:
    """Return all figures as JSON values.

    Args:
        photo_folder: with coco_instances.csv and its neighbors.
        tagging: folder with the scenes and Tiny ImageNet.
        weights: folder of the published weights.
        run: folder that `fit.py` filled.

    Raises:
        FileNotFoundError: data, weights or a program are missing.
    """
    held = [photo for photo in photos(photo_folder) if not photo.is_free]
    scenery = [photo for photo in scenes(tagging) if photo.is_dev]
    tiny = small(tagging)
    new = [photo for photo in tiny if is_left_out(photo)]
    others = [photo for photo in tiny if photo.is_dev and not is_left_out(photo)][:OTHERS]
    runs = {
        "full, int8": of_program(program_path(DEFAULT_VERSION)),
        "full, float32": of_module(weights, run),
        "small, int8": of_program(program_path(DEFAULT_VERSION, "small")),
    }
    pixels = [photo.pixels() for photo in held]
    result: dict[str, Any] = {
        "version": DEFAULT_VERSION,
        "tags": len(TAGS),
        "expressed": len(TAG_OF),
        "pictures": {"photos": len(held), "scenes": len(scenery), "left out": len(new), "others": len(others)},
        "programs": {},
    }
    for name, each in runs.items():
        figures = of_photos(answers(each, pixels, len(held), f"{name}: photos").scores, held)
        found = answers(each, (photo.pixels() for photo in scenery), len(scenery), f"{name}: scenes")
        figures["scenes"] = of_scenes(found.scores, scenery)
        if name != "full, float32":
            said = answers(each, (photo.pixels() for photo in new), len(new), f"{name}: new tags")
            beside = answers(each, (photo.pixels() for photo in others), len(others), f"{name}: other pictures")
            figures["few_shot"] = few_shot(said, np.array([photo.label for photo in new]), beside)
        result["programs"][name] = figures
    result["conditions"] = {}
    for condition, change in CONDITIONS.items():
        row = {}
        for name in ("full, int8", "small, int8"):
            scores = answers(runs[name], map(change, pixels), len(held), f"{name}: {condition}").scores
            row[name] = {key: of_photos(scores, held)[key] for key in ("map", "right_first", "nothing_named")}
        result["conditions"][condition] = row
    return result | sizes_and_times()


def sizes_and_times() -> dict[str, Any]:
    """Return bytes and times of both programs, by variant."""
    paths = {variant: program_path(DEFAULT_VERSION, variant) for variant in VARIANTS}
    return {variant: {"bytes": path.stat().st_size, "times_ms": times(path)} for variant, path in paths.items()}


def answers_of_drawings() -> dict[str, Any]:
    """Return what the committed version says of the drawn pictures."""
    feature = SceneTags()
    session = load(feature.default_program).session()
    return {name: feature.decode(session(feature.prepare(pixels))) for name, pixels in drawings().items()}


def write_sheet(folder: Path, photo_folder: Path) -> None:
    """Write a page with photos, what is said of them, and what is right of it."""
    feature = SceneTags()
    session = load(feature.default_program).session()
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["<!doctype html><meta charset=utf-8><style>figure{display:inline-block;width:230px;font:12px sans-serif}"]
    parts.append("img{max-width:220px;height:150px} .no{color:#b00}</style><p>In brackets: what was listed.</p>")
    held = [photo for photo in photos(photo_folder) if not photo.is_free]
    for at in np.random.default_rng(0).permutation(len(held))[:SHEET]:
        photo = held[at]
        pixels = photo.pixels()
        answer = feature.decode(session(feature.prepare(pixels)))
        (folder / f"{photo.name}.png").write_bytes(png_of(pixels))
        said = ", ".join(
            f'<span class="{_verdict(each.tag, photo)}">{html.escape(each.tag)} {each.score:.0%}</span>'
            for each in answer.tags[:4]
        )
        reasons = ", ".join(answer.decoration.reasons)
        caption = f"{said} [{html.escape(', '.join(photo.shares))}] {reasons}"
        parts.append(f"<figure><img src={photo.name}.png><figcaption>{caption}</figcaption></figure>")
    (folder / "sheet.html").write_text("\n".join(parts) + "\n", encoding="utf-8")


def _verdict(tag: str, photo: Photo) -> str:
    return "yes" if _is_right(tag, photo) else "no"


def main() -> None:
    """Evaluate the committed version and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--tagging", type=Path, required=True, help="folder with the scenes and Tiny ImageNet")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--run", type=Path, required=True, help="folder that fit.py filled")
    parser.add_argument("--times", action="store_true", help="measure times alone; the other figures stay")
    parser.add_argument("--sheet", type=Path, metavar="DIR", help="write a contact sheet of photos there")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and pictures to a card")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.sheet:
        write_sheet(arguments.sheet, arguments.photos)
    if arguments.times:
        kept = json.loads((Path(__file__).parent / "evaluation.json").read_text(encoding="utf-8"))
        result = kept | sizes_and_times()
    else:
        result = evaluate(arguments.photos, arguments.tagging, arguments.weights, arguments.run)
    print(card.figures(result))  # noqa: T201 (what the command is for)
    if arguments.write:
        path: Path = arguments.write
        path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
        (path.parent / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (path.parent / "contact_sheet.svg").write_text(card.sheet(answers_of_drawings()), encoding="utf-8")


if __name__ == "__main__":
    main()
