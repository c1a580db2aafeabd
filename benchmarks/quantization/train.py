"""Train the vision models: `python -m benchmarks.quantization.train [--device cuda] [--data DIR] [--out DIR]`.

Needs torch and a JPEG decoder, nothing of alcove: it can run on another machine.  A few minutes each on one CPU
core.  Seeds are fixed; two machines still give other weights, and the figures say
which were measured.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor, nn

from benchmarks.quantization import data, mobile, models, transformers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

BATCH: Final = 128


@dataclass(frozen=True)
class Plan:
    """How a model is trained.

    Attributes:
        title: for people.
        load: gives the images in a folder.
        make: gives the model.
        epochs: passes over the images.
        shift: pixels by which an image is moved at random.
        is_adaptive: AdamW instead of momentum.
    """

    title: str
    load: Callable[[Path], data.Images]
    make: Callable[[], nn.Module]
    epochs: int
    shift: int
    is_adaptive: bool = False


PLAN: Final[dict[str, Plan]] = {
    "mobilenet_v2": Plan("MobileNetV2, quarter width, CIFAR-10", data.cifar10, mobile.mobilenet_v2, 1, 2),
    "resnet": Plan("ResNet-18, quarter width, scenes", data.scenes, models.ResNet18Quarter, 4, 6),
    "vit": Plan("ViT, CIFAR-10", data.cifar10, transformers.VisionTransformer, 1, 2, is_adaptive=True),
    "efficientnet": Plan("EfficientNet, quarter width, CIFAR-10", data.cifar10, mobile.efficientnet, 1, 2),
    "convnext": Plan("ConvNeXt, CIFAR-10", data.cifar10, transformers.ConvNeXt, 1, 2, is_adaptive=True),
    "mobilenet": Plan("MobileNetV3-small, CIFAR-10", data.cifar10, models.MobileNetV3Small, 1, 2),
}


def main() -> None:
    """Train what is asked for, print accuracies, keep the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=data.SHARED, help="folder of the packed images")
    parser.add_argument("--out", type=Path, default=data.CACHE, help="folder for NAME.pt")
    parser.add_argument("--only", choices=sorted(PLAN), action="append")
    parser.add_argument("--epochs", type=int, help="instead of the plan's")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or list(PLAN):
        plan = PLAN[name]
        images = plan.load(arguments.data)
        torch.manual_seed(3)
        model = plan.make()
        accuracy = train(model, images, plan, arguments.epochs or plan.epochs, torch.device(arguments.device))
        state = {
            key: value.float().cpu() if value.is_floating_point() else value.cpu()
            for key, value in model.state_dict().items()
        }
        torch.save(state, arguments.out / f"{name}.pt")
        sys.stdout.write(f"{name}: accuracy {accuracy:.4f} on {len(images.test)} held-out images\n")


def train(model: nn.Module, images: data.Images, plan: Plan, epochs: int, device: torch.device) -> float:
    """Train a model in place; return its accuracy on the held-out images."""
    model.to(device=device)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch declares it beside a dtype only
    x, y = normalize(images.train, device), torch.from_numpy(images.train_labels).to(device)
    steps = epochs * (len(x) // BATCH)
    optimiser: torch.optim.Optimizer
    if plan.is_adaptive:
        rate = 3e-3
        optimiser = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    else:
        rate = 0.2
        optimiser = torch.optim.SGD(model.parameters(), rate, 0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps, pct_start=0.2)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    random = torch.Generator(device="cpu").manual_seed(5)
    started = time.monotonic()
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(x), generator=random).to(device)
        total = 0.0
        for start in range(0, len(x) // BATCH * BATCH, BATCH):
            batch = order[start : start + BATCH]
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = loss_of(model(_shift_images(x[batch], plan.shift, random)), y[batch])
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) if start % (16 * BATCH) == 0 else 0.0
        sys.stdout.write(
            f"  epoch {epoch + 1}/{epochs}: loss {float(loss.detach()):.3f}, {time.monotonic() - started:.0f} s\n"
        )
        sys.stdout.flush()
        if not math.isfinite(total):
            raise ArithmeticError(f"the loss is {total} in epoch {epoch}")
    return _accuracy(model, images, device)


def normalize(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], device: torch.device) -> Tensor:
    """Return uint8 [n, h, w, 3] as the models take it, f32 [n, 3, h, w]."""
    x = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float() / 255
    mean, deviation = (
        torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (models.MEAN, models.DEVIATION)
    )
    return ((x - mean) / deviation).contiguous(memory_format=torch.channels_last)


def _shift_images(x: Tensor, shift: int, random: torch.Generator) -> Tensor:
    """Return images flipped and shifted at random, each by itself."""
    n, _, height, width = x.shape
    flips = (torch.rand(n, generator=random) < 0.5).to(x.device)
    x = torch.where(flips[:, None, None, None], x.flip(3), x)
    padded = nn.functional.pad(x, (shift,) * 4)
    rows = torch.randint(0, 2 * shift + 1, (n, 1), generator=random) + torch.arange(height)
    columns = torch.randint(0, 2 * shift + 1, (n, 1), generator=random) + torch.arange(width)
    index = torch.arange(n, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows.to(x.device)[:, :, None], columns.to(x.device)[:, None, :]].permute(
        0, 3, 1, 2
    )


@torch.no_grad()
def _accuracy(model: nn.Module, images: data.Images, device: torch.device) -> float:
    model.eval()
    right = 0
    for start in range(0, len(images.test), BATCH):
        x = normalize(images.test[start : start + BATCH], device)
        right += int((model(x).argmax(1).cpu().numpy() == images.test_labels[start : start + BATCH]).sum())
    return right / len(images.test)


if __name__ == "__main__":
    main()
