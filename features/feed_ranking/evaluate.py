"""Evaluates the feature on sets of histories: trains it and the baselines, predicts next items, writes the card.

python -m alcove.features.feed_ranking.evaluate --train FILE [--test FILE] [--attributes FILE] [--json FILE]
python -m alcove.features.feed_ranking.evaluate --data FOLDER --write CARD.md    # the sets of the data folder
python -m alcove.features.feed_ranking.evaluate --device --write CARD.md    # the committed programs: bytes and times

FILE has a line a user, `user item item ...`, oldest first; a test has `user<TAB>target<TAB>negatives`; plain or .xz.
Without a test the last item of every line is one, with negatives drawn from what the user never touched, and is left
out of training.  The feature's figures are those of its int8 program, run natively.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.card_figures import replace_figures
from alcove.features.feed_ranking import card
from alcove.features.feed_ranking.baselines import Fpmc, Gru4Rec
from alcove.features.feed_ranking.build import (
    attributes_of_network,
    compile_module,
    module_of_network,
    rows_of_attributes,
)
from alcove.features.feed_ranking.config import CONFIGS, DEFAULT_VERSION, HISTORY, MAX_CANDIDATES, ModelConfig
from alcove.features.feed_ranking.contract import FeedRanking, FeedRequest, program_path
from alcove.features.feed_ranking.dataset import (
    NEGATIVES,
    Lines,
    Questions,
    in_rows,
    questions_of_last,
    read_attributes,
    read_lines,
    read_questions,
    table_ids,
)
from alcove.features.feed_ranking.delta import ItemDelta, delta_bytes
from alcove.features.feed_ranking.harness import Scores, counts_of, item_knn, popularity, score_of
from alcove.features.feed_ranking.network import FeedRankingNetwork
from alcove.features.feed_ranking.studies import adapter_study, delta_study, diversity_study, split_of
from alcove.features.feed_ranking.train import PLANS, TrainingPlan, bars, lines_in_rows, scores_of, train, train_feature
from alcove.runtime import Model, load
from rich.progress import Progress

SEED: Final = 7
SETS: Final = {"beauty": 99, "toys": 99, "lastfm": 99, "games": 100, "movielens": 99}
"""Of the data folder, and how many negatives their published figures were measured with."""
NETWORKS: Final = ("GRU4Rec", "FPMC")
RIVAL_RATE, RIVAL_DECAY = 3.0, 0.02
"""The baselines' learning rate, as a multiple of the feature's, and their weight decay: the best of three pairs that
were tried on lastfm, with the feature's own the worst."""


def program_scores(model: Model, questions: Questions) -> Scores:
    """Return the scores of a program for questions in rows of its table; more than 1,000 candidates in several runs."""
    session = model.session()
    width = model.inputs[2].shape[1]
    added, offset = np.zeros((1, width), np.float32), np.zeros((1, width - 1), np.float32)
    weights = np.zeros((1, 4), np.float32)
    found = np.empty(questions.candidates.shape, np.float32)
    for number, given in enumerate(questions.histories):
        history = np.zeros((1, HISTORY), np.int64)
        latest = given[-HISTORY:]
        history[0, : len(latest)] = latest
        for at in range(0, len(questions.candidates[number]), MAX_CANDIDATES):
            some = questions.candidates[number, at : at + MAX_CANDIDATES]
            signals = np.full((1, len(some), 2), -1, np.float32)
            scores = session(history, some[None], added, offset, signals, weights)[0][0]
            found[number, at : at + MAX_CANDIDATES] = scores
    return found


def evaluate(
    lines: Lines,
    questions: Questions,
    attributes: Mapping[int, Sequence[int]],
    folder: Path,
    progress: Progress,
    *,
    config: ModelConfig,
    plan: TrainingPlan,
    networks: Sequence[str] = NETWORKS,
) -> dict[str, Any]:
    """Return the figures of the feature and the baselines on one set, as JSON values.

    Args:
        lines: of ids, to learn from.
        questions: of ids.
        attributes: of ids.
        folder: for checkpoints and the program.
        progress: where to show it.
        config: shape of the model.
        plan: how to learn.
        networks: which trained baselines to compare with.
    """
    every = table_ids(lines, [questions.candidates.ravel()], attributes)
    known, asked, rows = lines_in_rows(lines, every), in_rows(questions, every), len(every) + 1
    trained = train_feature(
        lines, every, attributes, config, plan=plan, folder=folder / "feed_ranking", progress=progress
    )
    program = compile_module(module_of_network(trained.network, config))
    program.save(folder / "feed_ranking.alc")
    began_s = time.monotonic()
    scores = {card.OURS: program_scores(load(bytes(program)), asked)}
    per_question_us = 1e6 * (time.monotonic() - began_s) / len(asked.rows)
    seconds = {card.OURS: trained.seconds}
    scores["float32, torch"] = scores_of(trained.network, asked)
    for name, baseline in (("item-kNN", item_knn), ("popularity", popularity)):
        bar = progress.add_task(name, total=1)
        scores[name] = baseline(known, rows)(asked)
        progress.advance(bar)
    makers = {
        "GRU4Rec": lambda given: Gru4Rec(counts_of(given, rows), config.dim, plan.dropout),
        "FPMC": lambda given: Fpmc(counts_of(given, rows), len(lines.users), config.dim // 2, plan.dropout),
    }
    for name in networks:
        own = replace(plan, learning_rate=RIVAL_RATE * plan.learning_rate, weight_decay=RIVAL_DECAY)
        found = train(makers[name], known, rows, plan=own, folder=folder / name, progress=progress)
        scores[name] = scores_of(found.network, asked)
        seconds[name] = found.seconds
    return {
        "users": len(lines.users),
        "items": len(every),
        "interactions": int(sum(len(items) for items in lines.items)),
        "questions": len(asked.rows),
        "negatives": int(asked.candidates.shape[1] - 1),
        "with_attributes": bool(attributes),
        "epochs": trained.epochs,
        "program_bytes": len(bytes(program)),
        "question_us": round(per_question_us, 1),
        "seconds": seconds,
        "scores": {name: asdict(score_of(given)) for name, given in scores.items()},
    }


def device_figures(version: str) -> dict[str, float]:
    """Return sizes and times of the committed programs, the call from Python included."""
    rng = np.random.default_rng(SEED)
    feature, found = FeedRanking(), {}
    for variant in ("int8", "f32"):
        found[f"{variant}, bytes"] = float(program_path(version, variant).stat().st_size)
    session = load(program_path(version)).session()
    for count in (100, 1000):
        request = FeedRequest(
            history=(1 + rng.permutation(9000)[:HISTORY]).tolist(),
            candidates=(1 + rng.permutation(9000)[:count]).tolist(),
        )
        inputs = feature.inputs(request)
        for name, call in (
            ("", lambda inputs=inputs: session(*inputs)),
            (", typed answer and re-ranking included", lambda inputs=inputs: feature.decode(session(*inputs))),
        ):
            times = []
            for _ in range(400):
                began_ns = time.perf_counter_ns()
                call()
                times.append(time.perf_counter_ns() - began_ns)
            found[f"{count:,} candidates, median (µs){name}"] = round(float(np.median(times)) / 1000, 1)
    return found


def studies(data: Path, folder: Path, progress: Progress, config: ModelConfig, plan: TrainingPlan) -> dict[str, Any]:
    """Return what deltas, the adapter and the re-ranking do on movielens; trains a program of its own."""
    lines = read_lines(data / "movielens.train.txt.xz")
    attributes = read_attributes(data / "movielens.item_attributes.json.xz")
    split = split_of(lines, table_ids(lines, (), attributes))
    by_row = {row: attributes[int(item)] for row, item in enumerate(split.ids, start=1) if int(item) in attributes}

    def make(given: Lines) -> torch.nn.Module:
        known = {row: values for row, values in by_row.items() if row < split.rows}
        return FeedRankingNetwork(config, counts_of(given, split.rows), known, plan.dropout)

    trained = train(make, split.known, split.rows, plan=plan, folder=folder / "studies", progress=progress)
    model = load(bytes(compile_module(module_of_network(trained.network, config))))
    document = attributes_of_network(trained.network)
    rows = rows_of_attributes(document, [by_row.get(int(row), []) for row in split.new])
    data_of_delta = delta_bytes(rows, program=model.digest, first_id=split.rows)
    delta = ItemDelta.read(data_of_delta, program=model.digest, dim=config.dim, first_id=split.rows)
    return adapter_study(model, split) | delta_study(model, delta, split) | diversity_study(model, split)


def of_files(
    train_file: Path,
    test_file: Path | None,
    attributes_file: Path | None,
    folder: Path,
    progress: Progress,
    *,
    negatives: int,
    config: ModelConfig,
    plan: TrainingPlan,
    networks: Sequence[str],
) -> dict[str, Any]:
    """Return the figures on one set in files; for the arguments see `evaluate`."""
    lines = read_lines(train_file)
    attributes = read_attributes(attributes_file) if attributes_file else {}
    if test_file:
        questions = read_questions(test_file, lines)
    else:
        questions, lines = questions_of_last(lines, negatives, SEED), lines.without_last()
    return evaluate(lines, questions, attributes, folder, progress, config=config, plan=plan, networks=networks)


def _keep(result: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name, found in before["sets"].items():
        now = result["sets"].setdefault(name, found)
        now["scores"] = {**now["scores"], **{k: v for k, v in found["scores"].items() if k not in now["scores"]}}
        now["seconds"] = {**found["seconds"], **now["seconds"]}
    for name in ("digest", "device", "studies"):
        if name in before:
            result.setdefault(name, before[name])
    result["sets"] = {name: result["sets"][name] for name in [*SETS, *result["sets"]] if name in result["sets"]}


def _write_card(path: Path, result: Mapping[str, Any], document: str) -> None:
    path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
    (path.parent / "evaluation.json").write_text(document, encoding="utf-8")
    (path.parent / "ranking.svg").write_text(card.picture(result), encoding="utf-8")


def main() -> None:
    """Evaluate one set, or all of a folder, and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, help="a line a user; .xz or plain")
    parser.add_argument("--test", type=Path, help="user, target and negatives; without it, the last item of each line")
    parser.add_argument("--attributes", type=Path, help="JSON: item to list of attributes; .xz or plain")
    parser.add_argument("--data", type=Path, help="the data folder: all of its sets")
    parser.add_argument("--device", action="store_true", help="bytes and times of the committed programs alone")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), help="of the data folder")
    parser.add_argument("--only-sets", action="store_true", help="of a card; its other figures stay")
    parser.add_argument("--negatives", type=int, default=NEGATIVES, help="drawn where there is no test")
    parser.add_argument("--epochs", type=int, help="at most, instead of the plan's")
    parser.add_argument("--baselines", nargs="*", choices=NETWORKS, default=list(NETWORKS), help="that are trained")
    parser.add_argument("--run", type=Path, help="folder for checkpoints: what was cut off continues from there")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and picture to a card")
    arguments = parser.parse_args()
    if [arguments.train is None, arguments.data is None, not arguments.device].count(False) != 1:
        parser.error("one of --train, --data and --device")
    torch.set_num_threads(arguments.threads)
    plan = PLANS[DEFAULT_VERSION]
    plan = replace(plan, epochs=arguments.epochs or plan.epochs)
    common: dict[str, Any] = {"config": CONFIGS[DEFAULT_VERSION], "plan": plan, "networks": arguments.baselines}
    sets: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary, bars() as progress:
        folder: Path = arguments.run or Path(temporary)
        if arguments.train:
            name = arguments.train.name.split(".")[0]
            sets[name] = of_files(
                arguments.train,
                arguments.test,
                arguments.attributes,
                folder / name,
                progress,
                negatives=arguments.negatives,
                **common,
            )
        elif arguments.data:
            for name in arguments.sets:
                file = arguments.data / f"{name}.item_attributes.json.xz"
                sets[name] = of_files(
                    arguments.data / f"{name}.train.txt.xz",
                    None,
                    file if file.exists() else None,
                    folder / name,
                    progress,
                    negatives=SETS[name],
                    **common,
                )
        result: dict[str, Any] = {"version": DEFAULT_VERSION, "sets": sets}
        is_whole = arguments.data and not arguments.only_sets
        if is_whole or arguments.device:
            result["digest"] = load(program_path(DEFAULT_VERSION)).digest
            result["device"] = device_figures(DEFAULT_VERSION)
        if is_whole:
            result["studies"] = studies(arguments.data, folder, progress, CONFIGS[DEFAULT_VERSION], plan)
    if arguments.write:
        kept = arguments.write.parent / "evaluation.json"
        if kept.exists():
            # Sets, and models of a set, that were not measured now keep their figures.
            _keep(result, json.loads(kept.read_text(encoding="utf-8"))["result"])
    print(card.figures(result))  # noqa: T201 (what the command is for)
    document = json.dumps({"result": result}, indent=1) + "\n"
    if arguments.json:
        arguments.json.write_text(document, encoding="utf-8")
    if arguments.write:
        _write_card(arguments.write, result, document)


if __name__ == "__main__":
    main()
