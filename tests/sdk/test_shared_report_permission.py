"""A device reports to two aggregators what app, budget and user allow, and keeps no other report back."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from alcove.privacy.errors import BudgetExceededError, DapTaskError
from alcove.sdk import AggregatorPair, TransportError

from tests.sdk.aggregators import (
    CHEAP,
    PAIR,
    WINDOW_S,
    FakeAggregators,
    end_window,
    enroll,
    make_aggregation,
    open_client,
    task_of,
    use,
    windows_of,
)
from tests.sdk.conftest import Device, World
from tests.sdk.test_crash import keep, restore

MakeDevice = Callable[..., Device]


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


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
