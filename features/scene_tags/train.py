"""Trains one network on one core, with checkpoints, and writes down how.

    python -m alcove.features.scene_tags.train --data FOLDER --version 1.1.0 --run runs/scene_tags-1.1.0
    python -m alcove.features.scene_tags.train … --kind plain --run runs/scene_tags-1.1.0-plain

The second is the plain network of the comparison: the same data, steps, losses and rates, nothing chosen for either.
The same arguments give the same weights on the same machine; a run that was cut off continues from its last checkpoint.
The folder of the run holds

    checkpoint.pt   weights, their running average, optimiser, step; replaced whole, last with embedding.py's layer
    progress.jsonl  a line every 100 steps: step, loss, seconds
    run.json        arguments, shape, pictures read by set, versions, final loss

With glibc, training is faster by a quarter when freed memory stays with the process:
MALLOC_MMAP_MAX_=0 MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456.
"""

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from alcove.features import checkpoint
from alcove.features.scene_tags.config import CONFIGS, ModelConfig
from alcove.features.scene_tags.dataset import Batch, Corpus, Pictures, Sampler, read, summary
from alcove.features.scene_tags.embedding import refit
from alcove.features.scene_tags.network import KINDS, SceneNetwork, multiply_adds
from rich.progress import Progress, TextColumn
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to learn.

    Attributes:
        steps: batches in all.
        shares: pictures of each set in a batch.
        learning_rate: of AdamW, at its peak; it falls to zero along a cosine.
        warmup_steps: rising in a straight line before that.
        weight_decay: of AdamW, of matrices and filters.
        small_until: share of the steps with small pictures.
        small_size: their width and height in pixels.
        size: of the pictures after that.
        tags_weight: of the tags' loss, summed over the tags, beside the classes'.
        average_over: steps that the average of the weights looks back on.
        seed: of everything random.
        checkpoint_every: steps between checkpoints.
        report_every: steps between lines of progress.
    """

    steps: int
    shares: tuple[tuple[str, int], ...] = (("tiny", 88), ("scenes", 24), ("cifar", 16))
    learning_rate: float = 3e-3
    warmup_steps: int = 200
    weight_decay: float = 0.03
    small_until: float = 0.8
    small_size: int = 48
    size: int = 64
    tags_weight: float = 0.5
    average_over: float = 200.0
    seed: int = 1
    checkpoint_every: int = 200
    report_every: int = 100

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def size_at(self, step: int) -> int:
        """Return the size of the pictures of a step, in pixels."""
        return self.small_size if step < self.small_until * self.steps else self.size


PLANS = {"1.1.0": TrainingPlan(steps=7_000)}


def loss_of(logits: tuple[Tensor, Tensor], batch: Batch, tags_weight: float) -> Tensor:
    """Return the mean loss of a batch: binary cross entropy of each tag, cross entropy of the classes."""
    tags, classes = (each.float() for each in logits)
    of_tags = functional.binary_cross_entropy_with_logits(tags, batch.tags, reduction="sum") / len(batch.tags)
    return tags_weight * of_tags + functional.cross_entropy(classes, batch.classes)


class Averaged(nn.Module):
    """A network and the running average of its weights, which is what comes out of training."""

    def __init__(self, config: ModelConfig, kind: str) -> None:
        super().__init__()
        self.network = SceneNetwork(config, kind)
        # torch's own annotations leave this form of `to` out.
        cast("Any", self.network).to(memory_format=torch.channels_last)
        self.average = SceneNetwork(config, kind).eval()
        self.average.load_state_dict(self.network.state_dict())

    @torch.no_grad()
    def update(self, step: int, over: float) -> None:
        """Move the average towards the network; early on it follows fast."""
        share = 1 / min(over, 1 + step / 10)
        moving = self.network.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(moving[name], share)


class Training(checkpoint.ResumableTraining):
    """One run: the network, its optimiser, and where they are kept.

    Args:
        config: shape of the model.
        plan: how to learn.
        pictures: what from, by set.
        folder: of the run; continued if it holds a checkpoint.
        kind: "scene_tags" or "plain".
    """

    def __init__(
        self, config: ModelConfig, plan: TrainingPlan, pictures: dict[str, Pictures], folder: Path, kind: str
    ) -> None:
        self.config = config
        self.plan = plan
        self.kind = kind
        self.pictures = pictures
        torch.manual_seed(plan.seed)
        self.model = Averaged(config, kind)
        weights = list(self.model.network.parameters())
        groups = [
            {"params": [each for each in weights if each.ndim > 1], "weight_decay": plan.weight_decay},
            {"params": [each for each in weights if each.ndim <= 1], "weight_decay": 0.0},
        ]
        super().__init__(plan, folder, self.model, torch.optim.AdamW(groups, lr=plan.learning_rate, fused=True))
        self.sampler = Sampler(pictures, dict(plan.shares), plan.seed)
        self.resume()

    def run(self, until: int | None = None, show: checkpoint.Show | None = None) -> float:
        """Train to the end, or to step `until`; see `ResumableTraining.run_batches`."""
        return self.run_batches(self._train_batch, until, show)

    def refit_embedding(self) -> None:
        """Set the average's layers of embedding and classes in closed form (embedding.py) and keep them."""
        refit(self.model.average, self.pictures, self.config.size)
        self.save()

    def _train_batch(self) -> float:
        plan = self.plan
        batch = self.sampler.batch(self.step, plan.size_at(self.step))
        pictures = batch.pictures.to(memory_format=torch.channels_last)
        self.model.network.train()
        # Half the time with bfloat16 products; weights, sums and the loss stay float32.
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model.network(pictures)
        loss = loss_of(logits, batch, plan.tags_weight)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.model.update(self.step, plan.average_over)
        self.step += 1
        return loss.item()


def record_of(training: Training, loss: float, corpus: Corpus) -> dict[str, Any]:
    """Return what is to be known about a run."""
    network = training.model.average
    return {
        "kind": training.kind,
        "config": training.config.to_json(),
        "plan": asdict(training.plan),
        "pictures": summary(corpus),
        "multiply_adds": multiply_adds(network, training.config.size),
        "parameters": sum(each.numel() for each in network.parameters()),
        "final_loss": round(loss, 4),
    }


def main() -> None:
    """Train one network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tiny_imagenet_train.csv and neighbours")
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="plain: the network of the comparison")
    parser.add_argument("--cache", type=Path, help="folder of decoded pictures; by default `pictures` beside the run")
    parser.add_argument("--steps", type=int, help="instead of the plan's")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = PLANS[arguments.version]
    if arguments.steps:
        plan = TrainingPlan(**{**asdict(plan), "steps": arguments.steps})
    corpus = read(arguments.data, arguments.cache or arguments.run.parent / "pictures")
    training = Training(CONFIGS[arguments.version], plan, corpus.train, arguments.run, arguments.kind)
    with Progress(*Progress.get_default_columns(), TextColumn("loss {task.fields[loss]:.3f}")) as progress:
        task = progress.add_task(arguments.kind, total=plan.steps, loss=float("nan"))

        def show(step: int, loss: float) -> None:
            progress.update(task, completed=step, loss=loss)

        loss = training.run(show=show)
    training.refit_embedding()
    checkpoint.write_record(arguments.run, record_of(training, loss, corpus))


if __name__ == "__main__":
    main()
