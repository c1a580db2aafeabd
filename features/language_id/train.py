"""Trains one version of the model, with checkpoints, and writes down how.

    python -m alcove.features.language_id.train --data FOLDER --version 4.1.0 --run runs/language_id-4.1.0 --device cuda

The same arguments give the same weights on the same CPU: every batch depends on the seed and its step alone, so a run
that was cut off continues from its last checkpoint as if nothing had happened.  (A GPU adds in another order each
time.)  The folder of the run holds

    checkpoint.pt   weights, optimiser, step; replaced whole
    progress.jsonl  a line every 100 steps: step, loss, seconds
    run.json        arguments, shape, rows read by source, versions, final loss
"""

import argparse
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from alcove.features import checkpoint
from alcove.features.language_id.config import CONFIGS, LANGUAGES, ModelConfig
from alcove.features.language_id.contract import SENTENCES
from alcove.features.language_id.dataset import Corpus, CorpusReader
from alcove.features.language_id.network import LanguageIdNetwork, fake_quantize
from alcove.features.language_id.sampling import BagTable, Sampler, SamplingPlan, keep
from alcove.runtime import _native
from rich.progress import Progress, TextColumn
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to learn.

    Attributes:
        steps: batches in all.
        sampling: what is drawn.
        batch_size: texts in a batch.
        block: batches that are drawn at once: a GPU then waits less.
        learning_rate: of Adagrad, at its peak; it falls to zero in a straight line.
        warmup_steps: rising in a straight line before that.
        quantised_from: share of the steps after which the table is rounded to int8 as it is read.
        dropped: share of the n-grams of a batch that are left out at random, against learning rare ones by heart.
        seed: of everything random.
        checkpoint_every: steps between checkpoints.
        report_every: steps between lines of progress.
    """

    steps: int
    sampling: SamplingPlan = field(default_factory=SamplingPlan)
    batch_size: int = 8192
    block: int = 1
    learning_rate: float = 0.2
    warmup_steps: int = 30
    quantised_from: float = 0.8
    dropped: float = 0.15
    seed: int = 1
    checkpoint_every: int = 500
    report_every: int = 100

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * (1 - step / self.steps)


PLANS = {
    "1.0.0": TrainingPlan(steps=4_000),
    "4.1.0": TrainingPlan(
        steps=63_225,
        sampling=SamplingPlan(other_share=0.06, plain_share=0.04, mistyped_share=0.04),
        block=32,
    ),
}


def loss_of(scores: Tensor, languages: Tensor) -> Tensor:
    """Return the mean cross entropy; a text of none of the languages (-1) should make all equally likely."""
    log_probabilities = functional.log_softmax(scores, dim=1)
    is_ours = languages >= 0
    ours = log_probabilities.gather(1, languages.clamp_min(0)[:, None]).squeeze(1)
    return -torch.where(is_ours, ours, log_probabilities.mean(dim=1)).mean()


class Training(checkpoint.ResumableTraining):
    """One run: the network, its optimiser, and where they are kept.

    Args:
        config: shape of the model.
        plan: how to learn.
        sampler: what from.
        bags: of the sampler's words.
        folder: of the run; continued if it holds a checkpoint.
    """

    def __init__(self, config: ModelConfig, plan: TrainingPlan, sampler: Sampler, bags: BagTable, folder: Path) -> None:
        self.config = config
        self.plan = plan
        self.sampler = sampler
        self.bags = bags
        self.device = sampler.device
        torch.manual_seed(plan.seed)
        self.network = LanguageIdNetwork(config).to(self.device)
        is_fused = self.device.type == "cpu"
        optimiser = torch.optim.Adagrad(self.network.parameters(), lr=plan.learning_rate, fused=is_fused)
        super().__init__(plan, folder, self.network, optimiser)
        self._block: _Block | None = None
        self.resume()

    def run(self, until: int | None = None, show: checkpoint.Show | None = None) -> float:
        """Train to the end, or to step `until`; see `ResumableTraining.run_batches`."""
        return self.run_batches(lambda: self.learn_batch().item(), until, show)

    def learn_batch(self) -> Tensor:
        """Train on the next batch and return its loss, which a GPU may still be computing."""
        plan = self.plan
        ids, starts, languages = self._draw()
        is_quantized = self.step >= plan.quantised_from * plan.steps
        table = fake_quantize(self.network.table.weight) if is_quantized else None
        loss = loss_of(self.network.learn(ids, starts, table), languages)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.step += 1
        return loss.detach()

    def _draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return (ids, starts, languages) of the step's batch."""
        plan = self.plan
        number, at = divmod(self.step, plan.block)
        if self._block is None or self._block.number != number:
            batch = self.sampler.batch(number, plan.batch_size * plan.block)
            ids, starts = self.bags.bags(batch)
            random = torch.Generator(self.device).manual_seed(plan.seed * 1_000_003 + number + 500_000)
            ids, starts = keep(ids, starts, torch.rand(len(ids), generator=random, device=self.device) >= plan.dropped)
            self._block = _Block(number, ids, starts, batch.languages, starts[:: plan.batch_size].tolist())
        block, first = self._block, at * plan.batch_size
        a, b = block.bounds[at : at + 2]
        own = slice(first, first + plan.batch_size)
        return block.ids[a:b], (block.starts[own] - a).to(block.ids.dtype), block.languages[own]


class _Block(NamedTuple):
    """Batches that were drawn at once: `bounds` are where the ids of each begin, and the end."""

    number: int
    ids: Tensor
    starts: Tensor
    languages: Tensor
    bounds: list[int]


def record_of(training: Training, corpus: Corpus, without: frozenset[str], loss: float) -> dict[str, Any]:
    """Return what is to be known about a run."""
    return {
        "config": training.config.to_json(),
        "plan": asdict(training.plan),
        "languages": len(LANGUAGES),
        "words": len(corpus.words),
        "rows_read": {source: count for source, count in corpus.rows_read.items() if source not in without},
        "device": torch.cuda.get_device_name() if training.device.type == "cuda" else "cpu",
        "final_loss": round(loss, 4),
    }


def read_excluded_sentences() -> frozenset[str]:
    """Return the texts of the demo, which are not trained on."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("\t")[1] for line in lines if not line.startswith("#"))


def main() -> None:
    """Train one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with lid_train.tsv.xz and its neighbours")
    parser.add_argument("--version", choices=sorted(PLANS), required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--steps", type=int, help="instead of the plan's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], metavar="SOURCE", help="leave out, to measure on it")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--device", default="cpu", help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = replace(PLANS[arguments.version], seed=arguments.seed)
    if arguments.steps:
        plan = replace(plan, steps=arguments.steps)
    config, without = CONFIGS[arguments.version], frozenset(arguments.without)
    corpus = CorpusReader(arguments.data, excluded=read_excluded_sentences(), seed=1).read()
    sampler = Sampler(corpus, plan.sampling, seed=plan.seed, without=without, device=arguments.device)
    bags = BagTable(corpus.words, config, _native.ngram_hash_batch, arguments.device)
    training = Training(config, plan, sampler, bags, arguments.run)
    with Progress(*Progress.get_default_columns(), TextColumn("loss {task.fields[loss]:.3f}")) as progress:
        task = progress.add_task(arguments.version, total=plan.steps, loss=float("nan"))
        loss = training.run(show=lambda step, loss: progress.update(task, completed=step, loss=loss))
    checkpoint.write_record(arguments.run, record_of(training, corpus, without, loss))


if __name__ == "__main__":
    main()
