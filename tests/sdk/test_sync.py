"""Sync makes a device run exactly what its app's policy says, by requests that do not reveal its arm."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.errors import MissingTargetError, ProgramRefusedError, RollbackError, VersionHaltedError
from alcove.registry.program_verification import ProgramFacts
from alcove.sdk import Client, DeviceAttributes, IntegrityError, RuntimeTooOldError, VersionChange
from alcove.sdk.limits import ALL_VERSIONS_BYTES
from alcove.sdk.state import FeatureSlots
from alcove.sdk.testing import FakeEngine, SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, World

MakeDevice = Callable[..., Device]


def test_first_prediction_comes_from_the_baseline_before_any_sync(device: Device) -> None:
    """A fresh installation answers at once, with what the app ships, and sends nothing."""
    client = device.client()
    assert device.answer(client) == "shipped baseline baseline"
    assert device.transport.requests == []


def test_sync_installs_and_the_open_handle_answers_with_it(device: Device) -> None:
    """The same handle answers with the new version after a sync; a restart keeps it, with no network."""
    client = device.client()
    handle = client.feature(FEATURE)
    assert handle.version == "baseline"
    result = client.sync()
    assert result.changed == (VersionChange(FEATURE, "baseline", "1.0.0", "default"),)
    assert result.error is None
    assert result.refused == ()
    assert result.bytes_received > device.world.blob("1.0.0").stat().st_size
    assert result.bytes_sent > 0
    assert handle.predict("hi").version == "1.0.0"
    assert device.answer(device.client(transport=None)) == "one 1.0.0 default"


def test_second_sync_changes_nothing_and_downloads_no_program_again(device: Device) -> None:
    """What is installed stays; a new process reads the manifest at most, never the blob."""
    device.client().sync()
    before = len(device.transport.requests)
    result = device.client().sync()
    assert (result.changed, result.error) == ((), None)
    assert not [sent for sent in device.transport.requests[before:] if sent.path.startswith("/blobs")]


def test_installed_files_are_read_only(device: Device) -> None:
    """Nobody writes to what is mapped (slots.py, I2)."""
    device.client().sync()
    files = [path for path in (device.folder / "versions").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"manifest.json", "program.alc"}
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in files)


def test_rollout_reaches_exactly_its_devices(released_world: World, make_device: MakeDevice) -> None:
    """At 0 nobody, at 10 000 basis points everybody runs the new version; going back works without a download."""
    device = make_device(released_world)
    released_world.set_policy("1.0.0", rollout=("2.0.0", 0))
    client = device.client()
    assert client.sync().changed[0].after == "1.0.0"
    released_world.set_policy("1.0.0", rollout=("2.0.0", 10_000))
    assert client.sync().changed == (VersionChange(FEATURE, "1.0.0", "2.0.0", "rollout"),)
    released_world.set_policy("1.0.0")
    before = len(device.transport.requests)
    assert client.sync().changed == (VersionChange(FEATURE, "2.0.0", "1.0.0", "default"),)
    assert not [sent for sent in device.transport.requests[before:] if sent.path.startswith("/blobs")]


@pytest.mark.parametrize("arm", [0, 1])
def test_device_runs_the_arm_that_its_secret_says(released_world: World, make_device: MakeDevice, arm: int) -> None:
    """Assignment happens on the device; all arms are installed, its own answers."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    device = make_device(released_world)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm)))
    assert client.sync().error is None
    assert device.answer(client) == ["one 1.0.0 experiment", "two 2.0.0 experiment"][arm]
    assert len(list((device.folder / "versions" / FEATURE).iterdir())) == 2


def test_devices_in_different_arms_make_identical_requests(released_world: World, make_device: MakeDevice) -> None:
    """From installation through experiment, report and its end, every byte but the report's cell is the same."""
    devices = [make_device(released_world, f"device{arm}") for arm in (0, 1)]
    clients = [device.client(entropy=SeededEntropy(device.seed_for_arm(arm))) for arm, device in enumerate(devices)]
    released_world.push("3.0.0", fake_program("three"))
    for client in clients:
        client.sync()
    released_world.set_policy("1.0.0", arms=("3.0.0", "2.0.0"))
    versions = []
    for client in clients:
        assert client.sync().error is None
        handle = client.feature(FEATURE)
        versions.append(handle.predict("hi").version)
        handle.record_outcome(accepted=True)
        assert client.report().sent == 1
    released_world.set_policy("3.0.0")
    for client in clients:
        assert client.sync().error is None
    assert versions == ["3.0.0", "2.0.0"]
    traces = [
        [(sent.method, sent.path, len(sent.wire), sent.wire if sent.method == "GET" else b"") for sent in requests]
        for requests in (device.transport.requests for device in devices)
    ]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 10


def test_devices_on_both_sides_of_a_rollout_make_identical_requests(
    released_world: World, make_device: MakeDevice
) -> None:
    """Treatment and control fetch both versions, report alike, and follow the rollout's end with the same requests."""
    released_world.push("3.0.0", fake_program("three"))
    devices = [make_device(released_world, f"device{arm}") for arm in (0, 1)]
    seeds = [device.seed_for_arm(arm, salt="roll-salt") for arm, device in enumerate(devices)]
    clients = [device.client(entropy=SeededEntropy(seed)) for seed, device in zip(seeds, devices, strict=True)]
    answers: list[tuple[str, str]] = []
    for client in clients:
        client.sync()
    for share in (5000, 5000):
        released_world.set_policy("1.0.0", rollout=("3.0.0", share), control=share)
        for client in clients:
            assert client.sync().error is None
            handle = client.feature(FEATURE)
            answer = handle.predict("hi")
            answers.append((answer.version, answer.reason))
            handle.record_outcome(accepted=True)
            client.report()
    released_world.set_policy("3.0.0")
    for client in clients:
        assert client.sync().error is None
    assert answers[:2] == [("1.0.0", "rollout"), ("3.0.0", "rollout")]
    traces = [
        [(sent.method, sent.path, len(sent.wire), sent.wire if sent.method == "GET" else b"") for sent in requests]
        for requests in (device.transport.requests for device in devices)
    ]
    assert traces[0] == traces[1]
    assert sum(method == "POST" for method, *_ in traces[0]) == 1
    assert len(traces[0]) > 10


def test_own_arm_of_a_large_rollout_is_all_that_is_fetched(released_world: World, make_device: MakeDevice) -> None:
    """Where the policy says so and the signed sizes force it: the downloads reveal the arm, as the document says."""
    for version in ("3.0.0", "4.0.0"):
        released_world.push(version, fake_program(version, size_bytes=ALL_VERSIONS_BYTES // 2 + 1))
    released_world.set_policy("3.0.0", rollout=("4.0.0", 5000), control=5000, own_arm=True)
    for arm in (0, 1):
        device = make_device(released_world, f"device{arm}")
        client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm, salt="roll-salt")))
        assert client.sync().error is None
        assert device.answer(client) == ["3.0.0 3.0.0 rollout", "4.0.0 4.0.0 rollout"][arm]
        assert len(list((device.folder / "versions" / FEATURE).iterdir())) == 1


@pytest.mark.parametrize("broken", ["2.0.0", "3.0.0"])
def test_what_another_audience_needs_keeps_nothing_back(
    released_world: World, make_device: MakeDevice, broken: str
) -> None:
    """A version that only others run is fetched too; one that fails is reported, and the device's own comes anyway."""
    released_world.push("3.0.0", fake_program("three"))
    released_world.set_policy("3.0.0", rollout=("2.0.0", 10_000), audience="os in (ios)")
    released_world.blob(broken).write_bytes(b"x" * released_world.blob(broken).stat().st_size)
    traces = []
    for name, own in (("ios", "2.0.0"), ("android", "3.0.0")):
        device = make_device(released_world, name)
        client = device.client(device=DeviceAttributes(os=name), entropy=SeededEntropy(0))
        result = client.sync()
        assert [(refusal.version, type(refusal.error)) for refusal in result.refused] == [(broken, IntegrityError)]
        label = {"2.0.0": "two 2.0.0 rollout", "3.0.0": "three 3.0.0 default"}[own]
        assert device.answer(client) == ("shipped baseline baseline" if own == broken else label)
        traces.append([(sent.method, sent.path, sent.wire) for sent in device.transport.requests])
    assert traces[0] == traces[1]


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        (DeviceAttributes(os="ios", app_version="2.3"), "two 2.0.0 rollout"),
        (DeviceAttributes(os="ios", app_version="2.0"), "one 1.0.0 default"),
        (DeviceAttributes(app_version="2.3"), "one 1.0.0 default"),
        (DeviceAttributes(), "one 1.0.0 default"),
    ],
)
def test_audience_is_compared_on_the_device(device: Device, attributes: DeviceAttributes, answer: str) -> None:
    """With what the app says of it; none of that leaves the device."""
    device.world.set_policy("1.0.0", rollout=("2.0.0", 10_000), audience="app_version >= 2.1 and os in (android, ios)")
    client = device.client(device=attributes)
    assert client.sync().error is None
    assert device.answer(client) == answer
    sent = b"".join(request.wire for request in device.transport.requests)
    assert b"ios" not in sent
    assert b"2.3" not in sent


def walk_of_policies(world: World, make_device: MakeDevice, seed: int) -> bool:
    """Lead two devices in opposite arms through a random sequence of policies; tell if their requests are equal.

    Half of the programs are so alike that they come as deltas from one another.
    """
    versions = ["1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0"]
    alike: tuple[bytes, ...] = ()
    for version in versions[2:]:
        program = fake_program(version, size_bytes=5000, padding="alike")
        world.push(version, program, bases=alike)
        alike = (*alike, program)
    choose = random.Random(seed)
    devices = [make_device(world, f"device{arm}") for arm in (0, 1)]
    entropies = [SeededEntropy(device.seed_for_arm(arm)) for arm, device in enumerate(devices)]
    answers = set()
    for turn in range(14):
        arms = tuple(choose.sample(versions, 2)) if choose.random() < 0.6 else ()
        world.set_policy(choose.choice(versions), arms=arms)
        if turn == 10:
            world.halt(choose.choice(versions))
        for device, entropy in zip(devices, entropies, strict=True):
            client = device.client(entropy=entropy)
            client.sync()
            answers.add(device.answer(client))
    assert len(answers) > 4
    deltas = {f"/blobs/{delta.sha256}" for each in world.manifests.values() for delta in each.variants[0].deltas}
    assert deltas & {sent.path for sent in devices[0].transport.requests}
    traces = [[(sent.method, sent.path, sent.wire) for sent in device.transport.requests] for device in devices]
    return traces[0] == traces[1]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 5))])
def test_no_sequence_of_policies_tells_the_arm_by_downloads(
    released_world: World, make_device: MakeDevice, seed: int
) -> None:
    """Through defaults and experiments in any order, halts too, two devices in opposite arms request the same."""
    assert walk_of_policies(released_world, make_device, seed)


def test_keeping_only_the_slots_would_tell_the_arm(
    released_world: World, make_device: MakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk above catches a device that keeps current and previous alone, as one would first write it."""

    def slots_only(slots: FeatureSlots) -> frozenset[str]:
        return frozenset(slot.manifest_sha256 for slot in (slots.current, slots.previous) if slot is not None)

    monkeypatch.setattr(FeatureSlots, "installed_digests", slots_only)
    assert not walk_of_policies(released_world, make_device, 1)


@pytest.mark.parametrize("broken", ["2.0.0", "3.0.0"])
def test_experiment_with_a_broken_arm_is_entered_by_nobody(
    released_world: World, make_device: MakeDevice, broken: str
) -> None:
    """Both arms make the same requests and keep what they have: a failure does not tell the arm."""
    released_world.push("3.0.0", fake_program("three"))
    released_world.set_policy("1.0.0", arms=("3.0.0", "2.0.0"))
    released_world.blob(broken).write_bytes(b"x" * released_world.blob(broken).stat().st_size)
    traces = []
    for arm in (0, 1):
        device = make_device(released_world, f"device{arm}")
        client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm)))
        assert isinstance(client.sync().error, IntegrityError)
        assert device.answer(client) == "shipped baseline baseline"
        traces.append([(sent.method, sent.path, sent.wire) for sent in device.transport.requests])
    assert traces[0] == traces[1]


def test_halted_version_gives_way_to_previous_then_baseline(device: Device) -> None:
    """A halt takes effect at the next sync: previous slot first, the app's own model last."""
    world = device.world
    client = device.client()
    client.sync()
    world.set_policy("2.0.0")
    client.sync()
    assert device.answer(client) == "two 2.0.0 default"
    world.halt("2.0.0")
    result = client.sync()
    assert result.changed == (VersionChange(FEATURE, "2.0.0", "1.0.0", "fallback"),)
    assert isinstance(result.error, VersionHaltedError)
    assert device.answer(client) == "one 1.0.0 fallback"
    world.halt("1.0.0", "2.0.0")
    assert client.sync().changed == (VersionChange(FEATURE, "1.0.0", "baseline", "baseline"),)
    assert device.answer(client) == "shipped baseline baseline"
    assert device.answer(device.client()) == "shipped baseline baseline"


def test_halt_holds_even_if_the_policy_cannot_be_read(device: Device) -> None:
    """The stop is obeyed before anything else is asked."""
    client = device.client()
    client.sync()
    device.world.halt("1.0.0")
    policy = next((device.world.folder / "targets" / "policy").iterdir())
    policy.write_bytes(b"{}")
    for path in (device.folder / "metadata" / "documents").glob("policy-*"):
        path.unlink()
    result = client.sync()
    assert result.error is not None
    assert device.answer(client) == "shipped baseline baseline"


def test_frozen_feature_stays_where_it_is(device: Device) -> None:
    """A freeze keeps devices on the version they run now."""
    client = device.client()
    client.sync()
    device.world.halt(is_frozen=True)
    device.world.set_policy("2.0.0")
    assert client.sync().changed == ()
    assert device.answer(client) == "one 1.0.0 default"


@pytest.mark.parametrize("is_frozen", [False, True])
def test_version_below_its_teams_floor_leaves_its_slot(device: Device, is_frozen: bool) -> None:
    """Whatever the policy says, and before anything else is fetched; a freeze does not keep it."""
    client = device.client()
    client.sync()
    device.world.raise_min_version("1.5.0")
    if is_frozen:
        device.world.halt(is_frozen=True)
    result = client.sync()
    assert result.changed == (VersionChange(FEATURE, "1.0.0", "baseline", "baseline"),)
    assert (result.error is None) == is_frozen
    assert is_frozen or isinstance(result.error, RollbackError)
    assert device.answer(client) == "shipped baseline baseline"
    device.world.set_policy("2.0.0")
    assert client.sync().error is None
    assert device.answer(client) == ("shipped baseline baseline" if is_frozen else "two 2.0.0 default")


def test_floor_holds_for_a_feature_that_the_policy_leaves_out(device: Device) -> None:
    """The honest compiler drops what is below its floor, and a stolen policy key may: the version goes all the same."""
    client = device.client()
    client.sync()
    device.world.raise_min_version("5.0.0")
    device.world.drop_from_policy()
    result = client.sync()
    assert (result.changed, result.error) == ((VersionChange(FEATURE, "1.0.0", "baseline", "baseline"),), None)
    assert device.answer(client) == device.answer(device.client()) == "shipped baseline baseline"


def test_floor_holds_even_if_the_policy_cannot_be_read(device: Device) -> None:
    """A server that withholds the policy does not keep a forbidden version alive."""
    client = device.client()
    client.sync()
    device.world.raise_min_version("1.5.0")
    device.world.set_policy("2.0.0")
    for policy in (device.world.folder / "targets" / "policy").iterdir():
        policy.write_bytes(b"{}")
    assert client.sync().error is not None
    assert device.answer(client) == "shipped baseline baseline"


@pytest.mark.parametrize("is_frozen", [False, True])
def test_feature_that_the_policy_leaves_out_keeps_its_version_and_reports_nothing(
    released_world: World, make_device: MakeDevice, is_frozen: bool
) -> None:
    """Its experiment is over: the version answers on, and an outcome under it becomes no report."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    device = make_device(released_world)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)))
    client.sync()
    released_world.drop_from_policy()
    released_world.halt(is_frozen=is_frozen)
    result = client.sync()
    assert (result.changed, result.error) == ((), None)
    for each in (client, device.client()):
        assert device.answer(each) == "two 2.0.0 fallback"
        handle = each.feature(FEATURE)
        handle.predict("hi")
        handle.record_outcome(accepted=True)
        assert each.report().sent == 0
    assert device.transport.reports == []


def test_policy_of_another_app_is_not_taken(device: Device) -> None:
    """An app without a policy gets a typed error and keeps its baseline."""
    with Client("other", device.folder, "http://127.0.0.1:1", device.world.root, **device.options) as client:
        result = client.sync()
        assert isinstance(result.error, MissingTargetError)
        assert device.answer(client) == "shipped baseline baseline"


def test_version_that_needs_a_newer_runtime_is_refused_typed(device: Device) -> None:
    """The error names what is needed and what is here; the old version continues."""
    client = device.client()
    client.sync()
    device.world.push("3.0.0", fake_program("three"), min_runtime="9.0.0")
    device.world.set_policy("3.0.0")
    result = client.sync()
    assert isinstance(result.error, RuntimeTooOldError)
    assert (result.error.needed, result.error.present) == ("9.0.0", "0.1.0")
    assert result.refused[0].version == "3.0.0"
    assert device.answer(client) == "one 1.0.0 default"


class Refusing(FakeEngine):
    """A runtime that loads a program and then finds its certificate wrong."""

    class Inspector:
        """Judges like the fake one, but certifies nothing."""

        def inspect(self, variant: str, program: bytes) -> ProgramFacts:
            """Return what the program says."""
            return FakeEngine().verifier.inspect(variant, program)

        def certify(self, variant: str, program: bytes) -> None:
            """Refuse."""
            raise ProgramRefusedError(variant, "output 0 of sample 0 differs")

    @property
    def verifier(self) -> "Refusing.Inspector":
        """Return what refuses."""
        return Refusing.Inspector()


def test_program_that_fails_its_certificate_here_is_refused(device: Device) -> None:
    """Signed and whole is not enough: it must give on this device what it promised, else nothing is kept of it."""
    client = device.client(engine=Refusing())
    assert isinstance(client.sync().error, ProgramRefusedError)
    assert device.answer(client) == "shipped baseline baseline"
    assert not list((device.folder / "downloads").iterdir())


def test_program_that_was_refused_three_times_is_fetched_for_another_runtime_only(device: Device) -> None:
    """A check may take a minute of a processor: no device makes it at every sync; the error stays the same."""
    device.world.push("3.0.0", fake_program("three"))
    device.world.set_policy("3.0.0")

    def fetches(engine: FakeEngine) -> int:
        """Sync as a new process; return how often a blob was asked for."""
        device.transport.requests.clear()
        client = device.client(engine=engine)
        error = client.sync().error
        assert isinstance(error, ProgramRefusedError)
        assert error.reason == "output 0 of sample 0 differs"
        assert device.answer(client) == "shipped baseline baseline"
        client.close()
        return sum(sent.path.startswith("/blobs") for sent in device.transport.requests)

    assert [fetches(Refusing()) for _ in range(6)] == [1, 1, 1, 0, 0, 0]
    assert [fetches(Refusing("0.2.0")) for _ in range(5)] == [1, 1, 1, 0, 0]
    (path,) = (device.folder / "tries").glob("*.refused")
    for damaged in (b"{", b"[]\n[]\n[]\n", b'{"runtime": 1}\n' * 3, b"\xff" * 100_000):
        path.write_bytes(damaged)
        assert fetches(Refusing()) == 1
    assert device.client(engine=FakeEngine("0.3.0")).sync().error is None
    assert not path.exists()


def test_manifest_that_lies_about_its_program_is_refused(device: Device) -> None:
    """What the program says of itself is compared with what was signed."""

    class Lying:
        """States another memory need than the program has."""

        def inspect(self, variant: str, program: bytes) -> ProgramFacts:
            """Return facts with another memory ceiling."""
            facts = FakeEngine().verifier.inspect(variant, program)
            return ProgramFacts(facts.signature, facts.memory_ceiling_bytes + 1, facts.certificate_sha256)

        def certify(self, variant: str, program: bytes) -> None:
            """Accept."""

    device.world.push("3.0.0", fake_program("three"), verifier=Lying())
    device.world.set_policy("3.0.0")
    result = device.client().sync()
    assert isinstance(result.error, ProgramRefusedError)
    assert result.error.reason == "it needs 1024 bytes, the manifest says 1025"


def test_versions_that_no_slot_names_are_removed(device: Device) -> None:
    """Three versions later the first is gone; the last three are there."""
    client = device.client()
    client.sync()
    for version, label in (("3.0.0", "three"), ("4.0.0", "four"), ("5.0.0", "five")):
        device.world.push(version, fake_program(label))
        device.world.set_policy(version)
        assert client.sync().error is None
    kept = {path.name for path in (device.folder / "versions" / FEATURE).iterdir()}
    assert kept == {device.world.ref(version).manifest_sha256 for version in ("3.0.0", "4.0.0", "5.0.0")}


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_installed_program_that_was_damaged_is_installed_again(device: Device, damage: str) -> None:
    """A damaged file never answers wrongly for long: baseline first, and the next sync repairs it."""
    device.client().sync()
    (program,) = (device.folder / "versions").rglob("program.alc")
    data = program.read_bytes()
    program.chmod(0o600)
    if damage == "remove":
        program.unlink()
    else:
        program.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage == "flip" else data[:-9])
    client = device.client()
    assert device.answer(client) == "shipped baseline baseline"
    assert client.sync().error is None
    assert device.answer(client) == "one 1.0.0 default"
    assert program.read_bytes() == data


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "features": {"x": 3}}', b"\0" * 99]
)
def test_damaged_state_is_an_empty_one(device: Device, content: bytes) -> None:
    """A state file that says nothing sensible costs a sync, not an answer."""
    device.client().sync()
    (device.folder / "state.json").write_bytes(content)
    client = device.client()
    assert device.answer(client) == "shipped baseline baseline"
    assert client.sync().changed[0].after == "1.0.0"


def test_missing_root_is_a_typed_result(device: Device, tmp_path: Path) -> None:
    """A root file that is not there, or is no metadata, is said in the result."""
    client = device.client()
    client._synchronizer.trusted_root = tmp_path / "none.json"
    assert "none.json" in str(client.sync().error)
    client._synchronizer.trusted_root = b"{}"
    assert client.sync().error is not None
    assert device.answer(client) == "shipped baseline baseline"
