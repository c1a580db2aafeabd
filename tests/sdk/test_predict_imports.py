"""What an app that only predicts loads: numpy and alcove's own, and none of what a sync, a report or a server needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from alcove.features import catalogue

NOT_LOADED = (
    "_hashlib",  # OpenSSL: 4 MiB
    "_ssl",
    "alcove.sdk.frame_inputs",  # an app without streams has none of their modules
    "alcove.sdk.stream",
    "alcove.sdk.stream_frames",
    "alcove.sdk.stream_pump",
    "alcove.sdk.stream_runner",
    "alcove.sdk.stream_session",
    "asyncio",
    "backports.zstd",
    "compression.zstd",
    "cryptography",
    "grpc",
    "pydantic",  # 14 MiB with what it loads
    "pydantic_core",
    "securesystemslib",
    "socket",
    "torch",
    "tuf",
    "urllib3",
)

PREDICT = """
import json, sys
from alcove.sdk import Client
name, folder, *options = sys.argv[1:]
client = Client("reader", folder, "http://127.0.0.1:1", b"{}", max_stale_s=None)
handle = client.feature(name)
import numpy as np
if name == "feed_ranking":
    from alcove.features.feed_ranking import FeedRanking, FeedRequest
    inputs = FeedRanking().inputs(FeedRequest(history=[260, 1196], candidates=[1210, 2571, 480]))
elif name == "language_id":
    inputs = ("Wo ist der Bahnhof?",)
elif name == "photo_enhance":
    inputs = (np.zeros((256, 256, 3), np.uint8), np.zeros((128, 128, 3), np.uint8))
elif name == "cutouts":
    from alcove.features.cutouts import Cutouts
    inputs = Cutouts().prepare(np.zeros((8, 8, 3), np.uint8))
elif name == "style_transfer":
    from alcove.features.style_transfer import StyleTransfer
    inputs = StyleTransfer().prepare(np.zeros((8, 8, 3), np.uint8))
else:
    shape, kind = {
        "background": ((144, 256, 3), np.uint8),
        "bandwidth": ((1, 150), np.float32),
        "noise_suppression": ((1, 256), np.float32),
        "scene_tags": ((352, 352, 3), np.uint8),
    }[name]
    inputs = (np.zeros(shape, kind),)
answer = handle.predict(*inputs)
assert answer.value is not None, answer
client.close()
print(json.dumps([answer.version, answer.reason, sorted(sys.modules)]))
"""


def predict(feature: str, folder: Path) -> tuple[str, str, set[str]]:
    """Predict once in a process of its own; return the version that answered, why, and the modules that were loaded."""
    command = [sys.executable, "-c", PREDICT, feature, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    version, reason, modules = json.loads(done.stdout)
    return version, reason, set(modules)


@pytest.mark.parametrize("feature", sorted(catalogue()))
def test_prediction_of_a_baseline_loads_numpy_alone(feature: str, tmp_path: Path) -> None:
    """Each feature answers, with its typed value, without a library that the prediction does not need."""
    _, reason, modules = predict(feature, tmp_path / "data")
    assert reason == "baseline"
    assert "numpy" in modules
    assert not modules & set(NOT_LOADED)
