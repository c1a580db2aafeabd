"""Prints a line for each of some models: its name, a colon and the digest of its program, built in this process.

Called by test_reproducible.py with "features" or "architectures", and another order of hashes each time.
"""

import hashlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from alcove.features.bandwidth.build import build as bandwidth
from alcove.features.bandwidth.config import DEFAULT_VERSION as BANDWIDTH
from alcove.features.feed_ranking.build import build as feed_ranking
from alcove.features.feed_ranking.config import DEFAULT_VERSION as FEED_RANKING
from alcove.features.language_id.build import build as language_id
from alcove.features.scene_tags.build import RANGES
from alcove.features.scene_tags.config import SIZE
from alcove.features.scene_tags.networks.blaze_face import BlazeFace
from alcove.features.scene_tags.networks.mobilenet_v2 import MobileNetV2
from alcove.features.scene_tags.small import SmallModule
from alcove.runtime import export

from benchmarks.architectures.registry import architectures

FLOATS = ("mobilenet-v3", "decoder-cache-grows", "dlrm")
INTEGERS = ("mobilenet-v1", "text-cnn")


def features() -> Iterator[tuple[str, bytes]]:
    """A program of each feature."""
    yield "language_id", bytes(language_id("1.0.0"))
    yield "bandwidth", bytes(bandwidth(BANDWIDTH, "int8"))
    yield "feed_ranking", bytes(feed_ranking(FEED_RANKING, "int8"))
    yield "scene_tags", scene_tags()


def architecture_programs() -> Iterator[tuple[str, bytes]]:
    """Some architectures as floats, and some as int8 too."""
    for entry in architectures():
        if entry.name in FLOATS + INTEGERS:
            module, calls = entry.make()
            yield entry.name, bytes(export(module, calls[0]))
        if entry.name in INTEGERS:
            yield f"{entry.name} int8", bytes(export(module, calls[0], quantize="int8", calibration=calls[:1]))


def scene_tags() -> bytes:
    """The small variant untrained, for its checkpoint is not in the repository; int8 by pictures of noise."""
    torch.manual_seed(5)
    module = SmallModule(MobileNetV2(), BlazeFace()).eval()
    pictures = np.random.default_rng(5).integers(0, 256, (4, SIZE, SIZE, 3), np.uint8)
    calibration = [(torch.from_numpy(picture),) for picture in pictures]
    return bytes(export(module, calibration[0], quantize=RANGES["small"], calibration=calibration))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in (features if sys.argv[1] == "features" else architecture_programs)():
            sys.stdout.write(f"{name}: {hashlib.sha256(program).hexdigest()}\n")
