"""Attack: the signer of policies asks devices, one valid policy after the other, what they are.

Devices that differ in attributes alone are led through the same policies; what the server and the network see of them
is compared: every request, and which tasks have a report.  Versions that are small tell nothing by downloads.  What
sizes and reports must tell is counted on the device, and ends.
"""

import itertools
import json
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import pytest
from alcove.registry.errors import DocumentError
from alcove.registry.limits import AUDIENCE_VALUES_MAX, POLICY_MAX_BYTES
from alcove.registry.policy import (
    Arm,
    Audience,
    DeviceAttributes,
    ExperimentPolicy,
    FeaturePolicy,
    Outcome,
    Policy,
    RolloutPolicy,
    TaskPolicy,
    VersionRef,
    make_task,
    overlaps,
    parse_audience,
    policy_from_bytes,
)
from alcove.registry.policy.attributes import MEMORY_STEPS_MB, coarse
from alcove.sdk import Client, fetching
from alcove.sdk.handle import ActiveModel, Measurement
from alcove.sdk.limits import MAX_PENDING, MAX_QUESTIONS, MAX_STATE_BYTES
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, NOW, Device, World

MakeDevice = Callable[..., Device]
DAY = 86_400
SECRET_SEED = 3

DEVICES = [
    DeviceAttributes(),
    *(DeviceAttributes(memory_mb=memory) for memory in (300, 3700, 7683, 7684, 12_288)),
    DeviceAttributes(os="ios", app_version="2.3", locale="de-AT", region="AT", device_class="phone", memory_mb=7683),
    DeviceAttributes(os="android", app_version="1.0", locale="en", region="US", device_class="low_end", memory_mb=2048),
]

QUESTIONS = [
    *(f"memory_mb >= {step}" for step in (4096, 8192, 6144, 7000, 7683, 7684)),
    "os in (ios)",
    "locale in (de)",
    "region in (AT)",
    "app_version >= 2.1",
    "memory_mb == 7683",
    "device_class in (low_end) and os in (android)",
]


def rollout(number: int, version: VersionRef, audience: Audience | None, *, own_arm: bool = False) -> RolloutPolicy:
    """Everybody of an audience gets a version, and reports."""
    return RolloutPolicy(
        id=f"ro-{number}", salt=f"salt-{number}", version=version, share_basis_points=9_999, control_basis_points=1,
        audience=audience, own_arm=own_arm, tasks=(task(f"ro-{number}", 4, is_guardrail=True),),
    )  # fmt: skip


def experiment(number: int, versions: Sequence[VersionRef], audience: Audience | None) -> ExperimentPolicy:
    """Everybody of an audience is in one of the arms, and reports."""
    arms = tuple(
        Arm(name=f"a{index}", version=ref, share_basis_points=10_000 // len(versions))
        for index, ref in enumerate(versions)
    )
    result = task(f"ex-{number:03d}", 2, len(arms))
    return ExperimentPolicy(id=f"ex-{number:03d}", salt=f"salt-{number}", arms=arms, audience=audience, tasks=(result,))


def task(part_id: str, outcomes: int, arms: int = 2, *, is_guardrail: bool = False) -> TaskPolicy:
    """A task at the least epsilon, so that the ledger of reports stops nothing."""
    return make_task(
        experiment_id=part_id, epsilon="0.01", arm_count=arms, latency_edges_ms=(1.0,),
        outcome_groups=[(outcome,) for outcome in list(Outcome)[:outcomes]], window_s=3600,
        first_window_start_s=NOW - 1000 * 3600, is_guardrail=is_guardrail,
    )  # fmt: skip


@dataclass
class Seen:
    """What the server sees of one device."""

    requests: list[tuple[str, str, bytes]]
    tasks: list[str]


def live(device: Device, client: Client, begin: int) -> Seen:
    """One check-in: sync, answer, note how it was taken, report; what of it the network saw."""
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    client.report()
    sent = device.transport.requests[begin:]
    return Seen(
        [(one.method, one.path, one.wire) for one in sent if one.method == "GET"],
        [one.body[:32].hex() for one in sent if one.method == "POST"],
    )


@pytest.fixture
def fleet(released_world: World, make_device: MakeDevice, unsynced: None) -> list[tuple[Device, Client]]:
    """Devices that differ in attributes alone: one secret, one history."""
    results = []
    for number, attributes in enumerate(DEVICES):
        device = make_device(released_world, f"device{number}")
        results.append((device, device.client(device=attributes, entropy=SeededEntropy(SECRET_SEED))))
        results[-1][1].sync()
    return results


def ask(world: World, number: int, text: str, *, is_rollout: bool) -> None:
    """Publish the next version for those of an audience."""
    audience = parse_audience(text)
    ref = world.push(f"3.0.{number}", fake_program(f"three {number}"))
    default = world.ref("1.0.0")
    parts = (
        {"rollout": rollout(number, ref, audience)}
        if is_rollout
        else {"experiments": (experiment(number, (default, ref), audience),)}
    )
    world._publish({FEATURE: FeaturePolicy(min_version="0.0.1", default=default, **parts)})


@pytest.mark.parametrize("is_rollout", [True, False])
def test_no_series_of_audiences_shows_in_what_devices_fetch(
    released_world: World, fleet: list[tuple[Device, Client]], is_rollout: bool
) -> None:
    """Many questions, a policy each: all devices send the same requests to the byte, before and after the bound."""
    answers = set()
    for number, text in enumerate(QUESTIONS):
        ask(released_world, number, text, is_rollout=is_rollout)
        begins = [len(device.transport.requests) for device, _ in fleet]
        seen = [live(device, client, begin).requests for (device, client), begin in zip(fleet, begins, strict=True)]
        assert len(seen[0]) > 3
        assert all(one == seen[0] for one in seen), text
        answers |= {device.answer(client) for device, client in fleet}
    assert len(answers) > 4  # audiences were obeyed, and nothing of it was seen


def test_many_audiences_in_one_policy_show_no_more(released_world: World, fleet: list[tuple[Device, Client]]) -> None:
    """Thirteen experiments with an audience for each step of memory, all at once: one trace, at most four answers."""
    default = released_world.ref("1.0.0")
    ref = released_world.push("3.0.0", fake_program("three"))
    bands = zip(MEMORY_STEPS_MB, (*MEMORY_STEPS_MB[1:], None), strict=True)
    texts = [f"memory_mb >= {low}" + (f" and memory_mb < {high}" if high else "") for low, high in bands if low]
    parts = tuple(experiment(number, (default, ref), parse_audience(text)) for number, text in enumerate(texts))
    rules = FeaturePolicy(min_version="0.0.1", default=default, experiments=parts)
    released_world._publish({FEATURE: rules})
    begins = [len(device.transport.requests) for device, _ in fleet]
    seen = [live(device, client, begin) for (device, client), begin in zip(fleet, begins, strict=True)]
    assert all(one.requests == seen[0].requests for one in seen)
    answered = {parts.index(part) for one in seen for part in parts if part.tasks[0].task_id in one.tasks}
    assert answered <= set(range(MAX_QUESTIONS))  # who is in a later band never said so
    for _, client in fleet:
        assert client.privacy_summary().answers_30_days <= MAX_QUESTIONS


def test_reports_tell_at_most_four_audiences_in_any_thirty_days(released_world: World, make_device: MakeDevice) -> None:
    """A device that is in every audience, asked a new one each day for 34 days: its reports name four tasks a month."""
    device = make_device(released_world)
    attributes = DeviceAttributes(app_version="9.9")
    client = device.client(device=attributes, entropy=SeededEntropy(SECRET_SEED))
    client.sync()
    answered: list[int] = []
    for day in range(34):
        text = f"app_version >= 1.{day}"
        default = released_world.ref("1.0.0")
        part = experiment(day, (default, released_world.ref("2.0.0")), parse_audience(text))
        released_world._publish({FEATURE: FeaturePolicy(min_version="0.0.1", default=default, experiments=(part,))})
        seen = live(device, client, len(device.transport.requests))
        assert client.last_sync is not None
        assert client.last_sync.error is None
        assert set(seen.tasks) <= {part.tasks[0].task_id}
        answered += [day] * len(seen.tasks)
        device.clock.pass_s(DAY)
        released_world.clock.pass_s(DAY)
        released_world.tree.refresh()
    assert answered[:MAX_QUESTIONS] == list(range(MAX_QUESTIONS))
    for first in range(34):
        assert sum(first <= day < first + 30 for day in answered) <= MAX_QUESTIONS
    assert len(answered) > MAX_QUESTIONS  # and later there are more: a bound, not an end


@pytest.mark.parametrize("memory_mb", [700, 3_000, 7_683, 15_999, 100_000])
def test_binary_search_by_sizes_ends_after_four_answers(
    released_world: World, make_device: MakeDevice, memory_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions too large for everybody: the search halves the range by each download, twelve times, and learns four."""
    monkeypatch.setattr(fetching, "ALL_VERSIONS_BYTES", 10)
    device = make_device(released_world)
    client = device.client(device=DeviceAttributes(memory_mb=memory_mb), entropy=SeededEntropy(SECRET_SEED))
    client.sync()
    low, high, informative = 0, 1 << 17, 0
    for number in range(12):
        middle = (low + high) // 2
        ask(released_world, number, f"memory_mb >= {middle}", is_rollout=True)
        begin = len(device.transport.requests)
        client.sync()
        fetched = f"/blobs/{released_world.manifests[f'3.0.{number}'].variants[0].sha256}"
        if fetched in [one.path for one in device.transport.requests[begin:]]:
            low, informative = middle, number
        else:
            high = middle
    assert informative < MAX_QUESTIONS
    assert client.privacy_summary().answers_30_days == MAX_QUESTIONS
    # All that the search "learns" after that is the refusal, which leads it down to the same number from there.
    assert high - low <= 32
    assert coarse(DeviceAttributes(memory_mb=memory_mb)).memory_mb in MEMORY_STEPS_MB


def test_devices_of_one_step_of_memory_are_never_distinguished(
    released_world: World, make_device: MakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor by versions that are too large, nor by reports, whatever is asked: 6 144 MB and 8 191 MB are one."""
    monkeypatch.setattr(fetching, "ALL_VERSIONS_BYTES", 10)
    devices = []
    for memory_mb in (6144, 7683, 8191):
        device = make_device(released_world, f"of {memory_mb}")
        devices.append((device, device.client(device=DeviceAttributes(memory_mb=memory_mb), entropy=SeededEntropy(3))))
    for number, text in enumerate(QUESTIONS):
        ask(released_world, number, text, is_rollout=True)
        seen = [live(device, client, len(device.transport.requests)) for device, client in devices]
        assert seen[0] == seen[1] == seen[2], text


def arm_flagged(world: World, versions: tuple[str, str], number: int = 0) -> None:
    """Publish an experiment whose policy says that arms are to be fetched alone."""
    part = experiment(number, [world.ref(version) for version in versions], None).model_copy(update={"own_arm": True})
    rules = FeaturePolicy(min_version="0.0.1", default=world.ref("1.0.0"), experiments=(part,))
    world._publish({FEATURE: rules})


def test_small_arms_are_fetched_by_all_whatever_the_policy_says(released_world: World, make_device: MakeDevice) -> None:
    """Two arms of 87 kB and `own_arm`: eight devices, in both arms, make the same requests to the byte."""
    for version in ("3.0.0", "4.0.0"):
        released_world.push(version, fake_program(version, size_bytes=87_000))
    arm_flagged(released_world, ("3.0.0", "4.0.0"))
    seen, answers = [], set()
    for seed in range(8):
        device = make_device(released_world, f"device{seed}")
        client = device.client(entropy=SeededEntropy(seed))
        client.sync()
        answers.add(device.answer(client))
        seen.append([(one.method, one.path, one.wire) for one in device.transport.requests])
    assert len(answers) == 2
    assert all(one == seen[0] for one in seen)


def test_arms_that_are_too_large_are_revealed_four_times_and_no_more(
    released_world: World, make_device: MakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the bound by the signed manifests an arm shows, and counts; then the device stays on its default."""
    monkeypatch.setattr(fetching, "ALL_VERSIONS_BYTES", 20_000)
    device = make_device(released_world)
    client = device.client(entropy=SeededEntropy(SECRET_SEED))
    for number in range(MAX_QUESTIONS + 2):
        names = f"3.0.{number}", f"4.0.{number}"
        for name in names:
            released_world.push(name, fake_program(name, size_bytes=10_001))
        arm_flagged(released_world, names, number)
        begin = len(device.transport.requests)
        assert client.sync().error is None
        blobs = [one.path for one in device.transport.requests[begin:] if one.path.startswith("/blobs")]
        own = {f"/blobs/{released_world.manifests[name].variants[0].sha256}" for name in names}
        assert len(own & set(blobs)) == (1 if number < MAX_QUESTIONS else 0)
    assert device.answer(client) == "one 1.0.0 default"


def test_new_tasks_at_every_sync_end_no_reports(device: Device, unsynced: None) -> None:
    """Outcomes that wait for a budget do not pile up until none of them can be read."""
    client = device.client()
    client.sync()
    edges_ms = tuple(map(float, range(1, 16)))
    tasks = [
        make_task(
            experiment_id=f"{number:064d}",
            epsilon="2",
            arm_count=2,
            latency_edges_ms=edges_ms,
            window_s=31 * DAY,
            first_window_start_s=0,
        )
        for number in range(MAX_PENDING + 3)
    ]
    window = tasks[0].window_at(device.clock.now_s())
    pending = device.folder / "reports" / "pending.json"
    waiting = [
        {"task": one.model_dump_json(), "window": window, "outcome": 0, "cell": 0, "seen": 1, "total": 0.0}
        for one in tasks[:MAX_PENDING]
    ]
    pending.write_text(json.dumps(waiting), encoding="utf-8")
    for one in tasks[MAX_PENDING:]:
        active = ActiveModel(None, "1.0.0", "experiment", arm=0, task=one.model_dump_json())
        client._outcomes.open_reporter().record(Measurement(FEATURE, active, Outcome.ACCEPTED, 1.0))
    entries = json.loads(pending.read_text(encoding="utf-8"))
    assert [json.loads(entry["task"])["task_id"] for entry in entries] == [one.task_id for one in tasks[3:]]
    assert pending.stat().st_size < MAX_STATE_BYTES / 4
    assert client.report().sent == 1


class TooManyCallsError(Exception):
    """Neither an AssertionError nor a ValueError: pydantic would take those for a refusal."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail as soon as more functions were called: what takes hours is not waited for."""
    left = calls

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal left
        left -= event == "call"
        if left < 0:
            raise TooManyCallsError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("sign", ["in", "not in"])
def test_audience_of_too_many_words_is_refused_in_linear_time(sign: str) -> None:
    """A signed policy of 2 MiB that is one set of words costs a device a second, not a day, and a short line."""
    ref = VersionRef(version="1.0.0", manifest_sha256="0" * 64)
    part = rollout(1, ref, parse_audience(f"device_class {sign} (zzzz)"))
    rules = FeaturePolicy(min_version="0.0.1", default=ref, rollout=part)
    honest = Policy(app="messenger", serial=1, features={FEATURE: rules}).to_bytes()
    letters = itertools.product(string.ascii_lowercase, repeat=4)
    words = ["".join(word) for word in itertools.islice(letters, 20_000)]
    data = honest.replace(b'["zzzz"]', json.dumps(words, separators=(",", ":")).encode())
    assert len(honest) + 100_000 < len(data) < POLICY_MAX_BYTES
    with at_most(30 * len(words)), pytest.raises(DocumentError) as refused:
        policy_from_bytes(data)
    assert len(str(refused.value)) < 2000


def test_two_audiences_of_the_most_words_are_compared_in_linear_time() -> None:
    """A policy has room for 100,000 pairs of experiments, of which each word was compared with each."""
    pairs = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=2)]

    def audience(index: int) -> Audience:
        own = pairs[index * AUDIENCE_VALUES_MAX :][: AUDIENCE_VALUES_MAX - 1]
        words = ", ".join([*own, "zz"])
        region = ("AT", "DE")[index]
        return parse_audience(f"device_class in ({words}) and locale in ({words}) and region in ({region})")

    first, second = audience(0), audience(1)
    with at_most(2 * 2 * AUDIENCE_VALUES_MAX * 12):
        assert not overlaps(first, second)
