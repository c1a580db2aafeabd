"""Defines the whole model that is exported: text in, ranked languages out."""

from alcove.features.language_id.config import LANGUAGES, ModelConfig
from alcove.features.language_id.network import LanguageIdNetwork
from alcove.runtime.ops import LabelledTopK, NgramHash, Ranked
from torch import Tensor, nn
from torch.nn import functional


class LanguageIdModule(nn.Module):
    """Hash, mean of the table's rows, scores, probabilities, the best of them.

    Args:
        config, table: the shape of a version; the table of its hash (`alcove.runtime.composition`), where it composes.
    """

    def __init__(self, config: ModelConfig, table: bytes | None = None) -> None:
        super().__init__()
        self.hash = NgramHash(config.min_order, config.max_order, config.buckets, config.seed, config.capacity, table)
        self.network = LanguageIdNetwork(config)
        self.best = LabelledTopK(LANGUAGES, config.ranked)

    def forward(self, utf8: Tensor) -> Ranked:
        """Return the best languages of one text.

        Args:
            utf8: uint8 [bytes], the text in UTF-8; may be empty.

        Returns:
            Probabilities f32 [1, k], descending, and the numbers of their languages, int64 [1, k].
        """
        ids = self.hash(utf8)
        scores = self.network(ids, ids.new_zeros(1))
        ranked: Ranked = self.best(functional.softmax(scores, dim=-1))
        return ranked
