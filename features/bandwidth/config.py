"""Defines the statistics of an observation, their order and units, and each model version's shape; needs no torch.

Source of the observation: "Offline Reinforcement Learning for Bandwidth Estimation in Real Time Communications", grand
challenge of ACM MMSys 2024, description of the data: 15 statistics over the 5 latest short windows (60 ms) and the 5
latest long windows (600 ms).  Statistic number n, counted from 1, takes the places (n - 1) * 10 to (n - 1) * 10 + 4 for
the short windows and (n - 1) * 10 + 5 to (n - 1) * 10 + 9 for the long ones.

Not settled there, and settled here: the newest window comes first; long windows move with every tick (they end now, 600
ms ago, ...); a window without packets is 0 in all statistics except "minimum seen delay".
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

TICK_MS: Final = 60.0
"""Length of a short window: how often an estimate is made."""

WINDOWS: Final = 5
"""Short windows, and long windows, in an observation."""

TICKS_PER_LONG: Final = 10
"""Short windows in a long one."""

BASE_DELAY_MS: Final = 200.0
"""What the statistic "delay" leaves off, by its definition; so it alone may be negative."""


@dataclass(frozen=True)
class Statistic:
    """One statistic of a window.

    Attributes:
        name: with its unit.
        low: least value that can be; below it a value counts as missing.
        high: greatest value that makes sense; above it a value counts as missing.
    """

    name: str
    low: float
    high: float


STATISTICS: Final = (
    Statistic("receiving_rate_bps", 0.0, 1e10),
    Statistic("received_packets", 0.0, 1e7),
    Statistic("received_bytes", 0.0, 1e10),
    Statistic("queuing_delay_ms", 0.0, 1e6),
    Statistic("delay_ms", -BASE_DELAY_MS, 1e6),
    Statistic("minimum_seen_delay_ms", 0.0, 1e6),
    Statistic("delay_ratio", 0.0, 1e6),
    Statistic("delay_average_minimum_difference_ms", 0.0, 1e6),
    Statistic("interarrival_time_ms", 0.0, 1e6),
    Statistic("jitter_ms", 0.0, 1e6),
    Statistic("packet_loss_ratio", 0.0, 1.0),
    Statistic("average_lost_packets", 0.0, 1e7),
    Statistic("video_packets_probability", 0.0, 1.0),
    Statistic("audio_packets_probability", 0.0, 1.0),
    Statistic("probing_packets_probability", 0.0, 1.0),
)
"""In the order of the source; "jitter" is the standard deviation of the time between arrivals, "average lost packets"
the mean length of a run of lost packets."""

OBSERVATION_SIZE: Final = len(STATISTICS) * 2 * WINDOWS
"""150 values."""

MIN_CAPACITY_BPS: Final = 10e3
MAX_CAPACITY_BPS: Final = 100e6
"""Bounds of an estimate, and of a truth that it is compared with: a call has no use for more."""

MIDDLE: Final = 1.5
"""How many of its deviations an estimate lies below the middle of what is thought possible: estimates are careful, and
about one truth in twenty is below them.  Each version's deviation is fitted with this."""


REFERENCE_SPREAD: Final = 0.1
"""The deviation, as a share of the estimate, that `ModelConfig.contrast` leaves as it is."""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one version: a layer, a recurrent layer, another layer; quantiles, estimates and their deviations.

    Attributes:
        version: of the feature, "MAJOR.MINOR.PATCH".
        width: of the layer that reads the observation.
        hidden: of the recurrent layer.
        mixed: of the layer behind it.
        quantiles: of the capacity, ascending; learned besides, so that the layers know the whole distribution.
        penalties: of estimates (`train.penalize`): the cost of being above, in shares of a call's mean capacity.
        pulls: of each estimate: how much the fit of its deviation may move it, 0 to 1.
        estimate: number of the estimate that is given, and of its deviation.
        margin: factor of it, about 1: where the capacity is known to a percent, that decides what is too much.
        caution: how many deviations, as the network gives them, it is lowered by: the less is known, the more.
        deviation: factor of a deviation of `REFERENCE_SPREAD`, about 1: from made-up calls to recorded traces.
        contrast: exponent of the deviation's ratio to that one: above 1, small ones become smaller, large ones larger.
    """

    version: str
    width: int
    hidden: int
    mixed: int
    quantiles: tuple[float, ...] = (0.08, 0.16, 0.25, 0.35, 0.5, 0.84)
    penalties: tuple[float, ...] = (1.6, 3.2, 1.6, 3.2)
    pulls: tuple[float, ...] = (0.0, 0.0, 1.0, 1.0)
    estimate: int = 3
    margin: float = 1.0
    caution: float = 0.0
    deviation: float = 1.0
    contrast: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for run records."""
        return asdict(self)


# Estimate and factors were chosen after training, on the `train` split of the recorded traces.
CONFIGS: Final = {
    "1.2.0": ModelConfig(
        version="1.2.0",
        width=128,
        hidden=192,
        mixed=96,
        estimate=0,
        margin=1.062,
        caution=0.5,
        deviation=1.25,
        contrast=1.3,
    ),
}

DEFAULT_VERSION: Final = "1.2.0"
