"""Builds a small program of two methods, for tests of the verifier and for the fuzzer."""

from dataclasses import replace
from typing import Final

import numpy as np
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.testing import PLAIN_LINEAR, Assembly

ROWS: Final = 6
WIDTH: Final = 3


def prefill_and_decode() -> ProgramSpec:
    """Return a program whose methods write rows of one cache: "prefill" four at a time, "decode" one.

    Inputs: "at" int64 [rows], "x" f32 [rows, 3]. Outputs: "seen", the cache after that, and of "decode" also "scores",
    a product of the row with a matrix of its own. The matrix of the first product is in the file once.
    """
    first = _method(4, has_scores=False)
    second = _method(1, has_scores=True)
    return replace(first, method="prefill", others=(replace(second, method="decode"),))


def _method(rows: int, *, has_scores: bool) -> ProgramSpec:
    build = Assembly()
    random = np.random.default_rng(9)
    weight = random.standard_normal((WIDTH, WIDTH), np.float32)
    panels = build.panels("weight", weight, np.ones(WIDTH, np.float32))
    cache = build.state("cache", np.zeros((ROWS, WIDTH), np.float32))
    build.update(cache, cache)
    count = build.state("count", np.zeros(1, np.int64))
    at, x = build.input("at", DType.I64, (rows,)), build.input("x", DType.F32, (rows, WIDTH))
    (y,) = build.op("linear", [x, panels], (DType.F32, (rows, WIDTH)), attributes=PLAIN_LINEAR)
    build.op("write_rows", [cache, at, y], (DType.F32, (rows, WIDTH)), attributes=(0, 0))
    (seen,) = build.op("concat", [cache], (DType.F32, (ROWS, WIDTH)), attributes=(0,))
    (one,) = build.op("fill", [], (DType.I64, (1,)), attributes=(1,))
    (more,) = build.op("binary", [count, one], (DType.I64, (1,)), attributes=(1,))
    build.update(count, more)
    build.output("seen", seen)
    build.output("count", more)
    if has_scores:
        head = build.panels("head", random.standard_normal((5, WIDTH), np.float32), np.zeros(5, np.float32))
        (scores,) = build.op("linear", [y, head], (DType.F32, (rows, 5)), attributes=PLAIN_LINEAR)
        build.output("scores", scores)
    return build.spec()
