"""A registry on disk, a real loopback server for it, and devices that read it."""

import contextlib
import http.server
import shutil
import socketserver
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alcove.registry.blobs import open_blob_store
from alcove.registry.ceremony import initialize_repository
from alcove.registry.keys import KeyRing, create_keys
from alcove.registry.package import create_package
from alcove.registry.parameters import Parameter
from alcove.registry.policy import (
    Arm,
    ArmBuckets,
    ExperimentPolicy,
    FeaturePolicy,
    Halt,
    HaltedVersion,
    Holdout,
    Outcome,
    Policy,
    Readout,
    RolloutPolicy,
    VersionRef,
    in_stratum,
    make_task,
    parse_audience,
    parse_dimension,
    policy_to_bytes,
)
from alcove.registry.policy.aggregation import Aggregation
from alcove.registry.policy.document import halt_to_bytes
from alcove.registry.policy.metric import MetricTerms
from alcove.registry.repository import Repository
from alcove.registry.team import sign_min_version, sign_version
from alcove.sdk import Client
from alcove.sdk.testing import FakeEngine, FolderTransport, ManualClock, SeededEntropy, fake_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry.manifest import Manifest, Requirements

NOW = 1_800_000_000
YEAR = 365 * 86_400
APP = "messenger"
FEATURE = "greeting"
TEAM = "hello"


class World:
    """One tree with all its keys, as the ceremony, the team and the server see it."""

    def __init__(self, folder: Path, keyring: KeyRing, clock: ManualClock) -> None:
        self.folder = folder
        self.keyring = keyring
        self.clock = clock
        self.tree = Repository(folder, keys=keyring.online, blobs=open_blob_store(folder / "blobs"), clock=clock)
        self.manifests: dict[str, Manifest] = {}
        self.serial = 0
        self.halt_serial = 0

    @property
    def root(self) -> bytes:
        """Root metadata, as the app ships it."""
        return self.tree.root_bytes()

    def push(
        self,
        version: str,
        program: bytes,
        *,
        min_runtime: str = "0.1.0",
        verifier: Any = None,
        bases: tuple[bytes, ...] = (),
        others: "Mapping[str, bytes] | None" = None,
        requirements: "Mapping[str, Requirements] | None" = None,
        parameters: tuple[Parameter, ...] = (),
    ) -> VersionRef:
        """Publish a version of the feature: the variant "fake", with deltas from other programs, and other variants."""
        package = create_package(
            feature=FEATURE,
            team=TEAM,
            version=version,
            programs={"fake": program, **(others or {})},
            requirements=requirements,
            parameters=parameters,
            card="# Greeting\n",
            min_runtime=min_runtime,
            verifier=verifier or FakeEngine().verifier,
            bases={"fake": bases},
        )
        for sha256, data in package.blobs().items():
            self.tree.blobs.put(sha256, data)
        current = self.tree.team_metadata(TEAM)
        signed = sign_version(current, package.manifest, self.keyring.teams[TEAM], self.clock.now_s() + YEAR)
        self.tree.accept_team_metadata(signed, {package.manifest.path: package.manifest.to_bytes()})
        self.manifests[version] = package.manifest
        return self.ref(version)

    def ref(self, version: str) -> VersionRef:
        """Return how a policy names a version."""
        return VersionRef(version=version, manifest_sha256=self.manifests[version].sha256)

    def set_policy(
        self,
        default: str,
        *,
        rollout: tuple[str, int] | None = None,
        arms: tuple[str, ...] = (),
        epsilon: str = "2",
        window_s: int = 3600,
        control: int | None = None,
        audience: str = "",
        own_arm: bool = False,
        pre_edges: tuple[float, ...] = (),
        experiment_id: str = "exp",
        outcomes: int = 2,
        metric: MetricTerms | None = None,
        subset_size: int = 1,
        aggregation: Aggregation | None = None,
        has_heartbeat: bool = False,
        kept: str = "",
        until_s: int = NOW + YEAR,
        buckets: tuple[ArmBuckets, ...] | None = None,
        dimension: str = "",
    ) -> None:
        """Publish a policy: a default, perhaps a rollout (version, share), perhaps an experiment of equal arms.

        A rollout with a `control`, which may be 0, has a task; `audience` and `own_arm` are the rollout's, `pre_edges`,
        `experiment_id`, `outcomes`, `metric` (in their place), `subset_size` and `buckets` the experiment's;
        `aggregation` is of both tasks. With a heartbeat the rollout's task counts answers of which nothing is noted.
        With a `dimension` the experiment has a task for each of its values.

        With a `kept` version half of the devices are held out in a read-out until `until_s`, of this `epsilon` and
        `window_s`, and the others are its mirror group.
        """
        experiment = None
        if arms:
            share = 10_000 // len(arms)
            task = make_task(
                experiment_id=experiment_id,
                epsilon=epsilon,
                arm_count=len(arms),
                outcome_groups=[(outcome,) for outcome in list(Outcome)[:outcomes]] if metric is None else None,
                latency_edges_ms=(1.0, 10.0) if metric is None else (),
                window_s=window_s,
                first_window_start_s=NOW - 1000 * window_s,
                pre_edges=pre_edges,
                subset_size=subset_size,
                aggregation=aggregation,
                metric=metric,
            )
            members = tuple(
                Arm(name=f"arm{index}", version=self.ref(version), share_basis_points=share)
                for index, version in enumerate(arms)
            )
            apart = parse_dimension(dimension) if dimension else None
            values: list[int | None] = [None] if apart is None else [*range(len(apart.names))]
            experiment = ExperimentPolicy(
                id=experiment_id,
                salt="exp-salt",
                arms=members,
                tasks=tuple(in_stratum(task, value) for value in values),
                buckets=buckets,
                dimension=apart,
            )
        rules = FeaturePolicy(
            min_version="0.0.1",
            default=self.ref(default),
            rollout=None
            if rollout is None
            else RolloutPolicy(
                id="roll",
                salt="roll-salt",
                version=self.ref(rollout[0]),
                share_basis_points=rollout[1],
                control_basis_points=control or 0,
                audience=parse_audience(audience) if audience else None,
                own_arm=own_arm,
                tasks=()
                if control is None
                else (
                    make_task(
                        experiment_id="roll",
                        epsilon=epsilon,
                        arm_count=2,
                        outcome_groups=[(outcome,) for outcome in list(Outcome)[: 5 if has_heartbeat else 4]],
                        is_guardrail=True,
                        latency_edges_ms=(1.0, 10.0),
                        window_s=window_s,
                        first_window_start_s=NOW - 1000 * window_s,
                        aggregation=aggregation,
                    ),
                ),
            ),
            experiments=() if experiment is None else (experiment,),
        )
        self._publish({FEATURE: rules}, self._hold_out(kept, until_s, epsilon, window_s, aggregation) if kept else None)

    def _hold_out(
        self, kept: str, until_s: int, epsilon: str, window_s: int, aggregation: Aggregation | None
    ) -> Holdout:
        task = make_task(
            experiment_id="read",
            epsilon=epsilon,
            arm_count=2,
            latency_edges_ms=(),
            window_s=window_s,
            first_window_start_s=NOW - 1000 * window_s,
            aggregation=aggregation,
        )
        readout = Readout(id="read", feature=FEATURE, kept={FEATURE: self.ref(kept)}, task=task, until_s=until_s)
        return Holdout(salt="hold-salt", share_basis_points=5000, readout=readout)

    def drop_from_policy(self) -> None:
        """Publish a policy that does not name the feature."""
        self._publish({})

    def publish_rules(self, rules: FeaturePolicy) -> None:
        """Publish a policy of the one feature."""
        self._publish({FEATURE: rules})

    def _publish(self, features: dict[str, FeaturePolicy], holdout: Holdout | None = None) -> None:
        self.serial += 1
        policy = Policy(app=APP, serial=self.serial, features=features, holdout=holdout)
        self.tree.publish_policy(APP, policy_to_bytes(policy))

    def halt(self, *versions: str, is_frozen: bool = False) -> None:
        """Publish a halt of versions."""
        self.halt_serial += 1
        halted = tuple(HaltedVersion(feature=FEATURE, version=self.ref(version)) for version in versions)
        halt = Halt(app=APP, serial=self.halt_serial, halted=halted, frozen=(FEATURE,) if is_frozen else ())
        self.tree.publish_halt(APP, halt_to_bytes(halt))

    def raise_min_version(self, version: str) -> None:
        """Let the team forbid every version below one."""
        signed = sign_min_version(
            self.tree.team_metadata(TEAM),
            team=TEAM,
            feature=FEATURE,
            min_version=version,
            signer=self.keyring.teams[TEAM],
            expires_s=self.clock.now_s() + YEAR,
        )
        self.tree.accept_team_metadata(signed, {})

    def blob(self, version: str) -> Path:
        """Return the file of a version's program in the tree."""
        return self.folder / "blobs" / self.manifests[version].variants[0].sha256


def make_world(folder: Path) -> World:
    """Make a tree in `folder`."""
    clock = ManualClock(NOW)
    keyring = create_keys(folder / "keys", teams={TEAM: [FEATURE]})
    initialize_repository(folder / "tree", keyring, {TEAM: [FEATURE]}, clock=clock)
    return World(folder / "tree", keyring, clock)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A tree with versions 1.0.0 and 2.0.0, and a policy that gives everybody 1.0.0; nobody changes it."""
    world = make_world(tmp_path_factory.mktemp("template"))
    world.push("1.0.0", fake_program("one"))
    world.push("2.0.0", fake_program("two"))
    world.set_policy("1.0.0")
    return world


@pytest.fixture
def released_world(template: World, tmp_path: Path) -> World:
    """A copy of the template for one test."""
    shutil.copytree(template.folder, tmp_path / "tree")
    world = World(tmp_path / "tree", template.keyring, ManualClock(NOW))
    world.manifests = dict(template.manifests)
    world.serial = template.serial
    return world


@pytest.fixture(scope="session")
def counting_template(template: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The template with the versions of `streams.py`, and a policy that gives everybody the first one."""
    folder = tmp_path_factory.mktemp("counting") / "tree"
    shutil.copytree(template.folder, folder)
    world = World(folder, template.keyring, ManualClock(NOW))
    world.manifests, world.serial = dict(template.manifests), template.serial
    world.push("1.1.0", fake_program("old", has_state=True))
    world.push("2.1.0", fake_program("new", has_state=True))
    world.set_policy("1.1.0")
    return world


class Device:
    """One installation: a folder, and clients made over it."""

    def __init__(self, folder: Path, world: World, client_stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self.world = world
        self.clock = ManualClock(NOW)
        self.transport = FolderTransport(world.folder)
        self._closing = client_stack
        baseline = folder.with_name(folder.name + "-baseline.alc")
        baseline.write_bytes(fake_program("shipped"))
        self.options: dict[str, Any] = {
            "baselines": {FEATURE: baseline},
            "clock": self.clock,
            "engine": FakeEngine(),
            "transport": self.transport.connect,
        }

    def client(self, server: str = "http://127.0.0.1:1", **options: Any) -> Client:
        """Return a client of this installation."""
        client = Client(APP, self.folder, server, self.world.root, **(self.options | options))
        return self._closing.enter_context(client)

    def answer(self, client: Client) -> str:
        """Return what the feature answers, as "label version reason"."""
        answer = client.feature(FEATURE).predict("hello")
        label = answer.value["label"][0][0] if answer.value else answer.error
        return f"{label} {answer.version} {answer.reason}"

    def seed_for_arm(self, arm: int, arms: int = 2, salt: str = "exp-salt") -> int:
        """Return a seed of entropy whose secret falls into `arm` of an experiment, or a rollout, of equal arms."""
        from alcove.registry.policy import bucket

        for seed in range(1000):
            number = bucket(SeededEntropy(seed).random_bytes(32), salt)
            share = 10_000 // arms
            seen = 0 if number >= 10_000 - share else number // share + 1
            if seen == arm:
                return seed
        raise AssertionError(arm)


@pytest.fixture
def client_stack() -> Iterator[contextlib.ExitStack]:
    """Closes what a test opened."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def make_device(tmp_path: Path, client_stack: contextlib.ExitStack) -> Callable[..., Device]:
    """Makes devices of a world, each in a folder of its own."""
    return lambda world, name="device": Device(tmp_path / name, world, client_stack)


@pytest.fixture
def device(released_world: World, make_device: Callable[..., Device]) -> Device:
    """A device of the released world."""
    return make_device(released_world)


@pytest.fixture
def counting(counting_template: World, tmp_path: Path, make_device: Callable[..., Device]) -> Device:
    """A device whose policy says a version that counts the runs of its session."""
    shutil.copytree(counting_template.folder, tmp_path / "tree")
    world = World(tmp_path / "tree", counting_template.keyring, ManualClock(NOW))
    world.manifests, world.serial = dict(counting_template.manifests), counting_template.serial
    return make_device(world)


class TreeServer:
    """A loopback server of a folder, with faults to order.

    Attributes:
        budget: bytes of bodies that are still sent; then connections are closed in the middle. None: no end.
        statuses: statuses of the next answers to POST; 204 when used up.
        posted: bodies of accepted POSTs.
        ports: method, path and the client's port of every request: one port is one connection.
        seen: method, path and headers of every request.
        ignores_range: answers a range with the whole file.
        content_types: of files, by path; others have none.
        unavailable: what "Retry-After" says while every GET is answered with 503; None while the server is well.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.budget: int | None = None
        self.statuses: list[int] = []
        self.posted: list[bytes] = []
        self.ports: list[tuple[str, str, int]] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.ignores_range = False
        self.content_types: dict[str, str] = {}
        self.unavailable: str | None = None
        self.server = _QuietServer(("127.0.0.1", 0), partial(_Handler, self))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        """Stop; again is harmless."""
        if not self.thread.is_alive():
            return
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class _QuietServer(socketserver.ThreadingTCPServer):
    """A server that does not look its own name up, as `http.server.HTTPServer` does: that may wait for a resolver."""

    daemon_threads = True

    @property
    def server_port(self) -> int:
        """Port of the server."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients of these tests hang up in the middle on purpose."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: TreeServer, *args: Any) -> None:
        self.owner = owner
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer from the folder, as far as the budget reaches."""
        self.owner.seen.append(("GET", self.path, dict(self.headers)))
        self.owner.ports.append(("GET", self.path, self.client_address[1]))
        if self.owner.unavailable is not None:
            self.send_response(503)
            self.send_header("Retry-After", self.owner.unavailable)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        file = self.owner.folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = file.read_bytes()
        start = 0
        content_type = self.owner.content_types.get(self.path)
        wanted = self.headers.get("Range")
        if wanted and not self.owner.ignores_range:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        body = data[start:]
        self.send_header("Content-Length", str(len(body)))
        if content_type is not None:
            self.send_header("Content-Type", content_type)
        self.end_headers()
        budget = self.owner.budget
        allowed = len(body) if budget is None else min(budget, len(body))
        self.wfile.write(body[:allowed])
        if budget is not None:
            self.owner.budget = budget - allowed
        if allowed < len(body):
            self.close_connection = True

    def do_POST(self) -> None:
        """Take a report, or answer with the next ordered status."""
        self.owner.seen.append(("POST", self.path, dict(self.headers)))
        self.owner.ports.append(("POST", self.path, self.client_address[1]))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.owner.statuses.pop(0) if self.owner.statuses else 204
        if status == 204:
            self.owner.posted.append(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server(released_world: World) -> Iterator[TreeServer]:
    """A loopback server of the released tree."""
    server = TreeServer(released_world.folder)
    yield server
    server.close()
