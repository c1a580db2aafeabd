"""Makes rows of new items from the vectors of their attributes, with numpy alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def attributes_of_network(network: Any) -> dict[str, Any]:
    """Return what rows of new items are made of, as JSON values.

    That is a vector and popularity for each attribute, and the base of an item that nobody touched yet: the mean of the
    own parts of all items.  (With those of rare items alone, new items would stay below all others.)
    """
    own = network.items.own.detach().cpu().numpy()
    shared = network.items.shared.detach().cpu().numpy()
    return {
        "base": [round(float(value), 5) for value in own[1:].mean(axis=0)],
        "attributes": [[round(float(value), 5) for value in row] for row in shared],
    }


def rows_of_attributes(document: dict[str, Any], items: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Return rows f32 [n, dim + 1] of new items with some attributes, for `delta.delta_bytes`.

    Raises:
        ValueError: an attribute is unknown.
    """
    base, shared = np.array(document["base"], np.float32), np.array(document["attributes"], np.float32)
    found = np.tile(base, (len(items), 1))
    for row, values in zip(found, items, strict=True):
        if any(not 0 <= value < len(shared) for value in values):
            raise ValueError(f"attributes are 0 to {len(shared) - 1}, not {list(values)!r:.80}")
        if values:
            np.add(row, shared[list(values)].sum(axis=0) / np.sqrt(len(values)), out=row)
    return found
