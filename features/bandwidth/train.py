"""Trains one version of the model on one core, with checkpoints, and writes down how.

    python -m alcove.features.bandwidth.train --version 1.1.0 --run runs/bandwidth-1.1.0

The same arguments give the same weights on the same machine: every batch depends on the seed and its step alone, so a
run that was cut off continues from its last checkpoint as if nothing had happened.  The folder of the run holds

    calls-*.npz     the made-up calls, kept so that a run that continues need not make them again
    checkpoint.pt   weights, optimiser, step; replaced whole
    progress.jsonl  a line every 50 steps: step, loss, seconds
    run.json        arguments, shape, versions, final loss

The loss is the pinball loss of the quantiles (Koenker and Bassett, 1978), on a logarithmic scale and relative to the
call's mean capacity, and the error of the estimates with a penalty for each one above the truth (`penalize`).  In a
low quantile q, saying too much costs (1 - q) / q times what saying as much too little does.
"""

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features import checkpoint
from alcove.features.bandwidth.config import CONFIGS, ModelConfig
from alcove.features.bandwidth.dataset import make_recording
from alcove.features.bandwidth.model import BandwidthNetwork
from alcove.features.bandwidth.observation import observations_of
from alcove.features.bandwidth.replay import Recording, join_recordings
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

PART: Final = 512
"""Calls in one file of a run's folder."""


@dataclass(frozen=True)
class TrainingPlan:
    """How long, on what and how fast to learn.

    Attributes:
        steps: batches in all.
        calls: made-up calls, a multiple of `PART`.
        call_ticks: length of each.
        batch_size: calls in a batch.
        batch_ticks: consecutive ticks of each; the memory before them is not known except for `warm_ticks`.
        warm_ticks: of those, at the beginning, without a loss; a third of the batches begins with the call instead.
        learning_rate: of AdamW, at its peak; it falls to zero by a half cosine.
        warmup_steps: rising in a straight line before that.
        seed: of everything random.
        checkpoint_every: steps between checkpoints.
        report_every: steps between lines of progress.
    """

    steps: int
    calls: int = 6144
    call_ticks: int = 400
    batch_size: int = 64
    batch_ticks: int = 120
    warm_ticks: int = 20
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    seed: int = 1
    checkpoint_every: int = 250
    report_every: int = 50

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        fall = 0.5 * (1 + np.cos(np.pi * step / self.steps))
        return float(self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * fall)


PLANS: Final = {"1.1.0": TrainingPlan(steps=7_000, calls=8192, learning_rate=2e-3)}

CLOSE: Final = 0.01
"""How sharp the edge of the penalty is: an estimate above the truth by this share pays 73 % of it."""

PENALISED_SHARE: Final = 0.3
"""Weight of the penalised estimates beside the quantiles: their penalty has steep edges, and so large gradients."""


def pinball(quantiles: Tensor, truth: Tensor, levels: Tensor) -> Tensor:
    """Return the mean pinball loss of quantiles f32 [..., q] for levels f32 [q] of truths f32 [...]."""
    off = truth[..., None] - quantiles
    return torch.maximum(levels * off, (levels - 1) * off).mean()


def loss_of(log_quantiles: Tensor, capacity_bps: Tensor, mean_bps: Tensor, levels: Tensor) -> Tensor:
    """Return the loss of quantiles of log(bit/s), f32 [n, ticks, q], of capacities f32 [n, ticks] of means [n, 1]."""
    by_ratio = pinball(log_quantiles, torch.log(capacity_bps), levels)
    share = torch.exp((log_quantiles - torch.log(mean_bps)[..., None]).clamp_max(3.0))
    return 0.5 * by_ratio + pinball(share, (capacity_bps / mean_bps).clamp_max(20.0), levels)


def penalize(log_estimates: Tensor, capacity_bps: Tensor, mean_bps: Tensor, penalties: Tensor) -> Tensor:
    """Return the mean error of estimates of log(bit/s), f32 [n, ticks, p], plus a penalty for each one that is above.

    A quantile is equally careful everywhere.  This is careful where that is cheap, where the capacity is known to a few
    percent, and bolder where nobody knows it: so it errs less for the same share of estimates that are above.

    Args:
        log_estimates: one for each penalty.
        capacity_bps: f32 [n, ticks].
        mean_bps: of each call, f32 [n, 1].
        penalties: cost of one estimate above the truth, in shares of the call's mean capacity, f32 [p].
    """
    off = log_estimates - torch.log(capacity_bps)[..., None]
    share = torch.exp((log_estimates - torch.log(mean_bps)[..., None]).clamp_max(3.0))
    error = (share - (capacity_bps / mean_bps).clamp_max(20.0)[..., None]).abs() + 0.5 * off.abs()
    return (error + penalties * torch.sigmoid(off / CLOSE)).mean()


class Training(checkpoint.ResumableTraining):
    """One run: the network, its optimiser, its calls, and where they are kept.

    Args:
        config: shape of the model.
        plan: how to learn.
        folder: of the run; continued if it holds a checkpoint.
    """

    def __init__(self, config: ModelConfig, plan: TrainingPlan, folder: Path) -> None:
        self.config = config
        self.plan = plan
        torch.manual_seed(plan.seed)
        self.network = BandwidthNetwork(config)
        optimiser = torch.optim.AdamW(self.network.parameters(), lr=plan.learning_rate, weight_decay=1e-3)
        super().__init__(plan, folder, self.network, optimiser)
        self.levels = torch.tensor(config.quantiles)
        self.penalties = torch.tensor(config.penalties)
        self.calls: Recording | None = None

    def run(self, progress: Progress, until: int | None = None) -> float:
        """Train to the end, or to step `until`, and return the mean loss of the last steps (NaN if there were none)."""
        self.calls = self._make_calls(progress)
        if not self.resume():
            self.network.normalise(self._some_observations())
        calls = self.calls
        bar = progress.add_task("training", total=self.plan.steps, completed=self.step)

        def show(step: int, loss: float) -> None:
            progress.update(bar, completed=step, description=f"training, loss {loss:.4f}")

        return self.run_batches(lambda: self._train_batch(calls), until, show)

    def _make_calls(self, progress: Progress) -> Recording:
        plan, parts = self.plan, []
        count = max(1, plan.calls // PART)
        bar = progress.add_task("calls", total=count)
        for number in range(count):
            path = self.folder / f"calls-{plan.seed}-{min(PART, plan.calls)}x{plan.call_ticks}-{number}.npz"
            if not path.exists():
                made = make_recording(min(PART, plan.calls), plan.call_ticks, plan.seed * 1000 + number)
                new = path.with_suffix(".new.npz")
                np.savez(new, statistics=made.statistics, capacity_bps=made.capacity_bps, is_scored=made.is_scored)
                new.replace(path)
            with np.load(path) as kept:
                parts.append(Recording(kept["statistics"], kept["capacity_bps"], kept["is_scored"]))
            progress.advance(bar)
        return join_recordings(parts)

    def _some_observations(self) -> Tensor:
        assert self.calls is not None  # noqa: S101 (made just before)
        rng = np.random.default_rng((self.plan.seed, 7))
        rows = rng.permutation(len(self.calls.statistics))[:256]
        observations = observations_of(self.calls.statistics[rows], slice(60, None))
        return torch.from_numpy(observations[:, ::20].reshape(-1, observations.shape[-1]))

    def _train_batch(self, calls: Recording) -> float:
        plan = self.plan
        rng = np.random.default_rng((plan.seed, self.step))
        rows = rng.integers(0, len(calls.statistics), plan.batch_size)
        begin = 0 if rng.random() < 1 / 3 else int(rng.integers(0, plan.call_ticks - plan.batch_ticks + 1))
        ticks = slice(begin, begin + plan.batch_ticks)
        statistics = calls.statistics[rows]
        observations = torch.from_numpy(observations_of(statistics, ticks))
        truth = torch.from_numpy(calls.capacity_bps[rows])
        mean = truth.mean(dim=1, keepdim=True)
        answers, _ = self.network(observations)
        known = plan.warm_ticks
        quantiles, estimates = answers[:, known:].split([len(self.levels), len(self.penalties)], dim=-1)
        scored = truth[:, ticks][:, known:]
        loss = loss_of(quantiles, scored, mean, self.levels)
        loss = loss + PENALISED_SHARE * penalize(estimates, scored, mean, self.penalties)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        return loss.item()


def record_of(training: Training, loss: float) -> dict[str, Any]:
    """Return what is to be known about a run."""
    return {
        "config": training.config.to_json(),
        "plan": asdict(training.plan),
        "data": "made-up calls only (dataset.py); no recorded trace",
        "final_loss": round(loss, 5),
    }


def main() -> None:
    """Train one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--steps", type=int, help="instead of the plan's")
    parser.add_argument("--calls", type=int, help="instead of the plan's")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = PLANS[arguments.version]
    plan = replace(plan, steps=arguments.steps or plan.steps, calls=arguments.calls or plan.calls)
    training = Training(CONFIGS[arguments.version], plan, arguments.run)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        loss = training.run(progress)
    checkpoint.write_record(arguments.run, record_of(training, loss))


if __name__ == "__main__":
    main()
