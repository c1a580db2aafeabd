"""Defines the model's shape and the bounds of a request, each with its reason; needs no torch."""

from dataclasses import asdict, dataclass
from typing import Any, Final

HISTORY: Final = 50
"""Items of a history that are read, the latest: as in SASRec and S3-Rec on these sets."""

MAX_CANDIDATES: Final = 1000
"""Candidates of one request: what half a millisecond is promised for."""

MAX_HISTORY_GIVEN: Final = 100_000
"""Items of a history that a request may hold; what is before the latest `HISTORY` is not read."""

MAX_ADDED: Final = 4096
"""Items that a delta may add: 1 MB of rows; more is a matter for a new program."""

PADDING: Final = 0
"""Id of no item: ids begin with 1."""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one version.

    Attributes:
        version: of the feature, "MAJOR.MINOR.PATCH".
        dim: of an item's vector.
        heads: of the attention.
        hidden: of the layer behind the attention.
    """

    version: str
    dim: int = 64
    heads: int = 2
    hidden: int = 128

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for run records."""
        return asdict(self)


CONFIGS: Final = {"1.1.0": ModelConfig(version="1.1.0")}

DEFAULT_VERSION: Final = "1.1.0"
