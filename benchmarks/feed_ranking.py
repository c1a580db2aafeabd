"""Times `feed_ranking` on 100 and 1,000 candidates, with and without the typed answer."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from alcove.features.feed_ranking.config import DEFAULT_VERSION, HISTORY, MAX_CANDIDATES
from alcove.features.feed_ranking.contract import FeedAnswer, FeedRanking, program_path
from alcove.runtime import Session, load

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    from alcove.features.feed_ranking.contract import Inputs


def measure() -> list[Figure]:
    """Return speed and size of the committed programs."""
    feature = FeedRanking()
    rng = np.random.default_rng(1)
    figures = []
    for variant in ("int8", "f32"):
        path = program_path(DEFAULT_VERSION, variant)
        session = load(path).session()
        argument = {}
        for count in (100, MAX_CANDIDATES):
            candidates = rng.choice(np.arange(1, 9000), count, replace=False).tolist()
            history = rng.choice(np.arange(1, 9000), HISTORY).tolist()
            argument[count] = json.dumps({"history": history, "candidates": candidates}).encode()
        inputs = {count: feature.parse(line) for count, line in argument.items()}
        few_us, many_us, typed_us, line_us = median_us(
            [
                partial(session, *inputs[100]),
                partial(session, *inputs[MAX_CANDIDATES]),
                partial(_predict, feature, session, inputs[MAX_CANDIDATES]),
                partial(_line, feature, session, argument[MAX_CANDIDATES]),
            ]
        )
        what = f"feed_ranking {DEFAULT_VERSION} {variant}"
        figures += [
            Figure(f"{what}: 100 candidates, p50", few_us, "µs", f"a history of {HISTORY}, explanations included"),
            Figure(f"{what}: 1,000 candidates, p50", many_us, "µs", "the same"),
            Figure(
                f"{what}: 1,000 with the typed answer, p50", typed_us, "µs", "re-ranking, the first 20 with reasons"
            ),
            Figure(f"{what}: 1,000 from a line of JSON, p50", line_us, "µs", "parse and checks included"),
            Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
        ]
    return figures


def _predict(feature: FeedRanking, session: Session, inputs: Inputs) -> FeedAnswer:
    return feature.decode(session(*inputs))


def _line(feature: FeedRanking, session: Session, line: bytes) -> FeedAnswer:
    return feature.decode(session(*feature.parse(line)))
