"""Evaluates the feature on sets of histories: trains it and the baselines, predicts next items, writes the card.

python -m alcove.features.feed_ranking.evaluate --train FILE [--test FILE] [--attributes FILE] [--json FILE]
python -m alcove.features.feed_ranking.evaluate --data FOLDER --write CARD.md    # the sets of the data folder
python -m alcove.features.feed_ranking.evaluate --device --write CARD.md    # the committed programs: bytes and times

FILE has a line a user, `user item item ...`, oldest first; a test has `user<TAB>target<TAB>negatives`; plain or .xz.
Without a test the last item of every line is one, with negatives drawn from what the user never touched, and is left
out of training.  The item before it is for validation: it says when training stops and is never learned from, by the
feature or by a baseline, but is the latest item of the history that is asked with.  The feature's figures are those of
its int8 program, run natively; what was trained before, here or elsewhere (`runs.py`), is read from --run.
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
from alcove.features.feed_ranking import behaviour, card
from alcove.features.feed_ranking.attributes import attributes_of_network, rows_of_attributes
from alcove.features.feed_ranking.build import compile_module, module_of_network
from alcove.features.feed_ranking.config import CONFIGS, DEFAULT_VERSION, HISTORY, MAX_CANDIDATES, ModelConfig
from alcove.features.feed_ranking.contract import FeedRanking, program_path
from alcove.features.feed_ranking.dataset import (
    NEGATIVES,
    Questions,
    in_rows,
    read_attributes,
    read_lines,
    read_questions,
)
from alcove.features.feed_ranking.delta import ItemDelta, delta_bytes
from alcove.features.feed_ranking.harness import (
    Answers,
    Scores,
    answers_of,
    counts_of,
    item_knn,
    popularity,
    score_of_places,
)
from alcove.features.feed_ranking.newcomers import split_newcomers
from alcove.features.feed_ranking.request import FeedRequest
from alcove.features.feed_ranking.runs import (
    NETWORKS,
    OURS,
    SEED,
    SETS,
    Task,
    is_trained,
    network_of_run,
    read_set,
    run,
    run_newcomers,
    task_of,
)
from alcove.features.feed_ranking.studies import adapter_study, delta_study, diversity_study
from alcove.features.feed_ranking.train import PLANS, TrainingPlan, bars, lines_in_rows, new_network, train
from alcove.runtime import Model, load
from rich.progress import Progress

SEEDS: Final = (1, 2, 3)
"""Of training, where a difference is claimed."""


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
    task: Task,
    folder: Path,
    progress: Progress,
    *,
    config: ModelConfig,
    plan: TrainingPlan,
    networks: Sequence[str] = NETWORKS,
    seeds: Sequence[int] = SEEDS[:1],
    device: str = "cpu",
) -> dict[str, Any]:
    """Return the figures of the feature and the baselines on one set, as JSON values.

    Args:
        task: what to learn from and to answer.
        folder: of the runs, and for the program.
        progress: where to show it.
        config: shape of the model.
        plan: how to learn.
        networks: which trained baselines to compare with.
        seeds: of training; the first one's feature becomes the program.  The baselines are trained with the first, and
            read of the others where the folder has them.
        device: that trains, "cpu" or "cuda".
    """
    lines, rows = lines_in_rows(task.lines, task.every), task.rows
    known, asked = lines.without_last(), in_rows(task.questions, task.every)
    counts = counts_of(known, rows)
    trained = {OURS: list(seeds)}
    for name in networks:
        trained[name] = [seed for seed in seeds if seed == seeds[0] or is_trained(folder, name, seed)]
    answers: dict[str, list[Answers]] = {
        name: [
            run(name, task, folder, progress, config=config, plan=replace(plan, seed=seed), device=device)
            for seed in chosen
        ]
        for name, chosen in trained.items()
    }
    network = network_of_run(folder / f"{OURS}-{seeds[0]}", task, config)
    program = compile_module(module_of_network(network, config))
    program.save(folder / "feed_ranking.alc")
    model = load(bytes(program))
    began_s = time.monotonic()
    int8 = answers_of(program_scores(model, asked))
    per_question_us = 1e6 * (time.monotonic() - began_s) / len(asked.rows)
    first = {card.OURS: int8, card.FLOAT: answers[OURS][0]}
    for name, baseline in (("item-kNN", item_knn), ("popularity", popularity)):
        bar = progress.add_task(name, total=1)
        first[name] = answers_of(baseline(known, rows)(asked))
        progress.advance(bar)
    first |= {name: answers[name][0] for name in networks}
    records = {
        name: json.loads((folder / f"{name}-{seeds[0]}" / "run.json").read_text(encoding="utf-8")) for name in answers
    }
    compared = {name: first[name] for name in (card.OURS, "item-kNN", "popularity")}
    return {
        "users": len(lines.users),
        "items": len(task.every),
        "interactions": int(sum(len(items) for items in known.items)),
        "questions": len(asked.rows),
        "negatives": int(asked.candidates.shape[1] - 1),
        "with_attributes": bool(task.attributes),
        "epochs": records[OURS]["epochs"],
        "program_bytes": len(bytes(program)),
        "question_us": round(per_question_us, 1),
        "seconds": {name: found["seconds"] for name, found in records.items()},
        "device": records[OURS]["device"],
        "scores": {name: asdict(score_of_places(found.places)) for name, found in first.items()},
        "seeds": {name: [asdict(score_of_places(given.places)) for given in found] for name, found in answers.items()},
        "of_all": {
            name: [asdict(score_of_places(given.places_of_all)) for given in found if given.places_of_all is not None]
            for name, found in answers.items()
        },
        "ties": {name: behaviour.ties(found) for name, found in first.items()},
        "by_length": behaviour.by_length(lambda given: program_scores(model, given), asked),
        "by_popularity": behaviour.by_popularity(compared, asked, counts),
        "recommended": behaviour.describe_lists(network, asked, counts),
    }


def program_figures(version: str) -> dict[str, float]:
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
    split, by_row, seen = split_newcomers(lines, attributes)
    trained = train(
        lambda given: new_network(config, given, split.rows, seen, plan),
        split.known,
        split.rows,
        plan=plan,
        folder=folder / "studies",
        progress=progress,
    )
    model = load(bytes(compile_module(module_of_network(trained.network, config))))
    document = attributes_of_network(trained.network)
    rows = rows_of_attributes(document, [by_row.get(int(row), []) for row in split.new])
    data_of_delta = delta_bytes(rows, program=model.digest, first_id=split.rows)
    delta = ItemDelta.read(data_of_delta, program=model.digest, dim=config.dim, first_id=split.rows)
    return adapter_study(model, split) | delta_study(model, delta, split) | diversity_study(model, split)


def newcomers_of_sets(
    data: Path, names: Sequence[str], folder: Path, progress: Progress, **common: Any
) -> dict[str, Any]:
    """Return the figures of new users and new items for each set, as JSON values; for `common` see `run_newcomers`."""
    found = {}
    for name in names:
        task, lines = read_set(data, name), read_lines(data / f"{name}.train.txt.xz")
        found[name] = run_newcomers(lines, task.attributes, folder / name, progress, **common)
    return found


def _keep(result: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name, found in before["sets"].items():
        result["sets"].setdefault(name, found)
    for name in ("digest", "programs", "studies", "newcomers"):
        if name in before:
            result.setdefault(name, before[name])
    result["sets"] = {name: result["sets"][name] for name in [*SETS, *result["sets"]] if name in result["sets"]}


def _write_card(path: Path, result: Mapping[str, Any], document: str) -> None:
    path.write_text(card.write(path.read_text(encoding="utf-8"), result), encoding="utf-8")
    (path.parent / "evaluation.json").write_text(document, encoding="utf-8")
    (path.parent / "ranking.svg").write_text(card.picture(result), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, help="a line a user; .xz or plain")
    parser.add_argument("--test", type=Path, help="user, target and negatives; without it, the last item of each line")
    parser.add_argument("--attributes", type=Path, help="JSON: item to list of attributes; .xz or plain")
    parser.add_argument("--data", type=Path, help="the data folder: all of its sets")
    parser.add_argument("--programs", action="store_true", help="bytes and times of the committed programs alone")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), help="of the data folder")
    parser.add_argument("--only-sets", action="store_true", help="of a card; its other figures stay")
    parser.add_argument("--negatives", type=int, default=NEGATIVES, help="drawn where there is no test")
    parser.add_argument("--epochs", type=int, help="at most, instead of the plan's")
    parser.add_argument("--seeds", nargs="+", type=int, help="of training; 1 for --train, 1 2 3 for --data")
    parser.add_argument("--baselines", nargs="*", choices=NETWORKS, default=list(NETWORKS), help="that are trained")
    parser.add_argument("--run", type=Path, help="folder of runs: what was trained is read, the rest is trained there")
    parser.add_argument("--device", default="cpu", help="that trains: cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and picture to a card")
    return parser


def main() -> None:
    """Evaluate one set, or all of a folder, and print, or write a card."""
    parser = _parser()
    arguments = parser.parse_args()
    if [arguments.train is None, arguments.data is None, not arguments.programs].count(False) != 1:
        parser.error("one of --train, --data and --programs")
    torch.set_num_threads(arguments.threads)
    plan, config = PLANS[DEFAULT_VERSION], CONFIGS[DEFAULT_VERSION]
    plan = replace(plan, epochs=arguments.epochs or plan.epochs)
    seeds = arguments.seeds or (list(SEEDS) if arguments.data else [plan.seed])
    common: dict[str, Any] = {"config": config, "plan": plan, "networks": arguments.baselines, "seeds": seeds}
    common["device"] = arguments.device
    sets: dict[str, Any] = {}
    result: dict[str, Any] = {"version": DEFAULT_VERSION, "sets": sets}
    with tempfile.TemporaryDirectory() as temporary, bars() as progress:
        folder: Path = arguments.run or Path(temporary)
        if arguments.train:
            name, lines = arguments.train.name.split(".")[0], read_lines(arguments.train)
            questions = read_questions(arguments.test, lines) if arguments.test else None
            attributes = read_attributes(arguments.attributes) if arguments.attributes else {}
            task = task_of(lines, questions, attributes, arguments.negatives)
            sets[name] = evaluate(task, folder / name, progress, **common)
        elif arguments.data:
            for name in arguments.sets:
                sets[name] = evaluate(read_set(arguments.data, name), folder / name, progress, **common)
        is_whole = arguments.data and not arguments.only_sets
        if is_whole or arguments.programs:
            result["digest"] = load(program_path(DEFAULT_VERSION)).digest
            result["programs"] = program_figures(DEFAULT_VERSION)
        if is_whole:
            result["newcomers"] = newcomers_of_sets(
                arguments.data, arguments.sets, folder, progress, config=config, plan=plan, device=arguments.device
            )
            result["studies"] = studies(arguments.data, folder, progress, config, plan)
    if arguments.write:
        kept = arguments.write.parent / "evaluation.json"
        if kept.exists():
            # Sets that were not measured now keep their figures.
            _keep(result, json.loads(kept.read_text(encoding="utf-8"))["result"])
    print(card.goals(result["sets"]), card.figures(result), sep="\n\n")  # noqa: T201 (what the command is for)
    document = json.dumps({"result": result}, indent=1) + "\n"
    if arguments.json:
        arguments.json.write_text(document, encoding="utf-8")
    if arguments.write:
        _write_card(arguments.write, result, document)


if __name__ == "__main__":
    main()
