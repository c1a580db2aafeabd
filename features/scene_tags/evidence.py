"""Adds up what the networks say of their classes to what they say of tags."""

from collections.abc import Sequence
from typing import Final

import torch
from alcove.features.scene_tags.config import CATEGORIES, SCENES
from alcove.features.scene_tags.tags import ANIMAL, TAGS, TREE, ancestors, subtree
from torch import Tensor, nn

LEAST: Final = 1e-4
"""Added to probabilities before their logarithm: below it they are noise."""
CLASSES_OF_TAGS: Final = tuple(tag.classes for tag in TREE)
CATEGORIES_OF_TAGS: Final = tuple((CATEGORIES.index(tag.category),) if tag.category else () for tag in TREE)
DETECTED: Final = tuple(at for at, name in enumerate(TAGS) if any(CATEGORIES_OF_TAGS[below] for below in subtree(name)))
"""Places in `TAGS` of what the detector sees, by itself or by a tag below."""

RIVALS: Final = tuple(
    at
    for at, name in enumerate(TAGS)
    if ANIMAL in ancestors(name)
    and not any(TREE[each].category for each in (*subtree(name), *map(TAGS.index, ancestors(name))))
    and not any(set(DETECTED).isdisjoint(subtree(each)) for each in ancestors(name))
)
"""Places in `TAGS` of animals that the detector has no name for; not those below one of them."""
ABOVE_RIVALS: Final = frozenset(each for at in RIVALS for each in ancestors(TAGS[at]))
"""Tags that such an animal has too: they are not less likely for it."""


def log_odds(probability: Tensor) -> Tensor:
    """Return log(p / (1 - p)), about -9 to 9."""
    return torch.log(probability + LEAST) - torch.log((1 + LEAST) - probability)


class Subtrees(nn.Module):
    """Sums rows over the subtrees of tags, f32 [batch, rows, n] to [batch, chosen tags, n].

    The rows of a subtree stand together once they are in the order of the tree: their sum is a difference of two
    running sums.

    Args:
        own: for each tag, in the order of the tree, the rows that are its own.
        chosen: places of the tags whose sums are wanted.
    """

    def __init__(self, own: Sequence[Sequence[int]], chosen: Sequence[int]) -> None:
        super().__init__()
        bounds = [0]
        for rows in own:
            bounds.append(bounds[-1] + len(rows))
        last = [subtree(TAGS[at])[-1] for at in chosen]
        self.order = places([row for rows in own for row in rows])
        self.first = places([bounds[at] for at in chosen])
        self.end = places([bounds[at + 1] for at in last])
        self.is_seen = tuple(bounds[at] < bounds[end + 1] for at, end in zip(chosen, last, strict=True))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the sums, at most 1: a class may belong to two tags below the same one."""
        running = torch.cumsum(rows.index_select(1, self.order), 1)
        running = torch.cat([torch.zeros_like(running[:, :1]), running], 1)
        sums: Tensor = running.index_select(1, self.end) - running.index_select(1, self.first)
        return sums.clamp(0.0, 1.0)


def sources() -> tuple[list[int], list[int]]:
    """Return where each tag's score comes from, and which detected score it is multiplied by.

    The first: places in the joined scores of what is detected, of all tags by their classes, and of scenes.  The
    second: places in those of what is detected, with a 1 behind them: a taxi is a car, which the detector sees.
    """
    source, within = [], []
    for at, name in enumerate(TAGS):
        broader = [TAGS.index(each) for each in ancestors(name)]
        whole = next((each for each in broader if CATEGORIES_OF_TAGS[each]), None)
        if name in SCENES:
            source.append(len(DETECTED) + len(TAGS) + SCENES.index(name))
        elif at in DETECTED:
            source.append(DETECTED.index(at))
        else:
            source.append(len(DETECTED) + at)
        is_within = whole is not None and at not in DETECTED
        within.append(DETECTED.index(whole) if is_within and whole is not None else len(DETECTED))
    return source, within


def places(values: Sequence[int]) -> nn.Parameter:
    """Return places as a tensor of a module that nothing trains, int32 [n]: as int64 they take twice the bytes."""
    return nn.Parameter(torch.tensor(list(values), dtype=torch.int32), requires_grad=False)
