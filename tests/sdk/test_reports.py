"""A device sends one randomized cell per window, after its budget was debited, and nothing more."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from alcove.privacy import (
    BudgetExceededError,
    BudgetLimits,
    RandomizedResponse,
    Report,
    report_from_bytes,
    report_to_bytes,
)
from alcove.privacy.report import SubsetReport, parse_report
from alcove.registry.policy import TaskPolicy
from alcove.sdk import Client, StatusError, TransportError
from alcove.sdk.report_files import OutboxFile, RandomizedReport
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy

from tests.sdk.conftest import FEATURE, Device, TreeServer, World

MakeDevice = Callable[..., Device]
WINDOW = 3600
DAY = 86_400


def enroll(device: Device, arm: int = 1, *, epsilon: str = "2", **options: Any) -> Client:
    """Return a client that is in an arm of a running experiment."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon=epsilon, window_s=WINDOW)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm)), **options)
    assert client.sync().error is None
    return client


def task_of(world: World) -> TaskPolicy:
    """Return the task of the running experiment."""
    policy = world.tree.policy("messenger")
    assert policy is not None
    (experiment,) = policy.features[FEATURE].experiments
    return experiment.tasks[0]


def rollout_task_id(world: World) -> str:
    """Return the task of the running rollout."""
    policy = world.tree.policy("messenger")
    assert policy is not None
    rollout = policy.features[FEATURE].rollout
    assert rollout is not None
    return rollout.tasks[0].task_id


def last_task_id(device: Device) -> str:
    """Return the task of the report that was sent last."""
    return report_from_bytes(device.transport.reports[-1]).task_id.hex()


def use(client: Client, *, accepted: bool = True, times: int = 1) -> None:
    """Predict and record outcomes."""
    handle = client.feature(FEATURE)
    for _ in range(times):
        answer = handle.predict("hi")
        handle.record_outcome(accepted, answer)


def test_outcome_becomes_one_report_of_38_bytes(device: Device) -> None:
    """Task, window and a cell below the task's count; the ledger paid before."""
    client = enroll(device)
    use(client)
    result = client.report()
    assert (result.sent, result.waiting, result.dropped, result.error) == (1, 0, 0, None)
    assert result.epsilon_spent == 2
    (body,) = device.transport.reports
    report = report_from_bytes(body)
    task = task_of(device.world)
    assert report.task_id.hex() == task.task_id
    assert report.window == task.window_at(device.clock.time_s) == 1000
    assert report.cell < task.cell_count == 12
    summary = client.privacy_summary()
    assert (summary.reports_made, summary.report_bytes_sent) == (1, 38)
    assert {summary.epsilon_day, summary.epsilon_30_days, summary.epsilon_total} == {Fraction(2)}
    assert (summary.epsilon_cap_day, summary.epsilon_cap_30_days) == (Fraction(2), Fraction(8))


def test_task_of_sets_has_reports_of_a_set_of_one_size(device: Device) -> None:
    """Three of twelve cells in 39 bytes, drawn anew for each window; the outbox keeps them."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="0.01", window_s=WINDOW, subset_size=3)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)))
    assert client.sync().error is None
    task = task_of(device.world)
    use(client)
    assert client.report().sent == 1
    for _ in range(20):
        device.clock.pass_s(WINDOW)
        use(client)
        assert client.report().sent == 1
    assert {len(body) for body in device.transport.reports} == {39}
    reports = [parse_report(body) for body in device.transport.reports]
    for report in reports:
        assert isinstance(report, SubsetReport)
        assert len(report.cells) == task.subset_size == 3
        assert max(report.cells) < task.cell_count == 12
    assert len({report.bits for report in reports if isinstance(report, SubsetReport)}) > 10
    outbox = OutboxFile(device.folder / "outbox-of-sets.json", Files())
    waiting = [RandomizedReport(body) for body in device.transport.reports]
    outbox.write([*waiting])
    assert outbox.read() == waiting


def test_window_is_reported_once(device: Device) -> None:
    """More outcomes in a window that had its report are dropped, by this process and the next."""
    client = enroll(device, epsilon="1")
    use(client)
    assert client.report().sent == 1
    for again in (client, device.client()):
        use(again)
        result = again.report()
        assert (result.sent, result.dropped, result.error) == (0, 1, None)
        assert again.report().dropped == 0
    device.clock.time_s += WINDOW
    use(client)
    assert client.report().sent == 1
    assert len(device.transport.reports) == 2


def test_previous_window_is_still_reported_older_ones_are_dropped(device: Device) -> None:
    """A device that wakes up an hour later reports; a day later it does not."""
    client = enroll(device)
    use(client)
    device.clock.time_s += WINDOW
    assert client.report().sent == 1
    use(client)
    device.clock.time_s += 2 * WINDOW
    result = client.report()
    assert (result.sent, result.dropped, result.epsilon_spent) == (0, 1, Fraction(0))


def test_failed_upload_is_repeated_with_the_same_bytes_and_no_new_debit(device: Device, server: TreeServer) -> None:
    """Weather and busy servers: the outbox keeps the randomized bytes, over a restart too."""
    enroll(device)
    client = device.client(server.url, transport=None)
    use(client)
    server.statuses = [503, 429, 500]
    for status in (503, 429):
        result = client.report()
        assert isinstance(result.error, StatusError)
        assert result.error.status == status
        assert (result.sent, result.waiting) == (0, 1)
    again = device.client(server.url, transport=None)
    assert again.report().waiting == 1
    assert again.report().sent == 1
    assert again.report().sent == 0
    assert len(server.posted) == 1
    bodies = [headers["Content-Length"] for method, _, headers in server.seen if method == "POST"]
    assert bodies == ["38"] * 4
    assert again.privacy_summary().epsilon_total == 2


def test_repeated_bytes_are_the_same(device: Device) -> None:
    """What is sent again is byte for byte what was sent: repeating tells nothing more."""
    client = enroll(device)
    use(client)

    def fail(method: str, path: str) -> None:
        if method == "POST":
            raise TransportError(method=method, path=path, reason="the cable was cut")

    device.transport.fault = fail
    for _ in range(3):
        assert isinstance(client.report().error, TransportError)
    device.transport.fault = None
    assert client.report().sent == 1
    bodies = {sent.body for sent in device.transport.requests if sent.method == "POST"}
    assert len(bodies) == 1


@pytest.mark.parametrize("status", [400, 404, 413])
def test_report_that_the_server_will_never_take_is_given_up(device: Device, status: int) -> None:
    """A refusal for good is said once; the budget stays spent."""
    client = enroll(device)
    use(client)

    def fail(method: str, path: str) -> None:
        if method == "POST":
            raise StatusError(method=method, path=path, status=status)

    device.transport.fault = fail
    result = client.report()
    assert (result.sent, result.waiting, result.dropped) == (0, 0, 1)
    assert isinstance(result.error, StatusError)
    device.transport.fault = None
    assert client.report().sent == 0
    assert client.privacy_summary().epsilon_total == 2


def test_spent_budget_is_a_typed_result_and_sends_nothing(device: Device) -> None:
    """At the cap the outcome waits for the next window of budget, within its window and the next."""
    client = enroll(device)
    use(client)
    assert client.report().sent == 1
    device.clock.time_s += WINDOW
    use(client)
    result = client.report()
    assert isinstance(result.error, BudgetExceededError)
    assert (result.sent, result.epsilon_spent, len(device.transport.reports)) == (0, Fraction(0), 1)


def test_app_may_lower_the_caps(device: Device) -> None:
    """With less budget than a report costs nothing is ever reported."""
    client = enroll(device, limits=BudgetLimits(Fraction(1), Fraction(4)))
    use(client)
    assert isinstance(client.report().error, BudgetExceededError)
    assert device.transport.reports == []
    assert client.privacy_summary().epsilon_cap_day == 1


def test_device_of_an_experiment_that_spent_all_it_may_reports_for_the_rollout_after_it(device: Device) -> None:
    """At epsilon 2 on days 0 to 3 for an experiment; the rollout of day 4 is heard on day 4."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), window_s=DAY)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)))
    for _ in range(4):
        client.sync()
        use(client)
        client.report()
        device.clock.pass_s(DAY)
        device.world.clock.pass_s(DAY)
        device.world.tree.refresh()
    before = len(device.transport.reports)
    device.world.set_policy("1.0.0", rollout=("2.0.0", 5000), control=5000, window_s=DAY)
    assert client.sync().error is None
    use(client)
    assert client.report().sent == 1
    assert (before, last_task_id(device)) == (2, rollout_task_id(device.world))


def test_guardrail_is_paid_for_before_an_experiment_that_came_first(device: Device) -> None:
    """Both wait and the day pays for one: it is the rollout's, though the experiment's outcome is older."""
    client = enroll(device)
    use(client)
    device.world.set_policy("1.0.0", rollout=("2.0.0", 5000), control=5000)
    assert client.sync().error is None
    use(client)
    result = client.report()
    assert (result.sent, type(result.error)) == (1, BudgetExceededError)
    assert last_task_id(device) == rollout_task_id(device.world)


@pytest.mark.parametrize("lone", [None, "6"])
def test_report_above_a_day_is_made_where_the_app_allows_it_and_no_signer_of_policies(
    device: Device, lone: str | None
) -> None:
    """A task at epsilon 6: by default nothing leaves; with the app's word one report, and then nothing for 30 days."""
    limits = BudgetLimits() if lone is None else BudgetLimits(per_lone_report=Fraction(lone))
    client = enroll(device, epsilon="6", limits=limits)
    made = []
    for _ in range(3):
        use(client)
        made.append(client.report().sent)
        device.clock.pass_s(9 * DAY)
    assert made == ([0, 0, 0] if lone is None else [1, 0, 0])
    assert client.privacy_summary().epsilon_cap_day == (2 if lone is None else 6)


def test_device_in_no_experiment_reports_nothing(device: Device) -> None:
    """Without a task there is nothing to say, and nothing is kept."""
    client = device.client()
    use(client)
    client.sync()
    use(client)
    assert client.report().sent == 0
    assert device.transport.reports == []
    assert not (device.folder / "reports" / "pending.json").exists()


def test_outcome_of_a_version_that_is_gone_is_left_out(device: Device) -> None:
    """An answer of the version before the swap says nothing about the arm."""
    device.client().sync()
    client = device.client(entropy=SeededEntropy(3))
    handle = client.feature(FEATURE)
    old = handle.predict("hi")
    device.world.set_policy("2.0.0", arms=("2.0.0", "2.0.0"))
    client.sync()
    handle.record_outcome(True, old)
    assert client.report().sent == 0
    handle.predict("hi")
    handle.record_outcome(True, old)
    assert client.report().sent == 0
    handle.record_outcome(True)
    assert client.report().sent == 1


def test_answer_with_an_error_is_no_outcome(device: Device) -> None:
    """Where there was no value the user can have accepted none."""
    client = enroll(device)
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(True, handle.predict("\ud800"))
    assert client.report().sent == 0


@pytest.mark.parametrize(
    ("arm", "accepted", "tick_ms", "cell"), [(0, False, 0.5, 0), (0, True, 5, 4), (1, True, 50, 11)]
)
def test_cell_is_arm_outcome_and_latency(device: Device, arm: int, accepted: bool, tick_ms: float, cell: int) -> None:
    """The true cell, on the device before it is randomized, is the one of the task's table."""
    client = enroll(device, arm)
    device.clock.tick_ns = int(tick_ms * 1e6)
    use(client, accepted=accepted)
    (entry,) = json.loads((device.folder / "reports" / "pending.json").read_bytes())
    assert entry["cell"] == cell


def test_every_outcome_of_a_window_is_equally_likely_to_be_drawn(device: Device) -> None:
    """Of four outcomes each is the one kept in a quarter of the windows: late and early ones alike."""
    client = enroll(device)
    drawn: Counter[int] = Counter()
    handle = client.feature(FEATURE)
    for _ in range(100):
        for bin_ms in (1, 5, 50):
            device.clock.tick_ns = bin_ms * 1_000_000 - 1000
            handle.record_outcome(False, handle.predict("hi"))
        handle.record_outcome(True, handle.predict("hi"))
        entries = json.loads((device.folder / "reports" / "pending.json").read_bytes())
        drawn[entries[-1]["cell"]] += 1
        client.forget_reports()
    assert sum(drawn.values()) == 100
    assert len(drawn) == 4
    assert all(8 < count < 43 for count in drawn.values()), drawn


def test_true_cell_leaves_only_through_the_randomizer(released_world: World, make_device: MakeDevice) -> None:
    """Over many devices the reported cells have the mechanism's distribution, not the truth's."""
    device = make_device(released_world)
    client = enroll(device, epsilon="2")
    handle = client.feature(FEATURE)
    handle.predict("hi")
    devices = 120
    for _ in range(devices):
        handle.record_outcome(accepted=True)
        assert client.report().sent == 1
        device.clock.pass_s(WINDOW)
        (device.folder / "reports" / "ledger.jsonl").unlink()  # the next one is another device
    reported = Counter(report_from_bytes(body).cell for body in device.transport.reports)
    task = task_of(released_world)
    true_cell = task.cell_index(1, 1, 1.0)
    keep = float(RandomizedResponse(task.cell_count, Fraction(2)).keep_probability)
    expected, spread = devices * keep, (devices * keep * (1 - keep)) ** 0.5
    assert abs(reported[true_cell] - expected) < 4 * spread
    assert len(reported) == task.cell_count


def test_outcome_is_recorded_while_an_upload_hangs(device: Device) -> None:
    """The app's call never waits for the network; what it records belongs to the next report."""
    client = enroll(device, epsilon="1")
    use(client)
    recorded: list[int] = []

    def record() -> None:
        use(client)
        recorded.append(1)

    def hang(method: str, path: str) -> None:
        if method == "POST" and not recorded:
            device.clock.time_s += WINDOW
            thread = threading.Thread(target=record)
            thread.start()
            thread.join(20)
            assert recorded == [1]

    device.transport.fault = hang
    assert client.report().sent == 1
    assert client.report().sent == 1
    assert len(device.transport.reports) == 2


def test_opting_out_while_an_upload_hangs_leaves_nothing(device: Device) -> None:
    """What was on its way is gone, and nothing comes after it."""
    client = enroll(device)
    outbox = device.folder / "reports" / "outbox.json"
    outbox.write_text(json.dumps([bytes(38).hex()] * 30), encoding="utf-8")

    def opt_out(method: str, path: str) -> None:
        if method == "POST":
            client.forget_reports()

    device.transport.fault = opt_out
    assert client.report().sent == 1
    assert not outbox.exists() or json.loads(outbox.read_bytes()) == []


def test_opting_out_forgets_what_was_not_sent(device: Device) -> None:
    """Outcomes and waiting reports go; the spent budget does not come back."""
    client = enroll(device, epsilon="1")
    use(client)

    def fail(method: str, path: str) -> None:
        raise TransportError(method=method, path=path, reason="no network")

    device.transport.fault = fail
    assert client.report().waiting == 1
    device.clock.time_s += WINDOW
    use(client)
    client.forget_reports()
    device.transport.fault = None
    assert (client.report().sent, device.transport.reports) == (0, [])
    assert client.privacy_summary().epsilon_total == 1


@pytest.mark.parametrize("name", ["pending.json", "outbox.json"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[",
        b"[1, null, {}]",
        b'[{"task": "{}", "window": 1, "cell": 0, "seen": 1}]',
        b'["zz", "00"]',
        b"\0",
    ],
)
def test_damaged_files_lose_reports_not_privacy(device: Device, name: str, content: bytes) -> None:
    """What cannot be read is dropped; nothing is sent that was not randomized and paid for."""
    client = enroll(device)
    use(client)
    (device.folder / "reports" / name).write_bytes(content)
    result = client.report()
    assert result.error is None
    assert result.sent == (0 if name == "pending.json" else 1)
    assert all(len(body) == 38 for body in device.transport.reports)


def test_each_waiting_report_goes_in_a_body_of_its_own(device: Device) -> None:
    """A long outage ends in one upload for each: no body ties two tasks together."""
    client = enroll(device)
    waiting = some_reports(40)
    outbox = device.folder / "reports" / "outbox.json"
    outbox.write_text(json.dumps([report.hex() for report in waiting]), encoding="utf-8")
    assert client.report().sent == 40
    assert device.transport.reports == waiting
    assert json.loads(outbox.read_bytes()) == []


def test_server_that_is_away_is_asked_once_a_turn(device: Device) -> None:
    """However many reports wait for it."""
    client = enroll(device)
    outbox = device.folder / "reports" / "outbox.json"
    outbox.write_text(json.dumps([report.hex() for report in some_reports(5)]), encoding="utf-8")

    def be_away(method: str, path: str) -> None:
        if method == "POST":
            raise TransportError(method=method, path=path, reason="no network")

    device.transport.fault = be_away
    result = client.report()
    assert (result.sent, result.waiting, result.dropped) == (0, 5, 0)
    assert len([sent for sent in device.transport.requests if sent.method == "POST"]) == 1


@pytest.mark.parametrize("place", range(3))
def test_refused_report_takes_no_other_with_it(device: Device, place: int) -> None:
    """The server forgot one task: that report is dropped, wherever it waits, and the others arrive."""
    client = enroll(device)
    waiting = some_reports(3)
    outbox = device.folder / "reports" / "outbox.json"
    outbox.write_text(json.dumps([report.hex() for report in waiting]), encoding="utf-8")

    def refuse(method: str, path: str) -> None:
        if device.transport.requests[-1].body == waiting[place]:
            raise StatusError(method=method, path=path, status=400)

    device.transport.fault = refuse
    result = client.report()
    assert (result.sent, result.waiting, result.dropped) == (2, 0, 1)
    assert isinstance(result.error, StatusError)
    assert device.transport.reports == waiting[:place] + waiting[place + 1 :]
    assert json.loads(outbox.read_bytes()) == []


def some_reports(count: int) -> list[bytes]:
    """Return reports of as many tasks."""
    return [report_to_bytes(Report(bytes([task]) * 32, 1000, 0)) for task in range(count)]
