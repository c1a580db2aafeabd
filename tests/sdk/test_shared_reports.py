"""A device in a task of two aggregators reports every window once, whatever happened in it, when its time has come."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from alcove.privacy.errors import BudgetExceededError, DapTaskError
from alcove.sdk import AggregatorPair, TransportError
from alcove.sdk.background import report_turn
from alcove.sdk.participation import Membership
from alcove.sdk.testing import SeededEntropy

from tests.sdk.aggregators import PAIR, WINDOW_S, FakeAggregators, enroll, make_aggregation, open_client, task_of, use
from tests.sdk.conftest import NOW, Device, World
from tests.sdk.test_crash import keep, restore
from tests.sdk.test_outcomes import crash_three_times

MakeDevice = Callable[..., Device]
CHEAP: dict[str, Any] = {"epsilon": "0.1"}
"""Terms of which a device can pay a window after the other."""


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


def end_window(device: Device, windows: int = 1) -> None:
    """Let time pass until the last second of a later window, when all reports of the one before are due."""
    end_s = (device.clock.time_s // WINDOW_S + windows + 1) * WINDOW_S - 1
    device.clock.pass_s(end_s - device.clock.time_s)


def windows_of(fake: FakeAggregators) -> list[int]:
    """Return the windows that the leader has reports of, in the order of their arrival, counted from the first used."""
    return [report.metadata.time - NOW // WINDOW_S for report in fake.sealings()]


# --- what is reported


def test_outcome_of_a_window_is_one_report_of_its_cell(device: Device, fake: FakeAggregators) -> None:
    """After the window, not in it; debited; the aggregators together read the cell that was recorded."""
    client = enroll(device, fake)
    use(client)
    early = client.report()
    assert (early.sent, early.waiting, early.dropped, early.error) == (0, 0, 0, None)
    assert fake.requests == []
    end_window(device)
    result = client.report()
    assert (result.sent, result.waiting, result.dropped, result.error) == (1, 0, 0, None)
    assert result.epsilon_spent == 1
    task = task_of(device.world)
    assert fake.cells(task) == [task.cell_index(1, 1, 1.0)]
    assert windows_of(fake) == [0]
    summary = client.privacy_summary()
    assert summary.reports_made == 1
    assert summary.report_bytes_sent == sum(len(sent.body) for sent in fake.requests) > 500
    again = client.report()
    assert (again.sent, again.waiting, again.dropped, again.error) == (0, 0, 0, None)


def test_every_window_is_reported_used_or_not(device: Device, fake: FakeAggregators) -> None:
    """Used, idle, failed, and used again: one report each, the idle cell where nothing was recorded."""
    client = enroll(device, fake, policy=CHEAP)
    task = task_of(device.world)
    used = [True, False, False, True, True, False]
    for is_used in used:
        if is_used:
            use(client)
        end_window(device)
        client.report()
    assert windows_of(fake) == list(range(len(used)))
    cell = task.cell_index(1, 1, 1.0)
    assert fake.cells(task) == [cell if is_used else task.cell_count for is_used in used]
    assert client.privacy_summary().reports_made == len(used)


@pytest.mark.parametrize("arm", [0, 1])
def test_used_and_idle_devices_send_alike(released_world: World, make_device: MakeDevice, arm: int) -> None:
    """Same requests of the same sizes to the same servers: nothing of use shows outside of the cell."""
    traces = []
    for name, outcomes in (("idle", []), ("used", [True]), ("refused", [False, False, True])):
        device = make_device(released_world, name)
        own = FakeAggregators(device)
        client = enroll(device, own, arm, policy=CHEAP)
        for accepted in outcomes:
            use(client, accepted=accepted)
        end_window(device)
        client.report()
        traces.append([(sent.server, sent.method, sent.path, len(sent.wire)) for sent in own.requests])
    assert len(traces[0]) == 3
    assert traces[0] == traces[1] == traces[2]


def test_outcome_of_the_present_window_waits_for_its_end(device: Device, fake: FakeAggregators) -> None:
    """All outcomes of a window are in the draw, also those after the report of the window before."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    end_window(device)
    use(client, accepted=False)
    assert client.report().sent == 1
    end_window(device)
    assert client.report().sent == 1
    task = task_of(device.world)
    assert fake.cells(task) == [task.cell_index(1, 1, 1.0), task.cell_index(1, 0, 1.0)]


# --- when


def test_report_leaves_at_the_time_that_was_drawn(device: Device, fake: FakeAggregators) -> None:
    """Not a second before, and a restart draws no other time."""
    client = enroll(device, fake)
    use(client)
    due_in_s = client.report().next_due_s
    assert due_in_s is not None
    assert WINDOW_S <= due_in_s < WINDOW_S + 3 * WINDOW_S / 4
    for seed in range(5):
        assert open_client(device, fake, entropy=SeededEntropy(seed)).report().next_due_s == due_in_s
    device.clock.time_s = NOW + due_in_s - 1
    assert client.report().next_due_s == 1
    assert fake.requests == []
    device.clock.time_s += 1
    result = client.report()
    assert result.sent == 1
    # The next report is due in the window after the present one, whose report it is.
    assert result.next_due_s is not None
    assert NOW + 2 * WINDOW_S <= device.clock.time_s + result.next_due_s < NOW + 3 * WINDOW_S


def test_times_are_drawn_evenly_over_three_quarters_of_the_window(released_world: World) -> None:
    """Over keys and over windows, so that neither the device nor the hour of its sync shows in them."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), aggregation=make_aggregation())
    task = task_of(released_world)
    one = Membership("greeting", task, 0, None, bytes(16))
    many = [Membership("greeting", task, 0, None, bytes([key]) * 16).due_at_s(7) for key in range(256)]
    for times, window in ((many, [7] * 256), ([one.due_at_s(number) for number in range(256)], range(256))):
        starts = [task.first_window_start_s + (number + 1) * task.window_s for number in window]
        parts = [(at_s - start_s) / task.window_s for at_s, start_s in zip(times, starts, strict=True)]
        assert min(parts) >= 0
        assert max(parts) < 0.75
        quarters = [sum(low / 4 <= part < (low + 1) / 4 for part in parts) for low in range(3)]
        assert all(55 < count < 120 for count in quarters), quarters


def test_background_wakes_at_the_drawn_time_and_sends_one_a_turn(device: Device, fake: FakeAggregators) -> None:
    """Whatever the interval is: the turn before says when."""
    client = enroll(device, fake)
    turn = report_turn(lambda: client._report(most=1))
    assert turn.next_due_s is not None
    device.clock.pass_s(turn.next_due_s)
    turn = report_turn(lambda: client._report(most=1))
    assert len(fake.reports) == 1
    assert (turn.left, turn.is_failed) == (0, False)


def test_device_that_was_off_reports_the_last_window_alone(device: Device, fake: FakeAggregators) -> None:
    """No burst of what was missed, and the true cells of it are gone."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    end_window(device, windows=5)
    result = client.report()
    assert (result.sent, result.dropped) == (1, 1)
    assert windows_of(fake) == [4]
    assert fake.cells(task_of(device.world)) == [task_of(device.world).cell_count]
    assert json.loads((device.folder / "reports" / "pending.json").read_bytes()) == []


def test_report_that_could_not_leave_within_its_window_is_given_up(device: Device, fake: FakeAggregators) -> None:
    """It is gone from the disk with its cell; the budget stays spent."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)

    def be_away(_when: str, method: str, path: str) -> None:
        if method == "POST":
            raise TransportError(method=method, path=path, reason="the cable was cut")

    fake.fault = be_away
    end_window(device)
    assert client.report().waiting == 1
    fake.fault = lambda _when, _method, _path: None
    end_window(device)
    result = client.report()
    assert (result.sent, result.dropped) == (1, 1)
    assert windows_of(fake) == [1]
    assert client.privacy_summary().reports_made == 2
    assert json.loads((device.folder / "reports" / "outbox.json").read_bytes()) == []


# --- which windows


def test_windows_before_the_device_met_the_task_are_not_reported(device: Device, fake: FakeAggregators) -> None:
    """It knows nothing of them."""
    client = enroll(device, fake)
    result = client.report()
    assert (result.sent, fake.requests) == (0, [])
    end_window(device)
    client.report()
    assert windows_of(fake) == [0]


def test_device_that_leaves_reports_its_last_window_and_no_other(device: Device, fake: FakeAggregators) -> None:
    """The windows from the sync that put it in to the sync that took it out, both included."""
    client = enroll(device, fake, policy=CHEAP)
    task = task_of(device.world)
    end_window(device)
    client.report()
    use(client)
    device.world.set_policy("1.0.0")
    assert client.sync().error is None
    for _ in range(4):
        end_window(device)
        client.report()
    assert windows_of(fake) == [0, 1]
    assert fake.cells(task) == [task.cell_count, task.cell_index(1, 1, 1.0)]
    client.sync()
    assert json.loads((device.folder / "reports" / "tasks.json").read_bytes()) == []


def test_device_that_comes_back_reports_from_then_on(device: Device, fake: FakeAggregators) -> None:
    """A policy that takes a task away and gives it back leaves the windows between unreported."""
    client = enroll(device, fake, policy=CHEAP)
    device.world.set_policy("1.0.0")
    client.sync()
    end_window(device, windows=3)
    client.report()
    terms: dict[str, Any] = {"window_s": WINDOW_S, "aggregation": make_aggregation()} | CHEAP
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), **terms)
    client.sync()
    assert client.report().sent == 0
    end_window(device)
    assert client.report().sent == 1
    assert windows_of(fake) == [3]


def test_device_that_cannot_sync_reports_on(device: Device, fake: FakeAggregators) -> None:
    """What the last policy said holds until another is heard."""
    client = enroll(device, fake, policy=CHEAP)

    def be_away(method: str, path: str) -> None:
        raise TransportError(method=method, path=path, reason="the cable was cut")

    device.transport.fault = be_away
    for _ in range(3):
        assert client.sync().error is not None
        end_window(device)
        assert client.report().sent == 1
    assert windows_of(fake) == [0, 1, 2]


def test_feature_that_a_sync_cannot_settle_stays_in_its_task(device: Device, fake: FakeAggregators) -> None:
    """Frozen: nothing of it changes, and its windows are reported on."""
    client = enroll(device, fake, policy=CHEAP)
    device.world.halt(is_frozen=True)
    for _ in range(2):
        client.sync()
        end_window(device)
        assert client.report().sent == 1
    (one,) = json.loads((device.folder / "reports" / "tasks.json").read_bytes())
    assert one["last_window"] is None


@pytest.mark.parametrize("jump_s", [WINDOW_S, 10 * WINDOW_S, 10 * 365 * 86_400, -10 * WINDOW_S, -800 * WINDOW_S])
def test_no_jump_of_the_clock_makes_two_reports_of_a_window_or_a_burst(
    device: Device, fake: FakeAggregators, jump_s: int
) -> None:
    """Set wrong and right again, with syncs and restarts between: one report a window, and soon all is as before.

    The window that was reported while the clock was ahead is not reported again.
    """
    client = enroll(device, fake, policy=CHEAP)
    for _ in range(2):
        end_window(device)
        client.report()
    for _ in range(3):
        device.clock.time_s += jump_s
        for _ in range(2):
            before = len(fake.reports)
            open_client(device, fake).report()
            client.sync()
            client.report()
            assert len(fake.reports) - before <= 1
        device.clock.time_s -= jump_s
        open_client(device, fake).report()
    client.sync()
    before = len(fake.reports)
    for _ in range(3):
        end_window(device)
        client.report()
    assert len(fake.reports) - before >= 2
    windows = windows_of(fake)
    assert windows[-1] == 4
    assert len(windows) == len(set(windows))
    assert client.privacy_summary().reports_made == len(windows)


def test_clock_that_stood_too_far_ahead_when_the_task_was_met_silences_nobody(
    device: Device, fake: FakeAggregators
) -> None:
    """T4: once the clock is right the next sync puts the first window right."""
    device.clock.time_s += 20 * WINDOW_S
    client = enroll(device, fake, policy=CHEAP)
    device.clock.time_s = NOW
    assert client.report().sent == 0
    client.sync()
    end_window(device)
    assert client.report().sent == 1
    assert windows_of(fake) == [0]


# --- whether there is a report tells nothing of the arm (T1)


def crash(device: Device) -> None:
    """Have the version of arm 1 crash three times here, if it is there."""
    crash_three_times(device, "2.0.0")


EVENTS: dict[str, Callable[[Device], None]] = {
    "arm 1 crashes": crash,
    "arm 1 is halted": lambda device: device.world.halt("2.0.0"),
    "arm 0 is halted": lambda device: device.world.halt("1.0.0"),
    "arm 1 is halted and the feature frozen": lambda device: device.world.halt("2.0.0", is_frozen=True),
    "the feature is frozen": lambda device: device.world.halt(is_frozen=True),
    "arm 0 is below the minimum": lambda device: device.world.raise_min_version("2.0.0"),
    "both are below the minimum": lambda device: device.world.raise_min_version("3.0.0"),
    "the experiment ends": lambda device: device.world.set_policy("1.0.0"),
    "the policy leaves the feature out": lambda device: device.world.drop_from_policy(),
    "the policy is the same": lambda _device: None,
}


@pytest.mark.parametrize(
    ("name", "is_rollout"),
    [(name, False) for name in EVENTS] + [(name, True) for name in ("arm 0 is halted", "arm 1 is halted")],
)
def test_participation_is_the_same_in_every_arm(
    released_world: World, make_device: MakeDevice, name: str, is_rollout: bool
) -> None:
    """Whatever happens to one arm's version, and however far a sync comes: both arms report the same windows."""
    terms: dict[str, Any] = (
        {"rollout": ("2.0.0", 5000), "control": 5000} if is_rollout else {"arms": ("1.0.0", "2.0.0")}
    )
    released_world.set_policy("1.0.0", window_s=WINDOW_S, aggregation=make_aggregation(), **terms, **CHEAP)
    places = [(arm, is_cut) for is_cut in (False, True) for arm in (0, 1)]
    devices = [make_device(released_world, f"device{arm}{is_cut}") for arm, is_cut in places]
    secrets = [
        SeededEntropy(devices[0].seed_for_arm(arm, salt="roll-salt" if is_rollout else "exp-salt")) for arm, _ in places
    ]
    for device, secret in zip(devices, secrets, strict=True):
        assert open_client(device, FakeAggregators(device), entropy=secret).sync().error is None
    for device in devices if EVENTS[name] is crash else devices[:1]:
        EVENTS[name](device)
    kept = []
    for device, (_, is_cut) in zip(devices, places, strict=True):
        device.transport.fault = cut_downloads if is_cut else None
        own = FakeAggregators(device)
        client = open_client(device, own)
        for _ in range(2):
            client.sync()
        members = json.loads((device.folder / "reports" / "tasks.json").read_bytes())
        for _ in range(2):
            end_window(device)
            client.report()
        kept.append(([one | {"key": ""} for one in members], windows_of(own)))
    assert kept[0] == kept[1]
    assert kept[2] == kept[3]


def cut_downloads(method: str, path: str) -> None:
    """Let metadata through and nothing else."""
    if path.startswith(("/blobs", "/targets")):
        raise TransportError(method=method, path=path, reason="the cable was cut")


def test_device_whose_arm_crashed_reports_that_and_every_window(device: Device, fake: FakeAggregators) -> None:
    """The fallback is in the cell, where only sums show it."""
    client = enroll(device, fake, 1, policy=CHEAP | {"outcomes": 4})
    crash(device)
    client = open_client(device, fake)
    client.sync()
    use(client)
    for _ in range(2):
        end_window(device)
        client.report()
    task = task_of(device.world)
    first, second = fake.cells(task)
    assert task.layout.axes(first)[:2] == (1, 3)
    assert second == task.cell_count


# --- whom the device trusts


OTHER = AggregatorPair("https://leader.other.example", "https://helper.other.example")
HOSTILE: dict[str, dict[str, Any]] = {
    "a leader of the thief's": {"aggregation": make_aggregation(leader_url="https://thief.example")},
    "a helper of the thief's": {"aggregation": make_aggregation(helper_url="https://thief.example")},
    "two of the thief's": {
        "aggregation": make_aggregation(leader_url="https://a.example", helper_url="https://b.example")
    },
    "swapped seats": {"aggregation": make_aggregation(leader_url=PAIR.helper_url, helper_url=PAIR.leader_url)},
    "a helper of another pair": {"aggregation": make_aggregation(helper_url=OTHER.helper_url)},
    "a large epsilon": {"epsilon": "2.5"},
    "a short window": {"window_s": 60},
    "a local epsilon that is none": {"aggregation": make_aggregation(local_epsilon="0.001")},
}


@pytest.mark.parametrize("terms", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_policy_makes_no_report(device: Device, fake: FakeAggregators, terms: dict[str, Any]) -> None:
    """P1: no request, no debit, and the outcome is gone: whoever signed it."""
    client = enroll(device, fake, policy=terms, aggregators=[PAIR, OTHER])
    use(client)
    results = [client.report()]
    for _ in range(3):
        device.clock.pass_s(int(terms.get("window_s", WINDOW_S)))
        results.append(client.report())
        use(client)
    assert fake.requests == []
    assert device.transport.reports == []
    assert client.privacy_summary().reports_made == 0
    assert {result.sent for result in results} == {0}
    assert all(result.error is not None for result in results)
    outbox = device.folder / "reports" / "outbox.json"
    assert not outbox.exists()


def test_app_that_names_no_aggregators_makes_no_such_report(device: Device, fake: FakeAggregators) -> None:
    """The default; the result says what to do."""
    client = enroll(device, fake, aggregators=())
    use(client)
    end_window(device)
    result = client.report()
    assert (result.sent, result.dropped, fake.requests) == (0, 1, [])
    assert isinstance(result.error, DapTaskError)
    assert "Client(aggregators=...)" in str(result.error)


def test_app_that_trusts_a_pair_no_more_sends_nothing_of_what_waited(device: Device, fake: FakeAggregators) -> None:
    """An update of the app takes effect for reports that were made before it."""
    client = enroll(device, fake)
    use(client)

    def be_away(_when: str, method: str, path: str) -> None:
        if method == "POST":
            raise TransportError(method=method, path=path, reason="the cable was cut")

    fake.fault = be_away
    end_window(device)
    assert client.report().waiting == 1
    fake.fault = lambda _when, _method, _path: None
    sent = len(fake.requests)
    updated = open_client(device, fake, aggregators=[OTHER])
    result = updated.report()
    assert (result.sent, result.waiting, result.dropped) == (0, 0, 1)
    assert len(fake.requests) == sent


def test_task_with_a_token_issuer_makes_no_report_without_token(device: Device, fake: FakeAggregators) -> None:
    """S4: no request, no debit; the window waits and is given up."""
    aggregation = make_aggregation(token_issuer="https://issuer.example")
    client = enroll(device, fake, policy={"aggregation": aggregation})
    use(client)
    for _ in range(3):
        end_window(device)
        assert client.report().sent == 0
    assert fake.requests == []
    assert client.privacy_summary().reports_made == 0


# --- budget, consent, other tasks


def test_window_that_cannot_be_paid_is_not_reported(device: Device, fake: FakeAggregators) -> None:
    """ε 1 in each of three hours: the third exceeds the day's cap, used or not."""
    client = enroll(device, fake)
    errors = []
    for _ in range(3):
        end_window(device)
        errors.append(client.report().error)
    assert [type(error) for error in errors] == [type(None), type(None), BudgetExceededError]
    assert windows_of(fake) == [0, 1]
    # After 30 hours an experiment has budget again, for the window before.
    device.clock.pass_s(30 * 3600)
    client.report()
    assert windows_of(fake) == [0, 1, 32]


def test_device_whose_user_says_no_reports_nothing_not_even_idle(device: Device, fake: FakeAggregators) -> None:
    """Off: its tasks are forgotten; on again, they come with the next sync."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    client.set_reports(False)
    assert not (device.folder / "reports" / "tasks.json").exists()
    for _ in range(2):
        client.sync()
        end_window(device)
        assert client.report().sent == 0
    client.set_reports(True)
    end_window(device)
    assert client.report().sent == 0
    assert fake.requests == []
    client.sync()
    end_window(device)
    assert client.report().sent == 1
    assert fake.cells(task_of(device.world)) == [task_of(device.world).cell_count]


def test_device_in_a_rollout_whose_user_says_no_notes_no_task(device: Device, fake: FakeAggregators) -> None:
    """It follows the rollout, because it brings the version that it is to have, and reports nothing of it."""
    device.world.set_policy(
        "1.0.0", rollout=("2.0.0", 5000), control=5000, window_s=WINDOW_S, aggregation=make_aggregation(), **CHEAP
    )
    client = open_client(device, fake)
    client.set_reports(False)
    assert client.sync().error is None
    assert not (device.folder / "reports" / "tasks.json").exists()
    client.set_reports(True)
    client.sync()
    assert len(json.loads((device.folder / "reports" / "tasks.json").read_bytes())) == 1


def test_forgetting_leaves_an_idle_report(device: Device, fake: FakeAggregators) -> None:
    """The outcome goes; the device takes part as before, so that nobody sees that it forgot."""
    client = enroll(device, fake)
    use(client)
    client.forget_reports()
    end_window(device)
    assert client.report().sent == 1
    assert fake.cells(task_of(device.world)) == [task_of(device.world).cell_count]


def test_no_while_keys_are_asked_for_stops_the_report(device: Device, fake: FakeAggregators) -> None:
    """Consent is asked again after the network, before the debit."""
    client = enroll(device, fake)
    use(client)

    def opt_out(when: str, method: str, _path: str) -> None:
        if (when, method) == ("before", "GET"):
            client.set_reports(False)

    fake.fault = opt_out
    end_window(device)
    assert client.report().sent == 0
    assert fake.reports == {}
    assert client.privacy_summary().reports_made == 0


def test_outcome_is_recorded_while_an_aggregator_hangs(device: Device, fake: FakeAggregators) -> None:
    """The app's call never waits for the network."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    end_window(device)
    recorded: list[str] = []

    def hang(when: str, method: str, _path: str) -> None:
        if when == "before":
            use(client)
            recorded.append(method)

    fake.fault = hang
    assert client.report().sent == 1
    assert recorded == ["GET", "GET", "POST"]


def test_reports_of_both_mechanisms_keep_nobody_back(released_world: World, make_device: MakeDevice) -> None:
    """I7: with the leader away the app's server gets its report, in the background too, and the other way round."""
    for away in ("leader", "server"):
        device = make_device(released_world, away)
        fake = FakeAggregators(device)
        client = enroll(device, fake, policy=CHEAP)
        end_window(device)
        device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), **CHEAP)
        client.sync()
        use(client)

        def fail_leader(_when: str, method: str, path: str) -> None:
            if method == "POST":
                raise TransportError(method=method, path=path, reason="the cable was cut")

        def fail_server(method: str, path: str) -> None:
            if method == "POST":
                raise TransportError(method=method, path=path, reason="the cable was cut")

        if away == "leader":
            fake.fault = fail_leader
        else:
            device.transport.fault = fail_server
        for _ in range(4):
            client._report(most=1)
        assert len(device.transport.reports) == (1 if away == "leader" else 0)
        assert len(fake.reports) == (0 if away == "leader" else 1)
        fake.fault = lambda _when, _method, _path: None
        device.transport.fault = None
        for _ in range(2):
            client._report(most=1)
        assert (len(device.transport.reports), len(fake.reports)) == (1, 1)


def test_aggregator_without_keys_keeps_no_other_report_back(device: Device, fake: FakeAggregators) -> None:
    """In the background too, where one is made at a time, and the other was due before."""
    client = enroll(device, fake, policy=CHEAP)
    device.world.set_policy(
        "1.0.0",
        arms=("1.0.0", "2.0.0"),
        experiment_id="other",
        aggregation=make_aggregation(leader_url=f"{PAIR.leader_url}/other"),
        **CHEAP,
    )
    other = AggregatorPair(f"{PAIR.leader_url}/other", PAIR.helper_url)
    client = open_client(device, fake, aggregators=[PAIR, other])
    client.sync()
    path = device.folder / "reports" / "tasks.json"
    first, second = json.loads(path.read_bytes())
    end_window(device)
    copy = keep(device)
    for keys in ((first["key"], second["key"]), (second["key"], first["key"])):
        restore(device, copy)
        fake.reports.clear()
        path.write_text(json.dumps([first | {"key": keys[0]}, second | {"key": keys[1]}]), encoding="utf-8")
        for _ in range(3):
            client._report(most=1)
        assert len(fake.reports) == 1
        assert client.privacy_summary().reports_made == 1


def test_nothing_of_prio3_is_loaded_without_such_a_task(device: Device) -> None:
    """A device in a task of randomized reports pays neither the time nor the memory."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    root = device.folder.with_name("root.json")
    root.write_bytes(device.world.root)
    program = (
        "import sys\nfrom alcove.sdk import AggregatorPair, Client\n"
        "from alcove.sdk.testing import FakeEngine, FolderTransport, ManualClock\n"
        "folder, tree, root = sys.argv[1:]\n"
        "from pathlib import Path\n"
        "client = Client('messenger', folder, 'http://127.0.0.1:1', root, clock=ManualClock(), engine=FakeEngine(),\n"
        "    transport=FolderTransport(Path(tree)).connect,\n"
        "    aggregators=[AggregatorPair('https://a.example', 'https://b.example')])\n"
        "assert client.sync().error is None\n"
        "handle = client.feature('greeting')\n"
        "handle.record_outcome(True, handle.predict('hi'))\n"
        "assert client.report().sent == 1\n"
        "print([name for name in sys.modules if name.startswith(('alcove.privacy.prio3', 'alcove.privacy.dap',"
        " 'alcove.privacy.hpke', 'alcove.privacy.tokens'))])\n"
    )
    command = [sys.executable, "-c", program, str(device.folder), str(device.world.folder), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_client_of_any_iterable_of_pairs(device: Device, fake: FakeAggregators) -> None:
    """What the app names is read once."""
    client = enroll(device, fake, aggregators=iter([PAIR]))
    end_window(device)
    assert client.report().sent == 1
    end_window(device)
    assert client.report().sent == 1
