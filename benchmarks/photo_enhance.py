"""Times `photo_enhance` on a photo of 12 megapixels, and measures the memory of a process that does nothing else.

The picture is drawn by rules.  `python -m benchmarks.photo_enhance` is that process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Final

import numpy as np
from alcove.features.photo_enhance.config import DEFAULT_VERSION
from alcove.features.photo_enhance.contract import PhotoEnhance, Recipe
from alcove.features.photo_enhance.drawn import scene
from alcove.features.photo_enhance.enhance import Enhancer

from benchmarks.figures import Figure

LARGE: Final = (3000, 4000)
SMALL: Final = (180, 240)
RUNS: Final = 5


def measure() -> list[Figure]:
    """Return speed, memory and size of the committed program."""
    code = [sys.executable, "-m", "benchmarks.photo_enhance"]
    found = json.loads(subprocess.run(code, check=True, capture_output=True).stdout)
    what = f"photo_enhance {DEFAULT_VERSION} int8"
    size = PhotoEnhance().default_program.stat().st_size
    return [
        Figure(
            f"{what}: 12 megapixels, light and colors, processor time, p50",
            1e3 * found["enhance_ms"],
            "µs",
            "analysis included",
        ),
        Figure(f"{what}: of that, the analysis, p50", 1e3 * found["analyze_ms"], "µs", "resizing included"),
        Figure(f"{what}: 240 x 180 to 960 x 720, p50", 1e3 * found["upscale_ms"], "µs", "in tiles"),
        Figure(f"{what}: memory of 12 megapixels", found["memory_kib"] * 1024, "bytes", "the whole process, at most"),
        Figure(f"{what}: of that, the photo and the result", 2 * 3 * LARGE[0] * LARGE[1], "bytes", ""),
        Figure(f"{what}: program", size, "bytes", "as stored and downloaded"),
    ]


def main() -> None:
    """Print the figures of this process as JSON."""
    # A small drawing, so that its making takes no memory of note.
    small = np.rint(scene(300, 400) * 0.3).astype(np.uint8)
    picture = np.empty((*LARGE, 3), np.uint8)
    for row in range(LARGE[0]):
        picture[row] = np.repeat(small[row // 10], 10, axis=0)
    enhancer = Enhancer()
    recipe = Recipe(light=1, colors=1)
    times: dict[str, list[float]] = {"analyze_ms": [], "enhance_ms": []}
    for _ in range(RUNS):
        began = time.process_time()
        answer = enhancer.analyze(picture)
        times["analyze_ms"].append(time.process_time() - began)
        enhancer.enhance(picture, recipe, answer)
        times["enhance_ms"].append(time.process_time() - began)
    memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times["upscale_ms"] = []
    for _ in range(RUNS):
        began = time.process_time()
        enhancer.upscale(scene(*SMALL), 4)
        times["upscale_ms"].append(time.process_time() - began)
    found = {name: 1e3 * float(np.median(each)) for name, each in times.items()}
    print(json.dumps({**found, "memory_kib": memory_kib}))


if __name__ == "__main__":
    main()
