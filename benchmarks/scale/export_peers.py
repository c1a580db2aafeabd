"""Export the layers for peers: `python -m benchmarks.scale.export_peers JOB...`, in a peer's own environment.

The jobs are those of `../shared/peers/export.py` (golden, onnx, openvino, et, litert), which says how each peer wants
its models; here it gets other models.  What is there already is kept.  PEERS and PEERS_ART say where.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.scale.layers import CURVES, build, inputs

ENDINGS = {"golden": ".npz", "onnx": ".onnx", "openvino": ".xml", "et": ".pte", "litert": ".tflite"}


def main(jobs: list[str]) -> None:
    """Run jobs for every point that has no file yet; failures are printed, the rest continues."""
    torch.set_num_threads(1)
    sys.path.insert(0, os.environ["PEERS"])
    models: Any = import_module("models")
    export: Any = import_module("export")
    points = {curve.model(size): (curve, size) for curve in CURVES for size in curve.sizes}
    models.INPUTS = {name: lambda point=point: inputs(*point) for name, point in points.items()}
    models.INPUT_NAMES = {name: ["x"] for name in points}
    models.build = lambda name: build(*points[name])
    folder = Path(os.environ["PEERS_ART"])
    for job in jobs:
        models.NAMES = [name for name in points if not (folder / (name + ENDINGS[job])).exists()]
        if job == "golden":
            export.golden()
            continue
        for name in models.NAMES:
            try:
                export.JOBS[job](name)
            except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
                print(f"{job} {name}: {type(error).__name__}: {error}"[:300], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
