"""Measures a policy with 1,000 live experiments: compiling it on the server, reading and evaluating it on a device.

One app, 50 features, 20 experiments of each: one layer per feature cut into 20 segments, every experiment with an
audience of four attributes, which is the dearest that the rules allow; a rollout and a holdout beside.  Devices that
are asked about are in all audiences, so that every question is asked.  `python -m benchmarks --only policy`.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alcove.platform.domain.records import (
    ArmRecord,
    Default,
    ExperimentRecord,
    ExperimentState,
    HoldoutRecord,
    LayerRecord,
    RolloutRecord,
    RolloutState,
    SegmentRecord,
)
from alcove.platform.services.policy import compile_policy
from alcove.registry.limits import EXPERIMENTS_MAX, POLICY_MAX_BYTES
from alcove.registry.policy import DeviceAttributes, Policy, bucket, policy_from_bytes, resolve

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    from collections.abc import Callable

APP: Final = "messenger"
FEATURES: Final = 50
EXPERIMENTS: Final = 20  # of each feature
REPEATS: Final = 7  # of what takes milliseconds; the least counts
DEVICES: Final = 200  # whose evaluation is timed
AUDIENCE: Final = "app_version >= 2.1.0 and locale in (de, en, fr) and memory_mb >= 2000 and os in (android, ios)"
DEVICE: Final = DeviceAttributes(app_version="2.3.0", os="ios", locale="de-AT", memory_mb=4096, region="AT")


def measure() -> list[Figure]:
    """Return times of compiling, reading and evaluating, and the size of the document."""
    compile_all = _compiler(FEATURES, EXPERIMENTS)
    policy = compile_all()
    data = policy.to_bytes()
    compile_s = _least_s(lambda: compile_all().to_bytes())
    read_s = _least_s(lambda: policy_from_bytes(data))
    typical, slowest = _evaluations_us(policy)
    crowded = _evaluations_us(_compiler(1, EXPERIMENTS_MAX)())[1]
    count = sum(len(rules.experiments) for rules in policy.features.values())
    return [
        Figure("live experiments in the policy", count, "", f"one app, {FEATURES} features"),
        Figure("policy: size", len(data), "bytes", f"≤ {POLICY_MAX_BYTES:,}; half of it is the versions' digests"),
        Figure("policy: compile", compile_s, "s", "from rows to canonical bytes; ≤ 1"),
        Figure("policy: read on the device", read_s * 1000, "ms", "parsed and checked, once a change"),
        Figure("policy: evaluate a feature, p50", typical, "µs", f"of {EXPERIMENTS} experiments; ≤ 50"),
        Figure("policy: evaluate a feature, slowest device", slowest, "µs", f"its median, of {DEVICES}; ≤ 50"),
        Figure(
            "policy: evaluate a crowded feature, slowest device",
            crowded,
            "µs",
            f"{EXPERIMENTS_MAX} experiments, the most that one may have",
        ),
    ]


def _compiler(features: int, experiments: int) -> Callable[[], Policy]:
    """Return a function that compiles the rows of a number of features and experiments."""
    names = [f"feature_{number:02d}" for number in range(features)]
    count = 10_000 // experiments
    defaults = [Default(APP, name, "1.0.0", _digest(name, "1.0.0")) for name in names]
    rows = [
        _experiment(name, number, SegmentRecord(f"layer_{name}", number * count, count))
        for name in names
        for number in range(experiments)
    ]
    rollouts = [_rollout(name) for name in names]
    layers = [LayerRecord(APP, f"layer_{name}", hashlib.sha256(name.encode()).hexdigest()[:32], 0) for name in names]
    holdout = HoldoutRecord(APP, "0123456789abcdef" * 2, 500, 1, 0)
    sizes = {arm.manifest_sha256: 1_000_000 for row in rows for arm in row.arms}

    def compile_all() -> Policy:
        return compile_policy(
            APP,
            1,
            defaults=defaults,
            rollouts=rollouts,
            experiments=rows,
            min_versions={},
            layers=layers,
            holdout=holdout,
            sizes=sizes,
        )

    return compile_all


def _experiment(feature: str, number: int, segment: SegmentRecord) -> ExperimentRecord:
    identity = hashlib.sha256(f"{feature} {number}".encode()).hexdigest()
    versions = ("1.0.0", f"1.{number + 1}.0")
    return ExperimentRecord(
        sequence=number,
        experiment_id=f"ex-{identity[:12]}",
        app=APP,
        feature=feature,
        salt=identity[:32],
        arms=tuple(ArmRecord(f"arm{arm}", text, _digest(feature, text), 5000) for arm, text in enumerate(versions)),
        state=ExperimentState.RUNNING,
        epsilon="2",
        latency_edges_ms=(1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
        window_s=86_400,
        minimum_cohort=1000,
        created_at_s=1_700_000_000,
        started_at_s=1_700_000_000,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
        audience=AUDIENCE,
        segment=segment,
    )


def _rollout(feature: str) -> RolloutRecord:
    record = RolloutRecord(
        sequence=1,
        rollout_id=f"ro-{feature}",
        app=APP,
        feature=feature,
        version="2.0.0",
        manifest_sha256=_digest(feature, "2.0.0"),
        salt=f"salt-{feature}",
        state=RolloutState.RUNNING,
        share_basis_points=1000,
        created_at_s=0,
        updated_at_s=0,
        policy_serial=0,
    )
    return replace(record, audience=AUDIENCE)


def _digest(feature: str, version: str) -> str:
    return hashlib.sha256(f"{feature} {version}".encode()).hexdigest()


def _least_s(run: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _evaluations_us(policy: Policy) -> tuple[float, float]:
    """Return the median over devices of the time to resolve one feature, and that of the slowest of them."""
    feature = min(policy.features)
    holdout = policy.holdout
    secrets = [hashlib.sha256(str(number).encode()).digest() for number in range(2 * DEVICES)]
    free = [one for one in secrets if holdout is None or bucket(one, holdout.salt) >= holdout.share_basis_points]

    def evaluation(secret: bytes) -> Callable[[], object]:
        return lambda: resolve(policy, feature, secret, attributes=DEVICE)

    times = median_us([evaluation(secret) for secret in free[:DEVICES]], per_repeat=20)
    return statistics.median(times), max(times)
