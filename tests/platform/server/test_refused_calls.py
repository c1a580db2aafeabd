"""Every call that finds things in the wrong state, changed meanwhile or not there at all: which status, and its words.

The table below has a row for each RPC of each service; one without it fails the first test.  Everything goes over the
wire to one real server.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc
import pytest
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.client import Arm, FeatureRules, PlatformClient
from alcove.platform.domain.permissions import PERMISSIONS
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.wire import METHODS, Wire, field_paths, method_path, request_class
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

OK = grpc.StatusCode.OK
FEATURE, APPROVED = "text_157", "text_156"
STALE = "777777"
NAMING = frozenset({"version", "rollout_id", "experiment_id", "layer", "proposal_id", "readout_id", "session_id"})
UNKNOWN = {
    "version": "9.9.9",
    "rollout_id": "ro-000000000000",
    "experiment_id": "ex-000000000000",
    "layer": "nowhere",
    "proposal_id": "ap-000000000000",
    "readout_id": "hr-000000000000",
    "session_id": "0000000000000000",
}


@dataclass(frozen=True)
class Row:
    """What one RPC is refused for.

    Attributes:
        names: paths of its fields that name something which may not be there.
        has_etag: whether it can be bound to what its sender read.
        legal: states in which it may be called; None: any.
        word: what the refusal calls it, in states that allow it.
    """

    names: tuple[str, ...] = ()
    has_etag: bool = False
    legal: tuple[str, ...] | None = None
    word: str = ""


ROLLOUT, EXPERIMENT, VERSION, READOUT = ("rollout_id",), ("experiment_id",), ("version",), ("readout_id",)
ROWS: Final = {
    "CreateRollout": Row(VERSION),
    "UpdateRollout": Row(ROLLOUT, True, ("draft", "running", "paused")),
    "AdvanceRollout": Row(ROLLOUT, True, ("draft", "running"), "advance"),
    "ApproveRollout": Row(ROLLOUT, True),  # in every state it takes a proposal, and without one there is none
    "PauseRollout": Row(ROLLOUT, True, ("running",), "pause"),
    "ResumeRollout": Row(ROLLOUT, True, ("paused",), "resume"),
    "RollBackRollout": Row(ROLLOUT, True, ("draft", "running", "paused"), "rollback"),
    "HaltRollout": Row(ROLLOUT, True, ("draft", "running", "paused", "completed"), "halt"),
    "DeleteRollout": Row(ROLLOUT, True, ("draft",), "delete"),
    "GetRollout": Row(ROLLOUT),
    "WatchRollout": Row(ROLLOUT),
    "ListRollouts": Row(),
    "ListStageAnalyses": Row(ROLLOUT),
    "CreateExperiment": Row(("arms.version", "segment.layer")),
    "UpdateExperiment": Row(("experiment_id", "arms.version", "segment.layer"), True, ("draft",), "update"),
    "StartExperiment": Row(EXPERIMENT, True, ("draft",), "start"),
    "StopExperiment": Row(EXPERIMENT, True, ("running",), "stop"),
    "DeleteExperiment": Row(EXPERIMENT, True, ("draft",), "delete"),
    "GetExperiment": Row(EXPERIMENT),
    "WatchExperiment": Row(EXPERIMENT),
    "GetResults": Row(EXPERIMENT, False, ("running", "stopped"), "read results"),
    "ListExperiments": Row(),
    "PlanRollout": Row(),
    "PlanExperiment": Row(),
    "PlanReadout": Row(),
    "CreateMetric": Row(),
    "DeprecateMetric": Row(),  # what it names is not there in test_metric_definitions.py
    "GetMetric": Row(),
    "ListMetrics": Row(),
    "ListEntries": Row(),
    "CreateLayer": Row(),
    "ListLayers": Row(),
    "SetHoldout": Row((), True),
    "GetHoldout": Row(),
    "StartReadout": Row(),
    "StopReadout": Row(READOUT, True),
    "GetReadout": Row(READOUT),
    "ListReadouts": Row(),
    "OverrideValues": Row(),
    "ClearOverride": Row(),
    "ListOverrides": Row(),
    "GetTrust": Row(),
    "GetHealth": Row(),
    "CreateSession": Row(),
    "GetSession": Row(),
    "DeleteSession": Row(("session_id",)),
    "ListSessions": Row(),
    "DeleteOtherSessions": Row(),
    "BeginSignIn": Row(),
    "GetPolicy": Row(),
    "ListPolicies": Row(),
    "GetPrivacy": Row(),
    "UploadBlob": Row(),
    "GetUpload": Row(),
    "GetBlob": Row(),
    "GetTeamMetadata": Row(),
    "PublishVersion": Row(),  # what it names, it brings
    "ListFeatures": Row(),
    "ListVersions": Row(),
    "GetVersion": Row(VERSION),
    "SetAlias": Row(VERSION),
    "RemoveAlias": Row(),
    "ApproveAlias": Row(("proposal_id",)),
    "ListAliases": Row(),
    "ListAliasProposals": Row(),
    "ListAliasMoves": Row(),
    "SetTag": Row(VERSION),
    "RemoveTag": Row(VERSION),
    "ValidateVersion": Row(VERSION),
    "ReleaseVersion": Row(VERSION),
    "DeprecateVersion": Row(VERSION),
    "RevokeVersion": Row(VERSION),
    "SetFeatureRules": Row(),
    "GetFeatureRules": Row(),
}
ROLLOUT_STATES = ("draft", "running", "paused", "completed", "rolled_back", "halted")
EXPERIMENT_STATES = ("draft", "running", "stopped")
ARMS = [
    Arm(name="a", version="1.0.0", share_basis_points=5000),
    Arm(name="b", version="2.0.0", share_basis_points=5000),
]


def test_every_call_has_a_row_that_says_what_its_request_holds() -> None:
    """A new RPC, a new etag and a new field that names something are all seen, wherever they are in a request."""
    assert set(ROWS) == set(METHODS)
    for name, row in ROWS.items():
        paths = set(field_paths(name))
        assert row.has_etag == ("etag" in paths), name
        assert set(row.names) == {path for path in paths if path.rpartition(".")[2] in NAMING}, name


class Stage:
    """The shared server, and things on it in any state; each has an app of its own."""

    def __init__(self, world: ServerWorld, wire: Wire, operator: PlatformClient) -> None:
        self._world, self._wire, self.operator = world, wire, operator
        self._numbers = itertools.count()

    def app(self) -> str:
        """An app that nothing else uses."""
        return f"app-refused-{next(self._numbers)}"

    def request(self, name: str, **values: Any) -> Any:
        """A request of an RPC that has nothing wrong with it, and the given values."""
        arms = [{"name": arm.name, "version": arm.version, "shareBasisPoints": arm.share_basis_points} for arm in ARMS]
        known: dict[str, Any] = {
            "request_id": f"refused-{next(self._numbers):06d}",
            "app": "app-refused",
            "feature": FEATURE,
            "version": "1.0.0",
            "reason": "because",
            "alias": "champion",
            "key": "key",
            "value": "value",
            "arms": arms,
        }
        own: dict[str, dict[str, Any]] = {
            "AdvanceRollout": {"override_reason": "because", "share_basis_points": 2000},
            "UpdateRollout": {"update_mask": "audience"},
            "UpdateExperiment": {"update_mask": "arms,minimumCohort", "minimum_cohort": 500},
            "SetHoldout": {"share_basis_points": 100},
            "GetVersion": {"alias": None},
        }
        fields = METHODS[name].input_type.fields_by_name
        wanted = {
            field: value
            for field, value in (known | own.get(name, {}) | values).items()
            if field in fields and value is not None
        }
        return ParseDict(wanted, request_class(name)())

    def send(self, name: str, request: Message, *, role: str | None = None) -> tuple[grpc.StatusCode, str, Any]:
        """Status, message and answer, for somebody who may call it."""
        roles = PERMISSIONS[method_path(METHODS[name])].roles
        return self._wire.call(
            name, request, self._world.token(role or ("operator" if "operator" in roles else "team:text"))
        )

    def rollout(self, state: str, *, feature: str = FEATURE) -> str:
        """Id of a rollout in a state, in an app with a default version."""
        app, operator = self.app(), self.operator
        first = operator.create_rollout(app, FEATURE, "1.0.0").rollout_id
        operator.advance_rollout(first, 10_000, override_reason="first")
        made = operator.create_rollout(app, feature, "2.0.0").rollout_id
        if state in ("running", "paused", "rolled_back"):
            operator.advance_rollout(made, 1000, override_reason="because")
        if state == "paused":
            operator.pause_rollout(made)
        if state == "completed":
            operator.advance_rollout(made, 10_000, override_reason="because")
        if state == "rolled_back":
            operator.roll_back_rollout(made, "because")
        if state == "halted":
            operator.halt_rollout(made, "because")
        assert operator.rollout(made).state == state
        return made

    def experiment(self, state: str) -> str:
        """Id of an experiment in a state."""
        made = self.operator.create_experiment(self.app(), FEATURE, ARMS).experiment_id
        if state != "draft":
            self.operator.start_experiment(made)
        if state == "stopped":
            self.operator.stop_experiment(made)
        assert self.operator.experiment(made).state == state
        return made

    def thing(self, name: str, state: str) -> dict[str, str]:
        """What an RPC's request calls a thing in a state."""
        if "Rollout" in name:
            return {"rollout_id": self.rollout(state)}
        return {"experiment_id": self.experiment(state)}


@pytest.fixture(scope="module")
def stage(world: ServerWorld, served: Served) -> Iterator[Stage]:
    """Two published versions of a feature, and of one whose rollouts take a second person."""
    with world.client(served, "team:text") as team:
        for feature in (FEATURE, APPROVED):
            for version in ("1.0.0", "2.0.0", "3.0.0"):
                world.publish(team, feature, version)
        team.revoke_version(FEATURE, "3.0.0", reason="because")
    with world.client(served, "operator") as operator, Wire(served.grpc_address) as wire:
        operator.set_rules(APPROVED, FeatureRules(must_approve_rollouts=True))
        yield Stage(world, wire, operator)


@pytest.mark.parametrize(
    ("kind", "states"), [("RolloutService", ROLLOUT_STATES), ("ExperimentService", EXPERIMENT_STATES)]
)
def test_an_arrow_that_is_not_drawn_is_refused_with_the_state_and_what_it_allows(
    stage: Stage, kind: str, states: tuple[str, ...]
) -> None:
    """Each call of a state machine, in each state that does not allow it; the thing stays as it is."""
    rows = {name: row for name, row in ROWS.items() if METHODS[name].containing_service.name == kind and row.legal}
    reader = "GetRollout" if kind == "RolloutService" else "GetExperiment"
    refused = 0
    for state in states:
        named = stage.thing(reader, state)
        before = stage.send(reader, stage.request(reader, **named))[2]
        allowed = [row.word for row in rows.values() if row.word and state in (row.legal or ())]
        for name, row in rows.items():
            if state in (row.legal or ()):
                continue
            refused += 1
            status, message, _ = stage.send(name, stage.request(name, **named))
            assert status is grpc.StatusCode.FAILED_PRECONDITION, (name, state, message)
            problem, _, listed = message.partition("; it can: ")
            assert f"{next(iter(named.values()))} is {state}: cannot" in problem, (name, message)
            assert set(listed.split(", ")) == set(allowed or ["nothing any more"]), (name, state, message)
        assert stage.send(reader, stage.request(reader, **named))[2] == before
    assert refused == sum(len(states) - len(row.legal or ()) for row in rows.values())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.legal])
def test_an_arrow_that_is_drawn_is_taken(stage: Stage, name: str) -> None:
    """The table's other half: what it calls legal is, in each such state."""
    for state in ROWS[name].legal or ():
        status, message, _ = stage.send(name, stage.request(name, **stage.thing(name, state)))
        assert status is OK, (name, state, message)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.has_etag])
def test_a_stale_etag_is_aborted(stage: Stage, name: str) -> None:
    """An etag of another time, and one that was right until the very same call: ABORTED, and nothing changed."""
    row, role = ROWS[name], None
    if name == "SetHoldout":
        app = stage.app()
        named, reader = {"app": app}, "GetHoldout"
        stage.operator.set_holdout(app, 500)
    elif name == "StopReadout":
        app = stage.app()
        stage.operator.advance_rollout(
            stage.operator.create_rollout(app, FEATURE, "1.0.0").rollout_id, 10_000, override_reason="first"
        )
        stage.operator.set_holdout(app, 500)
        until_s = int(time.time()) + 90 * 86_400
        made = stage.operator.start_readout(app, [FEATURE], until_s=until_s).readout_id
        named, reader = {"readout_id": made}, "GetReadout"
    elif name == "ApproveRollout":
        rollout_id = stage.rollout("draft", feature=APPROVED)
        stage.operator.advance_rollout(rollout_id, 10_000, override_reason="because")
        named, reader, role = {"rollout_id": rollout_id}, "GetRollout", "operator:text"
    else:
        named = stage.thing(name, (row.legal or ())[0])
        reader = "GetRollout" if "Rollout" in name else "GetExperiment"

    def read() -> Any:
        answer = stage.send(reader, stage.request(reader, **named))[2]
        return next(value for _, value in answer.ListFields())

    before = read()
    status, message, _ = stage.send(name, stage.request(name, **named, etag=STALE), role=role)
    assert (status, STALE in message) == (grpc.StatusCode.ABORTED, True), message
    assert f"its etag is {before.etag!r}" in message
    assert read() == before
    status, message, _ = stage.send(name, stage.request(name, **named, etag=before.etag), role=role)
    assert status is OK, message
    if name.startswith("Delete"):
        assert stage.send(reader, stage.request(reader, **named))[0] is grpc.StatusCode.NOT_FOUND
        return
    after = read()
    status, message, _ = stage.send(name, stage.request(name, **named, etag=before.etag), role=role)
    assert (status, read()) == (grpc.StatusCode.ABORTED, after), message


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.names])
def test_what_is_not_there_is_not_found(stage: Stage, name: str) -> None:
    """Each field that names something, in a request that is right besides; the message repeats the name."""
    for path in ROWS[name].names:
        last = path.rpartition(".")[2]
        is_draft_changed = name == "UpdateExperiment" and path != "experiment_id"
        values: dict[str, Any] = stage.thing(name, "draft") if is_draft_changed else {}
        request = stage.request(name, **values)
        if path == "arms.version":
            request.arms[1].version = UNKNOWN[last]
        elif path == "segment.layer":
            request.segment.layer, request.segment.count = UNKNOWN[last], 1
            if is_draft_changed:
                request.update_mask.paths.append("segment")
        else:
            setattr(request, path, UNKNOWN[last])
        status, message, _ = stage.send(name, request)
        assert status is grpc.StatusCode.NOT_FOUND, (name, path, message)
        assert UNKNOWN[last] in message


def falling(request: Any) -> None:
    """A stage below the one before it."""
    request.plan.stages.extend(rollout_pb2.Stage(share_basis_points=share) for share in (100, 500, 400))


def level(request: Any) -> None:
    """A stage that adds nobody."""
    request.plan.stages.extend(rollout_pb2.Stage(share_basis_points=share) for share in (100, 100))


def heavy(request: Any) -> None:
    """Arms of more devices than there are."""
    request.arms[0].share_basis_points = 5001


def revoke_version(request: Any) -> None:
    """A version that was withdrawn for ever."""
    if hasattr(request, "arms"):
        request.arms[1].version = "3.0.0"
    else:
        request.version = "3.0.0"


@pytest.mark.parametrize(
    ("name", "wrong", "status", "words"),
    [
        ("CreateRollout", revoke_version, grpc.StatusCode.FAILED_PRECONDITION, f"{FEATURE} 3.0.0 is revoked"),
        ("CreateExperiment", revoke_version, grpc.StatusCode.FAILED_PRECONDITION, f"{FEATURE} 3.0.0 is revoked"),
        ("UpdateExperiment", revoke_version, grpc.StatusCode.FAILED_PRECONDITION, f"{FEATURE} 3.0.0 is revoked"),
        ("CreateRollout", falling, grpc.StatusCode.INVALID_ARGUMENT, "plan.stages.share_basis_points"),
        ("CreateRollout", level, grpc.StatusCode.INVALID_ARGUMENT, "plan.stages.share_basis_points"),
        ("UpdateRollout", falling, grpc.StatusCode.INVALID_ARGUMENT, "plan.stages.share_basis_points"),
        ("UpdateRollout", level, grpc.StatusCode.INVALID_ARGUMENT, "plan.stages.share_basis_points"),
        ("CreateExperiment", heavy, grpc.StatusCode.INVALID_ARGUMENT, "10001"),
        ("UpdateExperiment", heavy, grpc.StatusCode.INVALID_ARGUMENT, "10001"),
    ],
)
def test_what_could_never_run_is_refused_at_creation(
    stage: Stage, name: str, wrong: Callable[[Any], None], status: grpc.StatusCode, words: str
) -> None:
    """Made or changed to it, tried or meant; nothing is kept, and the same request without the fault is accepted."""
    app = stage.app()
    values: dict[str, Any] = {"app": app}
    if name.startswith("Update"):
        values = stage.thing(name, "draft") | ({"update_mask": "plan"} if "Rollout" in name else {})
    for is_tried in (True, False):
        request = stage.request(name, **values, validate_only=is_tried)
        wrong(request)
        got, message, _ = stage.send(name, request)
        assert (got, words in message) == (status, True), message
    assert stage.operator.rollouts(app) == []
    assert stage.operator.experiments(app) == []
    assert stage.send(name, stage.request(name, **values))[0] is OK
