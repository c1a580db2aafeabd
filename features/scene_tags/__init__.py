"""Tags a picture, embeds it, suggests a crop, and names the mood of the music that goes with it.

SceneTags                     the feature: name, shipped program, how to read a picture and a program's outputs
SceneAnswer                   what a prediction gives: tags, embedding, crop, mood
Vocabulary                    a team's own tags: five pictures make one
PictureError                  what cannot be read as a picture, and why
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.picture import PictureError
    from alcove.features.scene_tags.contract import SceneAnswer, SceneTags
    from alcove.features.scene_tags.vocabulary import Vocabulary

__all__ = ["PictureError", "SceneAnswer", "SceneTags", "Vocabulary"]

_HOMES = {
    "PictureError": "..picture",
    "SceneAnswer": ".contract",
    "SceneTags": ".contract",
    "Vocabulary": ".vocabulary",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
