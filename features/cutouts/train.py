"""Trains neck and decoder on photos whose license allows it; DeepLab's layers stay as published.

    python -m alcove.features.cutouts.train --weights FOLDER --photos FOLDER --run RUN --minutes 35

One thread.  Every few steps make a new picture, so the pool of pictures changes while the network learns.  A mask is
corrected by up to two taps where it is most wrong, as people do (Sofiiuk et al., "Reviving iterative training with mask
guidance for interactive segmentation", 2021).  The learning rate follows the time that is left; RUN/last.pt is the
mean of the weights so far, every three minutes.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.cutouts.composites import Picture, PictureMaker
from alcove.features.cutouts.config import TAPS, TRAINED
from alcove.features.cutouts.dataset import Photo, free_photos
from alcove.features.cutouts.deep_lab import load_deep_lab
from alcove.features.cutouts.model import Block, CutoutNetwork, Maps
from alcove.features.cutouts.prompts import draw_prompts
from torch import Tensor, nn
from torch.nn import functional

BATCH: Final = 12
MASK: Final = TRAINED // 2
GRID: Final = TRAINED // 4
FRESH: Final = 3
"""Steps between new pictures."""
POOL: Final = 1400
"""Pictures that batches are drawn from, at most."""
FIRST: Final = 160
"""Pictures before the first step."""
RATE: Final = 3e-3
DECAY: Final = 0.995
"""Of the running mean of the weights, a step."""
SAVED_EVERY_S: Final = 150.0
MARGIN: Final = 0.12
"""Largest share of its width and height that a side of a box is off."""


class Pool:
    """Pictures, with DeepLab's maps of them as 16-bit floats.

    Args:
        network: whose frozen layers are used.
        maker: of pictures.
    """

    def __init__(self, network: CutoutNetwork, maker: PictureMaker) -> None:
        self._network, self._maker = network, maker
        self._items: list[tuple[Picture, list[Tensor]]] = []
        self._next = 0

    def grow(self) -> None:
        """Add a picture, in place of the oldest once there are `POOL`."""
        picture = self._maker.make()
        with torch.no_grad():
            x = _normal(torch.from_numpy(picture.pixels.copy())[None])
            found = self._network.deep_lab.maps(x)
            kept = [each.half() for each in (*found, self._network.deep_lab.classes(found[-1]))]
        if len(self._items) < POOL:
            self._items.append((picture, kept))
        else:
            self._items[self._next] = (picture, kept)
            self._next = (self._next + 1) % POOL

    def draw(self, rng: np.random.Generator) -> tuple[list[Picture], Tensor, list[Tensor]]:
        """Return a batch: pictures, f32 [n, 3, TRAINED, TRAINED], and DeepLab's maps."""
        chosen = [self._items[at] for at in rng.integers(0, len(self._items), BATCH)]
        pictures = [picture for picture, _ in chosen]
        x = _normal(torch.from_numpy(np.stack([picture.pixels for picture in pictures])))
        maps = [
            torch.cat([maps[at] for _, maps in chosen]).float().contiguous(memory_format=torch.channels_last)
            for at in range(5)
        ]
        return pictures, x, maps


def _normal(pixels: Tensor) -> Tensor:
    return (pixels.float() / 128 - 1).permute(0, 3, 1, 2)


def first_prompts(pictures: list[Picture], rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masks to find, f32 [n, 1, MASK, MASK], and the first taps and boxes: a tap, a box, both or nothing."""
    targets = np.zeros((len(pictures), 1, TRAINED, TRAINED), np.float32)
    taps = np.zeros((len(pictures), TAPS, 3), np.float32)
    boxes = np.zeros((len(pictures), 4), np.float32)
    for at, picture in enumerate(pictures):
        kind = rng.random()
        if picture.salient and kind < 0.3:
            targets[at, 0] = picture.objects == picture.salient
            continue
        value = picture.values[rng.integers(len(picture.values))]
        mask = picture.objects == value
        targets[at, 0] = mask
        down, across = np.nonzero(mask)
        if kind < 0.85:
            taps[at, 0] = (*_inner_point(mask, down, across, rng), 1)
        if kind >= 0.8:
            edges = np.array([across.min(), down.min(), across.max() + 1, down.max() + 1]) / TRAINED
            size = np.tile([edges[2] - edges[0], edges[3] - edges[1]], 2)
            boxes[at] = np.clip(edges + size * rng.uniform(-MARGIN / 2, MARGIN, 4) * [-1, -1, 1, 1], 0, 1)
    return (
        functional.avg_pool2d(torch.from_numpy(targets), TRAINED // MASK),
        torch.from_numpy(taps),
        torch.from_numpy(boxes),
    )


def _inner_point(
    mask: np.ndarray[Any, Any], down: np.ndarray[Any, Any], across: np.ndarray[Any, Any], rng: np.random.Generator
) -> tuple[float, float]:
    """Return a place on a thing, as shares; of eight random ones the one with the most of it around, mostly."""
    tried = rng.integers(0, len(down), 1 if rng.random() < 0.3 else 8)
    reach = max(2, int(0.2 * np.sqrt(len(down))))
    held = [
        mask[max(0, down[at] - reach) : down[at] + reach + 1, max(0, across[at] - reach) : across[at] + reach + 1].sum()
        for at in tried
    ]
    best = tried[int(np.argmax(held))]
    return float(across[best] + 0.5) / TRAINED, float(down[best] + 0.5) / TRAINED


def correct(taps: Tensor, number: int, logits: Tensor, target: Tensor) -> None:
    """Write the tap `number`: where the mask is most wrong, to add or to remove.

    Args:
        taps: f32 [n, TAPS, 3].
        number: of the tap to write.
        logits: f32 [n, 1, MASK, MASK], of the mask so far.
        target: f32 [n, 1, MASK, MASK].
    """
    wrong = functional.avg_pool2d((target > 0.5).float() - (logits > 0).float(), 2)
    size = wrong.shape[3]
    wide = functional.avg_pool2d(wrong, 9, 1, 4) + 0.3 * wrong
    flat = (wide.abs() + 0.05 * torch.rand_like(wide) * (wide != 0)).flatten(1)
    best = flat.argmax(1)
    sign = torch.sign(wide.flatten(1).gather(1, best[:, None])[:, 0])
    taps[:, number, 0] = ((best % size).float() + 0.5) / size
    taps[:, number, 1] = (torch.div(best, size, rounding_mode="floor").float() + 0.5) / size
    taps[:, number, 2] = sign


@torch.no_grad()
def scale_layers(network: CutoutNetwork, pool: Pool, rng: np.random.Generator) -> None:
    """Scale each layer so that what it gives has mean 0 and variance 1, as of a batch, in place of normalization.

    Source: Mishkin and Matas, "All you need is a good init" (2016).
    """
    layers = [layer for layer in (*network.neck.modules(), *network.decoder.modules()) if isinstance(layer, nn.Conv2d)]

    def scale(layer: nn.Module, _: object, output: Tensor) -> Tensor:
        if not isinstance(layer, nn.Conv2d) or layer.bias is None:
            raise TypeError("only convolutions with a bias are scaled")
        spread, mean = torch.std_mean(output, (0, 2, 3), correction=0)
        spread = spread + 1e-3
        layer.weight.div_(spread[:, None, None, None])
        layer.bias.copy_((layer.bias - mean) / spread)
        return (output - mean[:, None, None]) / spread[:, None, None]

    hooks = [layer.register_forward_hook(scale) for layer in layers]
    step(network, pool, rng, corrections=0)
    for hook in hooks:
        hook.remove()
    for block in network.decoder.modules():
        if isinstance(block, Block):
            block.pointwise.weight.mul_(0.3)
    network.decoder.logits.weight.mul_(0.1)
    network.decoder.logits.bias.fill_(-2.0)  # type: ignore[union-attr]  # it has one


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss: cross entropy, heavier at edges, and one minus soft IoU."""
    edge = (functional.avg_pool2d(target, 5, 1, 2) - target).abs()
    entropy = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    weight = 1 + 4 * edge
    share = torch.sigmoid(logits)
    both = (share * target).sum((1, 2, 3))
    either = (share + target - share * target).sum((1, 2, 3))
    return (entropy * weight).mean() * 2 + (1 - (both + 1) / (either + 1)).mean()


def step(
    network: CutoutNetwork, pool: Pool, rng: np.random.Generator, corrections: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch, and its mean IoU; after up to two corrections, or as many as are given."""
    pictures, x, found = pool.draw(rng)
    target, taps, boxes = first_prompts(pictures, rng)
    maps: Maps = network.neck(x, found[:4], found[4])
    before = torch.zeros(len(pictures), 1, GRID, GRID)
    if corrections is None:
        corrections = int(rng.choice([0, 1, 2], p=[0.6, 0.25, 0.15]))
    for number in range(1, corrections + 1):
        with torch.no_grad():
            logits = network.decoder(maps, draw_prompts(taps, boxes, GRID), before)
            before = functional.avg_pool2d(torch.sigmoid(logits), MASK // GRID)
            correct(taps, number, logits, target)
    logits = network.decoder(maps, draw_prompts(taps, boxes, GRID), before)
    with torch.no_grad():
        mask, wanted = logits > 0, target > 0.5
        iou = ((mask & wanted).sum((1, 2, 3)) / ((mask | wanted).sum((1, 2, 3)) + 1)).mean()
    return loss_of(logits, target), iou


def _keep_channels_last(network: CutoutNetwork) -> None:
    """Let every convolution read and write the channels of a pixel side by side, which is several times faster."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack it
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_pre_hook(lambda _, given: (given[0].contiguous(memory_format=torch.channels_last),))


def parameters(network: CutoutNetwork) -> Iterator[nn.Parameter]:
    """Return what is trained."""
    yield from network.neck.parameters()
    yield from network.decoder.parameters()


def main() -> None:
    """Train until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--run", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--minutes", type=float, default=35.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    arguments.run.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    network = CutoutNetwork(load_deep_lab(arguments.weights))
    _keep_channels_last(network)
    photos = free_photos(arguments.photos)
    pool = Pool(network, PictureMaker(photos, arguments.seed))
    for _ in range(FIRST):
        pool.grow()
    scale_layers(network, pool, rng)
    optimizer = torch.optim.AdamW(list(parameters(network)), RATE, weight_decay=0.01)
    began = saved = time.monotonic()
    seconds = arguments.minutes * 60
    mean: dict[str, Tensor] = {}
    steps, shown, ious = 0, 0.0, 0.0
    while (spent := time.monotonic() - began) < seconds:
        if steps % FRESH == 0:
            pool.grow()
        left = 1 - spent / seconds
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, steps / 100 + 0.01) * (0.5 - 0.5 * np.cos(np.pi * min(1.0, left)))
        loss, iou = step(network, pool, rng)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # of torch
        nn.utils.clip_grad_norm_(list(parameters(network)), 2.0)
        optimizer.step()
        steps += 1
        decay = min(DECAY, steps / (steps + 20))
        for name, value in network.state_dict().items():
            if not name.startswith("deep_lab"):
                old = mean.setdefault(name, value.detach().clone())
                if value.is_floating_point():
                    old.lerp_(value, 1 - decay)
        shown, ious = shown + loss.item(), ious + iou.item()
        if steps % 50 == 0:
            print(f"{spent / 60:5.1f} min {steps:6d} loss {shown / 50:.4f} IoU {ious / 50:.3f}", flush=True)  # noqa: T201 (what the command is for)
            shown = ious = 0.0
        if time.monotonic() - saved > SAVED_EVERY_S:
            saved = time.monotonic()
            save(arguments.run, mean, steps, photos, spent)
    save(arguments.run, mean, steps, photos, time.monotonic() - began)


def save(run: Path, mean: dict[str, Tensor], steps: int, photos: list[Photo], seconds: float) -> None:
    """Write the weights, and the record of their making."""
    torch.save(mean, run / "new.pt")
    (run / "new.pt").replace(run / "last.pt")
    record = {"steps": steps, "batch": BATCH, "photos": len(photos), "minutes": round(seconds / 60, 1), "threads": 1}
    (run / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
