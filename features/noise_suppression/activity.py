r"""Fits the layers of voice activity to a trained network that stays as it is; speech and silence weigh the same.

python -m alcove.features.noise_suppression.activity --data ../shared/data/audio_calls --cache ~/decoded \
    --run runs/noise_suppression
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import torch
from alcove.features.noise_suppression.config import COARSE, WIDTH
from alcove.features.noise_suppression.dataset import read_clips
from alcove.features.noise_suppression.mixtures import Mixer
from alcove.features.noise_suppression.network import NoiseNetwork
from torch import Tensor, nn
from torch.nn import functional

BATCHES: Final = 10
BATCH: Final = 12
SECONDS: Final = 2.5
STEPS: Final = 400
RATE: Final = 3e-3


def hear(network: NoiseNetwork, mixer: Mixer, batches: int) -> tuple[Tensor, Tensor]:
    """Return what the recurrent layers know of each frame, f32 [frames, 528], and 1 where someone speaks, [frames]."""
    seen: list[Tensor] = []

    def keep(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0].flatten(0, 1).clone())

    handle = network.speaking.register_forward_pre_hook(keep)
    speaking = []
    with torch.no_grad():
        for _ in range(batches):
            batch = mixer.batch(BATCH)
            network(batch.noisy)
            speaking.append(batch.speaking.flatten())
    handle.remove()
    return torch.cat(seen), torch.cat(speaking)


def fit_activity(network: NoiseNetwork, known: Tensor, speaking: Tensor, steps: int = STEPS) -> float:
    """Fit the two layers to frames f32 [frames, 528], and return the share that is told right, both kinds alike."""
    mean, deviation = known.mean(dim=0), known.std(dim=0).clamp_min(1e-3)
    given = (known - mean) / deviation
    share = float(speaking.mean().clamp(0.01, 0.99))
    weight = torch.where(speaking > 0.5, 0.5 / share, 0.5 / (1 - share))
    first = nn.Linear(WIDTH * COARSE, network.speaking.out_features)
    second = nn.Linear(network.speaking.out_features, 1)
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=RATE, weight_decay=1e-2)
    for _ in range(steps):
        rows = torch.randint(len(given), (1024,))
        logit = second(functional.relu(first(given[rows]))).squeeze(-1)
        loss = functional.binary_cross_entropy_with_logits(logit, speaking[rows], weight[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        # The norm of the inputs goes into the first layer.
        network.speaking.weight.copy_(first.weight / deviation)
        network.speaking.bias.copy_(first.bias - first.weight @ (mean / deviation))
        network.activity.weight.copy_(second.weight)
        network.activity.bias.copy_(second.bias)
        called = network.activity(functional.relu(network.speaking(known))).squeeze(-1) > 0
    is_right = (called == (speaking > 0.5)).float()
    return float((is_right * weight).sum() / weight.sum())


def main() -> None:
    """Fit the layers of a run's checkpoint, and write it and its record again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the packed calls")
    parser.add_argument("--cache", type=Path, help="where decoded clips are kept")
    parser.add_argument("--run", type=Path, required=True, help="folder of a training run")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    path, record_path = arguments.run / "checkpoint.pt", arguments.run / "run.json"
    state: dict[str, Any] = torch.load(path, weights_only=True)
    network = NoiseNetwork().eval()
    network.load_state_dict(state["network"])
    speech = read_clips(arguments.data, "speech", "train", arguments.cache)
    noise = read_clips(arguments.data, "noise", "train", arguments.cache)
    right = fit_activity(network, *hear(network, Mixer(speech, noise, SECONDS, seed=77), BATCHES))
    torch.save({**state, "network": network.state_dict()}, path)
    record = json.loads(record_path.read_text(encoding="utf-8"))
    record["activity"] = {"mixtures": BATCHES * BATCH, "steps": STEPS, "told_right": round(right, 4)}
    record_path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"frames told right, speech and silence alike: {right:.1%}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
