"""Measures the stripped size of libalcove.so and of the libraries that an app links for each peer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import alcove.runtime._native as native

from benchmarks.models.peers import Places
from benchmarks.sizes import stripped_bytes

_SITE: Final = "lib/python3.11/site-packages"
PEERS: Final[Mapping[str, tuple[str, ...]]] = {
    "ExecuTorch: core, threads, optimised kernels, XNNPACK": tuple(
        f"et15/{_SITE}/executorch/lib/libexecutorch{part}.so"
        for part in ("", "_threadpool", "_kernels_optimized", "_backend_xnnpack")
    ),
    "LiteRT: the interpreter": (f"venv/{_SITE}/ai_edge_litert/libpywrap_litert_common.so",),
    "ONNX Runtime": (f"venv/{_SITE}/onnxruntime/capi/libonnxruntime.so.1.*",),
    "OpenVINO: core, processor, its format, threads": tuple(
        f"venv/{_SITE}/openvino/libs/{part}"
        for part in (
            "libopenvino.so.*",
            "libopenvino_intel_cpu_plugin.so",
            "libopenvino_ir_frontend.so.*",
            "libtbb.so.*",
        )
    ),
    "ncnn: its Python module": (f"venv/{_SITE}/ncnn/ncnn.*.so",),
}
"""Files of each, below the folder of the peers; those that a run on a processor needs."""


def library_bytes(places: Places) -> dict[str, int]:
    """Return the stripped size of libalcove.so and of each peer's libraries that are there."""
    found = {"alcove: libalcove.so": stripped_bytes(Path(native.__file__).parent / "libalcove.so")}
    for name, patterns in PEERS.items():
        files = [file for pattern in patterns for file in sorted(places.base.glob(pattern))]
        if len(files) >= len(patterns):
            found[name] = sum(map(stripped_bytes, files))
    return found
