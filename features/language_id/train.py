"""Trains one version of the model on one core, with checkpoints, and writes down how.

    python -m alcove.features.language_id.train --data FOLDER --version 3.1.0 --run runs/language_id-3.1.0

The same arguments give the same weights on the same machine: every batch depends on the seed and its step alone, so a
run that was cut off continues from its last checkpoint as if nothing had happened.  The folder of the run holds

    checkpoint.pt   weights, optimiser, step; replaced whole
    progress.jsonl  a line every 100 steps: step, loss, seconds
    run.json        arguments, shape, rows read by source, versions, final loss, temperature
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from alcove.features import checkpoint
from alcove.features.language_id.calibrate import fit, samples
from alcove.features.language_id.config import CONFIGS, LANGUAGES, ModelConfig
from alcove.features.language_id.contract import SENTENCES
from alcove.features.language_id.dataset import BagTable, Corpus, CorpusReader, HeldOut, Sampler
from alcove.features.language_id.network import LanguageIdNetwork, fake_quantize
from alcove.runtime import _native
from rich.progress import Progress, TextColumn
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to learn.

    Attributes:
        steps: batches in all.
        batch_size: texts in a batch.
        learning_rate: of Adagrad, at its peak; it falls to zero in a straight line.
        warmup_steps: rising in a straight line before that.
        quantised_from: share of the steps after which the table is rounded to int8 as it is read.
        other_share: share of texts outside the 75 languages and empty ones, whose target is "equally likely".
        plain_share: share of texts that lose their diacritics.
        frequency_power: words are drawn by frequency ** power.
        held_out: share of the lines that are kept from training, to fit the temperature to.
        dropped: share of the n-grams of a batch that are left out at random, against learning rare ones by heart.
        seed: of everything random.
        checkpoint_every: steps between checkpoints.
        report_every: steps between lines of progress.
    """

    steps: int
    batch_size: int = 8192
    learning_rate: float = 0.2
    warmup_steps: int = 30
    quantised_from: float = 0.8
    other_share: float = 0.02
    plain_share: float = 0.0
    frequency_power: float = 0.4
    held_out: float = 0.0
    dropped: float = 0.15
    seed: int = 1
    checkpoint_every: int = 500
    report_every: int = 100

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * (1 - step / self.steps)


PLANS = {
    "1.0.0": TrainingPlan(steps=4_000),
    "3.1.0": TrainingPlan(steps=6_000, other_share=0.06, plain_share=0.04, held_out=0.02),
}


def loss_of(scores: Tensor, languages: Tensor) -> Tensor:
    """Return the mean cross entropy; a text of none of the languages (-1) should make all equally likely."""
    log_probabilities = functional.log_softmax(scores, dim=1)
    is_ours = languages >= 0
    ours = log_probabilities.gather(1, languages.clamp_min(0)[:, None]).squeeze(1)
    return -torch.where(is_ours, ours, log_probabilities.mean(dim=1)).mean()


def drop_some(
    ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], share: float, seed: tuple[int, ...]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the bags without a random `share` of their ids."""
    is_kept = np.random.default_rng(seed).random(len(ids), dtype=np.float32) >= share
    before = np.concatenate([[0], np.cumsum(is_kept)])
    return ids[is_kept], before[offsets]


class Training(checkpoint.ResumableTraining):
    """One run: the network, its optimiser, and where they are kept.

    Args:
        config: shape of the model.
        plan: how to learn.
        corpus: what from.
        folder: of the run; continued if it holds a checkpoint.
    """

    def __init__(self, config: ModelConfig, plan: TrainingPlan, corpus: Corpus, folder: Path) -> None:
        self.config = config
        self.plan = plan
        self.corpus = corpus
        torch.manual_seed(plan.seed)
        self.network = LanguageIdNetwork(self.config)
        super().__init__(
            plan,
            folder,
            self.network,
            torch.optim.Adagrad(self.network.parameters(), lr=plan.learning_rate, fused=True),
        )
        self.sampler = Sampler(corpus, seed=plan.seed, other_share=plan.other_share, plain_share=plan.plain_share)
        self.bags = BagTable(corpus.words, self.config, _native.ngram_hash_batch)
        self.resume()

    def run(self, until: int | None = None, show: checkpoint.Show | None = None) -> float:
        """Train to the end, or to step `until`; see `ResumableTraining.run_batches`."""
        return self.run_batches(self._train_batch, until, show)

    def calibrate(self, lines: Sequence[HeldOut]) -> dict[str, float]:
        """Fit the temperature to held-out lines, keep it with the weights and return it."""
        kinds = samples(lines, seed=self.plan.seed)
        found = fit(self.network, self.config, kinds, _native.ngram_hash_batch)
        self.save()
        return found

    def _train_batch(self) -> float:
        plan = self.plan
        batch = self.sampler.batch(self.step, plan.batch_size)
        ids, offsets = drop_some(*self.bags.bags(batch), plan.dropped, (plan.seed, self.step, 1))
        is_quantized = self.step >= plan.quantised_from * plan.steps
        table = fake_quantize(self.network.table.weight) if is_quantized else None
        scores = self.network.learn(torch.from_numpy(ids), torch.from_numpy(offsets.astype(np.int32)), table)
        loss = loss_of(scores, torch.from_numpy(batch.languages))
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.step += 1
        return loss.item()


def record_of(training: Training, loss: float, temperature: dict[str, float] | None = None) -> dict[str, Any]:
    """Return what is to be known about a run."""
    return {
        "config": training.config.to_json(),
        "plan": asdict(training.plan),
        "languages": len(LANGUAGES),
        "words": len(training.corpus.words),
        "rows_read": training.corpus.rows_read,
        "final_loss": round(loss, 4),
        "temperature": temperature,
    }


def read_excluded_sentences() -> frozenset[str]:
    """Return the texts of the demo, which are not trained on."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("\t")[1] for line in lines if not line.startswith("#"))


def main() -> None:
    """Train one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with lid_train.tsv.xz and its neighbours")
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--steps", type=int, help="instead of the plan's")
    parser.add_argument("--without", nargs="*", default=[], metavar="SOURCE", help="leave out, to measure on it")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = PLANS[arguments.version]
    if arguments.steps:
        plan = TrainingPlan(**{**asdict(plan), "steps": arguments.steps})
    without = frozenset(arguments.without)
    reader = CorpusReader(
        arguments.data, without=without, excluded=read_excluded_sentences(), seed=plan.seed, held_out=plan.held_out
    )
    corpus = reader.read(frequency_power=plan.frequency_power)
    training = Training(CONFIGS[arguments.version], plan, corpus, arguments.run)
    with Progress(*Progress.get_default_columns(), TextColumn("loss {task.fields[loss]:.3f}")) as progress:
        task = progress.add_task(arguments.version, total=plan.steps, loss=float("nan"))
        mean = 0.0

        def show(step: int, loss: float) -> None:
            nonlocal mean
            mean = 0.98 * mean + 0.02 * loss if mean else loss
            progress.update(task, completed=step, loss=mean)

        loss = training.run(show=show)
    temperature = training.calibrate(reader.held_out_lines) if CONFIGS[arguments.version].weighs else None
    checkpoint.write_record(arguments.run, record_of(training, loss, temperature))


if __name__ == "__main__":
    main()
