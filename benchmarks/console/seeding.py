"""Makes the data of a server with many versions, rollouts and experiments, in bulk; the same for the same sizes.

The rows are those that the server's own store writes, made at once instead of call by call; programs are two of the
repository's own.  Nobody signs these versions: only a server for measuring and for pictures runs on them.
"""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.platform.domain.catalog.names import sort_key
from alcove.platform.domain.experiment_records import ExperimentPlan, StoredDecision
from alcove.platform.domain.records import (
    ArmRecord,
    ExperimentRecord,
    RolloutRecord,
)
from alcove.platform.domain.rollout_records import (
    AnalysisRecord,
    GuardrailRecord,
    Proposal,
    RolloutPlan,
    Stage,
    StageDecisionKind,
    VerdictRecord,
)
from alcove.platform.domain.states import ExperimentState, RolloutState, VersionState
from alcove.platform.services.local_store import with_store
from alcove.platform.store import Store
from alcove.platform.store.catalog_tables import (
    AliasMoveRow,
    AliasRow,
    StateMoveRow,
    TagRow,
    ValidationRow,
    VersionFactsRow,
)
from alcove.platform.store.experiments import add_experiment, save_experiment
from alcove.platform.store.reports import add_counts
from alcove.platform.store.rollouts import add_rollout
from alcove.platform.store.tables import AuditRow, FeatureRow, StageAnalysisRow, VersionRow
from alcove.platform.testing import ServerWorld
from alcove.registry.manifest import Lineage, Manifest
from alcove.registry.package import Package, create_package
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, Storage, TensorSpec
from alcove.runtime.format.writer import write_program
from pydantic import TypeAdapter
from sqlalchemy import insert

from benchmarks.console.reports import count_reports, with_analyses

__all__ = ["Seeded", "Sizes", "seed"]

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = ROOT / "features" / "language_id" / "programs" / "language_id-1.0.0.alc"
SUBJECTS: Final = ("keyboard", "camera", "inbox", "photo", "call", "map", "feed", "search", "note", "voice")
JOBS: Final = ("language", "labels", "summary", "quality", "ranking", "safety", "intent", "tags", "speed", "topics")
TEAMS: Final = ("text", "vision", "speech", "ranking")
APPS: Final = tuple(f"app_{name}" for name in ("messenger", "camera", "mail", "maps", "notes")) + tuple(
    f"partner_{number:02d}" for number in range(15)
)
PEOPLE: Final = ("operator:anna", "operator:li", "operator:sam")
DAY_S: Final = 86_400
BATCH: Final = 500
LOOKS: Final = 6  # analyses of a stage
ANALYSIS: Final = TypeAdapter(AnalysisRecord)
CARD: Final = """# Which language a text is in

Names the language of a short text, on the device.

## Intended use

- Choosing a dictionary
- Offering a translation

| measure | value |
|---|---|
| accuracy | 0.96 |
| languages | 30 |

## Limits

Texts under ten characters are often wrong.
"""


@dataclass(frozen=True)
class Sizes:
    """How much is made.

    Attributes:
        features: names; at most 100.
        versions: of each feature.
        rollouts, experiments: in all.
    """

    features: int = 100
    versions: int = 100
    rollouts: int = 1000
    experiments: int = 1000


@dataclass(frozen=True)
class Seeded:
    """A world with its data.

    Attributes:
        world: keys, tree, tokens and database.
        feature: the first one, with versions 1.0.0 and later.
        versions: of that one, from the oldest on.
        rollout_id, experiment_id: of one that runs.
        app: that the rollout is of.
    """

    world: ServerWorld
    feature: str
    versions: tuple[str, ...]
    rollout_id: str
    experiment_id: str
    app: str

    @property
    def things(self) -> dict[str, str]:
        """Names for the addresses of `pages.py`: of the newest released version and the one before it, among others."""
        return {
            "feature": self.feature,
            "version": self.versions[-2],
            "older": self.versions[-3],
            "rollout": self.rollout_id,
            "experiment": self.experiment_id,
            "app": self.app,
        }


def seed(folder: Path, sizes: Sizes, *, now_s: int) -> Seeded:
    """Make keys, tree, blobs and rows in a folder that does not exist yet.

    Args:
        folder: of the new world.
        sizes: how much is made.
        now_s: the newest time in it, seconds since 1970-01-01 UTC.
    """
    features = [f"{subject}_{job}" for job, subject in product(JOBS, SUBJECTS)][: sizes.features]
    teams = {team: tuple(features[place :: len(TEAMS)]) for place, team in enumerate(TEAMS)}
    teams = {team: names for team, names in teams.items() if names}
    world = ServerWorld(folder, teams=teams)
    packages = _packages()
    for package in packages:
        for sha256, data in package.blobs().items():
            world.tree.blobs.put(sha256, data)
    team_of = {name: team for team, names in teams.items() for name in names}
    versions = _versions(sizes, features, team_of, packages, now_s)
    made = asyncio.run(with_store(world.data_dir, None, lambda store: _fill(store, sizes, versions, team_of, now_s)))
    first = tuple(one.manifest.version for one in versions if one.manifest.feature == features[0])
    for role in ("operator", "reader", *(f"team:{team}" for team in teams)):
        world.token(role)  # which cannot be made in a loop that runs
    return Seeded(world, features[0], first, *made)


def _packages() -> list[Package]:
    """Return two packages of which all versions are made: same signature, other weights."""
    program = PROGRAM.read_bytes()
    programs = [program, _retrain(program)]
    first = create_package(
        feature="keyboard_language", team="text", version="1.0.0", programs={"f32": programs[0]}, card=CARD
    )
    second = create_package(
        feature="keyboard_language",
        team="text",
        version="1.1.0",
        programs={"f32": programs[1]},
        card=CARD + "\n\nTrained on twice as much text.\n",
        bases={"f32": [programs[0]]},
    )
    return [first, second]


def _retrain(program: bytes) -> bytes:
    """Return a program whose float weights moved a little, as after a week's training; its certificate is as before."""
    noise = np.random.default_rng(7)
    spec = read_spec(program)

    def move(tensor: TensorSpec) -> TensorSpec:
        if tensor.storage is not Storage.CONSTANT or tensor.dtype is not DType.F32:
            return tensor
        was = np.frombuffer(tensor.data, dtype="<f4")
        moved = was * (1 + noise.normal(0, 0.02, was.shape) * (noise.random(was.shape) < 0.1))
        return replace(tensor, data=moved.astype("<f4").tobytes())

    return write_program(replace(spec, tensors=tuple(move(tensor) for tensor in spec.tensors)))


@dataclass(frozen=True)
class _Version:
    sequence: int
    manifest: Manifest
    data: bytes
    state: VersionState
    published_at_s: int


def _versions(
    sizes: Sizes, features: Sequence[str], team_of: dict[str, str], packages: Sequence[Package], now_s: int
) -> list[_Version]:
    found: list[_Version] = []
    for place, feature in enumerate(features):
        for number in range(sizes.versions):
            name = f"{1 + number // 20}.{number % 20}.0"
            base = packages[number % 2].manifest
            parent = found[-1].manifest.version if number else ""
            lineage = Lineage(
                training_run=f"run-{place:03d}-{number:04d}", code_revision=f"{number:08x}", parent=parent
            )
            manifest = base.model_copy(
                update={"feature": feature, "team": team_of[feature], "version": name, "lineage": lineage}
            )
            age = sizes.versions - number
            state = VersionState.RELEASED
            if age <= 1:
                state = VersionState.REGISTERED if place % 2 else VersionState.VALIDATED
            elif age > 4:
                state = VersionState.REVOKED if number % 17 == 3 else VersionState.DEPRECATED
            published = now_s - age * DAY_S - place * 600
            found.append(_Version(len(found) + 1, manifest, manifest.to_bytes(), state, published))
    return found


async def _fill(
    store: Store, sizes: Sizes, versions: Sequence[_Version], team_of: dict[str, str], now_s: int
) -> tuple[str, str, str]:
    chance = random.Random(7)
    async with store.write() as session:
        await session.execute(insert(FeatureRow), [{"name": name, "team": team} for name, team in team_of.items()])
        for row, values in _rows(versions):
            for start in range(0, len(values), BATCH):
                await session.execute(insert(row), values[start : start + BATCH])
        by_feature: dict[str, list[_Version]] = {}
        for one in versions:
            by_feature.setdefault(one.manifest.feature, []).append(one)
        rollouts = [
            await add_rollout(session, record) for record in _rollouts(sizes.rollouts, by_feature, chance, now_s)
        ]
        histories = [row for record in rollouts for row in _stage_analyses(record, chance)]
        for start in range(0, len(histories), BATCH):
            await session.execute(insert(StageAnalysisRow), histories[start : start + BATCH])
        experiments = []
        for plain in _experiments(sizes.experiments, by_feature, chance, now_s):
            record = with_analyses(plain) if plain.state is ExperimentState.RUNNING else plain
            if record.state is ExperimentState.RUNNING:
                await add_counts(session, count_reports(record))
            added = await add_experiment(session, record)
            experiments.append(await save_experiment(session, replace(record, sequence=added.sequence)))
        subjects = [
            (
                one.rollout_id,
                "advance rollout",
                one.created_at_s + DAY_S * number,
                {"to_basis_points": stage.share_basis_points},
            )
            for one in rollouts
            for number, stage in enumerate(one.plan.stages[: one.stage])
        ]
        subjects += [(one.experiment_id, "start experiment", one.created_at_s, {}) for one in experiments]
        entries = [
            {
                "at_s": at_s,
                "principal": chance.choice(PEOPLE),
                "action": action,
                "subject": subject,
                "details": json.dumps({"reason": "planned in the weekly meeting"} | more),
            }
            for subject, action, at_s, more in sorted(subjects, key=lambda one: one[2])
        ]
        await session.execute(insert(AuditRow), entries)
    running = max((one for one in rollouts if one.state == RolloutState.RUNNING), key=lambda one: one.stage)
    started = next(one for one in experiments if one.state == ExperimentState.RUNNING)
    return running.rollout_id, started.experiment_id, running.app


def _rows(versions: Sequence[_Version]) -> Iterator[tuple[type[Any], list[dict[str, Any]]]]:
    yield (
        VersionRow,
        [
            {
                "sequence": one.sequence,
                "feature": one.manifest.feature,
                "version": one.manifest.version,
                "manifest_sha256": one.manifest.sha256,
                "manifest": one.data,
                "published_at_s": one.published_at_s,
            }
            for one in versions
        ],
    )
    yield (
        VersionFactsRow,
        [
            {
                "version_sequence": one.sequence,
                "version_key": sort_key(one.manifest.version),
                "search_text": f"{one.manifest.feature}\n{one.manifest.version}\n{one.manifest.team}",
                "state": one.state,
            }
            for one in versions
        ],
    )
    validated = [one for one in versions if one.state is not VersionState.REGISTERED]
    yield ValidationRow, [_validation(one) for one in validated]
    yield StateMoveRow, [move for one in validated for move in _moves(one)]
    yield (
        TagRow,
        [
            {
                "version_sequence": one.sequence,
                "key": "dataset",
                "value": f"2026-{1 + one.sequence % 12:02d}",
                "search_text": f"dataset\n2026-{1 + one.sequence % 12:02d}",
                "set_by": f"team:{one.manifest.team}",
                "set_at_s": one.published_at_s,
            }
            for one in versions
            if one.sequence % 5 == 0
        ],
    )
    newest = {one.manifest.feature: one for one in versions if one.state is VersionState.RELEASED}
    yield (
        AliasRow,
        [{"feature": name, "alias": "stable", "version": one.manifest.version} for name, one in newest.items()],
    )
    yield (
        AliasMoveRow,
        [
            {
                "feature": name,
                "alias": "stable",
                "from_version": None,
                "to_version": one.manifest.version,
                "moved_by": f"team:{one.manifest.team}",
                "moved_at_s": one.published_at_s + 7200,
                "reason": "two weeks without an alarm",
                "approved_by": None,
            }
            for name, one in newest.items()
        ],
    )
    yield (
        AuditRow,
        [
            {
                "at_s": one.published_at_s + later_s,
                "principal": f"team:{one.manifest.team}",
                "action": action,
                "subject": f"{one.manifest.feature} {one.manifest.version}",
                "details": json.dumps(details, sort_keys=True),
            }
            for one in versions
            for later_s, action, details in _history(one)
        ],
    )


def _history(one: _Version) -> list[tuple[int, str, dict[str, str]]]:
    entries: list[tuple[int, str, dict[str, str]]] = [(0, "publish version", {})]
    if one.state is not VersionState.REGISTERED:
        entries.append((600, "passed version", {}))
    entries += [
        (3600 * place, f"{move['to_state'].removesuffix('d')} version", {"reason": move["reason"]})
        for place, move in enumerate(_moves(one)[1:], 1)
    ]
    return entries


def _validation(one: _Version) -> dict[str, Any]:
    (variant,) = one.manifest.variants
    latency_ms = 0.8 + (one.sequence * 37 % 100) / 200
    checks = [
        ("certificate", variant.name, "16 samples within 1e-05; largest difference 3.1e-07", ""),
        ("size", variant.name, f"{variant.size_bytes} bytes", "8000000 bytes"),
        ("memory", variant.name, f"{variant.memory_ceiling_bytes} bytes", "16000000 bytes"),
        ("latency", variant.name, f"{latency_ms:.3g} ms", "5 ms"),
        ("operators", variant.name, "all known", ""),
        ("signature", "", "as before", ""),
    ]
    rows = [
        {"name": name, "variant": of, "is_passed": True, "figure": figure, "bound": bound}
        for name, of, figure, bound in checks
    ]
    return {
        "version_sequence": one.sequence,
        "is_passed": True,
        "checks": json.dumps(rows),
        "validated_by": f"team:{one.manifest.team}",
        "validated_at_s": one.published_at_s + 600,
    }


def _moves(one: _Version) -> list[dict[str, Any]]:
    """Return the steps from registered to where a version stands."""
    steps = [VersionState.REGISTERED, VersionState.VALIDATED]
    if one.state is not VersionState.VALIDATED:
        steps.append(VersionState.RELEASED)
    if one.state in (VersionState.DEPRECATED, VersionState.REVOKED):
        steps.append(one.state)
    reasons = {
        VersionState.VALIDATED: "",
        VersionState.RELEASED: "better on the weekly set, as fast",
        VersionState.DEPRECATED: "a newer version is at all devices",
        VersionState.REVOKED: "answers in the wrong language",
    }
    return [
        {
            "version_sequence": one.sequence,
            "from_state": before,
            "to_state": after,
            "moved_by": f"team:{one.manifest.team}",
            "moved_at_s": one.published_at_s + 3600 * place,
            "reason": reasons[after],
        }
        for place, (before, after) in enumerate(pairwise(steps))
    ]


def _places(count: int, features: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (number, app, feature), each pair at most once while there are enough of them."""
    for number in range(count):
        yield number, APPS[number % len(APPS)], features[(number // len(APPS) + number) % len(features)]


def _state(number: int) -> RolloutState:
    kinds = {0: RolloutState.RUNNING, 1: RolloutState.PAUSED, 2: RolloutState.DRAFT}
    if number % 25 in kinds:
        return kinds[number % 25]
    return {3: RolloutState.ROLLED_BACK, 4: RolloutState.HALTED}.get(number % 12, RolloutState.COMPLETED)


def _rollouts(
    count: int, versions: dict[str, list[_Version]], chance: random.Random, now_s: int
) -> Iterator[RolloutRecord]:
    stages = tuple(Stage(share, 2 * DAY_S, 1000) for share in (100, 500, 2000, 10_000))
    guardrails = (GuardrailRecord("crash_fallback", 0.002), GuardrailRecord("latency", 0.05, None, 50.0))
    plan = RolloutPlan(stages, guardrails, latency_edges_ms=(5.0, 10.0, 20.0, 50.0), expected_devices=200_000)
    occupied: set[tuple[str, str]] = set()
    for number, app, feature in _places(count, list(versions)):
        state = _state(number)
        if state in (RolloutState.RUNNING, RolloutState.PAUSED):
            if (app, feature) in occupied:
                state = RolloutState.COMPLETED
            occupied.add((app, feature))
        released = [one for one in versions[feature] if one.state in (VersionState.RELEASED, VersionState.DEPRECATED)]
        version = released[-1 - number % min(3, len(released))].manifest
        began_s = now_s - (count - number) * 1800 - DAY_S
        stage = {RolloutState.DRAFT: 0, RolloutState.COMPLETED: 4}.get(state, 1 + number % 3)
        share = stages[stage - 1].share_basis_points if stage else 0
        proposal = None
        if state is RolloutState.RUNNING and number % 50 == 0 and stage < len(stages):
            proposal = Proposal("operator:anna", now_s - 5400, stages[stage].share_basis_points, "")
        yield RolloutRecord(
            sequence=0,
            rollout_id=f"ro-{number:012x}",
            app=app,
            feature=feature,
            version=version.version,
            manifest_sha256=version.sha256,
            salt=f"{chance.getrandbits(128):032x}",
            state=state,
            share_basis_points=share,
            created_at_s=began_s,
            updated_at_s=min(now_s, began_s + DAY_S * (stage + 1)),
            policy_serial=0,
            plan=plan,
            stage=stage,
            stage_started_at_s=began_s + DAY_S * stage if stage else 0,
            proposal=proposal,
            analysis=_analysis(state, chance, now_s) if stage else None,
        )


def _analysis(state: RolloutState, chance: random.Random, now_s: int) -> AnalysisRecord:
    reports = chance.randrange(2000, 90_000)
    is_bad = state in (RolloutState.PAUSED, RolloutState.HALTED, RolloutState.ROLLED_BACK)
    value = 0.006 if is_bad else chance.uniform(-0.0005, 0.0005)
    width = 0.0012
    kind = "harmful" if is_bad else "safe"
    verdicts = (
        VerdictRecord(
            "crash_fallback",
            kind,
            value,
            value - width,
            value + width,
            f"the share of devices that fell back differs by {value:+.2%}, the margin is 0.20 %",
        ),
        VerdictRecord(
            "latency",
            "safe",
            0.001,
            -0.004,
            0.006,
            "slow answers differ by +0.10 %, the margin is 5 %",
        ),
    )
    decision = StageDecisionKind.HARM if is_bad else StageDecisionKind.READY
    reason = "crash_fallback is harmful: its interval lies above the margin" if is_bad else "all guardrails are safe"
    return AnalysisRecord(
        analyzed_at_s=now_s - chance.randrange(600, 7200),
        decision=decision,
        code=decision.value,
        reason=reason,
        reports=reports,
        devices=(reports * 0.9, reports * 0.9),
        verdicts=verdicts,
        is_attested=True,
        stages=1,
        pooled_reports=reports,
        looks=3,
        next_look_at_s=0,
        horizon_at_s=0,
    )


def _stage_analyses(record: RolloutRecord, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield a row for each analysis of a rollout's stages: intervals that get narrower with the reports."""
    if record.analysis is None:
        return
    for stage in range(1, record.stage + 1):
        for look in range(1, LOOKS + 1):
            at_s = record.created_at_s + DAY_S * stage + look * 7200
            width = 0.004 / look**0.5
            verdicts = tuple(
                replace(one, difference=middle, low=middle - width, high=middle + width)
                for one in record.analysis.verdicts
                for middle in ((one.difference or 0.0) + chance.gauss(0.0, width / 4),)
            )
            analysis = replace(
                record.analysis, analyzed_at_s=at_s, reports=record.analysis.reports * look // LOOKS, verdicts=verdicts
            )
            yield {
                "rollout_sequence": record.sequence,
                "stage": stage,
                "share_basis_points": record.plan.stages[stage - 1].share_basis_points,
                "analyzed_at_s": at_s,
                "analysis": ANALYSIS.dump_json(analysis).decode(),
            }


def _experiments(
    count: int, versions: dict[str, list[_Version]], chance: random.Random, now_s: int
) -> Iterator[ExperimentRecord]:
    plan = ExperimentPlan(mde=0.01, base_rate=0.6, expected_devices=40_000, devices_needed=36_000, days_needed=14)
    for number, app, feature in _places(count, list(versions)):
        usable = [one for one in versions[feature] if one.state is not VersionState.REVOKED]
        old, new = (usable[max(0, len(usable) - 2 - place)].manifest for place in (1, 0))
        created_s = now_s - (count - number) * 2400
        state = {0: ExperimentState.DRAFT, 1: ExperimentState.RUNNING}.get(number % 20, ExperimentState.STOPPED)
        is_winner = number % 3 == 0
        decision = None
        if state is not ExperimentState.DRAFT:
            words = (
                "treatment is better by 1.4 percentage points [0.6, 2.2]" if is_winner else "no difference is shown yet"
            )
            decision = StoredDecision(
                "winner" if is_winner else "inconclusive",
                1 if is_winner else None,
                "better" if is_winner else "interval_includes_zero",
                words,
            )
        yield ExperimentRecord(
            sequence=0,
            experiment_id=f"ex-{number:012x}",
            app=app,
            feature=feature,
            salt=f"{chance.getrandbits(128):032x}",
            arms=(
                ArmRecord("control", old.version, old.sha256, 2500),
                ArmRecord("treatment", new.version, new.sha256, 2500),
            ),
            state=state,
            epsilon="2",
            latency_edges_ms=() if state is ExperimentState.RUNNING else (5.0, 10.0, 20.0, 50.0),
            window_s=DAY_S,
            minimum_cohort=100,
            created_at_s=created_s,
            started_at_s=None if state is ExperimentState.DRAFT else created_s + 3600,
            stopped_at_s=created_s + 12 * DAY_S if state is ExperimentState.STOPPED else None,
            task_id=None if state is ExperimentState.DRAFT else f"{chance.getrandbits(128):032x}",
            decision=decision,
            policy_serial=0,
            plan=plan,
        )
