"""Lists the features that come with alcove: what an app can call, and how to read a program's outputs.

Importing this is cheap: a feature's own module, and numpy with it, is loaded when the feature is first used.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Feature", "Framing", "StreamingFeature", "catalogue"]

FrameT_contra = TypeVar("FrameT_contra", contravariant=True)
ValueT_co = TypeVar("ValueT_co", covariant=True)

__path__ = extend_path(__path__, __name__)  # a feature may be installed in another folder than the SDK


class Feature(Protocol):
    """A named, typed contract between an app and the programs that serve it."""

    @property
    def name(self) -> str:
        """What apps and policies call it: lower case, digits and underscores."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        ...

    @property
    def default_version(self) -> str:
        """The version of `default_program`, "MAJOR.MINOR.PATCH"."""
        ...

    @property
    def default_program(self) -> Path:
        """The program that ships with alcove, to use as a baseline."""
        ...

    def parse(self, line: bytes) -> "tuple[str | bytes | np.ndarray[Any, Any], ...]":
        """Return a program's inputs for one line of a file, without its newline.

        Raises:
            ValueError: the line is no input of this feature; says what was expected.
        """
        ...

    def decode(self, outputs: "list[np.ndarray[Any, Any]]") -> Any:
        """Return the typed value, a frozen dataclass, of a program's outputs.

        Raises:
            ValueError: the outputs are not those of this feature.
        """
        ...


class Framing(Protocol[FrameT_contra, ValueT_co]):
    """What lies between the frames of an app and the runs of a program, for one stream; it may keep a remainder.

    An app's frame may take no run, one, or several: hops of 160 samples for a program that takes 256, for example.  The
    stream calls it from one thread at a time: `encode_frame`, then `decode_frame`, or `skip_frame` where a run of the
    frame was stopped, refused, or failed.  When another version takes over, the framing stays as it is: no sample of
    its remainder is lost.
    """

    def encode_frame(self, frame: FrameT_contra) -> "Sequence[tuple[Any, ...]]":
        """Return the inputs of each run that this frame completes, in order; () where it completes none.

        Raises:
            ValueError: it is no frame of this feature (`FieldError`, `InputError`); nothing of it was kept.
        """
        ...

    def decode_frame(self, outputs: "list[list[Any]]") -> ValueT_co:
        """Return the frame's value of the outputs of its runs; [] where it took none.

        Raises:
            ValueError: the outputs are not those of this feature.
        """
        ...

    def skip_frame(self) -> None:
        """Note that the frame that was encoded last has no value, so that those after it are in their place."""
        ...

    def reset(self) -> None:
        """Begin anew, with no remainder."""
        ...


class StreamingFeature(Feature, Protocol[FrameT_contra, ValueT_co]):
    """A feature with a framing of its own; the stream of any other takes a program's inputs and decodes a run."""

    def framing(self) -> Framing[FrameT_contra, ValueT_co]:
        """Return the framing of a new stream."""
        ...


_FEATURES = {
    "background": ("alcove.features.background.contract", "Background"),
    "bandwidth": ("alcove.features.bandwidth.contract", "Bandwidth"),
    "cutouts": ("alcove.features.cutouts.contract", "Cutouts"),
    "feed_ranking": ("alcove.features.feed_ranking.contract", "FeedRanking"),
    "language_id": ("alcove.features.language_id.contract", "LanguageId"),
    "noise_suppression": ("alcove.features.noise_suppression.contract", "NoiseSuppression"),
    "photo_enhance": ("alcove.features.photo_enhance.contract", "PhotoEnhance"),
    "scene_tags": ("alcove.features.scene_tags.contract", "SceneTags"),
    "style_transfer": ("alcove.features.style_transfer.contract", "StyleTransfer"),
}


class _Catalogue(Mapping[str, Feature]):
    """The installed features by name; each is loaded when it is looked up."""

    def __getitem__(self, name: str) -> Feature:
        module, attribute = _FEATURES[name]
        if not _is_installed(name):
            raise KeyError(f"{name}: pip install alcove-feature-{name.replace('_', '-')}")
        return cast("Feature", getattr(import_module(module), attribute)())

    def __contains__(self, name: object) -> bool:
        return name in _FEATURES and _is_installed(str(name))

    def __iter__(self) -> Iterator[str]:
        return filter(_is_installed, _FEATURES)

    def __len__(self) -> int:
        return sum(map(_is_installed, _FEATURES))


def _is_installed(name: str) -> bool:
    """Return whether a feature's own distribution, `alcove-feature-NAME`, is installed."""
    return find_spec(f"{__name__}.{name}") is not None


def catalogue() -> Mapping[str, Feature]:
    """Return the features of alcove that are installed, by name."""
    return _Catalogue()
