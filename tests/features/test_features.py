"""The feature catalog lists every feature with its shipped program, and reading it imports no heavy library."""

import subprocess
import sys

import pytest
from alcove.features import catalogue

HEAVY = ("torch", "pydantic", "numpy", "tuf", "grpc")


def test_catalogue_lists_every_feature_with_its_shipped_program() -> None:
    """Each entry knows its name, says what it does, and its program is there."""
    features = catalogue()
    assert list(features) == [
        "background",
        "bandwidth",
        "cutouts",
        "feed_ranking",
        "language_id",
        "noise_suppression",
        "photo_enhance",
        "scene_tags",
        "style_transfer",
    ]
    for name, feature in features.items():
        assert feature.name == name
        assert feature.summary
        assert feature.default_version in feature.default_program.name
        assert feature.default_program.is_file()


def test_unknown_feature_is_a_key_error() -> None:
    """A name that is not there is refused like any mapping refuses it."""
    with pytest.raises(KeyError, match="mind_reading"):
        catalogue()["mind_reading"]


def test_looking_at_the_catalogue_loads_nothing_heavy() -> None:
    """Importing the features and listing them costs no torch, pydantic or numpy."""
    code = (
        "import sys; from alcove.features import catalogue; import alcove.features.language_id;"
        "import alcove.features.background, alcove.features.bandwidth, alcove.features.cutouts;"
        "import alcove.features.feed_ranking; list(catalogue());"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]; sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
