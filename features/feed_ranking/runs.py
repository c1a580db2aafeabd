"""Trains the networks of a comparison once, and keeps what each of them answered.

    python -m alcove.features.feed_ranking.runs --data FOLDER --run FOLDER --seeds 1 2 3 --device cuda

A run is a folder SET/MODEL-SEED with answers.npz (`harness.Answers`), run.json (plan, shape, figures an epoch) and, for
the feature, weights.pt (half floats).  What has answers is not trained again, so that `evaluate.py` reads here what
another machine trained.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features import checkpoint
from alcove.features.feed_ranking.baselines import Fpmc, Gru4Rec
from alcove.features.feed_ranking.config import CONFIGS, DEFAULT_VERSION, ModelConfig
from alcove.features.feed_ranking.dataset import (
    Ids,
    Lines,
    Questions,
    in_rows,
    questions_of_last,
    read_attributes,
    read_lines,
    table_ids,
)
from alcove.features.feed_ranking.harness import Answers, answers_of, counts_of
from alcove.features.feed_ranking.network import FeedRankingNetwork
from alcove.features.feed_ranking.newcomers import newcomer_figures, split_newcomers
from alcove.features.feed_ranking.scoring import places_of_all, scores_of
from alcove.features.feed_ranking.train import (
    PLANS,
    TrainingPlan,
    attributes_of_rows,
    bars,
    lines_in_rows,
    new_network,
    train,
    train_feature,
)
from rich.progress import Progress
from torch import nn

OURS: Final = "feed_ranking"
NETWORKS: Final = ("GRU4Rec", "FPMC")
NEWCOMERS: Final = "newcomers"
"""The feature again, trained without some users and items, and asked about those."""
SETS: Final = {"beauty": 99, "toys": 99, "lastfm": 99, "games": 100, "movielens": 99}
"""Of the data folder, and how many negatives their published figures were measured with."""
SEED: Final = 7
"""Of the negatives: the same for all models and all seeds of training."""
RIVAL_PLAN: Final = TrainingPlan(learning_rate=9e-3, weight_decay=0.02, ahead=0)
"""GRU4Rec's and FPMC's: the best of three pairs of learning rate and weight decay that were tried on lastfm."""


@dataclass(frozen=True)
class Task:
    """One set, and what is asked about it; all in ids.

    Attributes:
        lines: the last item of each is for validation, what is before it to learn from.
        questions: with whole lines as histories.
        attributes: of items.
        every: ids that have a row.
    """

    lines: Lines
    questions: Questions
    attributes: Mapping[int, Sequence[int]]
    every: Ids

    @property
    def rows(self) -> int:
        """Of the table, with row 0."""
        return len(self.every) + 1


def task_of(lines: Lines, questions: Questions | None, attributes: Mapping[int, Sequence[int]], negatives: int) -> Task:
    """Return the task of lines with questions, or about the last item of every line if there are none."""
    if questions is None:
        questions, lines = questions_of_last(lines, negatives, SEED), lines.without_last()
    return Task(lines, questions, attributes, table_ids(lines, [questions.candidates.ravel()], attributes))


def read_set(data: Path, name: str) -> Task:
    """Return the task of a set of the data folder."""
    file = data / f"{name}.item_attributes.json.xz"
    attributes = read_attributes(file) if file.exists() else {}
    return task_of(read_lines(data / f"{name}.train.txt.xz"), None, attributes, SETS[name])


def is_trained(folder: Path, name: str, seed: int) -> bool:
    """Whether a task's folder has the answers of a network."""
    return (folder / f"{name}-{seed}" / "answers.npz").exists()


def run(
    name: str,
    task: Task,
    folder: Path,
    progress: Progress,
    *,
    config: ModelConfig,
    plan: TrainingPlan,
    device: str = "cpu",
) -> Answers:
    """Return what a network answers, trained for it unless that was done.

    Args:
        name: `OURS`, or one of `NETWORKS`.
        task: what to learn from and to answer.
        folder: of the task's runs.
        progress: where to show it.
        config: shape of the feature's network, and size of the others.
        plan: how the feature learns; the others take over its seed and epochs alone.
        device: that trains, "cpu" or "cuda".
    """
    folder = folder / f"{name}-{plan.seed}"
    path = folder / "answers.npz"
    if path.exists():
        return Answers(**{key: value.astype(np.int64) for key, value in np.load(path).items()})
    rows = task.rows
    if name == OURS:
        given = (task.lines, task.every, task.attributes, config)
        found = train_feature(*given, plan=plan, folder=folder, progress=progress, device=device)
    else:
        plan = replace(RIVAL_PLAN, seed=plan.seed, epochs=min(plan.epochs, RIVAL_PLAN.epochs))
        makers: dict[str, Callable[[Lines], nn.Module]] = {
            "GRU4Rec": lambda given: Gru4Rec(counts_of(given, rows), config.dim, plan.dropout),
            "FPMC": lambda given: Fpmc(counts_of(given, rows), len(task.lines.users), config.dim // 2, plan.dropout),
        }
        lines = lines_in_rows(task.lines, task.every)
        found = train(makers[name], lines, rows, plan=plan, folder=folder, progress=progress, device=device)
    asked = in_rows(task.questions, task.every)
    answers = answers_of(scores_of(found.network, asked), places_of_all(found.network, asked, rows))
    if name == OURS:
        state = {key: value.cpu().half() for key, value in found.network.state_dict().items()}
        torch.save(state, folder / "weights.pt")
    record = {"config": asdict(config), "plan": asdict(plan), "epochs": found.epochs, "seconds": found.seconds}
    checkpoint.write_record(folder, record | {"device": device, "checks": list(found.checks)})
    np.savez_compressed(
        path, places=answers.places, tied=answers.tied, places_of_all=np.asarray(answers.places_of_all, np.int32)
    )
    return answers


def run_newcomers(
    lines: Lines,
    attributes: Mapping[int, Sequence[int]],
    folder: Path,
    progress: Progress,
    *,
    config: ModelConfig,
    plan: TrainingPlan,
    device: str = "cpu",
) -> dict[str, Any]:
    """Return the figures of users and items that training never saw (`newcomers.py`).

    A network is trained for it unless that was done.  The arguments are those of `run`; lines hold all that is known of
    each user.
    """
    folder = folder / f"{NEWCOMERS}-{plan.seed}"
    path = folder / "figures.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    split, by_row, seen = split_newcomers(lines, attributes)
    trained = train(
        lambda given: new_network(config, given, split.rows, seen, plan),
        split.known,
        split.rows,
        plan=plan,
        folder=folder,
        progress=progress,
        device=device,
    )
    found = newcomer_figures(trained.network, split, by_row)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def network_of_run(folder: Path, task: Task, config: ModelConfig) -> FeedRankingNetwork:
    """Return the feature's network of a run's folder, of half floats."""
    known = lines_in_rows(task.lines, task.every).without_last()
    network = FeedRankingNetwork(
        config, counts_of(known, task.rows), attributes_of_rows(task.attributes, task.every), 0.0
    )
    state = torch.load(folder / "weights.pt", weights_only=True)
    network.load_state_dict({name: value.float() for name, value in state.items()})
    return network.eval()


def main() -> None:
    """Train what `evaluate.py --run` reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--run", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument(
        "--models", nargs="+", choices=[OURS, *NETWORKS, NEWCOMERS], default=[OURS, *NETWORKS, NEWCOMERS]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--device", default="cpu", help="that trains: cpu or cuda")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = CONFIGS[DEFAULT_VERSION]
    with bars() as progress:
        for name in arguments.sets:
            task, folder = read_set(arguments.data, name), arguments.run / name
            for seed in arguments.seeds:
                plan = replace(PLANS[DEFAULT_VERSION], seed=seed)
                common: dict[str, Any] = {"config": config, "plan": plan, "device": arguments.device}
                for model in arguments.models:
                    if model != NEWCOMERS:
                        run(model, task, folder, progress, **common)
                    elif seed == arguments.seeds[0]:
                        lines = read_lines(arguments.data / f"{name}.train.txt.xz")
                        run_newcomers(lines, task.attributes, folder, progress, **common)


if __name__ == "__main__":
    main()
