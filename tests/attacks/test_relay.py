"""Reports go through relays that see addresses and sizes, to gateways that see requests and no device's address."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from alcove.platform.aggregator.problems import encode_id
from alcove.platform.testing.relay import Relay
from alcove.privacy import hpke
from alcove.privacy.binary_http import HttpRequest, HttpResponse, read_request, read_response, write_request
from alcove.privacy.dap.messages import MEDIA_TYPE, UploadErrors, UploadRequest
from alcove.privacy.ohttp import KeyConfig, open_request, seal_request
from alcove.registry.policy.dap import make_dap_task
from alcove.sdk import AggregatorPair, Client, InsecureServerError, ObliviousRelay, StatusError, TransportError
from alcove.sdk.egress import Egress
from alcove.sdk.transport import RequestObserver, TrafficStats, Transport

from tests.platform.aggregator.pair import Seats, make_ring, open_seats
from tests.platform.aggregator.test_app import Served, serve_seats
from tests.sdk.aggregators import PAIR, WINDOW_S, make_aggregation, task_of, use
from tests.sdk.conftest import Device
from tests.sdk.test_real_aggregators import FILLERS, Pair, expected_sums, task_arm

RELAY_ADDRESS = "127.0.0.2"
UPLOAD_TYPE = f"{MEDIA_TYPE};message=upload-req"


@dataclass
class Relayed:
    """Both aggregators, and a relay before them that connects from an address of its own."""

    device: Device
    seats: Seats
    served: Served
    relay: Relay
    url: str

    def pair(self, *, pinned: bool = False) -> AggregatorPair:
        """Return what the app names; with `pinned`, the gateways' keys too."""
        rings = (self.seats.gateway_keys, self.seats.helper_gateway_keys)
        keys = [KeyConfig(ring.configs.configs[0].config_id, ring.configs.configs[0].public_key) for ring in rings]
        leader, helper = (
            ObliviousRelay(f"{self.url}/{seat}", key.to_bytes() if pinned else None)
            for seat, key in zip(("leader", "helper"), keys, strict=True)
        )
        return replace(PAIR, leader_relay=leader, helper_relay=helper)

    def connect(self, server: str, traffic: TrafficStats, observer: RequestObserver) -> Transport:
        """Return the way to the relay, or to the device's own server; nothing else is connected to."""
        if server == self.url:
            return Egress(server, traffic=traffic, observer=observer)
        assert server not in (PAIR.leader_url, PAIR.helper_url), "the device connects to an aggregator itself"
        return self.device.transport.connect(server, traffic, observer)

    def client(self, *, pinned: bool = False) -> Client:
        """Return a client of the device."""
        return self.device.client(transport=self.connect, aggregators=[self.pair(pinned=pinned)])

    def pass_window(self) -> None:
        """Let time pass until all reports of the present window are due, at each clock."""
        self.device.clock.pass_s(2 * WINDOW_S - 1 - self.device.clock.time_s % WINDOW_S)
        self.seats.clock.time_s = self.seats.helper_clock.time_s = self.device.clock.time_s


@pytest.fixture
async def relayed(device: Device, tmp_path: Path) -> AsyncIterator[Relayed]:
    """Both aggregators of the device's task, behind a relay."""
    device.world.set_policy(
        "1.0.0", arms=("1.0.0", "2.0.0"), epsilon="0.5", window_s=WINDOW_S, aggregation=make_aggregation()
    )
    seats = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", make_dap_task(task_of(device.world)))
    seats.clock.time_s = seats.helper_clock.time_s = device.clock.time_s
    connector = aiohttp.TCPConnector(local_addr=(RELAY_ADDRESS, 0))
    async with serve_seats(seats) as served, aiohttp.ClientSession(connector=connector) as session:
        relay = Relay(session, {"/leader": served.leader, "/helper": served.helper})
        async with TestServer(relay.create_app(), host="127.0.0.1") as answering:
            yield Relayed(device, seats, served, relay, str(answering.make_url("/")).rstrip("/"))
    await seats.leader_database.close()
    await seats.helper_database.close()


async def _sync_and_use(relayed: Relayed, client: Client) -> None:
    assert (await asyncio.to_thread(client.sync)).error is None
    use(client)
    relayed.pass_window()


@pytest.mark.parametrize("pinned", [False, True])
async def test_report_arrives_and_neither_relay_nor_aggregator_knows_both(relayed: Relayed, *, pinned: bool) -> None:
    """The relay sees the device's address and no request; the aggregators the report, from the relay's address."""
    client = relayed.client(pinned=pinned)
    await _sync_and_use(relayed, client)
    relayed.served.peers.clear()
    result = await asyncio.to_thread(client.report)
    assert (result.sent, result.waiting, result.error) == (1, 0, None)
    assert {seat for seat, _ in relayed.served.peers} == {"leader", "helper"}
    assert {address for _, address in relayed.served.peers} == {RELAY_ADDRESS}
    assert {seen.address for seen in relayed.relay.seen} == {"127.0.0.1"}
    assert [seen.path for seen in relayed.relay.seen] == ["/leader", "/helper", "/leader"]
    opened = _open_upload(relayed)
    (report,) = UploadRequest.from_bytes(opened.content).reports
    path = opened.path.encode()
    for seen in relayed.relay.seen:
        assert set(seen.headers) == {
            "Host",
            "User-Agent",
            "Accept",
            "Accept-Encoding",
            "Content-Type",
            "Content-Length",
        }
        for secret in (opened.content[:24], report.metadata.report_id, report.public_share, path, b"hpke_config"):
            assert secret not in seen.body
    used = await Pair(relayed.device, relayed.seats, {}).collect(1000)
    cell = task_of(relayed.device.world).cell_index(task_arm(client), 1, 1.0)
    assert (used.reports, used.sums) == (FILLERS + 1, expected_sums(relayed.device, [cell]))


def _open_upload(relayed: Relayed) -> HttpRequest:
    """Return the upload that the relay passed on, as the leader's gateway reads it."""
    message, _ = open_request(relayed.seats.gateway_keys.private, relayed.relay.seen[-1].body)
    assert len(message) % 1024 == 0
    return read_request(message)


async def test_relay_that_is_away_is_waited_for_and_nobody_else_is_connected_to(relayed: Relayed) -> None:
    """The report is neither lost nor sent another way."""
    client = relayed.client()
    await _sync_and_use(relayed, client)
    relayed.served.peers.clear()
    relayed.relay.aggregators = {"/leader": "http://127.0.0.1:1/dap", "/helper": "http://127.0.0.1:1"}
    result = await asyncio.to_thread(client.report)
    assert result.sent == 0
    assert isinstance(result.error, StatusError | TransportError)
    assert relayed.served.peers == []
    relayed.relay.aggregators = {"/leader": relayed.served.leader, "/helper": relayed.served.helper}
    assert (await asyncio.to_thread(client.report)).sent == 1


async def test_gateway_s_key_that_was_rotated_away_is_fetched_again(relayed: Relayed) -> None:
    """Through the relay, at the next turn; a key that the app names stays the one that is used."""
    client, pinned = relayed.client(), relayed.client(pinned=True)
    await _sync_and_use(relayed, client)
    assert (await asyncio.to_thread(client.report)).sent == 1
    relayed.pass_window()
    relayed.seats.gateway_keys = make_ring(hpke.generate_private_key(), 7)
    relayed.seats.helper_gateway_keys = make_ring(hpke.generate_private_key(), 8)
    relayed.relay.forget_keys()  # what it gave was good for a day
    for each in (pinned, client):
        result = await asyncio.to_thread(each.report)
        assert result.sent == 0
        assert isinstance(result.error, StatusError)
        assert result.error.status == 422
    assert (await asyncio.to_thread(pinned.report)).sent == 0
    results = [await asyncio.to_thread(client.report) for _ in range(2)]
    assert sum(result.sent for result in results) == 1


# --- what a gateway answers


async def _post(relayed: Relayed, body: bytes, content_type: str = "message/ohttp-req") -> tuple[int, str, bytes]:
    return await relayed.served.ask("POST", f"{relayed.served.leader}/gateway", body, {"Content-Type": content_type})


def _leader_key(relayed: Relayed) -> KeyConfig:
    config = relayed.seats.gateway_keys.configs.configs[0]
    return KeyConfig(config.config_id, config.public_key)


async def _ask(relayed: Relayed, request: HttpRequest | bytes, seat: str = "leader") -> tuple[HttpResponse, int]:
    """Return the answer to an encapsulated request, and its size as the relay sees it."""
    ring = relayed.seats.gateway_keys if seat == "leader" else relayed.seats.helper_gateway_keys
    config = ring.configs.configs[0]
    message = request if isinstance(request, bytes) else write_request(request)
    sealed, opener = seal_request(KeyConfig(config.config_id, config.public_key), message)
    url = relayed.served.leader if seat == "leader" else relayed.served.helper
    status, media_type, body = await relayed.served.ask(
        "POST", f"{url}/gateway", sealed, {"Content-Type": "message/ohttp-req"}
    )
    assert (status, media_type) == (200, "message/ohttp-res")
    return read_response(opener.open(body)), len(body)


async def test_capsule_that_cannot_be_opened_is_refused_in_clear(relayed: Relayed) -> None:
    """Too short, of an unknown key, changed, of another type, or larger than any: nothing is stored."""
    sealed, _ = seal_request(_leader_key(relayed), b"")
    assert (await _post(relayed, b"short"))[0] == 400
    assert (await _post(relayed, sealed[:-1] + bytes([sealed[-1] ^ 1])))[0] == 400
    status, media_type, body = await _post(relayed, b"\xff" + sealed[1:])
    assert (status, media_type) == (422, "application/problem+json")
    assert b"http-problem-types#ohttp-key" in body
    assert (await _post(relayed, sealed, "application/octet-stream"))[0] == 415
    large = {"Content-Type": "message/ohttp-req", "Content-Length": str(4 * 1024 * 1024 + 4097)}
    async with relayed.served.session.post(
        f"{relayed.served.leader}/gateway", data=io.BytesIO(bytes(4 * 1024 * 1024 + 4097)), headers=large
    ) as answer:
        assert answer.status == 413


async def test_message_that_was_opened_is_answered_sealed_errors_too(relayed: Relayed) -> None:
    """Other authorities, methods, paths and types; a partner's resources; a helper takes no upload."""
    task = relayed.seats.task.task_id
    reports = f"/dap/tasks/{encode_id(task)}/reports"
    good = HttpRequest("POST", "https", "leader.example", reports, (("content-type", UPLOAD_TYPE),), b"")
    for request, status in (
        (replace(good, authority="helper.example"), 421),
        (replace(good, scheme="http"), 421),
        (replace(good, path="/other"), 421),
        (replace(good, path="/dap/tasks/x/reports"), 404),
        (replace(good, path="/dap/healthz"), 404),
        (replace(good, path=reports.replace("reports", "collection_jobs")), 404),
        (replace(good, method="PUT"), 405),
        (replace(good, fields=()), 415),
        (replace(good, fields=(*good.fields, ("expect", "100-continue"))), 417),
        (replace(good, content=b"no report"), 400),
        (replace(good, method="GET", path="/dap/hpke_config", content=b""), 200),
        (b"\x01", 400),
        (b"", 400),
    ):
        assert (await _ask(relayed, request))[0].status == status
    helper = replace(good, authority="helper.example", path=reports.removeprefix("/dap"))
    assert (await _ask(relayed, helper, "helper"))[0].status == 404


async def test_relay_does_not_see_whether_a_report_was_taken(relayed: Relayed) -> None:
    """The answers to a report that is taken and to one that is refused are of one size."""
    report = relayed.seats.report(0, "taken", relayed.seats.task.time_at(relayed.seats.clock.now_s()))
    early = replace(report, metadata=replace(report.metadata, time=report.metadata.time + 9))
    sizes = []
    for each, refused in ((report, 0), (early, 1)):
        path = f"/dap/tasks/{encode_id(relayed.seats.task.task_id)}"
        body = UploadRequest((each,)).to_bytes()
        request = HttpRequest(
            "POST", "https", "leader.example", f"{path}/reports", (("content-type", UPLOAD_TYPE),), body
        )
        response, size = await _ask(relayed, request)
        assert len(UploadErrors.from_bytes(response.content).status) == refused
        sizes.append(size)
    assert sizes[0] == sizes[1]


def test_relay_s_address_is_checked_like_a_server_s() -> None:
    """Plain HTTP beyond loopback, and a slash at the end, are refused when the app names them."""
    for url in ("http://relay.example/leader", "https://relay.example/", "relay.example"):
        with pytest.raises(InsecureServerError):
            ObliviousRelay(url)
