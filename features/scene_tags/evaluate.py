"""How good is the committed version, beside a plain network of the same cost?  Prints and writes the card's figures.

    python -m alcove.features.scene_tags.evaluate --data ../shared/data/tagging --cache DECODED --run RUN --plain RUN

Pictures of the `dev` splits, which no training saw.  `--sheet DIR` also writes a contact
sheet of such pictures with their tags; whose they are is unclear, so that no such sheet is committed.
"""

import argparse
import html
import json
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.scene_tags import card
from alcove.features.scene_tags.build import module_of_run
from alcove.features.scene_tags.config import CONFIGS, DEFAULT_VERSION, EMBEDDING, LEFT_OUT, TAGS
from alcove.features.scene_tags.contract import NAMED_FROM, SceneTags, program_path
from alcove.features.scene_tags.dataset import Corpus, Pictures, read
from alcove.features.scene_tags.drawn import drawings, png_of
from alcove.features.scene_tags.metrics import by_tag, calibration_error, mean_average_precision, precision_at
from alcove.features.scene_tags.model import SceneModule
from alcove.features.scene_tags.network import KINDS, multiply_adds, normalised
from alcove.features.scene_tags.vocabulary import Vocabulary
from alcove.runtime import load
from numpy.typing import NDArray

EXAMPLES: Final = 5
"""Pictures that make a new tag."""
DRAWS: Final = 5
"""Times that they are drawn."""
TIMED: Final = 300
SHEET_PICTURES: Final = 60
Answers = tuple[NDArray[np.float32], NDArray[np.float32]]


@torch.no_grad()
def of_module(module: SceneModule, given: NDArray[np.uint8]) -> Answers:
    """Return scores [n, tags] and embeddings [n, 128] of a torch module; pictures uint8 [n, size, size, 3]."""
    scores, embeddings = [], []
    for each in torch.split(torch.from_numpy(given), 64):
        _, logits, embedding = module.network.read(normalised(each.permute(0, 3, 1, 2).float()))
        scores.append(torch.sigmoid(logits * module.slope + module.shift).numpy())
        embeddings.append(embedding.numpy())
    return np.concatenate(scores), np.concatenate(embeddings)


def of_program(path: Path, given: NDArray[np.uint8]) -> Answers:
    """Return scores and embeddings of a program."""
    session = load(path).session()
    scores, embeddings = np.empty((len(given), len(TAGS)), np.float32), np.empty((len(given), EMBEDDING), np.float32)
    for at, each in enumerate(given):
        scores[at], embeddings[at] = (output[0] for output in session(each)[:2])
    return scores, embeddings


def few_shot(
    left_out: NDArray[np.float32], classes: NDArray[np.int64], others: NDArray[np.float32]
) -> dict[str, float]:
    """Return the precision of the ten pictures most similar to a new tag that five pictures made.

    Searched are all other pictures of the classes that no training saw, and `others`.

    Args:
        left_out: f32 [n, 128], embeddings of pictures of such classes.
        classes: int64 [n], theirs.
        others: f32 [m, 128], embeddings of pictures of other classes.
    """
    with_others, alone = [], []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        for label in np.unique(classes):
            mine = rng.permutation(np.flatnonzero(classes == label))
            tag = Vocabulary().with_tag("new", left_out[mine[:EXAMPLES]]).tags[0]
            rest = np.setdiff1d(np.arange(len(classes)), mine[:EXAMPLES])
            pool = np.concatenate([left_out[rest], others])
            is_right = np.concatenate([classes[rest] == label, np.zeros(len(others), bool)])
            similarities = pool @ np.array(tag.prototype)
            with_others.append(precision_at(similarities, is_right))
            alone.append(precision_at(similarities[: len(rest)], is_right[: len(rest)]))
    chance = (len(classes) / len(np.unique(classes)) - EXAMPLES) / (len(classes) - EXAMPLES + len(others))
    return {"precision_at_10": float(np.mean(with_others)), "left_out_only": float(np.mean(alone)), "chance": chance}


def of_answers(answers: dict[str, Answers], sets: dict[str, Pictures]) -> dict[str, Any]:
    """Return the figures of one network's or program's answers, by set of pictures ("left_out" among them)."""
    known = [name for name in sets if name != "left_out"]
    scores = np.concatenate([answers[name][0] for name in known])
    truth = np.concatenate([sets[name].tags for name in known])
    return {
        "map": mean_average_precision(scores, truth, TAGS),
        "map_by_set": {name: mean_average_precision(answers[name][0], sets[name].tags, TAGS) for name in sets},
        "by_tag": by_tag(scores, truth, TAGS),
        "calibration_error": calibration_error(scores, truth),
        "named_right": float(truth[scores >= NAMED_FROM].mean()),
        "few_shot": few_shot(
            answers["left_out"][1],
            sets["left_out"].classes,
            np.concatenate([answers[name][1] for name in known]),
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
