"""Provides metrics that fit features of camera and calls, ready to be created: kind, edges, direction, what to record.

Ratings are counted, not averaged: the part of calls rated good or better is what ITU-T G.107 calls GoB.  A budget of
frames is counted by use, not by frame, so that recording costs a file write a use and no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry.policy.metric import MetricKind

__all__ = ["METRIC_PRESETS", "MetricPreset", "preset_of"]


@dataclass(frozen=True)
class MetricPreset:
    """What a metric is, but for feature and owner.

    Attributes:
        kind, edges, more_is_better, description: as `MetricDefinition` has them.
        features: that it was made for; it may be created for any.
        call: how an app records it.
    """

    kind: MetricKind
    edges: tuple[float, ...]
    more_is_better: bool
    description: str
    features: tuple[str, ...]
    call: str


METRIC_PRESETS: Final[Mapping[str, MetricPreset]] = MappingProxyType(
    {
        "preferred": MetricPreset(
            MetricKind.PREFERENCE,
            (),
            True,
            "which of two versions a person preferred, shown or played in the order of the device's arm",
            ("cutouts", "background", "style_transfer", "photo_enhance", "noise_suppression"),
            'handle.record_preference("preferred", "first")',
        ),
        "sticker_kept": MetricPreset(
            MetricKind.SHARE,
            (0.5,),
            True,
            "part of stickers that were kept, not undone; recorded when the editor closes",
            ("cutouts",),
            'handle.record("sticker_kept", True)',
        ),
        "edit_kept": MetricPreset(
            MetricKind.SHARE,
            (0.5,),
            True,
            "part of edited photos or videos that were saved or sent as edited; recorded when the editor closes",
            ("style_transfer", "photo_enhance"),
            'handle.record("edit_kept", True)',
        ),
        "call_good": MetricPreset(
            MetricKind.SHARE,
            (0.5,),
            True,
            "part of rated calls with 4 or 5 of 5 (good or better); recorded when a call is rated",
            ("background", "noise_suppression"),
            'handle.record("call_good", rating >= 4)',
        ),
        "call_poor": MetricPreset(
            MetricKind.SHARE,
            (0.5,),
            False,
            "part of rated calls with 1 or 2 of 5 (poor or worse); recorded when a call is rated",
            ("background", "noise_suppression"),
            'handle.record("call_poor", rating <= 2)',
        ),
        "frame_budget_missed": MetricPreset(
            MetricKind.SHARE,
            (0.5,),
            False,
            "part of calls or recordings in which more than 1 % of the frames were late; recorded at their end",
            ("background", "style_transfer", "noise_suppression"),
            'handle.record("frame_budget_missed", late_frames > 0.01 * frames)',
        ),
    }
)


def preset_of(name: str) -> MetricPreset:
    """Return a preset by its name.

    Raises:
        InvalidFieldError: there is none of this name.
    """
    found = METRIC_PRESETS.get(name)
    if found is None:
        raise InvalidFieldError("preset", f"one of {', '.join(METRIC_PRESETS)}", name)
    return found
