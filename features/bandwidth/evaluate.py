"""Evaluates the committed program, run natively beside the baselines, and writes the figures of a card.

python -m alcove.features.bandwidth.evaluate --traces FILE.csv                  # any traces in the data folder's form
python -m alcove.features.bandwidth.evaluate --traces FILE.csv --write CARD.md  # and the card with its pictures
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.bandwidth import card
from alcove.features.bandwidth.baselines import Estimator
from alcove.features.bandwidth.closed_loop import (
    MMWAVE_TICKS,
    compare,
    draw_segments,
    of_silences,
    recorded_paths,
    summarize,
)
from alcove.features.bandwidth.config import DEFAULT_VERSION, TICK_MS
from alcove.features.bandwidth.contract import program_path
from alcove.features.bandwidth.harness import (
    SETTLED,
    STEP_TICK,
    DeviationOf,
    ProgramEstimator,
    certainty,
    estimates_of,
    estimators,
    score,
    settling_s,
    step_recording,
    step_response,
)
from alcove.features.bandwidth.link import Floats
from alcove.features.bandwidth.mmwave import draw_mmwave_paths
from alcove.features.bandwidth.observation import observations_of
from alcove.features.bandwidth.replay import Trace, read_traces, record_segments, segments_of
from alcove.features.card_figures import replace_figures
from alcove.runtime import Model, load

SEGMENT_TICKS: Final = 500
"""30 s: longer traces are cut."""
VARIANTS: Final = ("int8", "f32")
SEED: Final = 11
MMWAVE_SEED: Final = 2026
"""Of 5G-like paths that nothing was chosen on: the controller's numbers were on those of seed 1."""
CURVE: Final = (-17, 84)
"""Ticks around a step that a picture shows: 1 s before, 5 s after."""


def choose_segments(traces: list[Trace], split: str, most: int) -> dict[str, list[Floats]]:
    """Return at most `most` capacities by source: of traces of `split`, or all of a source that has none there."""
    rng = np.random.default_rng(SEED)
    found = {}
    for source in dict.fromkeys(trace.source for trace in traces):
        of_source = [trace for trace in traces if trace.source == source]
        chosen = [trace for trace in of_source if trace.split in {split, ""}] or of_source
        pieces = [piece for _, piece in segments_of(chosen, SEGMENT_TICKS)]
        if pieces:
            found[source] = [pieces[i] for i in sorted(rng.permutation(len(pieces))[:most])]
    return found


def by_source(
    segments: Mapping[str, list[Floats]], makers: Mapping[str, Callable[[int], Estimator]], model: Model
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return each estimator's score, and the certainty of the feature's program, by source, as JSON values."""
    scores: dict[str, Any] = {}
    certainties: dict[str, Any] = {}
    for number, (source, pieces) in enumerate(segments.items()):
        recording = record_segments(pieces, SEGMENT_TICKS, SEED + 1000 * number)
        estimates = {name: estimates_of(make, recording.statistics) for name, make in makers.items()}
        scores[source] = {name: asdict(score(given, recording)) for name, given in estimates.items()}
        deviations = estimates_of(lambda n: DeviationOf(model, n), recording.statistics)
        certainties[source] = asdict(certainty(estimates[card.OURS], deviations, recording))
    return scores, certainties


def of_steps(makers: Mapping[str, Callable[[int], Estimator]], calls: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settling times, and the median curves around the step, by factor and estimator, as JSON values."""
    times: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for factor in (2.0, 0.5):
        recording = step_recording(factor, calls, SEED)
        times[f"{factor:g}"], curves[f"{factor:g}"] = {}, {}
        for name, make in makers.items():
            estimates = estimates_of(make, recording.statistics)
            settled = settling_s(estimates, recording)
            curve = step_response(estimates, recording)
            near = np.abs(curve[STEP_TICK:] / factor - 1) <= SETTLED
            away = np.flatnonzero(~near)
            rest = (0 if not len(away) else int(away[-1]) + 1) + 1
            quarters = [float(value) for value in np.quantile(settled, [0.25, 0.5, 0.75], method="lower")]
            times[f"{factor:g}"][name] = {
                **dict(zip(("p25_s", "median_s", "p75_s"), (_finite(value) for value in quarters), strict=True)),
                "within_1_s": float((settled <= 1.0).mean()),
                "curve_s": rest * TICK_MS / 1000 if near[-1] else None,
            }
            begin, end = CURVE
            curves[f"{factor:g}"][name] = [round(float(v), 4) for v in curve[STEP_TICK + begin : STEP_TICK + end]]
    return times, curves


def _finite(value: float) -> float | None:
    return round(value, 3) if np.isfinite(value) else None


def tick_us(path: Path) -> float:
    """Return the median time of one tick of a program, microseconds, the call from Python included."""
    session = load(path).session()
    pieces = [np.full(400, 2e6)]
    observations = observations_of(record_segments(pieces, 400, SEED).statistics)[0]
    rows = [np.ascontiguousarray(row[None]) for row in observations]
    times = []
    for _ in range(10):
        for row in rows:
            began = time.perf_counter_ns()
            session(row)
            times.append(time.perf_counter_ns() - began)
    return float(np.median(times)) / 1000


def evaluate(
    traces: Path,
    *,
    split: str,
    most: int,
    step_calls: int,
    calls: int,
    version: str = DEFAULT_VERSION,
    others: Sequence[Path] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all figures as JSON values, and the curves of the steps.

    Args:
        traces: file in the data folder's form.
        split: of the traces; those without one always count.
        most: segments of a source.
        step_calls: calls with a step; 0 leaves the steps out.
        calls: calls whose sender follows the estimate, over recorded, 5G-like and silent ones; 0 leaves them out.
        version: a committed one.
        others: int8 programs of the same version that were trained from other seeds.

    Raises:
        ValueError: the file is not in that form, or holds no trace long enough.
    """
    model = load(program_path(version))
    makers = estimators(model)
    segments = choose_segments(read_traces(traces), split, most)
    if not segments:
        raise ValueError(f"{traces.name} holds no trace of 9 s or more")
    scores, certainties = by_source(segments, makers, model)
    result: dict[str, Any] = {
        "version": version,
        "digest": model.digest,
        "program": {
            variant: {"size_bytes": file.stat().st_size, "tick_us": round(tick_us(file), 2)}
            for variant in VARIANTS
            for file in [program_path(version, variant)]
        },
        "sources": scores,
        "certainty": certainties,
    }
    curves: dict[str, Any] = {}
    if step_calls:
        result["steps"], curves = of_steps(makers, step_calls)
    if calls:
        mmwave = draw_mmwave_paths(calls, MMWAVE_TICKS, MMWAVE_SEED)
        result["calls"] = summarize(compare(recorded_paths(draw_segments(traces, calls, split)), 3, model))
        result["mmwave"] = summarize(compare(mmwave, MMWAVE_SEED, model))
        result["silences"] = of_silences(model, 3 * calls, SEED)
    if others:
        result["seeds"] = [of_seed(load(path), segments, calls) for path in (program_path(version), *others)]
    return result, curves


def of_seed(model: Model, segments: Mapping[str, list[Floats]], calls: int) -> dict[str, Any]:
    """Return the goals' figures of one program, as JSON values."""
    scores, certainties = by_source(segments, {card.OURS: lambda n: ProgramEstimator(model, n)}, model)
    found: dict[str, Any] = {
        "digest": model.digest,
        "relative_error": float(np.mean([by_name[card.OURS]["relative_error"] for by_name in scores.values()])),
        "over_rate": float(np.mean([by_name[card.OURS]["over_rate"] for by_name in scores.values()])),
        "within_1": {source: values["within_1"] for source, values in certainties.items()},
    }
    if calls:
        mmwave = draw_mmwave_paths(calls, MMWAVE_TICKS, MMWAVE_SEED)
        found["mmwave"] = summarize(compare(mmwave, MMWAVE_SEED, model, only=(card.OURS, card.RIVAL)))[card.RIVAL]
    return found


def main() -> None:
    """Evaluate the committed version and print, or write a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="CSV (or .csv.xz) in the form of the data folder")
    parser.add_argument("--split", default="dev", help="of the traces, where the file has that column")
    parser.add_argument("--most", type=int, default=64, help="segments of 30 s of each source")
    parser.add_argument("--steps", type=int, default=200, help="calls with a step of capacity; 0 for none")
    parser.add_argument("--calls", type=int, default=100, help="calls whose sender follows the estimate; 0 for none")
    parser.add_argument("--other", type=Path, action="append", default=[], help="program trained from another seed")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--write", type=Path, metavar="CARD.md", help="write figures and pictures to a card")
    arguments = parser.parse_args()
    result, curves = evaluate(
        arguments.traces,
        split=arguments.split,
        most=arguments.most,
        step_calls=arguments.steps,
        calls=arguments.calls,
        others=arguments.other,
    )
    print(card.figures(result))  # noqa: T201 (what the command is for)
    document = json.dumps({"result": result}, indent=1) + "\n"
    if arguments.json:
        arguments.json.write_text(document, encoding="utf-8")
    if arguments.write:
        path: Path = arguments.write
        path.write_text(replace_figures(path.read_text(encoding="utf-8"), card.figures(result)), encoding="utf-8")
        (path.parent / "evaluation.json").write_text(document, encoding="utf-8")
        (path.parent / "certainty.svg").write_text(card.certainty_picture(result), encoding="utf-8")
        for factor, by_name in curves.items():
            name = f"step_{factor.replace('.', '_')}.svg"
            picture = card.step_picture(factor, by_name, TICK_MS / 1000, CURVE[0] * TICK_MS / 1000)
            (path.parent / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
