"""Computes a model's least time on this machine: arithmetic at its peak, or weights at their cache's bandwidth."""

import json
import subprocess
from dataclasses import dataclass
from typing import Final

from benchmarks.models.cases import BUILT, PEERS, Case, reference_models

RUNS: Final = 4
_L2_BYTES: Final = 800e3
_L3_BYTES: Final = 4e6


@dataclass(frozen=True)
class Limits:
    """Of one core: operations a nanosecond, bytes a nanosecond."""

    f32: float
    int8: float
    l2: float
    l3: float
    beyond: float


def limits(core: int) -> Limits:
    """Measure them: the best of some runs of `limits.c`."""
    BUILT.mkdir(parents=True, exist_ok=True)
    executable = BUILT / "limits"
    subprocess.run(["gcc", "-O3", "-march=native", str(PEERS / "limits.c"), "-o", str(executable)], check=True)
    best: dict[str, float] = {}
    for _ in range(RUNS):
        completed = subprocess.run(
            ["taskset", "-c", str(core), str(executable)], check=True, capture_output=True, text=True
        )
        for name, value in json.loads(completed.stdout).items():
            best[name] = max(best.get(name, 0.0), float(value))
    return Limits(
        max(best["f32_avx512_gflops"], best["f32_avx2_gflops"]),
        best["int8_vnni512_gops"],
        best["read_gbs_l2_512k"],
        best["read_gbs_l3_2m"],
        best["read_gbs_l3_8m"],
    )


def floor_us(case: Case, measured: Limits) -> float:
    """Return the least time of a case: all its products by their definition, all weights read once."""
    count = reference_models().count(case.model)
    is_int8 = bool(case.quantize)
    weights = count["weight_bytes_touched"] / (4 if is_int8 else 1)
    bandwidth = measured.l2 if weights < _L2_BYTES else measured.l3 if weights < _L3_BYTES else measured.beyond
    products = count["flops"] / (measured.int8 if is_int8 else measured.f32)
    return float(max(products, weights / bandwidth)) / 1000
