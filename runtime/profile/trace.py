"""Writes a profile as the JSON that Perfetto and Chrome read: tracks of slices, a counter.

run      the whole run
ops      one slice each, with line, shapes, bytes, operations, roofline
modules  neighbours of one module as one slice
memory   bytes of the arena that are held, and what was planned
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from alcove.runtime.format.liveness import compute_live_ranges
from alcove.runtime.format.spec import ProgramSpec
from alcove.runtime.profile.fused import parts_of
from alcove.runtime.profile.measure import OpProfile, Profile

__all__ = ["held_bytes", "trace_json"]

_PROCESS: Final = 1
_TRACKS: Final = {"run": 1, "modules": 2, "ops": 3}


def trace_json(profile: Profile, name: str) -> str:
    """Return the trace of the profile's median run; `name` is of the program."""
    events = [
        _meta("process_name", 0, f"{name} ({profile.machine.isa}, {profile.machine.threads} threads)"),
        *(_meta("thread_name", track, label) for label, track in _TRACKS.items()),
        *(_sort_index(track) for track in _TRACKS.values()),
        *_slices(profile),
        *_memory(profile),
    ]
    other = {"digest": profile.digest, "runs": profile.runs, "call_us": profile.call_us, "isa": profile.machine.isa}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}, ensure_ascii=False)


def held_bytes(spec: ProgramSpec) -> list[int]:
    """Return the bytes of the arena that tensors hold at each step, [ops]; bytes that two share count once."""
    lives = compute_live_ranges(spec)
    held = []
    for step in range(len(spec.ops)):
        places = sorted(
            (spec.tensors[index].offset, spec.tensors[index].offset + spec.tensors[index].size_bytes)
            for index, (first, last) in lives.items()
            if first <= step <= last
        )
        total = end = 0
        for low, high in places:
            total += max(0, high - max(low, end))
            end = max(end, high)
        held.append(total)
    return held


def _slices(profile: Profile) -> Iterator[dict[str, Any]]:
    timestamps = profile.timestamps_ns
    yield _slice(
        "run", "run", int(timestamps[0]), int(timestamps[-1]), {"ops": len(profile.ops), "ops_us": profile.ops_us}
    )
    for module, group in groupby(profile.ops, key=lambda op: op.module):
        ops = list(group)
        name = module or ops[0].op
        start, end = int(timestamps[ops[0].index]), int(timestamps[ops[-1].index + 1])
        yield _slice("modules", name, start, end, {"ops": [op.op for op in ops]})
    for op in profile.ops:
        yield _slice("ops", op.op, int(timestamps[op.index]), int(timestamps[op.index + 1]), _facts(profile, op))


def _facts(profile: Profile, op: OpProfile) -> dict[str, Any]:
    return {
        "index": op.index,
        "source": op.source,
        "module": op.module,
        "shapes": op.shapes,
        "fused": parts_of(profile.spec.ops[op.index]),
        "median_us": round(op.time_us, 4),
        "weight_bytes": op.work.weight_bytes,
        "activation_bytes": op.work.activation_bytes,
        "flops": op.work.flops,
        "bound": op.bound,
        "roofline": round(op.roofline, 4),
    }


def _memory(profile: Profile) -> Iterator[dict[str, Any]]:
    held = held_bytes(profile.spec)
    for step, used in enumerate(held):
        args = {"held": used, "planned, unused": profile.spec.arena_bytes - used}
        yield _counter(int(profile.timestamps_ns[step]), args)
    yield _counter(int(profile.timestamps_ns[-1]), {"held": 0, "planned, unused": profile.spec.arena_bytes})


def _slice(track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> dict[str, Any]:
    place = {"pid": _PROCESS, "tid": _TRACKS[track]}
    return (
        {"ph": "X", "cat": track, "name": name, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
        | place
        | {"args": args}
    )


def _counter(at_ns: int, args: dict[str, int]) -> dict[str, Any]:
    return {"ph": "C", "cat": "memory", "name": "arena bytes", "ts": at_ns / 1000, "pid": _PROCESS, "args": args}


def _meta(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _sort_index(track: int) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": track, "args": {"sort_index": track}}
