"""What is in an observation, in which order and unit, and what shape has each version of the model?  No torch here.

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


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one version: values on a logarithmic scale, a layer, a recurrent layer, quantiles of the capacity.

    Attributes:
        version: of the feature, "MAJOR.MINOR.PATCH".
        width: of the layer that reads the observation.
        hidden: of the recurrent layer.
        mixed: of the layer behind it.
        quantiles: of the capacity, ascending.
        estimate: weights of their logarithms that make the estimate: of low ones, since too much hurts a call more.
        margin: factor of it, just below 1: where the capacity is known to a percent, that decides what is too much.
        spread: numbers of the two quantiles whose distance is two standard deviations.
    """

    version: str
    width: int
    hidden: int
    mixed: int
    quantiles: tuple[float, ...] = (0.08, 0.16, 0.25, 0.35, 0.5, 0.84)
    estimate: tuple[float, ...] = (0.7, 0.3, 0.0, 0.0, 0.0, 0.0)
    margin: float = 0.97
    spread: tuple[int, int] = (1, 5)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for run records."""
        return asdict(self)


CONFIGS: Final = {"1.0.0": ModelConfig(version="1.0.0", width=128, hidden=160, mixed=64)}

DEFAULT_VERSION: Final = "1.0.0"
