"""Evaluates the committed version beside a plain network of the same cost; prints and writes the card's figures.

    python -m alcove.features.scene_tags.evaluate --data FOLDER --cache DECODED --run RUN --plain RUN

Pictures of the `dev` splits, which no training saw.  `--sheet DIR` also writes a contact
sheet of such pictures with their tags; whose they are is unclear, so that no such sheet is committed.
"""

import argparse
import html
import json
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.scene_tags import card
from alcove.features.scene_tags.build import module_of_run
from alcove.features.scene_tags.config import CONFIGS, DEFAULT_VERSION, LEFT_OUT, TAGS
from alcove.features.scene_tags.contract import NAMED_FROM, SceneTags, program_path
from alcove.features.scene_tags.dataset import Corpus, Pictures, read
from alcove.features.scene_tags.drawn import drawings, png_of
from alcove.features.scene_tags.metrics import by_tag, calibration_error, mean_average_precision, precision_at
from alcove.features.scene_tags.model import SceneModule
from alcove.features.scene_tags.network import KINDS, multiply_adds
from alcove.features.scene_tags.vocabulary import Vocabulary
from alcove.runtime import load
from numpy.typing import NDArray

EXAMPLES: Final = 5
"""Pictures that make a new tag."""
DRAWS: Final = 5
"""Times that they are drawn."""
TIMED: Final = 300
SHEET_PICTURES: Final = 60


class Look(NamedTuple):
    """What a `Vocabulary` reads of one answer."""

    embedding: list[float]
    commonness: float


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

    def look(self, at: int) -> Look:
        """Return one of them."""
        return Look(self.embeddings[at].tolist(), float(self.commonness[at]))


@torch.no_grad()
def of_module(module: SceneModule, given: NDArray[np.uint8]) -> Answers:
    """Return what a torch module says of pictures, uint8 [n, size, size, 3]."""
    said = [module(torch.from_numpy(each)) for each in given]
    return _answers([tuple(output.numpy() for output in each) for each in said])


def of_program(path: Path, given: NDArray[np.uint8]) -> Answers:
    """Return what a program says of pictures, uint8 [n, size, size, 3]."""
    session = load(path).session()
    return _answers([tuple(np.array(output) for output in session(each)) for each in given])


def _answers(outputs: list[tuple[NDArray[np.float32], ...]]) -> Answers:
    scores, embeddings, _, commonness = (np.concatenate(each) for each in zip(*outputs, strict=True))
    return Answers(scores, embeddings, commonness[:, 0])


def few_shot(left_out: Answers, classes: NDArray[np.int64], others: Answers) -> dict[str, float]:
    """Return how well a new tag that five pictures made finds its like.

    "precision_at_10": of the ten pictures with the largest margin; "left_out_only": the same without `others`; "kept"
    and "kept_of_others": shares of the tag's pictures, and of all others, that are said to have it.

    Searched are all other pictures of the classes that no training saw, and `others`.

    Args:
        left_out: of n pictures of such classes.
        classes: int64 [n], theirs.
        others: of pictures of other classes.
    """
    with_others, alone, kept, kept_of_others = [], [], [], []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        for label in np.unique(classes):
            mine = rng.permutation(np.flatnonzero(classes == label))
            tag = Vocabulary().with_tag("new", [left_out.look(at) for at in mine[:EXAMPLES]]).tags[0]
            rest = np.setdiff1d(np.arange(len(classes)), mine[:EXAMPLES])
            pool = np.concatenate([left_out.embeddings[rest], others.embeddings])
            common = np.concatenate([left_out.commonness[rest], others.commonness])
            is_right = np.concatenate([classes[rest] == label, np.zeros(len(others.commonness), bool)])
            margins = pool @ np.array(tag.prototype) - common
            with_others.append(precision_at(margins, is_right))
            alone.append(precision_at(margins[: len(rest)], is_right[: len(rest)]))
            has = margins >= tag.least_margin
            kept.append(float(has[is_right].mean()))
            kept_of_others.append(float(has[~is_right].mean()))
    searched = len(classes) - EXAMPLES + len(others.commonness)
    chance = (len(classes) / len(np.unique(classes)) - EXAMPLES) / searched
    figures = {"precision_at_10": with_others, "left_out_only": alone, "kept": kept, "kept_of_others": kept_of_others}
    return {**{name: float(np.mean(values)) for name, values in figures.items()}, "chance": chance}


def of_answers(answers: dict[str, Answers], sets: dict[str, Pictures]) -> dict[str, Any]:
    """Return the figures of one network's or program's answers, by set of pictures ("left_out" among them)."""
    known = [name for name in sets if name != "left_out"]
    scores = np.concatenate([answers[name].scores for name in known])
    truth = np.concatenate([sets[name].tags for name in known])
    return {
        "map": mean_average_precision(scores, truth, TAGS),
        "map_by_set": {name: mean_average_precision(answers[name].scores, sets[name].tags, TAGS) for name in sets},
        "by_tag": by_tag(scores, truth, TAGS),
        "calibration_error": calibration_error(scores, truth),
        "named_right": float(truth[scores >= NAMED_FROM].mean()),
        "few_shot": few_shot(
            answers["left_out"],
            sets["left_out"].classes,
            Answers(*(np.concatenate(each) for each in zip(*(answers[name] for name in known), strict=True))),
        ),
    }


def times() -> dict[str, float]:
    """Return median times for a picture of 224 x 224 pixels in milliseconds, from Python."""
    feature = SceneTags()
    session = load(feature.default_program).session()
    picture = np.ascontiguousarray(drawings()["forest"][:, :224])
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


def evaluate(corpus: Corpus, run: Path, plain: Path, version: str = DEFAULT_VERSION) -> dict[str, Any]:
    """Return all figures as JSON values.

    Args:
        corpus: the pictures.
        run: folder of the training run of this version, for its float32 weights.
        plain: folder of that of the plain network.
        version: a committed one.

    Raises:
        FileNotFoundError: a run or the program is missing.
    """
    config = CONFIGS[version]
    sets = {**corpus.dev, "left_out": corpus.left_out}
    given = {name: each.squares(config.size) for name, each in sets.items()}
    result: dict[str, Any] = {"version": version, "size": config.size, "left_out": list(LEFT_OUT), "networks": {}}
    for kind, folder in zip(KINDS, (run, plain), strict=True):
        module = module_of_run(folder, config, kind, corpus)
        answers = {name: of_module(module, each) for name, each in given.items()}
        result["networks"][f"{kind} float32"] = {
            **of_answers(answers, sets),
            "multiply_adds": multiply_adds(module.network, config.size),
        }
    path = program_path(version)
    result["networks"][f"{KINDS[0]} int8"] = {
        **of_answers({name: of_program(path, each) for name, each in given.items()}, sets),
        "multiply_adds": result["networks"][f"{KINDS[0]} float32"]["multiply_adds"],
    }
    result["size_bytes"] = path.stat().st_size
    result["times_ms"] = times()
    result["pictures"] = {name: len(each) for name, each in sets.items()}
    return result


def answers_of_drawings() -> dict[str, Any]:
    """Return what the committed version says of the drawn pictures."""
    feature = SceneTags()
    session = load(feature.default_program).session()
    return {name: feature.decode(session(feature.prepare(pixels))) for name, pixels in drawings().items()}


def write_sheet(folder: Path, corpus: Corpus) -> None:
    """Write a page with pictures of the dev splits and their tags."""
    feature = SceneTags()
    session = load(feature.default_program).session()
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["<!doctype html><meta charset=utf-8><style>figure{display:inline-block;width:190px;font:12px sans-serif}"]
    parts.append("img{width:128px;height:128px}</style><p>In brackets: the tags of the data.</p>")
    rng = np.random.default_rng(0)
    for name, pictures in corpus.dev.items():
        for at in rng.permutation(len(pictures))[: SHEET_PICTURES // len(corpus.dev)]:
            pixels = np.array(pictures.pixels[at])
            answer = feature.decode(session(feature.prepare(pixels)))
            file = f"{name}_{at}.png"
            (folder / file).write_bytes(png_of(pixels))
            said = ", ".join(f"{each.tag} {each.score:.0%}" for each in answer.tags[:4])
            true = " ".join(tag for tag, has in zip(TAGS, pictures.tags[at], strict=True) if has)
            caption = html.escape(f"{said} [{true}]; {answer.mood.name}")
            parts.append(f"<figure><img src={file}><figcaption>{caption}</figcaption></figure>")
    (folder / "sheet.html").write_text("\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    """Evaluate the committed version and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tiny_imagenet_train.csv and neighbours")
    parser.add_argument("--cache", type=Path, required=True, help="folder of decoded pictures")
    parser.add_argument("--run", type=Path, required=True, help="folder of the version's training run")
    parser.add_argument("--plain", type=Path, required=True, help="folder of the plain network's training run")
    parser.add_argument("--sheet", type=Path, metavar="DIR", help="write a contact sheet of dev pictures there")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and pictures to a card")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    corpus = read(arguments.data, arguments.cache)
    if arguments.sheet:
        write_sheet(arguments.sheet, corpus)
    result = evaluate(corpus, arguments.run, arguments.plain)
    print(card.figures(result))  # noqa: T201 (what the command is for)
    if arguments.write:
        path: Path = arguments.write
        path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
        (path.parent / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (path.parent / "precision.svg").write_text(card.precision_picture(result), encoding="utf-8")
        (path.parent / "contact_sheet.svg").write_text(card.sheet(answers_of_drawings()), encoding="utf-8")


if __name__ == "__main__":
    main()
