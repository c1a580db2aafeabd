"""Trains one version of the model, with checkpoints, and writes down how.

    python -m alcove.features.bandwidth.train --version 1.2.0 --run runs/bandwidth-1.2.0

The same arguments give the same weights on the same machine (nearly, with `--device cuda`): every batch depends on the
seed and its step alone, so a run that was cut off continues from its last checkpoint as if nothing had happened.
The folder of the run holds

    calls-*.npz     the made-up calls, kept so that a run that continues need not make them again
    checkpoint.pt   weights, optimiser, step; replaced whole
    progress.jsonl  a line every 50 steps: step, loss, seconds
    run.json        arguments, shape, versions, final loss

The loss is the pinball loss of the quantiles (Koenker and Bassett, 1978), on a logarithmic scale and relative to the
call's mean capacity, and the error of the estimates with a penalty for each one above the truth (`penalize`).  In a
low quantile q, saying too much costs (1 - q) / q times what saying as much too little does.  A deviation is fitted by
the interval that it promises, one deviation to both sides of the middle: the pinball loss of its ends as the quantiles
0.16 and 0.84, which is the interval score (Gneiting and Raftery, "Strictly proper scoring rules", 2007).
"""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features import checkpoint
from alcove.features.bandwidth.config import CONFIGS, MIDDLE, TICKS_PER_LONG, WINDOWS, ModelConfig
from alcove.features.bandwidth.dataset import make_recording
from alcove.features.bandwidth.model import BandwidthNetwork
from alcove.features.bandwidth.replay import Recording, join_recordings
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn import functional

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
        seed: of the weights and the batches.
        call_seed: of the made-up calls.
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
    call_seed: int = 1
    checkpoint_every: int = 250
    report_every: int = 50

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        fall = 0.5 * (1 + np.cos(np.pi * step / self.steps))
        return float(self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * fall)


# 1.2.0 began with the weights of 1.1.0: 7,000 steps on calls without silences, probes, strong jitter and dips, of which
# the history of this file has the code.  From drawn weights about 2,150 larger batches (12,288 calls of 600 ticks, 320
# of 300 ticks in a batch, a rate of 3e-3) fall a little short of it; the card shows two such runs.
PLANS: Final = {
    "1.2.0": TrainingPlan(steps=935, calls=3_072, call_ticks=500, batch_size=64, batch_ticks=150, learning_rate=1e-3),
}

CLOSE: Final = 0.01
"""How sharp the edge of the penalty is: an estimate above the truth by this share pays 73 % of it."""

PENALISED_SHARE: Final = 0.3
"""Weight of the penalised estimates beside the quantiles: their penalty has steep edges, and so large gradients."""

INTERVAL: Final = (0.16, 0.84)
"""Quantiles one standard deviation to both sides of the middle of a normal distribution."""

INTERVAL_SHARE: Final = 1.0
"""Weight of the deviations' intervals beside the quantiles."""

SPREAD_LOGS: Final = (-5.0, 2.0)
"""Bounds of the logarithm of a deviation while it is learned."""


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


def intervals(log_estimates: Tensor, log_spreads: Tensor) -> Tensor:
    """Return the logarithms of both ends of what lies within one deviation of the middle, f32 [..., 2].

    Args:
        log_estimates: of log(bit/s), f32 [...].
        log_spreads: logarithms of the deviations as shares of the estimates, f32 [...].
    """
    spread = torch.exp(log_spreads.clamp(*SPREAD_LOGS))
    return log_estimates[..., None] + torch.stack(
        [torch.log1p((MIDDLE - 1) * spread), torch.log1p((MIDDLE + 1) * spread)], dim=-1
    )


def observe(statistics: Tensor, begin: int, end: int) -> Tensor:
    """Return observations f32 [n, end - begin, 150] of statistics f32 [n, ticks, 2, 15], as `observations_of` does."""
    reach = (WINDOWS - 1) * TICKS_PER_LONG
    early = min(begin, reach)
    padded = functional.pad(statistics[:, begin - early : end], (0, 0, 0, 0, reach - early, 0))
    count = end - begin
    places = [
        padded[:, reach - back : reach - back + count, kind]
        for kind, step in ((0, 1), (1, TICKS_PER_LONG))
        for back in range(0, WINDOWS * step, step)
    ]
    return torch.stack(places, dim=-1).flatten(start_dim=2)


class Training(checkpoint.ResumableTraining):
    """One run: the network, its optimiser, its calls, and where they are kept.

    Args:
        config: shape of the model.
        plan: how to learn.
        folder: of the run; continued if it holds a checkpoint.
        device: of torch.
        calls: folder of the made-up calls; that of the run if None.
        weights: checkpoint of another run to begin with; drawn if None.
    """

    def __init__(
        self,
        config: ModelConfig,
        plan: TrainingPlan,
        folder: Path,
        *,
        device: str = "cpu",
        calls: Path | None = None,
        weights: Path | None = None,
    ) -> None:
        self.config = config
        self.plan = plan
        self.device = torch.device(device)
        self._calls_folder = calls or folder
        self._weights = weights
        torch.manual_seed(plan.seed)
        self.network = BandwidthNetwork(config).to(self.device)
        optimiser = torch.optim.AdamW(self.network.parameters(), lr=plan.learning_rate, weight_decay=1e-3)
        super().__init__(plan, folder, self.network, optimiser)
        self.levels, self.penalties, self.pulls, self.ends = (
            torch.tensor(values, device=self.device)
            for values in (config.quantiles, config.penalties, config.pulls, INTERVAL)
        )

    def run(self, progress: Progress, until: int | None = None) -> float:
        """Train to the end, or to step `until`, and return the mean loss of the last steps (NaN if there were none)."""
        made = self._make_calls(progress)
        statistics, capacity = (
            torch.from_numpy(values).to(self.device) for values in (made.statistics, made.capacity_bps)
        )
        if not self.resume() and self._weights is not None:
            state = torch.load(self._weights, weights_only=True, map_location=self.device)
            self.network.load_state_dict(state["network"])
        elif not self.step:
            self.network.normalise(self._some_observations(statistics))
        bar = progress.add_task("training", total=self.plan.steps, completed=self.step)

        def show(step: int, loss: float) -> None:
            progress.update(bar, completed=step, description=f"training, loss {loss:.4f}")

        return self.run_batches(lambda: self._train_batch(statistics, capacity), until, show)

    def _make_calls(self, progress: Progress) -> Recording:
        plan, parts = self.plan, []
        count = max(1, plan.calls // PART)
        bar = progress.add_task("calls", total=count)
        for number in range(count):
            path = calls_path(self._calls_folder, plan, number)
            if not path.exists():
                made = make_recording(min(PART, plan.calls), plan.call_ticks, plan.call_seed * 1000 + number)
                new = path.with_suffix(".new.npz")
                np.savez(new, statistics=made.statistics, capacity_bps=made.capacity_bps, is_scored=made.is_scored)
                new.replace(path)
            with np.load(path) as kept:
                parts.append(Recording(kept["statistics"], kept["capacity_bps"], kept["is_scored"]))
            progress.advance(bar)
        return join_recordings(parts)

    def _some_observations(self, statistics: Tensor) -> Tensor:
        rng = np.random.default_rng((self.plan.seed, 7))
        rows = torch.from_numpy(rng.permutation(len(statistics))[:256]).to(self.device)
        observations = observe(statistics[rows], 60, statistics.shape[1])
        return observations[:, ::20].reshape(-1, observations.shape[-1])

    def _train_batch(self, statistics: Tensor, capacity_bps: Tensor) -> float:
        plan = self.plan
        rng = np.random.default_rng((plan.seed, self.step))
        rows = torch.from_numpy(rng.integers(0, len(statistics), plan.batch_size)).to(self.device)
        begin = 0 if rng.random() < 1 / 3 else int(rng.integers(0, plan.call_ticks - plan.batch_ticks + 1))
        end, known = begin + plan.batch_ticks, plan.warm_ticks
        truth = capacity_bps[rows]
        mean = truth.mean(dim=1, keepdim=True)
        answers, _ = self.network(observe(statistics[rows], begin, end))
        of_each = [len(self.levels), len(self.penalties), len(self.penalties)]
        quantiles, estimates, spreads = answers[:, known:].split(of_each, dim=-1)
        scored = truth[:, begin + known : end]
        loss = loss_of(quantiles, scored, mean, self.levels)
        loss = loss + PENALISED_SHARE * penalize(estimates, scored, mean, self.penalties)
        pulled = estimates.detach() + self.pulls * (estimates - estimates.detach())
        ends = intervals(pulled, spreads)
        for number in range(len(self.penalties)):
            loss = loss + INTERVAL_SHARE * loss_of(ends[..., number, :], scored, mean, self.ends)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        return loss.item()


def calls_path(folder: Path, plan: TrainingPlan, number: int) -> Path:
    """Return where a part of the made-up calls of a plan is kept."""
    return folder / f"calls-{plan.call_seed}-{min(PART, plan.calls)}x{plan.call_ticks}-{number}.npz"


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
    parser.add_argument("--seed", type=int, help="instead of the plan's")
    parser.add_argument("--weights", type=Path, help="checkpoint of another run to begin with")
    parser.add_argument("--device", default="cpu", help="of torch")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plan = PLANS[arguments.version]
    given = {name: getattr(arguments, name) for name in ("steps", "calls", "seed") if getattr(arguments, name)}
    training = Training(
        CONFIGS[arguments.version],
        replace(plan, **given),
        arguments.run,
        device=arguments.device,
        weights=arguments.weights,
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        loss = training.run(progress)
    record = record_of(training, loss)
    if arguments.weights:
        before = json.loads(arguments.weights.with_name("run.json").read_text(encoding="utf-8"))
        record["begins_with"] = {key: before[key] for key in ("plan", "final_loss")}
    checkpoint.write_record(arguments.run, record)


if __name__ == "__main__":
    main()
