"""Layers keep the experiments of an app apart: at creation, at start, and in the policy that devices read."""

from collections.abc import Callable
from typing import Any

import pytest
from alcove.platform.client import (
    AlreadyExistsError,
    Arm,
    ClientError,
    ConflictError,
    Experiment,
    FailedPreconditionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    PlatformClient,
    Segment,
)
from alcove.platform.domain.comparisons import ALL_ARMS_BYTES
from alcove.platform.domain.experiments.claims import conflict
from alcove.platform.domain.records import (
    ArmRecord,
    Default,
    ExperimentRecord,
    ExperimentState,
    HoldoutRecord,
    LayerRecord,
    SegmentRecord,
)
from alcove.platform.services.policy import compile_policy
from alcove.platform.testing import ServerWorld
from alcove.registry.policy import Policy

ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
QUARTER = Segment(layer="search", first=0, count=2500)
NEXT = Segment(layer="search", first=2500, count=2500)


@pytest.fixture
def published(world: ServerWorld, team: PlatformClient, feature: str) -> str:
    """A feature with versions 1.0.0 and 2.0.0."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version)
    return feature


def running(operator: PlatformClient, app: str, feature: str, **options: Any) -> Experiment:
    """A running experiment of both versions."""
    return operator.start_experiment(operator.create_experiment(app, feature, ARMS, **options).experiment_id)


def policy_of(world: ServerWorld, app: str) -> Policy:
    """The policy as devices read it."""
    policy = world.tree.policy(app)
    assert policy is not None
    return policy


def test_two_experiments_of_a_feature_share_a_layer(
    world: ServerWorld, operator: PlatformClient, app: str, published: str
) -> None:
    """Disjoint segments run together; the list says what is taken, the policy holds both and the layer's salt."""
    operator.create_layer(app, "search")
    first = running(operator, app, published, segment=QUARTER)
    second = running(operator, app, published, segment=NEXT, audience="memory_mb>=3072 and os in (ios,android)")
    assert second.segment == NEXT
    assert second.audience == "memory_mb >= 3072 and os in (android, ios)"
    (layer,) = operator.layers(app)
    assert [(claim.experiment_id, claim.first, claim.count) for claim in layer.claims] == [
        (first.experiment_id, 0, 2500),
        (second.experiment_id, 2500, 2500),
    ]
    policy = policy_of(world, app)
    assert policy.layers.keys() == {"search"}
    rules = policy.features[published]
    assert {one.id for one in rules.experiments} == {first.experiment_id, second.experiment_id}
    operator.stop_experiment(first.experiment_id)
    assert [claim.experiment_id for claim in operator.layers(app)[0].claims] == [second.experiment_id]
    assert [one.id for one in policy_of(world, app).features[published].experiments] == [second.experiment_id]
    operator.stop_experiment(second.experiment_id)
    assert policy_of(world, app).layers == {}


def test_overlapping_claims_are_refused_at_creation_and_at_start(
    operator: PlatformClient, app: str, published: str
) -> None:
    """The error names who holds what, and a device that would be in both; nothing changes."""
    operator.create_layer(app, "search")
    plain = operator.create_experiment(app, published, ARMS)
    early = operator.create_experiment(app, published, ARMS, segment=Segment(layer="search", first=2499, count=1))
    holder = running(operator, app, published, segment=QUARTER, audience="os == ios")
    inside = Segment(layer="search", first=100, count=10)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"segment": inside}, "[0, 2500) of layer 'search', asked for [100, 110)"),
        ({"audience": "memory_mb >= 3072"}, "a device with memory_mb=3072, os=ios could be in both"),
    ]
    for options, words in cases:
        with pytest.raises(FailedPreconditionError) as caught:
            operator.create_experiment(app, published, ARMS, **options)
        assert holder.experiment_id in str(caught.value)
        assert words in str(caught.value)
    with pytest.raises(FailedPreconditionError, match="a device with os=ios could be in both"):
        operator.start_experiment(plain.experiment_id)
    with pytest.raises(FailedPreconditionError, match="asked for \\[2499, 2500\\)"):
        operator.start_experiment(early.experiment_id)
    assert operator.experiment(early.experiment_id).state == "draft"
    beside = running(operator, app, published, audience="os == web")
    assert beside.state == "running"


def test_layer_holds_over_the_features_of_an_app(
    world: ServerWorld, client: Callable[[str], PlatformClient], app: str, published: str
) -> None:
    """Another feature's experiment may not take the same buckets; without a layer it runs beside."""
    other, operator = published.replace("text", "speech"), client("operator")
    for version in ("1.0.0", "2.0.0"):
        world.publish(client("team:speech"), other, version)
    operator.create_layer(app, "search")
    running(operator, app, published, segment=QUARTER)
    with pytest.raises(FailedPreconditionError, match="of layer 'search'"):
        running(operator, app, other, segment=QUARTER)
    assert running(operator, app, other).state == "running"


def test_a_draft_moves_to_another_segment_and_audience(
    world: ServerWorld, operator: PlatformClient, app: str, published: str
) -> None:
    """What the mask names changes and nothing else; where it moves to is checked as at creation; devices read it."""
    operator.create_layer(app, "search")
    running(operator, app, published, segment=QUARTER)
    draft = operator.create_experiment(app, published, ARMS, segment=NEXT, audience="os == ios")
    for fields, options, refusal, words in (
        (["segment"], {"segment": QUARTER}, FailedPreconditionError, "asked for [0, 2500)"),
        (["segment"], {}, FailedPreconditionError, "a device with os=ios could be in both"),
        (["segment"], {"segment": Segment(layer="none", first=0, count=1)}, NotFoundError, "none"),
        (["audience"], {"audience": "os == ios and os == web"}, InvalidRequestError, "no device"),
    ):
        with pytest.raises(refusal) as caught:
            operator.update_experiment(draft.experiment_id, fields=fields, **options)
        assert words in str(caught.value)
    assert operator.experiment(draft.experiment_id) == draft
    operator.update_experiment(draft.experiment_id, fields=["minimum_cohort"], minimum_cohort=700)
    moved = operator.update_experiment(
        draft.experiment_id, fields=["audience"], audience="os in (web)", segment=QUARTER, etag=""
    )
    assert (moved.segment, moved.audience, moved.minimum_cohort) == (NEXT, "os in (web)", 700)
    last = Segment(layer="search", first=9000, count=1000)
    moved = operator.update_experiment(draft.experiment_id, fields=["segment", "audience"], segment=last)
    assert (moved.segment, moved.audience) == (last, "")
    assert operator.experiment(draft.experiment_id) == moved
    operator.start_experiment(draft.experiment_id)
    found = {one.id: one for one in policy_of(world, app).features[published].experiments}[draft.experiment_id]
    assert found.segment is not None
    assert (found.segment.layer, found.segment.first, found.segment.count) == ("search", 9000, 1000)
    with pytest.raises(FailedPreconditionError, match="is running: cannot update"):
        operator.update_experiment(draft.experiment_id, fields=["audience"], audience="os == ios")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"segment": Segment(layer="none", first=0, count=1)}, (NotFoundError, "none")),
        ({"segment": Segment(layer="search", first=9999, count=2)}, (InvalidRequestError, "ends at 10001")),
        ({"audience": "os == ios and os == web"}, (InvalidRequestError, "no device")),
        ({"audience": "color == red"}, (InvalidRequestError, "device_class")),
        ({"audience": "os ="}, (InvalidRequestError, "character 4")),
        ({"audience": "memory_mb >= much"}, (InvalidRequestError, "megabytes")),
    ],
)
def test_what_no_device_could_read_is_refused_at_creation(
    operator: PlatformClient, app: str, published: str, options: dict[str, Any], refusal: tuple[type[ClientError], str]
) -> None:
    """An unknown layer, an impossible segment, an audience that is unknown, empty or unreadable."""
    operator.create_layer(app, "search")
    with pytest.raises(refusal[0], match=refusal[1]):
        operator.create_experiment(app, published, ARMS, **options)
    assert operator.experiments(app) == []


def test_layer_is_created_once(operator: PlatformClient, app: str) -> None:
    """Its name is taken for ever; trying without doing keeps nothing; an app has at most 64."""
    operator.create_layer(app, "search", validate_only=True)
    assert operator.layers(app) == []
    layer = operator.create_layer(app, "search", request_id="layer-1-of-search")
    assert operator.create_layer(app, "search", request_id="layer-1-of-search") == layer
    with pytest.raises(AlreadyExistsError, match="'search'"):
        operator.create_layer(app, "search")
    for number in range(63):
        operator.create_layer(app, f"l{number}")
    with pytest.raises(InvalidRequestError, match="at most 64"):
        operator.create_layer(app, "one-too-many")


def test_holdout_is_in_the_policy_and_cannot_rise_while_an_experiment_runs(
    world: ServerWorld, operator: PlatformClient, app: str, published: str
) -> None:
    """Set, read, lowered under way; its salt stays, so that its devices do."""
    assert operator.holdout(app).share_basis_points == 0
    set_first = operator.set_holdout(app, 500)
    assert (set_first.etag, set_first.share_basis_points) == ("1", 500)
    experiment = running(operator, app, published)
    held = policy_of(world, app).holdout
    assert held is not None
    assert held.share_basis_points == 500
    with pytest.raises(FailedPreconditionError, match=experiment.experiment_id):
        operator.set_holdout(app, 501)
    with pytest.raises(ConflictError):
        operator.set_holdout(app, 100, etag="7")
    lowered = operator.set_holdout(app, 100, etag="1")
    assert operator.holdout(app) == lowered
    now = policy_of(world, app).holdout
    assert now is not None
    assert (now.salt, now.share_basis_points) == (held.salt, 100)
    operator.stop_experiment(experiment.experiment_id)
    operator.set_holdout(app, 0)
    assert policy_of(world, app).holdout is None


def test_who_may_what(client: Callable[[str], PlatformClient], app: str) -> None:
    """Operators change; readers and teams read."""
    for role in ("reader", "team:text"):
        with pytest.raises(PermissionDeniedError, match="layers"):
            client(role).create_layer(app, "search")
        with pytest.raises(PermissionDeniedError, match="holdouts"):
            client(role).set_holdout(app, 1)
        assert client(role).layers(app) == []
        assert client(role).holdout(app).share_basis_points == 0
        with pytest.raises(NotFoundError, match=app):
            client(role).policy(app)


def test_policy_is_given_as_it_is_signed(
    world: ServerWorld, operator: PlatformClient, app: str, published: str
) -> None:
    """The very document that devices read, and no halt where there was none."""
    running(operator, app, published)
    policy, halt = operator.policy(app)
    assert policy == policy_of(world, app)
    assert (halt.serial, halt.digests) == (0, frozenset())


def record(number: int, **changes: Any) -> ExperimentRecord:
    """A running experiment of feature `f` with versions of its own."""
    fields: dict[str, Any] = {
        "sequence": number,
        "experiment_id": f"ex-{number:04}",
        "app": "a",
        "feature": "f",
        "salt": f"salt-{number}",
        "arms": tuple(ArmRecord(f"arm{arm}", f"1.{arm}.0", f"{number * 10 + arm:064x}", 5000) for arm in (0, 1)),
        "state": ExperimentState.RUNNING,
        "epsilon": "2",
        "latency_edges_ms": (1.0,),
        "window_s": 3600,
        "minimum_cohort": 100,
        "created_at_s": 1000,
        "started_at_s": 1000,
        "stopped_at_s": None,
        "task_id": None,
        "decision": None,
        "policy_serial": 0,
    }
    return ExperimentRecord(**(fields | changes))


def compile_policies(*experiments: ExperimentRecord, **options: Any) -> Policy:
    """The policy of app `a` with one feature."""
    return compile_policy(
        "a",
        1,
        defaults=[Default("a", "f", "1.0.0", f"{1:064x}")],
        rollouts=[],
        experiments=experiments,
        min_versions={},
        **options,
    )


def test_compiled_policy_is_the_same_in_any_order() -> None:
    """Experiments, layers and their use; layers that nobody uses and a holdout of 0 are left out."""
    parts = [record(number, segment=SegmentRecord("l", number * 100, 100)) for number in range(5)]
    layers = [LayerRecord("a", name, f"salt-{name}", 0) for name in ("k", "l")]
    forward = compile_policies(*parts, layers=layers, holdout=HoldoutRecord("a", "s", 0, 1, 0))
    backward = compile_policies(*reversed(parts), layers=reversed(layers))
    assert forward.to_bytes() == backward.to_bytes()
    assert forward.layers == {"l": "salt-l"}
    assert forward.holdout is None
    assert compile_policies(holdout=HoldoutRecord("a", "s", 5, 1, 0)).holdout is not None


def test_conflicts_found_are_those_that_a_policy_would_refuse() -> None:
    """Each pair either compiles together or is named; a rule that only one of them had would let devices down."""
    shapes: list[dict[str, Any]] = [
        {"audience": audience, "segment": segment}
        for audience in ("", "os in (ios)", "os in (web)", "memory_mb >= 512")
        for segment in (None, SegmentRecord("l", 0, 10), SegmentRecord("l", 10, 10), SegmentRecord("k", 0, 10))
    ]
    layers = [LayerRecord("a", name, f"salt-{name}", 0) for name in ("k", "l")]
    outcomes = set()
    for one in shapes:
        for other in shapes:
            pair = (record(1, **one), record(2, **other))
            try:
                compile_policies(*pair, layers=layers)
                is_accepted = True
            except Exception:  # noqa: BLE001 - whatever it is, devices get no such policy
                is_accepted = False
            assert (conflict(*pair) is None) is is_accepted, (one, other)
            outcomes.add(is_accepted)
    assert outcomes == {True, False}


@pytest.mark.parametrize(("size", "is_own"), [(ALL_ARMS_BYTES // 2, False), (ALL_ARMS_BYTES // 2 + 1, True)])
def test_arms_that_are_too_much_to_fetch_are_fetched_alone(size: int, is_own: bool) -> None:
    """Above 8 MB together, counting a version once; the policy says so."""
    one = record(1)
    sizes = {arm.manifest_sha256: size for arm in one.arms}
    (found,) = compile_policies(one, sizes=sizes).features["f"].experiments
    assert found.own_arm is is_own
