"""Averages the weights of training runs, one of which went on from the other: often better than each of them.

python -m alcove.features.noise_suppression.average --runs runs/first runs/second --to runs/mean

Source: "Averaging Weights Leads to Wider Optima and Better Generalization" (Izmailov and others, UAI 2018).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]


def average_weights(states: list[State]) -> State:
    """Return the mean of each tensor over networks of one shape.

    Raises:
        ValueError: there is no network, or two have other tensors.
    """
    if not states or any(state.keys() != states[0].keys() for state in states):
        raise ValueError(f"expected one network or more of the same tensors, not {len(states)} that differ")
    return {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}


def main() -> None:
    """Write the mean of runs as a run: the record is the last one's, with what each had heard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="training runs, the latest last")
    parser.add_argument("--to", type=Path, required=True, help="folder of the mean")
    arguments = parser.parse_args()
    checkpoints: list[dict[str, Any]] = [torch.load(run / "checkpoint.pt", weights_only=True) for run in arguments.runs]
    records = [json.loads((run / "run.json").read_text(encoding="utf-8")) for run in arguments.runs]
    mean = average_weights([checkpoint["network"] for checkpoint in checkpoints])
    arguments.to.mkdir(parents=True, exist_ok=True)
    torch.save({"network": mean, "step": checkpoints[-1]["step"]}, arguments.to / "checkpoint.pt")
    record = {**records[-1], "mean_of_steps": [record["steps"] for record in records]}
    (arguments.to / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
