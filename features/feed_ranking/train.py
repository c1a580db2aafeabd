"""Trains one version of the model on one core, with checkpoints, and writes down how.

    python -m alcove.features.feed_ranking.train --version 1.0.0 --train FILE --attributes FILE --run runs/feed_ranking

Twice: once with the last item of every line kept back, which says after how many epochs to stop; then as many epochs
with every item.  The same arguments give the same weights on the same machine: every epoch depends on the seed and its
number alone, so a run that was cut off continues from its last checkpoint as if nothing had happened.  The folder holds

    choose/ and final/   checkpoint.pt (weights, their running mean, the best of those, optimiser, epoch), replaced
                         whole, and progress.jsonl, a line an epoch
    table_ids.npy        which id each row of the table has
    trained.pt           what build.py makes a program of
    run.json             arguments, shape, versions, losses

The loss is a softmax over the item that came next and items drawn from all of them, at every place of a history: with
one drawn item and a binary loss, as in SASRec, the same network falls far behind (Klenitskiy and Vasilev, "Turning
Dross Into Gold Loss: is BERT4Rec really better than SASRec?", 2023; Petrov and Macdonald, gSASRec, 2023).  Uniform
draws keep how popular items are in their scores, and that is part of what comes next.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features import checkpoint
from alcove.features.feed_ranking.build import save_run
from alcove.features.feed_ranking.config import CONFIGS, HISTORY, ModelConfig
from alcove.features.feed_ranking.dataset import (
    NEGATIVES,
    Ids,
    Lines,
    Questions,
    questions_of_last,
    read_attributes,
    read_lines,
    rows_of,
    table_ids,
)
from alcove.features.feed_ranking.harness import counts_of, score_of
from alcove.features.feed_ranking.network import FeedRankingNetwork
from alcove.features.feed_ranking.scoring import Ranker, scores_of
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

STEPS: Final = 150
LEAST_BATCH: Final = 500
AHEAD: Final = 2
"""Items behind the next one that are learned too, where the plan gives them weight."""
ASKED: Final = 6000
"""Users whose last item says when to stop."""


@dataclass(frozen=True)
class TrainingPlan:
    """How long, on what and how fast to learn.

    Attributes:
        epochs: at most; the learning rate falls by a half cosine over them.
        patience: checks without a better gain after which to stop.
        batch_items: items in a batch, about.
        drawn: items of the softmax beside the one that came next.
        learning_rate: of AdamW, at its peak.
        warmup_steps: rising in a straight line before that.
        weight_decay: of AdamW.
        dropout: of the encoder.
        ahead: weight in the loss of the item behind the next one; that of the one behind it is its square.
        spectral: size of what items' vectors begin with beside noise, a decomposition of who touched what; 0 for none.
        averaging: of the running mean of the weights, which is what counts.
        seed: of everything random.
    """

    epochs: int = 14
    patience: int = 3
    batch_items: int = 2000
    drawn: int = 512
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    weight_decay: float = 0.7
    dropout: float = 0.3
    ahead: float = 0.5
    spectral: float = 0.7
    averaging: float = 0.995
    seed: int = 1

    def fit_to(self, lines: Lines) -> "TrainingPlan":
        """Return the same with smaller batches where lines are few, so that there are some 150 steps an epoch.

        The learning rate falls with the root of the batch.
        """
        items = sum(len(row) for row in lines.items)
        batch = int(np.clip(items // STEPS, min(LEAST_BATCH, self.batch_items), self.batch_items))
        rate = self.learning_rate * math.sqrt(batch / self.batch_items)
        return replace(self, batch_items=batch, learning_rate=rate)


PLANS: Final = {"1.1.0": TrainingPlan()}


def loss_of(states: Tensor, rows: Tensor, drawn: Tensor, ranker: Ranker, ahead: float = 0.0) -> Tensor:
    """Return the mean softmax loss of the rows that come next, and with weight `ahead` and less of the two behind them.

    A draw that is the next one counts once.  One that is a later one is left among the draws: they are a few percent.

    Args:
        states: user vectors, f32 [n, t, dim].
        rows: what came next at each, int64 [n, t], 0 where nothing did.
        drawn: rows of which the right one is to be told, int64 [k].
        ranker: whose rows they are.
        ahead: weight of the item behind the next one; its square, of the one behind that.
    """
    known, right, others = rows > 0, ranker.rows(rows), ranker.rows(drawn)
    of_others = torch.addmm(others[:, -1], states[known], others[:, :-1].T)
    of_others = of_others.masked_fill(rows[known][:, None] == drawn, -torch.inf)
    among = torch.zeros_like(states[..., 0]).masked_scatter(known, torch.logsumexp(of_others, dim=1))
    loss, places = torch.zeros((), device=states.device), rows.shape[1]
    for step in range(min(AHEAD, places - 1) + 1 if ahead else 1):
        later = right[:, step:]
        score = (states[:, : places - step] * later[..., :-1]).sum(dim=-1) + later[..., -1]
        cost = torch.logaddexp(score, among[:, : places - step]) - score
        loss = loss + ahead**step * cost[known[:, step:]].sum() / known.sum()
    return loss


def batches(lines: Lines, plan: TrainingPlan, rng: np.random.Generator) -> Iterator[tuple[Ids, Ids]]:
    """Yield an epoch: users int64 [n] and rows int64 [n, t + 1], lines of about one length together, 0 behind the last.

    Lines longer than a history are cut at drawn places, so that every item comes last of something.
    """
    pieces: list[tuple[int, Ids]] = []
    for user, row in enumerate(lines.items):
        begin = 0
        if len(row) > HISTORY + 1:
            begin = -int(rng.integers(0, HISTORY))
        for at in range(begin, len(row), HISTORY):
            piece = row[max(at, 0) : at + HISTORY + 1]
            if len(piece) >= 2 or at <= 0:
                pieces.append((user, piece))
    users = np.array([user for user, _ in pieces])
    lengths = np.array([len(piece) for _, piece in pieces])
    padded = np.zeros((len(pieces), HISTORY + 1), np.int64)
    padded[np.arange(HISTORY + 1) < lengths[:, None]] = np.concatenate([piece for _, piece in pieces])
    order = np.argsort(lengths + 2 * rng.random(len(pieces)), kind="stable")
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths[order]) // plan.batch_items)) + 1
    groups = np.split(order, cuts)
    for number in rng.permutation(len(groups)):
        group = groups[number]
        yield users[group], padded[group, : int(lengths[group].max())]


class Training:
    """One run: the network, its optimiser, and where they are kept.

    Args:
        make: the network, on torch's random state.
        lines: in rows of the table.
        rows: of the table.
        plan: how to learn.
        folder: of the run; continued if it holds a checkpoint.
        asked: in rows; what says when to stop. None trains all epochs.
        device: that trains, "cpu" or "cuda".
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        lines: Lines,
        rows: int,
        *,
        plan: TrainingPlan,
        folder: Path,
        asked: Questions | None = None,
        device: str = "cpu",
    ) -> None:
        self.lines, self.table_rows, self.plan, self.folder, self.asked = lines, rows, plan, folder, asked
        self.device = device
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(plan.seed)
        network = make()
        self.kept = nn.ModuleDict(
            {"network": network, "mean": copy.deepcopy(network).eval(), "best": copy.deepcopy(network).eval()}
        ).to(device)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            lr=plan.learning_rate,
            weight_decay=plan.weight_decay,
            betas=(0.9, 0.98),
            fused=True,
        )
        self.epoch = 0
        self.steps = 0
        self.checks: list[dict[str, Any]] = []

    @property
    def network(self) -> Any:
        """What learns."""
        return self.kept["network"]

    @property
    def best(self) -> Any:
        """The running mean of the weights after the best epoch, or after the last one if nothing says which is best."""
        return self.kept["best"]

    @property
    def best_epoch(self) -> int:
        """How many epochs that had."""
        return int(max(self.checks, key=lambda check: check["gain"])["epoch"]) if self.asked else self.epoch

    def run(self, progress: Progress, title: str = "training", until: int | None = None) -> None:
        """Train until the gain falls, to the last epoch, or to epoch `until`."""
        plan = self.plan
        last = plan.epochs if until is None else min(until, plan.epochs)
        if (self.folder / "checkpoint.pt").exists():
            self._restore()
        bar = progress.add_task(title, total=last, completed=self.epoch)
        while self.epoch < last and not self._is_over():
            began_s = time.monotonic()
            line: dict[str, Any] = {"epoch": self.epoch + 1, "loss": round(self._train_epoch(), 5)}
            self.epoch += 1
            if self.asked is not None:
                found = score_of(scores_of(self.kept["mean"], self.asked))  # type: ignore[arg-type]
                line |= {"hit_rate": round(found.hit_rate, 5), "gain": round(found.gain, 5)}
            line |= {"steps": self.steps, "seconds": round(time.monotonic() - began_s, 1)}
            self.checks.append(line)
            if self.best_epoch == self.epoch:
                self.best.load_state_dict(self.kept["mean"].state_dict())
            self._save()
            shown = f"{title}, loss {line['loss']:.3f}" + (f", gain {line['gain']:.3f}" if self.asked else "")
            progress.update(bar, completed=self.epoch, description=shown)

    def _is_over(self) -> bool:
        return self.asked is not None and self.epoch > 0 and self.epoch - self.best_epoch >= self.plan.patience

    def _train_epoch(self) -> float:
        plan = self.plan
        rng = np.random.default_rng((plan.seed, self.epoch))
        torch.manual_seed(plan.seed * 1000 + self.epoch)
        self.network.train()
        groups = list(batches(self.lines, plan, rng))
        losses = []
        for number, (users, rows) in enumerate(groups):
            done = (self.epoch + number / len(groups)) / plan.epochs
            warm = min(1.0, (self.steps + 1) / plan.warmup_steps)
            for group in self.optimiser.param_groups:
                group["lr"] = plan.learning_rate * warm * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))
            drawn = torch.from_numpy(rng.integers(1, self.table_rows, plan.drawn)).to(self.device)
            targets = torch.from_numpy(rows).to(self.device)
            states = self.network.states(torch.from_numpy(users).to(self.device), targets[:, :-1])
            loss = loss_of(states, targets, drawn, self.network, plan.ahead)
            self.optimiser.zero_grad()
            torch.autograd.backward(loss)
            self.optimiser.step()
            self.steps += 1
            losses.append(loss.detach())
            self._average()
        return float(torch.stack(losses).mean())

    @torch.no_grad()
    def _average(self) -> None:
        share = 1 - min(self.plan.averaging, (1 + self.steps) / (10 + self.steps))
        mean: list[Tensor] = list(self.kept["mean"].parameters())
        now: list[Tensor] = list(self.network.parameters())
        torch._foreach_lerp_(mean, now, share)

    def _save(self) -> None:
        text = "".join(json.dumps(line) + "\n" for line in self.checks)
        (self.folder / "progress.jsonl").write_text(text, encoding="utf-8")
        checkpoint.save(self.folder / "checkpoint.pt", self.kept, self.optimiser, self.epoch)

    def _restore(self) -> None:
        self.epoch = checkpoint.restore(self.folder / "checkpoint.pt", self.kept, self.optimiser)
        lines = (self.folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()
        self.checks = [json.loads(line) for line in lines][: self.epoch]
        self.steps = self.checks[-1]["steps"] if self.checks else 0


@dataclass(frozen=True)
class Trained:
    """A network that was trained, and how.

    Attributes:
        network: the running mean of its weights.
        checks: a line of figures an epoch, of the run that chose the epochs.
        epochs: how many the final run had.
        seconds: of both runs.
    """

    network: Any
    checks: Sequence[Mapping[str, Any]]
    epochs: int
    seconds: float


def train(
    make: Callable[[Lines], nn.Module],
    lines: Lines,
    rows: int,
    *,
    plan: TrainingPlan,
    folder: Path,
    progress: Progress,
    device: str = "cpu",
) -> Trained:
    """Return a network trained on every line but its last item, which says when to stop and is never learned from.

    Args:
        make: a fresh network for lines to learn from, which are in rows of the table.
        lines: likewise.
        rows: of the table, with row 0.
        plan: how to learn.
        folder: for checkpoints.
        progress: where to show it.
        device: that trains, "cpu" or "cuda".
    """
    known = lines.without_last()
    plan = plan.fit_to(known)
    asked = questions_of_last(lines, min(NEGATIVES, rows // 4), plan.seed).some(ASKED, plan.seed)
    training = Training(lambda: make(known), known, rows, plan=plan, folder=folder, asked=asked, device=device)
    training.run(progress, folder.name)
    seconds = sum(line["seconds"] for line in training.checks)
    return Trained(training.best, training.checks, training.best_epoch, round(seconds, 1))


def train_feature(
    lines: Lines,
    every: Ids,
    attributes: Mapping[int, Sequence[int]],
    config: ModelConfig,
    *,
    plan: TrainingPlan,
    folder: Path,
    progress: Progress,
    device: str = "cpu",
) -> Trained:
    """Return this feature's network, trained on lines of ids; `every` id has a row, attributes are by id."""
    rows = len(every) + 1
    by_row = attributes_of_rows(attributes, every)

    def make(given: Lines) -> nn.Module:
        return new_network(config, given, rows, by_row, plan)

    known = lines_in_rows(lines, every)
    return train(make, known, rows, plan=plan, folder=folder, progress=progress, device=device)


def new_network(
    config: ModelConfig, lines: Lines, rows: int, attributes: Mapping[int, Sequence[int]], plan: TrainingPlan
) -> FeedRankingNetwork:
    """Return this feature's network before training, for lines in rows and attributes of rows."""
    network = FeedRankingNetwork(config, counts_of(lines, rows), attributes, plan.dropout)
    if plan.spectral:
        begin_spectral(network, lines, rows, config.dim, plan.spectral)
    return network


@torch.no_grad()
def begin_spectral(network: Any, lines: Lines, rows: int, dim: int, size: float) -> None:
    """Let items' vectors begin with those of `spectral_vectors`."""
    begin = 0.05 * size * spectral_vectors(lines, rows, dim)
    network.items.own[1:, :-1] = 0.5 * network.items.own[1:, :-1] + begin[1:]


def spectral_vectors(lines: Lines, rows: int, dim: int) -> Tensor:
    """Return vectors f32 [rows, dim] of items by who touched both: a truncated singular value decomposition."""
    touched = [np.unique(items) for items in lines.items]
    items = torch.from_numpy(np.concatenate(touched))
    users = torch.from_numpy(np.repeat(np.arange(len(touched)), [len(found) for found in touched]))
    weight = (torch.bincount(items, minlength=rows)[items] + 5.0).rsqrt() * torch.bincount(users)[users].rsqrt()
    size = (rows, len(touched))
    matrix = torch.sparse_coo_tensor(torch.stack([items, users]), weight, size, check_invariants=False).coalesce()
    state = torch.get_rng_state()
    torch.manual_seed(0)
    left, values, _ = torch.svd_lowrank(matrix, q=min(dim + 8, *size), niter=4)
    torch.set_rng_state(state)
    vectors = torch.zeros(rows, dim)
    found = (left * values.sqrt())[:, :dim]
    vectors[:, : found.shape[1]] = found / found.std()
    return vectors


def attributes_of_rows(attributes: Mapping[int, Sequence[int]], every: Ids) -> dict[int, Sequence[int]]:
    """Return the attributes of rows of a table instead of ids; what has no row is left out."""
    rows = rows_of(np.array(list(attributes), np.int64), every).tolist()
    return {row: values for row, values in zip(rows, attributes.values(), strict=True) if row}


def lines_in_rows(lines: Lines, every: Ids) -> Lines:
    """Return lines with rows of a table instead of ids."""
    return Lines(lines.users, tuple(rows_of(items, every) for items in lines.items))


def bars() -> Progress:
    """Return how progress looks."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def record_of(config: ModelConfig, plan: TrainingPlan, data: str, trained: Trained) -> dict[str, Any]:
    """Return what is to be known about a run."""
    return {
        "config": config.to_json(),
        "plan": asdict(plan),
        "data": data,
        "epochs": trained.epochs,
        "seconds": trained.seconds,
        "choosing": list(trained.checks),
    }


def main() -> None:
    """Train one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--train", type=Path, required=True, help="a line a user: user item item ...; .xz or plain")
    parser.add_argument("--attributes", type=Path, help="JSON: item to list of attributes; .xz or plain")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--epochs", type=int, help="instead of the plan's")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = PLANS[arguments.version]
    plan, config = replace(plan, epochs=arguments.epochs or plan.epochs), CONFIGS[arguments.version]
    lines = read_lines(arguments.train)
    attributes = read_attributes(arguments.attributes) if arguments.attributes else {}
    every = table_ids(lines, (), attributes)
    with bars() as progress:
        trained = train_feature(lines, every, attributes, config, plan=plan, folder=arguments.run, progress=progress)
    np.save(arguments.run / "table_ids.npy", every)
    save_run(arguments.run, trained.network, config)
    checkpoint.write_record(arguments.run, record_of(config, plan, arguments.train.name, trained))


if __name__ == "__main__":
    main()
