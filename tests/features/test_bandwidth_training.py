"""Training of bandwidth: the loss falls, runs resume bit for bit, and losses and made-up calls are as defined."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: install alcove-platform[export]")

from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIDDLE, ModelConfig  # noqa: E402 (after the skip)
from alcove.features.bandwidth.dataset import make_capacities, make_recording  # noqa: E402
from alcove.features.bandwidth.model import BandwidthModule, BandwidthNetwork  # noqa: E402
from alcove.features.bandwidth.observation import observations_of  # noqa: E402
from alcove.features.bandwidth.train import (  # noqa: E402
    CLOSE,
    INTERVAL,
    Training,
    TrainingPlan,
    intervals,
    loss_of,
    observe,
    penalize,
    pinball,
    record_of,
)
from rich.progress import Progress  # noqa: E402

SMALL = ModelConfig(
    version="0.0.1", width=24, hidden=16, mixed=16, margin=0.9, caution=0.3, deviation=1.3, contrast=1.2
)
PLAN = TrainingPlan(
    steps=60, calls=64, call_ticks=90, batch_size=16, batch_ticks=40, warm_ticks=5, learning_rate=1e-2, warmup_steps=5
)


@pytest.fixture(scope="module")
def progress() -> Iterator[Progress]:
    """A bar that shows nothing."""
    with Progress(disable=True) as bar:
        yield bar


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, progress: Progress) -> Path:
    """The folder of a short run."""
    path = tmp_path_factory.mktemp("run")
    Training(SMALL, PLAN, path).run(progress)
    return path


def test_loss_falls(folder: Path) -> None:
    """From the first batch to the last."""
    with Progress(disable=True) as bar:
        first = Training(SMALL, replace(PLAN, steps=60), _copy(folder, folder.parent / "first", with_state=False))
        begin = first.run(bar, until=1)
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 60
    assert lines[-1]["loss"] < 0.7 * begin


def _copy(folder: Path, to: Path, *, with_state: bool) -> Path:
    to.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.suffix == ".npz" or (with_state and file.suffix == ".pt"):
            (to / file.name).write_bytes(file.read_bytes())
    return to


def test_a_run_that_was_cut_off_ends_with_the_same_weights(folder: Path, tmp_path: Path, progress: Progress) -> None:
    """Stopped at step 25, then again from its folder by another process: bit for bit."""
    cut = _copy(folder, tmp_path / "cut", with_state=False)
    Training(SMALL, PLAN, cut).run(progress, until=25)
    again = Training(SMALL, PLAN, cut)
    again.run(progress)
    whole = torch.load(folder / "checkpoint.pt", weights_only=True)["network"]
    assert again.step == 60
    for name, value in again.network.state_dict().items():
        assert torch.equal(value, whole[name]), name


def test_record_says_that_no_recorded_trace_was_used(tmp_path: Path) -> None:
    """What the card says of the weights' sources stands in the record of the run."""
    record = record_of(Training(SMALL, PLAN, tmp_path), 0.5)
    assert record["data"].startswith("made-up calls only")
    assert record["plan"]["seed"] == 1
    assert record["config"]["hidden"] == 16


def test_pinball_loss_is_least_at_the_quantile() -> None:
    """Of 0 to 99, the quantile 0.25 is about 25; too much costs three times what too little does."""
    truth, level = torch.arange(100.0), torch.tensor([0.25])
    losses = [pinball(torch.full((100, 1), at), truth, level).item() for at in (5.0, 24.5, 45.0)]
    assert losses[1] < min(losses[0], losses[2])
    over, under = (pinball(torch.full((1, 1), at), torch.zeros(1), level).item() for at in (1.0, -1.0))
    assert over == pytest.approx(3 * under)


def _best(truth: Any, penalty: float) -> float:
    """Return the share of truths below the estimate that costs least."""
    tried = torch.linspace(0.3, 1.5, 241)
    log_estimates = torch.log(tried).expand(len(truth), 1, -1)
    costs = [
        penalize(log_estimates[..., n : n + 1], truth[:, None], torch.ones(len(truth), 1), torch.tensor([penalty]))
        for n in range(len(tried))
    ]
    return float((truth < tried[int(torch.stack(costs).argmin())]).float().mean())


def test_penalised_estimate_is_careful_where_the_capacity_is_known_and_bolder_where_it_is_not() -> None:
    """Without a penalty the middle; with one less, the less the narrower the truths are."""
    noise = torch.special.ndtri(torch.linspace(0.002, 0.998, 400))
    narrow, wide = torch.exp(0.05 * noise), torch.exp(0.4 * noise)
    assert _best(narrow, 0.0) == pytest.approx(0.5, abs=0.1)
    assert _best(narrow, 0.5) < 0.1
    assert 0.15 < _best(wide, 0.5) < 0.45
    assert _best(wide, 3.0) < 0.1
    edge = torch.tensor([[[-5 * CLOSE, 5 * CLOSE]]])
    below, above = (penalize(edge[..., n : n + 1], torch.ones(1, 1), torch.ones(1, 1), torch.ones(1)) for n in (0, 1))
    assert above.item() - below.item() == pytest.approx(1.0, abs=0.02)


def test_loss_does_not_depend_on_the_scale_of_a_call() -> None:
    """The same call, ten times as fast."""
    truth = torch.rand(4, 20) * 1e6 + 1e5
    guess = torch.log(truth)[..., None] + torch.randn(4, 20, 2) * 0.3
    levels = torch.tensor([0.25, 0.5])
    for loss in (loss_of, penalize):
        one, ten = (loss(guess + np.log(k), truth * k, truth.mean(1, keepdim=True) * k, levels) for k in (1, 10))
        assert one.item() == pytest.approx(ten.item(), rel=1e-4)


def test_deviation_that_costs_least_holds_two_thirds_of_the_truths() -> None:
    """Of a normal distribution, about an estimate as far below its middle as the contract says: its own deviation."""
    truth = torch.exp(torch.tensor(0.0)) + 0.1 * torch.special.ndtri(torch.linspace(0.002, 0.998, 400))
    estimate = torch.log(torch.tensor(1.0 - MIDDLE * 0.1))
    tried = torch.linspace(0.05, 0.3, 126)
    costs = []
    for spread in tried:
        ends = intervals(estimate.expand(400, 1), torch.log(spread).expand(400, 1))
        costs.append(loss_of(ends, truth[:, None], torch.ones(400, 1), torch.tensor(INTERVAL)))
    best = float(tried[int(torch.stack(costs).argmin())])
    assert best * float(torch.exp(estimate)) == pytest.approx(0.1, abs=0.004)


def test_observations_of_training_are_those_of_the_harness() -> None:
    """From the beginning of a call, and from its middle."""
    statistics = make_recording(3, 80, 4).statistics
    for begin, end in ((0, 80), (13, 60), (55, 80)):
        expected = observations_of(statistics, slice(begin, end))
        np.testing.assert_array_equal(observe(torch.from_numpy(statistics), begin, end).numpy(), expected)


def test_tick_by_tick_is_the_same_as_the_whole_sequence(folder: Path) -> None:
    """The module that is exported and the network that is trained: the estimate, and its deviation."""
    network = BandwidthNetwork(SMALL)
    network.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True)["network"])
    calls = make_recording(2, 40, 5)
    given = torch.from_numpy(observations_of(calls.statistics))
    first = len(SMALL.quantiles) + SMALL.estimate
    with torch.no_grad():
        answers, _ = network(given)
        module = BandwidthModule(network)
        for tick in range(40):
            capacity, std = module(given[:1, tick])
            spread = answers[0, tick, first + len(SMALL.penalties)].exp()
            expected = (answers[0, tick, first] + np.log(0.9) - 0.3 * spread.clamp(max=1.0)).exp().clamp(1e4, 1e8)
            assert capacity.item() == pytest.approx(expected.item(), rel=1e-4)
            spread = 1.3 * 0.1 * (spread / 0.1) ** 1.2
            assert std.item() == pytest.approx((expected * spread.clamp(0.01, 5.0)).item(), rel=1e-3)


def test_made_up_capacities_have_every_scale_and_change() -> None:
    """From 50 kbps to the most, some constant, some with outages, none negative; the same for the same seed."""
    made = make_capacities(400, 300, np.random.default_rng(3))
    assert made.min() >= 0
    assert made.max() <= MAX_CAPACITY_BPS
    means = made.mean(axis=1)
    assert means.min() < 1e5
    assert means.max() > 3e7
    assert 0.02 < (made.std(axis=1) < 1e-6 * means).mean() < 0.4
    assert 0.02 < (made.min(axis=1) < 0.05 * means).mean() < 0.5
    assert (made == make_capacities(400, 300, np.random.default_rng(3))).all()
    one, two = make_recording(3, 40, 9), make_recording(3, 40, 9)
    assert (one.statistics == two.statistics).all()
    assert (one.capacity_bps == two.capacity_bps).all()


def test_some_made_up_capacities_are_like_logs_of_throughput() -> None:
    """Held for half a second to seconds, then another value; and some of them collapse for a bin."""
    changes = make_capacities(400, 300, np.random.default_rng(3))
    moves = np.less(1e-9, np.abs(np.diff(np.log(changes + 1.0), axis=1))).mean(axis=1)
    assert 0.15 < ((moves > 1 / 100) & (moves < 1 / 8)).mean() < 0.7
