"""Says what alcove costs in the environment that runs it, as JSON: `python footprint_probe.py sizes | FEATURE`.

Reads nothing of the repository and needs no library but alcove's own, so that an app's environment can run it.
"""

import json
import os
import sys
from pathlib import Path


def resident_kib() -> int:
    """Return what of this process is in memory, pages of files included."""
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def list_sizes() -> dict[str, int]:
    """Return the bytes of all files of each installed distribution."""
    from importlib import metadata

    sizes: dict[str, int] = {}
    for one in metadata.distributions():
        paths = [Path(str(one.locate_file(file))) for file in one.files or []]
        sizes[one.metadata["Name"]] = sum(path.stat().st_size for path in paths if path.is_file())
    return sizes


def follow_memory(feature: str) -> dict[str, int]:
    """Return KiB of resident memory above a bare interpreter's after each step up to a prediction."""
    start = resident_kib()
    steps: dict[str, int] = {}

    def note(name: str) -> None:
        steps[name] = resident_kib() - start

    import numpy as np

    note("numpy")
    from alcove.sdk import Client

    folder = Path(f"/tmp/alcove-footprint-{os.getpid()}")
    client = Client(app="messenger", data_dir=folder, server="https://models.example.org", trusted_root=b"{}")
    note("alcove's client")
    handle = client.feature(feature)
    note("the feature and its program")
    if feature == "feed_ranking":
        from alcove.features.feed_ranking import FeedRanking, FeedRequest

        request = FeedRequest(history=[260, 1196], candidates=[1210, 2571, 480])
        inputs: tuple[object, ...] = FeedRanking().inputs(request)
    elif feature == "language_id":
        inputs = ("Wo ist der Bahnhof?",)
    elif feature == "bandwidth":
        inputs = (np.zeros((1, 150), np.float32),)
    else:
        inputs = (np.zeros((352, 352, 3), np.uint8),)
    answer = handle.predict(*inputs)
    if answer.value is None:
        sys.exit(f"{feature}: {answer.error}")
    note("a prediction")
    client.close()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if folder.exists():
        folder.rmdir()
    return steps


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list_sizes() if sys.argv[1] == "sizes" else follow_memory(sys.argv[1])))
