"""Policies for tests of assignment: one that uses everything, and a plain resolver to compare with."""

import hashlib
import hmac
from typing import Any

from alcove.registry.policy import (
    Arm,
    ExperimentPolicy,
    FeaturePolicy,
    Holdout,
    Outcome,
    Policy,
    Readout,
    RolloutPolicy,
    Segment,
    VersionRef,
    make_task,
    parse_audience,
)


def secret(device: int) -> bytes:
    """The secret of a numbered device, as the vectors say."""
    return hashlib.sha256(str(device).encode()).digest()


def ref(version: str) -> VersionRef:
    """A version with a digest of its own."""
    return VersionRef(version=version, manifest_sha256=hashlib.sha256(version.encode()).hexdigest())


def experiment(
    name: str, *shares: int, segment: Segment | None = None, audience: str = "", own_arm: bool = False
) -> ExperimentPolicy:
    """An experiment of versions 1.0.0, 1.1.0, ... with these shares."""
    arms = tuple(
        Arm(name=f"arm{index}", version=ref(f"1.{index}.0"), share_basis_points=share)
        for index, share in enumerate(shares)
    )
    task = make_task(
        experiment_id=name,
        epsilon="1",
        arm_count=len(shares),
        latency_edges_ms=(1.0,),
        window_s=60,
        first_window_start_s=0,
    )
    return ExperimentPolicy(
        id=name,
        salt=f"salt-{name}",
        arms=arms,
        tasks=(task,),
        audience=parse_audience(audience) if audience else None,
        segment=segment,
        own_arm=own_arm,
    )


def rollout(share: int, control: int = 0, audience: str = "", *, has_task: bool = False) -> RolloutPolicy:
    """A rollout of 3.0.0."""
    task = make_task(
        experiment_id="r1",
        epsilon="1",
        arm_count=2,
        outcome_groups=[(outcome,) for outcome in list(Outcome)[:4]],
        is_guardrail=True,
        latency_edges_ms=(1.0,),
        window_s=60,
        first_window_start_s=0,
    )
    return RolloutPolicy(
        id="r1",
        salt="salt-r",
        version=ref("3.0.0"),
        share_basis_points=share,
        control_basis_points=control,
        audience=parse_audience(audience) if audience else None,
        tasks=(task,) if has_task else (),
    )


def rules(*experiments: ExperimentPolicy, moving: RolloutPolicy | None = None) -> FeaturePolicy:
    """What devices run for one feature, 0.9.0 by default."""
    ordered = tuple(sorted(experiments, key=lambda one: one.id))
    return FeaturePolicy(
        min_version="0.1.0",
        default=ref("0.9.0"),
        rollout=moving,
        experiments=ordered,
    )


def readout(*, kept: str = "0.8.0", until_s: int = 1000, task_of: str = "ro-1", **options: Any) -> Readout:
    """A read-out that measures `moved`, and keeps a version of it and of `still`."""
    task = make_task(
        experiment_id=task_of,
        epsilon="2",
        arm_count=2,
        latency_edges_ms=(),
        window_s=864_000,
        first_window_start_s=0,
        is_guardrail=options.pop("is_guardrail", False),
    )
    versions = options.pop("versions", {"moved": ref(kept), "still": ref(kept)})
    return Readout(id="ro-1", feature=options.pop("feature", "moved"), kept=versions, task=task, until_s=until_s)


def make_readout_policy() -> Policy:
    """A read-out of a tenth of the devices, beside a compared rollout, an experiment and a feature that rests."""
    return policy(
        holdout=1000,
        readout=readout(),
        moved=rules(moving=rollout(4000, 4000, has_task=True)),
        tried=rules(experiment("ex-a", 5000, 5000)),
        still=rules(),
    )


def policy(holdout: int = 0, readout: Readout | None = None, **features: FeaturePolicy) -> Policy:
    """A policy of these features, with the layers that they use."""
    used = {one.segment.layer for rules in features.values() for one in rules.experiments if one.segment}
    return Policy(
        app="messenger",
        serial=1,
        features=features,
        layers={layer: f"salt-{layer}" for layer in sorted(used)},
        holdout=Holdout(salt="salt-h", share_basis_points=holdout, readout=readout) if holdout else None,
    )


def make_full_policy() -> Policy:
    """A policy with a rollout, a compared one, layers over two features, audiences side by side and a holdout."""

    def part(first: int, count: int) -> Segment:
        return Segment(layer="search", first=first, count=count)

    return policy(
        holdout=500,
        moved=rules(moving=rollout(3000, audience="app_version >= 2.1 and os in (android, ios)")),
        watched=rules(moving=rollout(2000, 2000, "locale in (de, en-GB) and locale != de-AT", has_task=True)),
        layered=rules(
            experiment("ex-a", 3000, 3000, segment=part(0, 4000)),
            experiment("ex-b", 5000, 2500, 2500, segment=part(4000, 3000), audience="memory_mb >= 3000"),
            moving=rollout(2500),
        ),
        also_layered=rules(experiment("ex-c", 5000, 5000, segment=part(7000, 3000))),
        apart=rules(
            experiment("ex-d", 5000, 5000, audience="os == ios"),
            experiment("ex-e", 1000, 9000, audience="os != ios and region in (AT, 419)"),
        ),
    )


def plainly(document: Any, feature: str, device: int, known: dict[str, Any], halted: set[str]) -> list[Any]:
    """Resolve from the document's plain JSON, in the fewest words: version, reason and arm, or nothing if halted."""

    def number(salt: str) -> int:
        digest = hmac.new(secret(device), salt.encode(), "sha256").digest()
        return int.from_bytes(digest[:8], "big") * 10_000 // 2**64

    def stops(version: Any) -> bool:
        return version["version"] in halted

    rules = document["features"][feature]
    holdout = document["holdout"]
    is_free = not holdout or number(holdout["salt"]) >= holdout["share_permyriad"]
    for one in rules["experiments"] if is_free else ():
        segment = one["segment"]
        place = number(document["layers"][segment["layer"]]) - segment["first"] if segment else 0
        if segment and not 0 <= place < segment["count"]:
            continue
        arm = _arm(one["arms"], number(one["salt"])) if _meets(one["audience"], known) else None
        if arm is not None and any(stops(other["version"]) for other in one["arms"]):
            return [] if stops(rules["default"]) else [rules["default"]["version"], "default", None]
        if arm is not None:
            return [one["arms"][arm]["version"]["version"], "experiment", arm]
    moving = rules["rollout"]
    if moving and not stops(moving["version"]) and _meets(moving["audience"], known):
        place = number(moving["salt"])
        control = moving["control_permyriad"]
        is_compared = (control or moving["tasks"]) and not stops(rules["default"])
        if place < moving["share_permyriad"]:
            return [moving["version"]["version"], "rollout", 1 if is_compared else None]
        if is_compared and place >= 10_000 - control:
            return [rules["default"]["version"], "rollout", 0]
    return [] if stops(rules["default"]) else [rules["default"]["version"], "default", None]


def _arm(arms: list[Any], place: int) -> int | None:
    if place >= 10_000 - arms[0]["share_permyriad"]:
        return 0
    for index, arm in enumerate(arms[1:], 1):
        if 0 <= place < arm["share_permyriad"]:
            return index
        place -= arm["share_permyriad"]
    return None


def _meets(audience: Any, known: dict[str, Any]) -> bool:
    for name, asked in (audience or {}).items():
        value, wanted = known.get(name), asked
        if value is None:
            return False
        if name == "app_version":
            value, wanted = _parts(value), {end: _parts(text) for end, text in asked.items()}
        if "from" in wanted and value < wanted["from"]:
            return False
        if "below" in wanted and value >= wanted["below"]:
            return False
        named = {
            key: any(f"{value}-".startswith(f"{word}-") for word in wanted.get(key, ())) for key in ("in", "not_in")
        }
        if ("in" in wanted and not named["in"]) or named["not_in"]:
            return False
    return True


def _parts(version: str) -> list[int]:
    return [*map(int, version.split(".")), 0, 0, 0][:4]
