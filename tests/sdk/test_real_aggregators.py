"""A device, both aggregators and a collector in one process: what the device reports is counted once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.aggregator.keys import KeyRing
from alcove.privacy import hpke
from alcove.privacy.dap.messages import HpkeConfigList, ReportError, UploadRequest
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.reports import make_config
from alcove.privacy.errors import ReportRejectedError
from alcove.registry.policy.dap import dap_time, idle_cell, make_dap_task
from alcove.sdk import AggregatorPair, Client, OutboundRequest, TransportError
from alcove.sdk.egress import Egress
from alcove.sdk.transport import OCTETS, Reply, RequestObserver, TrafficStats, Transport

from tests.demo.test_egress import CANARY, traces
from tests.platform.aggregator.pair import Seats, make_ring, open_seats
from tests.platform.aggregator.test_app import serve_seats
from tests.sdk.aggregators import CONFIG_TYPE, PAIR, WINDOW_S, make_aggregation, task_of, use
from tests.sdk.conftest import FEATURE, Device, TreeServer, World

MakeDevice = Callable[..., Device]
FILLERS = 100


class LossyEgress(Egress):
    """The SDK's own way to a server, which loses the next answers to a POST, as many as `losses` says."""

    losses = 0

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Send, and perhaps lose what came back."""
        reply = super().post(path, body, content_type)
        if LossyEgress.losses:
            LossyEgress.losses -= 1
            raise TransportError(method="POST", path=path, reason="the answer was lost")
        return reply


class Pair:
    """Both aggregators behind sockets, a device, and the way between them."""

    def __init__(self, device: Device, seats: Seats, servers: dict[str, str]) -> None:
        self.device = device
        self.seats = seats
        self._servers = servers
        self.requests: list[OutboundRequest] = []

    def connect(self, server: str, traffic: TrafficStats, observer: RequestObserver) -> Transport:
        """Return the way to an aggregator, or to the device's own server."""
        if server in self._servers:
            return LossyEgress(self._servers[server], traffic=traffic, observer=self.requests.append)
        return self.device.transport.connect(server, traffic, observer)

    def client(self) -> Client:
        """Return a client of the device."""
        return self.device.client(transport=self.connect, aggregators=[PAIR])

    def pass_window(self) -> None:
        """Let time pass until all reports of the present window are due, at each clock."""
        self.device.clock.pass_s(2 * WINDOW_S - 1 - self.device.clock.time_s % WINDOW_S)
        self.seats.clock.time_s = self.seats.helper_clock.time_s = self.device.clock.time_s

    async def collect(self, window: int) -> Release:
        """Return the sums of a window, to which idle devices have brought enough reports."""
        task = task_of(self.device.world)
        time = dap_time(task, window)
        fillers = [self.seats.report(idle_cell(task), f"filler {window} {index}", time) for index in range(FILLERS)]
        assert await self.seats.upload(*fillers) == ()
        release = await self.seats.collect(time)
        assert isinstance(release, Release)
        return release


@pytest.fixture
async def pair(device: Device, tmp_path: Path) -> AsyncIterator[Pair]:
    """Both aggregators, which take part in the task of the device's experiment."""
    device.world.set_policy(
        "1.0.0", arms=("1.0.0", "2.0.0"), epsilon="0.5", window_s=WINDOW_S, aggregation=make_aggregation()
    )
    task = make_dap_task(task_of(device.world))
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", task)
    seats.clock.time_s = seats.helper_clock.time_s = device.clock.time_s
    LossyEgress.losses = 0
    async with serve_seats(seats) as served:
        yield Pair(device, seats, {PAIR.leader_url: served.leader, PAIR.helper_url: served.helper})
    await seats.leader_database.close()
    await seats.helper_database.close()


def expected_sums(device: Device, cells: list[int]) -> tuple[int, ...]:
    """Return what the cells of one device and the idle ones sum up to."""
    task = task_of(device.world)
    sums = [0] * (task.cell_count + 1)
    sums[idle_cell(task)] = FILLERS
    for cell in cells:
        sums[cell] += 1
    return tuple(sums)


async def test_lost_answers_count_once_at_real_aggregators(pair: Pair, device: Device) -> None:
    """Three answers of the leader are lost, with a restart between: one report in the released sums."""
    client = pair.client()
    assert client.sync().error is None
    use(client)
    pair.pass_window()
    LossyEgress.losses = 3
    for _ in range(3):
        result = await asyncio.to_thread(pair.client().report)
        assert isinstance(result.error, TransportError)
        assert result.waiting == 1
    result = await asyncio.to_thread(client.report)
    assert (result.sent, result.waiting, result.error) == (1, 0, None)
    assert len({sent.body for sent in pair.requests if sent.method == "POST"}) == 1
    assert len([sent for sent in pair.requests if sent.method == "POST"]) == 4
    release = await pair.collect(1000)
    cell = task_of(device.world).cell_index(task_arm(client), 1, 1.0)
    assert release.reports == FILLERS + 1
    assert release.sums == expected_sums(device, [cell])


async def test_nothing_that_is_typed_is_in_anything_that_is_sent(pair: Pair, device: Device) -> None:
    """The search of the demo's devices, which finds a leaky build, over a report that is shared between aggregators."""
    client = pair.client()
    assert client.sync().error is None
    handle = client.feature(FEATURE)
    handle.record_outcome(True, handle.predict(CANARY))
    pair.pass_window()
    assert (await asyncio.to_thread(client.report)).sent == 1
    sent = [each.wire for each in (*pair.requests, *device.transport.requests)]
    assert any(wire.startswith(b"POST /dap/tasks/") for wire in sent)
    assert [trace for wire in (*sent, b"".join(sent)) for trace in traces(wire, CANARY)] == []


def task_arm(client: Client) -> int:
    """Return the arm that the device is in."""
    assignments = client.assignments()
    assert assignments is not None
    resolution = assignments.resolutions[FEATURE]
    assert resolution is not None
    assert resolution.arm is not None
    return resolution.arm


async def test_report_to_a_rotated_key_counts_once_even_if_the_leader_has_both(pair: Pair, device: Device) -> None:
    """Both aggregators rotate; the report is sealed again; a leader that brings the first sealing too gains nothing."""
    client = pair.client()
    assert client.sync().error is None
    pair.pass_window()
    assert (await asyncio.to_thread(client.report)).sent == 1  # an idle window, and the keys are known
    use(client)
    pair.pass_window()
    old_leader, old_helper = pair.seats.keys, pair.seats.helper_keys
    pair.seats.keys = make_ring(hpke.generate_private_key(), 2)
    pair.seats.helper_keys = make_ring(hpke.generate_private_key(), 2)
    result = await asyncio.to_thread(client.report)
    assert (result.sent, result.waiting) == (0, 1)
    assert isinstance(result.error, ReportRejectedError)
    assert result.error.error is ReportError.OUTDATED_CONFIG
    result = await asyncio.to_thread(pair.client().report)
    assert (result.sent, result.waiting, result.error) == (1, 0, None)
    first, second = [sent.body for sent in pair.requests if sent.method == "POST"][1:]
    assert first != second
    # The leader has both keys after all, and so does the helper: each sealing could be opened.
    pair.seats.keys = KeyRing(pair.seats.keys.configs, {**old_leader.private, **pair.seats.keys.private})
    pair.seats.helper_keys = KeyRing(
        pair.seats.helper_keys.configs, {**old_helper.private, **pair.seats.helper_keys.private}
    )
    assert await pair.seats.upload(*UploadRequest.from_bytes(first).reports) == ()
    task = task_of(device.world)
    idle = await pair.collect(1000)
    assert (idle.reports, idle.sums) == (FILLERS + 1, expected_sums(device, [idle_cell(task)]))
    used = await pair.collect(1001)
    assert used.reports == FILLERS + 1
    assert used.sums == expected_sums(device, [task.cell_index(task_arm(client), 1, 1.0)])


async def test_report_that_comes_too_early_or_twice_over_is_answered_as_dap_says(pair: Pair, device: Device) -> None:
    """A leader whose clock is behind takes the report later; one that has collected the window takes it no more."""
    client = pair.client()
    assert client.sync().error is None
    pair.pass_window()
    now_s = pair.seats.clock.time_s
    pair.seats.clock.time_s = now_s - 3 * WINDOW_S
    result = await asyncio.to_thread(client.report)
    assert (result.sent, result.waiting) == (0, 1)
    assert isinstance(result.error, ReportRejectedError)
    assert result.error.error is ReportError.REPORT_TOO_EARLY
    pair.seats.clock.time_s = now_s
    await pair.collect(1000)
    result = await asyncio.to_thread(client.report)
    assert (result.sent, result.waiting, result.dropped) == (0, 0, 1)
    assert isinstance(result.error, ReportRejectedError)


# --- what a device says over HTTP


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[tuple[TreeServer, TreeServer]]:
    """A leader and a helper of canned answers, which note every header and connection."""
    with ExitStack() as stack:
        servers = []
        for name in ("leader", "helper"):
            folder = tmp_path / name
            folder.mkdir()
            config = make_config(1, hpke.derive_public_key(hpke.generate_private_key()))
            (folder / "hpke_config").write_bytes(HpkeConfigList((config,)).to_bytes())
            server = TreeServer(folder)
            stack.callback(server.close)
            server.content_types["/hpke_config"] = CONFIG_TYPE
            servers.append(server)
        yield servers[0], servers[1]


def test_requests_to_aggregators_name_no_device(
    released_world: World, make_device: MakeDevice, loopback: tuple[TreeServer, TreeServer]
) -> None:
    """Every header of every device is the same, used or idle, and each upload has a connection of its own."""
    leader, helper = loopback
    trusted = AggregatorPair(leader.url, helper.url)
    aggregation = make_aggregation(leader_url=leader.url, helper_url=helper.url)
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="1", aggregation=aggregation)
    heads: list[tuple[Any, Any]] = []
    for number in range(4):
        device = make_device(released_world, f"device{number}")
        folder_transport = device.transport.connect

        def connect(
            server: str, traffic: TrafficStats, observer: RequestObserver, own: Any = folder_transport
        ) -> Transport:
            is_aggregator = server in (leader.url, helper.url)
            made: Transport = Egress(server, observer=observer) if is_aggregator else own(server, traffic, observer)
            return made

        seen: list[OutboundRequest] = []
        client = device.client(transport=connect, aggregators=[trusted], observer=seen.append)
        assert client.sync().error is None
        if number % 2:
            use(client)
        device.clock.pass_s(2 * WINDOW_S - 1)
        assert client.report().sent == 1
        heads.append((leader.seen[-2:], helper.seen[-1:]))
        assert [sent.server for sent in seen if sent.server in (leader.url, helper.url)] == [
            leader.url,
            helper.url,
            leader.url,
        ]
        (posted,) = [sent for sent in seen if sent.method == "POST"]
        assert posted.wire.endswith(posted.body)
    assert all(head == heads[0] for head in heads)
    upload = heads[0][0][1]
    assert upload[1].startswith("/tasks/")
    assert set(upload[2]) == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Content-Type", "Content-Length"}
    ports = [port for method, _, port in leader.ports if method == "POST"]
    assert len(set(ports)) == len(ports)
    assert not set(ports) & {port for method, _, port in leader.ports if method == "GET"}
    assert len(leader.posted) == 4
