"""Trains one version of the network, with checkpoints, and writes down how.

    python -m alcove.features.style_transfer.train --run RUN --weights FOLDER --paintings FOLDER --photos FOLDER

Every batch depends on the seed and its step alone, so a run that was cut off continues from its last checkpoint as if
nothing had happened.  The folder of the run holds `checkpoint.pt`, `progress.jsonl` and `run.json`.

Each step paints two frames of each photo, the second one moved and with the noise of a camera's sensor, in styles that
are drawn evenly.  `--start` gives the weights of a run before, whose plan was another.
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features import checkpoint
from alcove.features.style_transfer.config import CONFIGS, STYLES
from alcove.features.style_transfer.dataset import Photos, find_photos, read_painting
from alcove.features.style_transfer.losses import (
    PerceptualMaps,
    camera_motion,
    content_loss,
    gram,
    load_maps,
    move,
    style_loss,
    temporal_loss,
    variation_loss,
)
from alcove.features.style_transfer.network import StyleNetwork
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

__all__ = ["StyleTraining", "TrainingPlan"]

PART: Final = 1_000_003
"""A prime by which the seeds of steps lie apart."""


@dataclass(frozen=True)
class TrainingPlan:
    """How long, on what and how fast to learn.

    Attributes:
        steps: batches in all.
        batch_size: photos in a batch.
        side: of a frame, in pixels, a multiple of 8.
        painting_side: the paintings' shorter side: how large strokes are.
        style_weight: of the manner's loss.
        content_weight: of the content's.
        variation_weight: of the smoothness'.
        temporal_weight: of the time's.
        sensor_noise: standard deviation that the second frame has more, of values in [0, 1].
        learning_rate: of Adam, at its peak; it falls to a tenth by a half cosine.
        style_rate: of the tables of styles, in learning rates: a row learns from its style's photos alone.
        warmup_steps: rising in a straight line before that.
        seed: of weights and batches.
        checkpoint_every: steps between checkpoints.
        report_every: steps between lines of progress.
    """

    steps: int = 1100
    batch_size: int = 3
    side: int = 192
    painting_side: int = 352
    style_weight: float = 40.0
    content_weight: float = 1.0
    variation_weight: float = 0.5
    temporal_weight: float = 20.0
    sensor_noise: float = 0.01
    learning_rate: float = 2e-3
    style_rate: float = 5.0
    warmup_steps: int = 30
    seed: int = 1
    checkpoint_every: int = 25
    report_every: int = 10

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        fall = 0.1 + 0.45 * (1 + np.cos(np.pi * step / self.steps))
        return float(self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * fall)


class StyleTraining(checkpoint.ResumableTraining):
    """Trains a network on photos.

    Args:
        plan: how.
        folder: of the run.
        network: that is trained.
        maps: that say how alike pictures are.
        photos: that are painted.
        paintings: f32 [1, 3, rows, columns] in [0, 1], one for each style of the network.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        folder: Path,
        network: StyleNetwork,
        *,
        maps: PerceptualMaps,
        photos: Photos,
        paintings: list[Tensor],
    ) -> None:
        tables = [each for name, each in network.named_parameters() if "scale" in name or "shift" in name]
        others = [each for name, each in network.named_parameters() if "scale" not in name and "shift" not in name]
        super().__init__(plan, folder, network, torch.optim.Adam([{"params": others}, {"params": tables}]))
        self.plan, self.network, self.maps, self.photos = plan, network, maps, photos
        with torch.no_grad():
            found = [[gram(each) for each in maps(painting)] for painting in paintings]
        self.targets = [torch.cat([grams[at] for grams in found]) for at in range(len(found[0]))]
        self.styles = len(paintings)

    def frames(self, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return first frames, second frames, motions between them, and numbers of styles, of a step.

        Shapes: f32 [n, 3, side, side] twice, f32 [n, 2, 3], int64 [n].
        """
        plan, seed = self.plan, self.plan.seed * PART + step
        rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        numbers = rng.integers(0, len(self.photos), plan.batch_size)
        squares = np.stack([self.photos.square(int(number), plan.side, rng) for number in numbers])
        first = torch.from_numpy(squares).permute(0, 3, 1, 2).to(torch.float32) / 255.0
        motion = camera_motion(plan.batch_size, generator)
        noise = torch.randn(first.shape, generator=generator) * plan.sensor_noise
        second = (move(first, motion)[0] + noise).clamp(0.0, 1.0)
        styles = np.resize(rng.permutation(self.styles), plan.batch_size)
        return first, second, motion, torch.from_numpy(styles)

    def loss(self, step: int) -> Tensor:
        """Return the loss of a step's batch."""
        plan = self.plan
        first, second, motion, numbers = self.frames(step)
        style = torch.nn.functional.one_hot(numbers, self.styles).to(torch.float32)
        painted = self.network(torch.cat((first, second)), torch.cat((style, style)))
        shown, moved = painted.chunk(2)
        maps = self.maps(shown)
        with torch.no_grad():
            of_frames = self.maps(first)
        manner = style_loss(maps, [target[numbers] for target in self.targets])
        total: Tensor = plan.style_weight * manner + plan.content_weight * content_loss(maps, of_frames)
        total = total + plan.variation_weight * variation_loss(shown)
        return total + plan.temporal_weight * temporal_loss(shown, moved, motion)

    def train_batch(self) -> float:
        """Train the next batch, and return its loss."""
        loss = self.loss(self.step)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.param_groups[1]["lr"] *= self.plan.style_rate
        self.optimiser.step()
        self.step += 1
        return float(loss.detach())

    def run(self, until: int | None = None, show: checkpoint.Show | None = None) -> float:
        """Train to the end, or to step `until`, and return the mean loss of the last steps."""
        return self.run_batches(self.train_batch, until, show)


def main() -> None:
    """Train, or continue, and write `run.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="1.0.0", choices=tuple(CONFIGS))
    for name, what in (
        ("--run", "folder of the run"),
        ("--weights", "folder of the published weights"),
        ("--paintings", "folder with paintings.csv"),
        ("--photos", "folder with coco_single_person.csv"),
    ):
        parser.add_argument(name, type=Path, required=True, help=what)
    parser.add_argument("--start", type=Path, help="checkpoint whose weights a new run starts from")
    parser.add_argument("--steps", type=int, default=TrainingPlan.steps)
    parser.add_argument("--until", type=int, help="stop at this step; continue later with the same --run")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = TrainingPlan(steps=arguments.steps)
    torch.manual_seed(plan.seed)
    paintings = [
        torch.from_numpy(read_painting(arguments.paintings, name, plan.painting_side).copy()).permute(2, 0, 1)[None]
        / 255.0
        for name in STYLES
    ]
    network = StyleNetwork(CONFIGS[arguments.version])
    photos = Photos(find_photos(arguments.photos))
    training = StyleTraining(
        plan, arguments.run, network, maps=load_maps(arguments.weights), photos=photos, paintings=paintings
    )
    if not training.resume() and arguments.start is not None:
        network.load_state_dict(torch.load(arguments.start, weights_only=True)["network"])
    bars = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*bars) as progress:
        task = progress.add_task("training", total=plan.steps, completed=training.step)
        loss = training.run(arguments.until, lambda step, _: progress.update(task, completed=step))
    record = {"version": arguments.version, "step": training.step, "loss": loss, "photos": len(photos)}
    record |= {"starts_from_weights": arguments.start is not None}
    checkpoint.write_record(arguments.run, record | {"plan": asdict(plan), "styles": list(STYLES)})


if __name__ == "__main__":
    main()
