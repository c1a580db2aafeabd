r"""Trains the network on mixtures, from the published weights on; any checkpoint can be built.

python -m alcove.features.noise_suppression.train --data ../shared/data/audio_calls \
    --weights ../shared/data/pretrained --cache ~/decoded --run runs/noise_suppression --minutes 40
"""

import argparse
import json
import logging
import math
import time
from pathlib import Path
from typing import Any, Final

import torch
from alcove.features.noise_suppression.config import BINS, CONFIGS, DEFAULT_VERSION, HOP, WINDOW, ModelConfig
from alcove.features.noise_suppression.dataset import read_clips
from alcove.features.noise_suppression.mixtures import Batch, Mixer
from alcove.features.noise_suppression.network import NoiseNetwork, hann_root
from alcove.features.noise_suppression.weights import published_network
from torch import Tensor
from torch.nn import functional

logger: Final = logging.getLogger("alcove.features.noise_suppression.train")

BATCH: Final = 8
SECONDS: Final = 2.5
RATE: Final = 3e-4
WARM_UP_STEPS: Final = 20
CEILING_DB: Final = 30.0
"""Errors further below the speech than this count little more: a clean sound need not become cleaner."""
COMPRESSION: Final = 0.3
"""Exponent of the magnitudes that the spectral loss compares."""
SPECTRAL_WEIGHT: Final = 30.0
ACTIVITY_WEIGHT: Final = 1.0
MEMORY: Final = 0.98
"""How much of the mean of the weights stays at each step: the mean is what is built."""
CHECKPOINT_SECONDS: Final = 90.0
LOG_STEPS: Final = 20


def distortion_db(clean: Tensor, heard: Tensor) -> Tensor:
    """Return the energy of the error relative to the speech, dB, f32 [n]; never far below -`CEILING_DB`.

    Unlike SI-SDR it holds the level, too: what is loud stays as loud.
    """
    energy = clean.square().sum(-1)
    floor = energy * 10 ** (-CEILING_DB / 10) + 1e-4
    return 10 * torch.log10(((heard - clean).square().sum(-1) + floor) / (energy + 1e-2))


def compress(sound: Tensor, window: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return magnitudes to the power of `COMPRESSION` and both parts with such magnitudes, [n, 257, t]."""
    spectrum = torch.stft(sound, WINDOW, HOP, window=window, return_complex=True)
    real, imaginary = spectrum.real, spectrum.imag
    magnitude = (real * real + imaginary * imaginary + 1e-8).sqrt()
    factor = magnitude ** (COMPRESSION - 1)
    return magnitude**COMPRESSION, real * factor, imaginary * factor


def spectral_loss(clean: Tensor, heard: Tensor, window: Tensor) -> Tensor:
    """Return the mean square difference of compressed spectra, with and without phase, a scalar."""
    wanted, given = compress(clean, window), compress(heard, window)
    magnitude, real, imaginary = (functional.mse_loss(a, b) for a, b in zip(wanted, given, strict=True))
    return 0.7 * magnitude + 0.3 * (real + imaginary)


def loss_of(network: NoiseNetwork, batch: Batch, window: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch and its parts."""
    heard, logit = network(batch.noisy)
    distortion = distortion_db(batch.clean, heard).clamp(max=30.0).mean()
    spectral = spectral_loss(batch.clean, heard, window)
    activity = functional.binary_cross_entropy_with_logits(logit, batch.speaking)
    total = distortion + SPECTRAL_WEIGHT * spectral + ACTIVITY_WEIGHT * activity
    parts = {"distortion_db": distortion, "spectral": spectral, "activity": activity}
    return total, {name: float(part.detach()) for name, part in parts.items()}


def rate_at(share: float, step: int, highest: float = RATE) -> float:
    """Return the learning rate after a share of the time, 0 to 1: a cosine to a hundredth, with a warm-up."""
    cosine = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    return highest * cosine * min((step + 1) / WARM_UP_STEPS, 1.0)


class Training:
    """A network, its optimizer and the running mean of its weights.

    Args:
        network: to begin with.
        mixer: of what it hears.
        rate: the highest learning rate.
    """

    def __init__(self, network: NoiseNetwork, mixer: Mixer, rate: float = RATE) -> None:
        self.network, self.mixer, self.rate = network.train(), mixer, rate
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4)
        self.mean = {name: value.detach().clone() for name, value in network.state_dict().items()}
        self.window = hann_root()
        self.step = 0
        self.before = 0
        """Steps of the run that this one goes on from."""

    def advance(self, share: float, count: int = BATCH) -> dict[str, float]:
        """Take one step and return the parts of its loss.

        Args:
            share: of the training's time that has passed, 0 to 1.
            count: mixtures of the step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(share, self.step, self.rate)
        loss, parts = loss_of(self.network, self.mixer.batch(count), self.window)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self.optimizer.step()
        self.step += 1
        memory = min(MEMORY, self.step / (self.step + 10))
        for name, value in self.network.state_dict().items():
            self.mean[name].lerp_(value, 1 - memory)
        return parts

    def save(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the mean of the weights and the record of the run; a reader sees the old files or the new ones."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {"network": self.mean, "last": self.network.state_dict(), "step": self.step}
        torch.save(state, folder / "checkpoint.tmp")
        (folder / "checkpoint.tmp").replace(folder / "checkpoint.pt")
        (folder / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def train(training: Training, config: ModelConfig, folder: Path, minutes: float, seed: int) -> None:
    """Take steps until the minutes have passed, and save a checkpoint now and then and at the end."""
    start = saved = time.monotonic()
    sums: dict[str, float] = {}
    curve: list[dict[str, float]] = []
    while (passed := time.monotonic() - start) < minutes * 60:
        for name, value in training.advance(passed / (minutes * 60)).items():
            sums[name] = sums.get(name, 0.0) + value / LOG_STEPS
        if training.step % LOG_STEPS == 0:
            curve.append({"step": training.step, **{name: round(value, 5) for name, value in sums.items()}})
            logger.info("%s", json.dumps({"seconds": round(passed), **curve[-1]}))
            sums = {}
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            saved = time.monotonic()
            training.save(folder, _record(training, config, seed, passed, curve))
    training.save(folder, _record(training, config, seed, time.monotonic() - start, curve))


def _record(
    training: Training, config: ModelConfig, seed: int, seconds: float, curve: list[dict[str, float]]
) -> dict[str, Any]:
    return {
        "config": config.to_json(),
        "seed": seed,
        "steps": training.before + training.step,
        "mixtures_per_step": BATCH,
        "seconds_per_mixture": SECONDS,
        "hours_heard": round((training.before + training.step) * BATCH * SECONDS / 3600, 2),
        "minutes": round(seconds / 60, 1),
        "torch": torch.__version__,
        "bins": BINS,
        "curve": curve,
    }


def start(weights: Path, run: Path | None) -> tuple[NoiseNetwork, int]:
    """Return the network to begin with, of a run or of the published weights, and the steps that it has had."""
    network = published_network(weights)
    if run is None:
        return network, 0
    state = torch.load(run / "checkpoint.pt", weights_only=True)
    network.load_state_dict(state["network"])
    return network, json.loads((run / "run.json").read_text(encoding="utf-8"))["steps"]


def main() -> None:
    """Train one version in a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), default=DEFAULT_VERSION)
    parser.add_argument("--data", type=Path, required=True, help="folder of the packed calls")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--cache", type=Path, help="where decoded clips are kept")
    parser.add_argument("--run", type=Path, required=True, help="folder that checkpoints go to")
    parser.add_argument("--start", type=Path, help="folder of a run to go on from, instead of the published weights")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=RATE, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(arguments.seed)
    speech = read_clips(arguments.data, "speech", "train", arguments.cache)
    noise = read_clips(arguments.data, "noise", "train", arguments.cache)
    network, before = start(arguments.weights, arguments.start)
    training = Training(network, Mixer(speech, noise, SECONDS, arguments.seed), arguments.rate)
    training.before = before
    train(training, CONFIGS[arguments.version], arguments.run, arguments.minutes, arguments.seed)


if __name__ == "__main__":
    main()
