"""Defines the frames of a sound, the sources that a version learns from and each version's shape; needs no torch."""

from dataclasses import asdict, dataclass
from typing import Any, Final

SAMPLE_RATE: Final = 16_000
"""Samples a second that the network hears and gives."""

HOP: Final = 256
"""Samples taken and given at a time: 16 ms."""

WINDOW: Final = 2 * HOP
"""Samples of a frame: 32 ms."""

BINS: Final = WINDOW // 2 + 1
"""Frequencies of a frame: 257, 31.25 Hz apart."""

LATENCY_SAMPLES: Final = WINDOW
"""Between a sample's arrival and its going out, at most: it waits for the end of its hop, then for the next hop."""

DELAY_SAMPLES: Final = WINDOW - HOP
"""By how much what goes out lies behind what came in with the same call."""

FLOOR: Final = 1e-12
"""Added to a bin's power before the root."""

LOW_BINS: Final = 65
"""Bins that the network sees one by one (up to 2 kHz); the others are seen as `HIGH_BANDS` bands."""

HIGH_BANDS: Final = 64

BANDS: Final = LOW_BINS + HIGH_BANDS

WIDTH: Final = 16
"""Channels of the network."""

COARSE: Final = 33
"""Bands after the two strides: what the temporal blocks and the dual-path blocks see."""

ACTIVITY_WIDTH: Final = 16
"""Units of the layer that voice activity is read from."""

SNRS_DB: Final = (-5.0, 0.0, 5.0, 10.0)
"""Of the development mixtures."""

PERMITTED: Final = ("CC0-1.0", "CC-BY", "CC-BY-4.0")
"""Licences of noises that committed weights may learn from."""

SPEECH_SOURCES: Final = ("librispeech", "kerstin", "ljspeech")
"""Of speech that committed weights may learn from: CC BY 4.0, CC0-1.0, public domain."""


@dataclass(frozen=True)
class ModelConfig:
    """One version.

    Attributes:
        version: of the feature, "MAJOR.MINOR.PATCH".
        start: folder of the published weights that its training begins with.
    """

    version: str
    start: str = "gtcrn"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for run records."""
        return asdict(self)


CONFIGS: Final = {"1.0.0": ModelConfig(version="1.0.0")}

DEFAULT_VERSION: Final = "1.0.0"
