"""Plays the two aggregators of a task for devices in one process: keys, uploads, refusals and faults by hand."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from alcove.privacy.dap.messages import (
    MEDIA_TYPE,
    HpkeConfigList,
    Report,
    ReportError,
    ReportUploadStatus,
    Role,
    UploadErrors,
    UploadRequest,
)
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.aggregation import Aggregation
from alcove.registry.policy.dap import make_dap_task
from alcove.sdk import AggregatorPair, Client, StatusError, TransportError
from alcove.sdk.testing import SeededEntropy
from alcove.sdk.transport import OCTETS, Download, OutboundRequest, Reply, RequestObserver, TrafficStats, Transport

from tests.privacy.dap.party import Parties
from tests.sdk.conftest import FEATURE, NOW, Device, World

PAIR = AggregatorPair("https://leader.example/dap", "https://helper.example")
WINDOW_S = 3600
UPLOAD_TYPE = f"{MEDIA_TYPE};message=upload-req"
ERRORS_TYPE = f"{MEDIA_TYPE};message=upload-errors"
CONFIG_TYPE = f"{MEDIA_TYPE};message=hpke-config-list"
CHEAP: dict[str, Any] = {"epsilon": "0.1"}
"""Terms of which a device can pay a window after the other."""


def make_aggregation(**changes: Any) -> Aggregation:
    """Return what a policy says of the aggregators here; `changes` replace its fields."""
    fields: dict[str, Any] = {"leader_url": PAIR.leader_url, "helper_url": PAIR.helper_url, "min_batch_size": 100}
    return Aggregation(**(fields | changes))


class FakeAggregators:
    """Both aggregators, as a device sees them; pass `connect` as `Client(transport=...)`.

    Attributes:
        parties: their keys; replaced by a test that rotates them.
        requests: what was sent to aggregators, in order.
        reports: what the leader has, by report id: every sealing that it ever got.
        fault: called with "before" or "after", the method and the path; what it raises the device sees.
        refusal: the leader's answer to each report; None: it has it.
        config: body and type of the keys' answer where they are not those of `parties`.
        reply: the leader's answer where it is not that of `refusal`.
        token_keys: what leader and helper say of the issuer's key, by address; of an address that is not there, 404.
        issuers: other parties, by address.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.token_keys: dict[str, bytes] = {}
        self.issuers: dict[str, Transport] = {}
        self.parties = Parties()
        self.requests: list[OutboundRequest] = []
        self.reports: dict[bytes, list[Report]] = {}
        self.fault: Callable[[str, str, str], None] = lambda _when, _method, _path: None
        self.refusal: ReportError | None = None
        self.config: tuple[bytes, str] | None = None
        self.reply: Reply | None = None

    def connect(self, server: str, traffic: TrafficStats, observer: RequestObserver) -> Transport:
        """Return the way to an aggregator, or to the device's own server; another leader of the same host is away."""
        if server in (PAIR.leader_url, PAIR.helper_url):
            return _Way(self, server, traffic, observer)
        if server in self.issuers:
            return self.issuers[server]
        if server.startswith(PAIR.leader_url):
            raise TransportError(method="GET", path=server, reason="it is away")
        assert server.startswith("http://127.0.0.1"), f"a device speaks to {server}"
        return self._device.transport.connect(server, traffic, observer)

    def sealings(self) -> list[Report]:
        """Return all that the leader got, one after the other."""
        return [report for sealings in self.reports.values() for report in sealings]

    def cells(self, task: TaskPolicy) -> list[int]:
        """Return what both aggregators together read in each report that they verified, by its last sealing."""
        return [self.open(task, sealings[-1]) for sealings in self.reports.values()]

    def open(self, task: TaskPolicy, report: Report) -> int:
        """Return the cell of one report."""
        dap_task = make_dap_task(task)
        vdaf = dap_task.make_vdaf()
        parts = [self.parties.open(dap_task, role, report) for role in (Role.LEADER, Role.HELPER)]
        steps = [vdaf.verify_init(bytes(32), dap_task.context, seat, part) for seat, part in enumerate(parts)]
        message = vdaf.verifier_shares_to_message(dap_task.context, [share for _, share in steps])
        counted = vdaf.unshard([vdaf.verify_next(state, message) for state, _ in steps])
        assert sum(counted) == 1
        return int(counted.index(1))

    def answer_keys(self, server: str) -> tuple[bytes, str]:
        """Return body and type of the answer to a device that asks for keys."""
        if self.config is not None:
            return self.config
        recipients = self.parties.recipients
        config = recipients.leader if server == PAIR.leader_url else recipients.helper
        return HpkeConfigList((config,)).to_bytes(), CONFIG_TYPE

    def take(self, body: bytes, content_type: str) -> Reply:
        """Return the leader's answer to an upload."""
        assert content_type == UPLOAD_TYPE
        (report,) = UploadRequest.from_bytes(body).reports
        if self.refusal is not None:
            errors = UploadErrors((ReportUploadStatus(report.metadata.report_id, self.refusal),))
            return Reply(ERRORS_TYPE, errors.to_bytes())
        if self.reply is not None:
            return self.reply
        self.reports.setdefault(report.metadata.report_id, []).append(report)
        return Reply()


class _Way:
    """A `Transport` to one of the aggregators."""

    def __init__(self, owner: FakeAggregators, server: str, traffic: TrafficStats, observer: RequestObserver) -> None:
        self._owner = owner
        self._server = server
        self._traffic = traffic
        self._observer = observer

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Answer with keys."""
        assert start == 0
        self._note("GET", path, b"", "")
        self._owner.fault("before", "GET", path)
        if "/token_keys/" in path and self._server in self._owner.token_keys:
            yield Download(0, iter([self._owner.token_keys[self._server]]), OCTETS)
            return
        if path != "/hpke_config":
            raise StatusError(method="GET", path=path, status=404)
        body, content_type = self._owner.answer_keys(self._server)
        assert max_bytes >= 43
        yield Download(0, iter([body[:1], body[1:]]), content_type)

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Take a report; only the leader does."""
        self._note("POST", path, body, content_type)
        self._owner.fault("before", "POST", path)
        if self._server != PAIR.leader_url:
            raise StatusError(method="POST", path=path, status=404)
        reply = self._owner.take(body, content_type)
        self._owner.fault("after", "POST", path)
        return reply

    def close(self) -> None:
        """Do nothing."""

    def _note(self, method: str, path: str, body: bytes, content_type: str) -> None:
        wire = f"{method} {path} {content_type}\r\n\r\n".encode() + body
        sent = OutboundRequest(method, path, body, wire, self._server)
        self._owner.requests.append(sent)
        self._traffic.sent_bytes += len(wire)
        self._observer(sent)


def enroll(device: Device, fake: FakeAggregators, arm: int = 1, *, policy: Any = None, **options: Any) -> Client:
    """Return a client that is in an arm of an experiment whose task names both aggregators."""
    terms: dict[str, Any] = {"epsilon": "1", "window_s": WINDOW_S, "aggregation": make_aggregation()}
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), **(terms | (policy or {})))
    client = open_client(device, fake, arm, **options)
    assert client.sync().error is None
    return client


def open_client(device: Device, fake: FakeAggregators, arm: int = 1, **options: Any) -> Client:
    """Return a client of the installation, whose secret falls into `arm`."""
    given: dict[str, Any] = {
        "entropy": SeededEntropy(device.seed_for_arm(arm)),
        "transport": fake.connect,
        "aggregators": [PAIR],
    }
    return device.client(**(given | options))


def task_of(world: World) -> TaskPolicy:
    """Return the task of the running experiment."""
    policy = world.tree.policy("messenger")
    assert policy is not None
    (experiment,) = policy.features[FEATURE].experiments
    return experiment.tasks[0]


def use(client: Client, *, accepted: bool = True) -> None:
    """Predict and record an outcome."""
    handle = client.feature(FEATURE)
    handle.record_outcome(accepted, handle.predict("hi"))


def end_window(device: Device, windows: int = 1) -> None:
    """Let time pass until the last second of a later window, when all reports of the one before are due."""
    end_s = (device.clock.time_s // WINDOW_S + windows + 1) * WINDOW_S - 1
    device.clock.pass_s(end_s - device.clock.time_s)


def windows_of(fake: FakeAggregators) -> list[int]:
    """Return the windows that the leader has reports of, in the order of their arrival, counted from the first used."""
    return [report.metadata.time - NOW // WINDOW_S for report in fake.sealings()]
