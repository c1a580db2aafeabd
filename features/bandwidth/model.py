"""Defines the torch modules: one trained on sequences, one exported for a tick at a time with its memory.

Everything that the raw statistics need is inside: units, logarithms, the reference.  Rates are read as ratios to a
reference, the largest receiving rate of the long windows, and the answer is a ratio to it too: what holds for a call of
500 kbps holds for one of 50 Mbps.
"""

import math
from typing import Final

import torch
from alcove.features.bandwidth.config import (
    BASE_DELAY_MS,
    MAX_CAPACITY_BPS,
    MIN_CAPACITY_BPS,
    OBSERVATION_SIZE,
    REFERENCE_SPREAD,
    STATISTICS,
    WINDOWS,
    ModelConfig,
)
from torch import Tensor, nn
from torch.nn import functional

START_BPS: Final = 500e3
"""Estimate before the first observation."""
START_SPREAD: Final = 1.0
"""Standard deviation then, as a share of the estimate."""
GROWTH: Final = 1.05
"""By how much the standard deviation grows with every missing tick."""
SPREADS: Final = (0.01, 5.0)
"""Least and greatest standard deviation, as a share of the estimate."""

_OFFSETS: Final = {"bps": 2e3, "packets": 0.5, "bytes": 15.0, "ms": 0.2, "ratio": 0.02, "probability": 0.02}
"""Added before the logarithm: about the least that means something, by the end of a statistic's name."""


def _offset(name: str) -> float:
    if name == "delay_ms":
        return BASE_DELAY_MS + 1.0
    return next(value for end, value in _OFFSETS.items() if name.endswith(end))


def _each(values: list[float]) -> Tensor:
    """Return a value per statistic as one per place of an observation, f32 [1, 150]."""
    return torch.tensor(values).repeat_interleave(2 * WINDOWS)[None]


class BandwidthNetwork(nn.Module):
    """Observations to quantiles of the capacity, estimates of it and their deviations, over whole sequences.

    Args:
        config: width, hidden, mixed, quantiles, penalties.
    """

    offset: Tensor
    relative: Tensor
    bias: Tensor
    scale: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("offset", _each([_offset(known.name) for known in STATISTICS]))
        # Of the two statistics that say the same, rate and bytes, one is read relative to the reference, one as it is.
        self.register_buffer("relative", _each([float(known.name.endswith("bps")) for known in STATISTICS]))
        self.register_buffer("bias", torch.zeros(1, OBSERVATION_SIZE))
        self.register_buffer("scale", torch.ones(1, OBSERVATION_SIZE))
        self.read = nn.Linear(OBSERVATION_SIZE, config.width)
        self.cell = nn.GRU(config.width, config.hidden, batch_first=True)
        self.mix = nn.Linear(config.hidden, config.mixed)
        self.out = nn.Linear(config.mixed, len(config.quantiles) + 2 * len(config.penalties))

    @torch.no_grad()
    def normalise(self, observations: Tensor) -> None:
        """Make the first layer's inputs of mean 0 and deviation 1 over some observations f32 [n, 150]; once."""
        reference = self.reference(observations)
        logs = torch.log(observations + self.offset) - self.relative * reference
        deviation = logs.std(dim=0, keepdim=True).clamp_min(0.1)
        self.scale.copy_(1 / deviation)
        self.bias.copy_(-logs.mean(dim=0, keepdim=True) / deviation)
        self.relative.mul_(self.scale)

    def reference(self, observation: Tensor) -> Tensor:
        """Return the logarithm of the largest receiving rate of the long windows, bit/s, f32 [..., 1]."""
        rates = observation[..., WINDOWS : 2 * WINDOWS]
        return torch.log(rates.amax(dim=-1, keepdim=True) + _OFFSETS["bps"])

    def reading(self, observation: Tensor, reference: Tensor) -> Tensor:
        """Return the first layer's outputs, f32 [..., width]: of logarithms, rates relative to the reference."""
        values = torch.log(observation + self.offset) * self.scale + self.bias - self.relative * reference
        return functional.relu(self.read(values))

    def forward(self, observation: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return what the capacity may be, f32 [n, ticks, quantiles + 2 * penalties], and the last hidden state.

        The quantiles and the estimates are logarithms of bit/s; behind them are logarithms of the estimates'
        deviations, which are shares of the estimates.

        Args:
            observation: f32 [n, ticks, 150], each value within its bounds.
            hidden: f32 [1, n, hidden], zeros if None.
        """
        reference = self.reference(observation)
        out, last = self.cell(self.reading(observation, reference), hidden)
        answers, spreads = self.out(functional.relu(self.mix(out))).split(self.parts, dim=-1)
        return torch.cat([answers + reference, spreads], dim=-1), last

    @property
    def parts(self) -> list[int]:
        """How many answers are of bit/s, and how many are deviations."""
        return [len(self.config.quantiles) + len(self.config.penalties), len(self.config.penalties)]


class BandwidthModule(nn.Module):
    """What is exported: one tick, with the memory of a call in its buffers.

    Args:
        network: trained; its last layer becomes two rows, the estimate and its deviation.
    """

    low: Tensor
    high: Tensor
    hidden: Tensor
    capacity: Tensor
    spread: Tensor

    def __init__(self, network: BandwidthNetwork) -> None:
        super().__init__()
        config = network.config
        self.network = network
        self.answer = nn.Linear(config.mixed, 2)
        with torch.no_grad():
            estimate = len(config.quantiles) + config.estimate
            rows = [estimate, estimate + len(config.penalties)]
            self.answer.weight.copy_(network.out.weight[rows])
            self.answer.bias.copy_(network.out.bias[rows])
            self.answer.bias[0].add_(math.log(config.margin))
        self.caution, self.contrast = config.caution, config.contrast
        self.level = math.log(config.deviation) + (1 - config.contrast) * math.log(REFERENCE_SPREAD)
        self.register_buffer("low", _each([known.low for known in STATISTICS]))
        self.register_buffer("high", _each([known.high for known in STATISTICS]))
        self.register_buffer("hidden", torch.zeros(1, 1, config.hidden))
        self.register_buffer("capacity", torch.full((1, 1), START_BPS))
        self.register_buffer("spread", torch.full((1, 1), START_SPREAD))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the capacity and its standard deviation, bit/s, both f32 [1, 1].

        Args:
            observation: f32 [1, 150]; with any value that is NaN or out of its bounds, it counts as missing.
        """
        network = self.network
        # NaN is neither above nor below.  What a missing observation makes of the rest is computed and not taken.
        is_good = (observation >= self.low) & (observation <= self.high)
        is_known = is_good.all(dim=-1, keepdim=True)
        reference = network.reference(observation)
        out, hidden = network.cell(network.reading(observation, reference)[:, None], self.hidden)
        answer = self.answer(functional.relu(network.mix(out[:, 0])))
        log_spread = answer[:, 1:]
        lowered = answer[:, :1] - self.caution * torch.exp(log_spread).clamp(max=1.0)
        new = torch.exp(lowered + reference).clamp(MIN_CAPACITY_BPS, MAX_CAPACITY_BPS)
        capacity = torch.where(is_known, new, self.capacity)
        spread = torch.exp(self.contrast * log_spread + self.level)
        spread = torch.where(is_known, spread, self.spread * GROWTH).clamp(*SPREADS)
        self.hidden.copy_(torch.where(is_known, hidden, self.hidden))
        self.capacity.copy_(capacity)
        self.spread.copy_(spread)
        return capacity, capacity * spread
