"""Orders a feed on the device: its own history and candidates in, an explained order out.

FeedRanking                   the feature: name, shipped program, how to read a line of input and a program's outputs
FeedRequest, FeedAnswer       what is asked, and what a prediction gives
ItemDelta                     items that came after the program
Adapter                       what one device learned of its user's taste; it never leaves it
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.feed_ranking.contract import FeedAnswer, FeedRanking
    from alcove.features.feed_ranking.delta import ItemDelta
    from alcove.features.feed_ranking.personalize import Adapter
    from alcove.features.feed_ranking.request import FeedRequest

__all__ = ["Adapter", "FeedAnswer", "FeedRanking", "FeedRequest", "ItemDelta"]

_HOMES = {
    "Adapter": "personalize",
    "FeedAnswer": "contract",
    "FeedRanking": "contract",
    "FeedRequest": "request",
    "ItemDelta": "delta",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"alcove.features.feed_ranking.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
