"""Measures int8 on whole networks beside ONNX Runtime's: `python -m benchmarks.quantization.networks [--write PAGE]`.

Networks with published weights and networks trained here (`benchmarks.quantization.train`); those without weights are
left out.  ONNX Runtime is measured where it can be imported; static, QDQ, per channel, with the same samples.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from alcove.runtime import export, load

from benchmarks.__main__ import machine
from benchmarks.quantization import data, peers, pretrained
from benchmarks.quantization.train import PLAN, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

START: Final = "<!-- networks: written by `python -m benchmarks.quantization.networks --write` -->"
END: Final = "<!-- end of networks -->"
SAMPLES: Final = 16
IMAGES: Final = 200
TRAINED_IMAGES: Final = 5000
BATCH: Final = 8


@dataclass(frozen=True)
class Network:
    """A network with data.

    Attributes:
        title: for people.
        module: with its weights.
        samples: for calibration, each its only input.
        score: how good a program is, in `unit`; more is better.
        unit: of the score.
        tested: what the score is of.
    """

    title: str
    module: nn.Module
    samples: list[Tensor]
    score: Callable[[Any], float]
    unit: str
    tested: str


def networks(folder: Path) -> Iterator[Network]:
    """Yield those whose weights and data are there."""
    for name in PLAN:
        if (folder / f"{name}.pt").is_file():
            yield _load_trained(name, folder)
    if (pretrained.SHARED / "mobilenet_v2_imagenet").is_dir():
        yield _imagenet()
        yield _super_resolution()
        yield _low_light()


def _load_trained(name: str, folder: Path) -> Network:
    plan = PLAN[name]
    images = plan.load(data.SHARED)
    module = plan.make()
    module.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    cpu = torch.device("cpu")
    samples = [normalize(images.train[i * BATCH : (i + 1) * BATCH], cpu).contiguous() for i in range(SAMPLES)]
    count = min(TRAINED_IMAGES, len(images.test)) // BATCH * BATCH
    inputs = [normalize(images.test[i : i + BATCH], cpu).contiguous().numpy() for i in range(0, count, BATCH)]
    score = _accuracy(inputs, images.test_labels[:count])
    return Network(f"{name}, trained here", module.eval(), samples, score, "accuracy", f"{count} held-out images")


def _accuracy(inputs: list[Any], labels: Any) -> Callable[[Any], float]:
    def score(run: Any) -> float:
        return 100 * float((np.concatenate([run(x)[0].argmax(axis=1) for x in inputs]) == labels).mean())

    return score


def _imagenet() -> Network:
    pixels, labels = data.tiny_imagenet(2 * IMAGES)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    images = torch.nn.functional.interpolate(images, (224, 224), mode="bilinear", antialias=True)
    module = pretrained.load_weights(pretrained.MobileNetV2(), "mobilenet_v2_imagenet")
    samples = [images[i : i + 1] for i in range(SAMPLES)]
    inputs = [images[i : i + 1].numpy() for i in range(IMAGES, 2 * IMAGES)]
    tested = f"{IMAGES} photos of 64x64 pixels, enlarged"
    return Network("MobileNetV2, ImageNet", module, samples, _accuracy(inputs, labels[IMAGES:]), "accuracy", tested)


def _super_resolution() -> Network:
    pixels = data.scenes().test[:: 510 // 48][:48]
    sharp = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
    small = torch.nn.functional.interpolate(sharp, (16, 16), mode="bicubic", antialias=True).clamp(0, 255)
    samples = [small[i : i + 1] for i in range(SAMPLES)]

    def score(run: Any) -> float:
        noise = [np.square(run(small[i : i + 1].numpy())[0] - sharp[i : i + 1].numpy()).mean() for i in range(16, 48)]
        return float(np.mean([10 * np.log10(255**2 / each) for each in noise]))

    module = pretrained.load_weights(pretrained.SuperResolution(), "rlfn_x4")
    return Network("RLFN, four times the sides", module, samples, score, "PSNR dB", "32 scenes of 64x64 pixels")


def _low_light() -> Network:
    pixels = data.scenes().test[:: 510 // 48][:48]
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 * 0.25
    module = pretrained.load_weights(pretrained.LowLight(), "sci_low_light")
    with torch.no_grad():
        exact = [module(images[i : i + 1]).numpy() for i in range(16, 48)]

    def score(run: Any) -> float:
        pairs = zip((run(images[i : i + 1].numpy())[0] for i in range(16, 48)), exact, strict=True)
        return 10 * float(np.log10(1 / max(1e-9, np.mean([np.square(rough - one).mean() for rough, one in pairs]))))

    samples = [images[i : i + 1] for i in range(SAMPLES)]
    return Network("SCI, brightening", module, samples, score, "PSNR dB to float32", "32 darkened scenes")


COLUMNS: Final = (
    "network",
    "score",
    "float32",
    "int8",
    "ONNX Runtime int8",
    "bytes",
    "of float32",
    "export s",
    "chosen",
)


def measure(network: Network) -> tuple[str, ...]:
    """Return the row of a network under `COLUMNS`."""
    example = (network.samples[0],)
    exact = export(network.module, example)
    begun = time.process_time()
    program = export(network.module, example, quantize="int8", calibration=network.samples)
    seconds = time.process_time() - begun
    scores = [network.score(load(bytes(each)).session()) for each in (exact, program)]
    peer = peers.score_onnxruntime(network.module, network.samples, network.score)
    report = program.quantization
    kinds = [layer.precision for layer in report.layers] if report is not None else []
    chosen = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("int8", "int8 dynamic", "float32") if kind in kinds)
    return (
        network.title,
        f"{network.unit}, {network.tested}",
        *(f"{score:.2f}" for score in scores),
        "–" if peer is None else f"{peer:.2f}",
        f"{len(bytes(program)):,}",
        f"{len(bytes(program)) / len(bytes(exact)):.0%}",
        f"{seconds:.1f}",
        chosen,
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization.networks", description=__doc__)
    parser.add_argument(
        "--weights", type=Path, default=data.CACHE, help="folder of NAME.pt, from ...quantization.train"
    )
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the table between its comments")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for network in networks(arguments.weights):
        lines.append(f"| {' | '.join(measure(network))} |")
        sys.stdout.write(f"{lines[-1]}\n")
        sys.stdout.flush()
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        before, rest = page.split(START)
        after = rest.split(END)[1]
        table = "\n".join((START, "", f"Measured on: {machine()}.", "", *lines, "", END))
        arguments.write.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main()
