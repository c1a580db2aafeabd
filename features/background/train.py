"""Trains the decoder on photos whose license allows it; DeepLab's layers stay as published.

    python -m alcove.features.background.train --weights FOLDER --photos FOLDER --run RUN --minutes 30
    python -m alcove.features.background.train ... --run RUN2 --start RUN          # go on with another run's weights

One thread.  Every few steps make a new frame, so the pool of frames changes while the decoder learns.  The matte of the
frame before is nothing, or the decoder's own answer moved by a few pixels, or the truth with a part missing or added:
so it becomes a hint and no fact.  The learning rate follows the time that is left; RUN/last.pt is the running mean of
the weights, every minute.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.background.composites import FrameMaker
from alcove.features.background.dataset import free_stills
from alcove.features.background.model import BackgroundNetwork, Block, Decoder, Maps
from alcove.features.cutouts.deep_lab import load_deep_lab
from torch import Tensor, nn
from torch.nn import functional

BATCH: Final = 8
FRESH: Final = 2
"""Steps between new frames."""
POOL: Final = 3000
"""Frames that batches are drawn from, at most."""
FIRST: Final = 120
"""Frames before the first step."""
RATE: Final = 3e-3
GO_ON_RATE: Final = 1.5e-3
"""Of a run that goes on with weights."""
DECAY: Final = 0.995
"""Of the running mean of the weights, a step."""
SAVED_EVERY_S: Final = 60.0
NOTHING: Final = 0.4
"""Share of frames with nothing before them,"""
TRUTH: Final = 0.65
"""and from there on up to which it is the spoiled truth."""
SHIFT: Final = 2
"""Cells of stride 4 that the matte before is off, at most."""

Item = tuple[Tensor, Tensor, list[Tensor]]
"""Pixels uint8, alpha as a byte, and DeepLab's maps as 16-bit floats."""


class Pool:
    """Frames with their mattes and maps.

    Args:
        network: whose frozen layers are used.
        maker: of frames.
    """

    def __init__(self, network: BackgroundNetwork, maker: FrameMaker) -> None:
        self._network, self._maker = network, maker
        self._items: list[Item] = []
        self._next = 0

    def grow(self) -> None:
        """Add a frame, in place of the oldest once there are `POOL`."""
        pixels, alpha = self._maker.make()
        given = torch.from_numpy(pixels)
        with torch.no_grad():
            kept = [each.half() for each in self._network.encode(normal(given[None]))]
        item = given, torch.from_numpy(np.rint(alpha * 255).astype(np.uint8)), kept
        if len(self._items) < POOL:
            self._items.append(item)
        else:
            self._items[self._next] = item
            self._next = (self._next + 1) % POOL

    def draw(self, rng: np.random.Generator) -> tuple[Tensor, Tensor, Maps]:
        """Return a batch: x f32 [n, 3, height, width], alpha f32 [n, 1, height, width], and maps."""
        chosen = [self._items[at] for at in rng.integers(0, len(self._items), BATCH)]
        x = normal(torch.stack([pixels for pixels, _, _ in chosen]))
        alpha = torch.stack([alpha for _, alpha, _ in chosen])[:, None].float() / 255
        half, quarter, eighth, deep = (
            torch.cat([maps[at] for _, _, maps in chosen]).float().contiguous(memory_format=torch.channels_last)
            for at in range(4)
        )
        return x, alpha, (half, quarter, eighth, deep)


def normal(pixels: Tensor) -> Tensor:
    """Return pixels uint8 [n, height, width, 3] as the network takes them, f32 [n, 3, height, width]."""
    return (pixels.float() / 128 - 1).permute(0, 3, 1, 2)


def matte_before(decoder: Decoder, batch: tuple[Tensor, Tensor, Maps], rng: np.random.Generator) -> Tensor:
    """Return what may have been the matte of the frame before, f32 [n, 1, height / 4, width / 4]."""
    x, alpha, maps = batch
    truth = functional.avg_pool2d(alpha, 4)
    kinds = rng.random(len(x))
    found = torch.zeros_like(truth)
    own = found.clone()
    if len(asked := torch.from_numpy(np.flatnonzero(kinds >= TRUTH))):
        half, quarter, eighth, deep = (each[asked] for each in maps)
        with torch.no_grad():
            logits = decoder(x[asked], (half, quarter, eighth, deep), found[asked])
        own[asked] = functional.avg_pool2d(torch.sigmoid(logits), 4)
    for at, kind in enumerate(kinds):
        if kind < NOTHING:
            continue
        given = own[at] if kind >= TRUTH else truth[at]
        down, across = (int(each) for each in rng.integers(-SHIFT, SHIFT + 1, 2))
        given = torch.roll(given, (down, across), (1, 2))
        if kind < TRUTH or rng.random() < 0.2:
            given = _perturb(given, truth[int(rng.integers(len(x)))], rng)
        found[at] = given
    return found


def _perturb(given: Tensor, other: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a matte [1, rows, columns] wider or narrower, with a box of another, and sometimes faint."""
    reach = int(rng.integers(0, 3))
    if reach:
        widened = functional.max_pool2d(given, 2 * reach + 1, 1, reach)
        narrowed = -functional.max_pool2d(-given, 2 * reach + 1, 1, reach)
        given = widened if rng.random() < 0.5 else narrowed
    if rng.random() < 0.5:
        rows, columns = given.shape[1:]
        top, left = int(rng.integers(0, rows - 4)), int(rng.integers(0, columns - 4))
        high, wide = int(rng.integers(3, rows // 2)), int(rng.integers(3, columns // 2))
        given = given.clone()
        part = (0, slice(top, top + high), slice(left, left + wide))
        given[part] = other[part] if rng.random() < 0.5 else float(rng.random() < 0.5)
    if rng.random() < 0.3:
        given = given * float(rng.uniform(0.5, 1.0))
    return given


def loss_of(logits: Tensor, alpha: Tensor) -> Tensor:
    """Return the loss: cross entropy, heavier at edges, and one minus soft IoU of frames with people."""
    edge = (functional.avg_pool2d(alpha, 9, 1, 4) - alpha).abs()
    entropy = functional.binary_cross_entropy_with_logits(logits, alpha, reduction="none")
    share = torch.sigmoid(logits)
    both = (share * alpha).sum((1, 2, 3))
    either = (share + alpha - share * alpha).sum((1, 2, 3))
    return (entropy * (1 + 4 * edge)).mean() * 2 + (1 - (both + 50) / (either + 50)).mean()


@torch.no_grad()
def scale_layers(decoder: Decoder, batch: tuple[Tensor, Tensor, Maps]) -> None:
    """Scale each layer so that what it gives has mean 0 and variance 1, as of a batch, in place of normalization.

    Source: Mishkin and Matas, "All you need is a good init" (2016).
    """

    def scale(layer: nn.Module, _: object, output: Tensor) -> Tensor:
        if not isinstance(layer, nn.Conv2d) or layer.bias is None:
            raise TypeError("only convolutions with a bias are scaled")
        spread, mean = torch.std_mean(output, (0, 2, 3), correction=0)
        spread = spread + 1e-3
        layer.weight.div_(spread[:, None, None, None])
        layer.bias.copy_((layer.bias - mean) / spread)
        return (output - mean[:, None, None]) / spread[:, None, None]

    layers = [layer for layer in decoder.modules() if isinstance(layer, nn.Conv2d)]
    hooks = [layer.register_forward_hook(scale) for layer in layers]
    x, alpha, maps = batch
    decoder(x, maps, functional.avg_pool2d(alpha, 4))
    for hook in hooks:
        hook.remove()
    for block in decoder.modules():
        if isinstance(block, Block):
            block.pointwise.weight.mul_(0.3)
    decoder.logits.weight.mul_(0.1)
    decoder.logits.bias.fill_(-1.0)  # type: ignore[union-attr]  # it has one


def keep_channels_last(decoder: Decoder) -> None:
    """Let every convolution read and write the channels of a pixel side by side, which is several times faster."""
    decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack it
    for layer in decoder.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_pre_hook(lambda _, given: (given[0].contiguous(memory_format=torch.channels_last),))


def train(  # noqa: PLR0917 - what a run is made of
    network: BackgroundNetwork, maker: FrameMaker, run: Path, seconds: float, seed: int, start: Path | None = None
) -> None:
    """Train until the time is over; write the weights and the record of their making to `run`.

    Args:
        network: whose decoder learns.
        maker: of frames.
        run: folder that is written to.
        seconds: of training.
        seed: of what is drawn.
        start: folder of a run whose weights the decoder begins with, at a lower rate; or None.
    """
    rng = np.random.default_rng(seed)
    decoder = network.decoder
    keep_channels_last(decoder)
    pool = Pool(network, maker)
    for _ in range(FIRST):
        pool.grow()
    steps_before, seconds_before = 0, 0.0
    if start is None:
        scale_layers(decoder, pool.draw(rng))
    else:
        decoder.load_state_dict(torch.load(start / "last.pt", weights_only=True))
        record = json.loads((start / "run.json").read_text(encoding="utf-8"))
        steps_before, seconds_before = record["steps"], 60 * record["minutes"]
    rate = RATE if start is None else GO_ON_RATE
    optimizer = torch.optim.AdamW(decoder.parameters(), rate, weight_decay=0.01)
    mean = {name: value.detach().clone() for name, value in decoder.state_dict().items()}
    began = saved = time.monotonic()
    steps, shown, ious = 0, 0.0, 0.0
    while (spent := time.monotonic() - began) < seconds:
        if steps % FRESH == 0:
            pool.grow()
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, steps / 100 + 0.01) * (0.5 + 0.5 * np.cos(np.pi * spent / seconds))
        batch = pool.draw(rng)
        x, alpha, maps = batch
        logits = decoder(x, maps, matte_before(decoder, batch, rng))
        loss = loss_of(logits, alpha)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # of torch
        nn.utils.clip_grad_norm_(decoder.parameters(), 2.0)
        optimizer.step()
        steps += 1
        decay = min(DECAY, steps / (steps + 20))
        for name, value in decoder.state_dict().items():
            mean[name].lerp_(value, 1 - decay)
        with torch.no_grad():
            found, wanted = logits > 0, alpha > 0.5
            ious += ((found & wanted).sum((1, 2, 3)) / (found | wanted).sum((1, 2, 3)).clamp(1)).mean().item()
        shown += loss.item()
        if steps % 50 == 0:
            print(f"{spent / 60:5.1f} min {steps:6d} loss {shown / 50:.4f} IoU {ious / 50:.3f}", flush=True)  # noqa: T201 (what the command is for)
            shown = ious = 0.0
        if time.monotonic() - saved > SAVED_EVERY_S:
            saved = time.monotonic()
            save(run, mean, steps_before + steps, seconds_before + spent)
    save(run, mean, steps_before + steps, seconds_before + time.monotonic() - began)


def save(run: Path, mean: dict[str, Tensor], steps: int, seconds: float) -> None:
    """Write the decoder's weights, and the record of their making, with that of the runs before."""
    torch.save(mean, run / "new.pt")
    (run / "new.pt").replace(run / "last.pt")
    record = {"steps": steps, "batch": BATCH, "minutes": round(seconds / 60, 1), "threads": 1}
    (run / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--run", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="folder of a run to go on with")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    arguments.run.mkdir(parents=True, exist_ok=True)
    network = BackgroundNetwork(load_deep_lab(arguments.weights))
    maker = FrameMaker(free_stills(arguments.photos), arguments.seed)
    train(network, maker, arguments.run, arguments.minutes * 60, arguments.seed, arguments.start)


if __name__ == "__main__":
    main()
