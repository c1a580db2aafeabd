"""A device has a token for each window before it reports it, and neither issuer nor key can mark it."""

import base64
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from alcove.privacy.dap.messages import ReportShare, Role
from alcove.privacy.dap.report_tokens import check_secret, check_token
from alcove.privacy.dap.reports import open_input_share
from alcove.privacy.errors import DapTaskError
from alcove.privacy.tokens.enrollment import EnrollmentRequest, TokenOrder, attested_digest, verify_order
from alcove.registry.policy.dap import make_dap_task
from alcove.sdk import AttestationError, Client, StatusError, TokenKeyMismatchError, TransportError
from alcove.sdk.transport import OCTETS, Download, Reply

from tests.privacy.dap.party import make_issuer
from tests.sdk.aggregators import PAIR, WINDOW_S, FakeAggregators, enroll, make_aggregation, open_client, task_of
from tests.sdk.conftest import NOW, Device

URL = "https://issuer.example/tokens"
POLICY = {"aggregation": make_aggregation(token_issuer=URL)}


@dataclass
class FakeIssuer:
    """The issuer as a device sees it: one key, and one answer for an enrolled key and path.

    Attributes:
        key: what it says its key is; None: the one that it has.
        enrolled: public keys, with the digests that the platform vouched for.
        answered: the request that was answered, by public key and path.
        requests: paths, in order.
        fault: called with "before" or "after" and the path.
    """

    key: bytes | None = None
    enrolled: dict[bytes, bytes] = field(default_factory=dict)
    answered: dict[tuple[bytes, str], bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    fault: Callable[[str, str], None] = lambda _when, _path: None

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Answer with the key."""
        self.requests.append(path)
        self.fault("before", path)
        assert "/token_keys/" in path
        yield Download(start, iter([self.key or make_issuer().key.encoded]), OCTETS)

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Answer a device."""
        assert content_type == OCTETS
        self.requests.append(path)
        self.fault("before", path)
        answer = self._answer(path, body)
        self.fault("after", path)
        return Reply(OCTETS, answer)

    def close(self) -> None:
        """Do nothing."""

    def _answer(self, path: str, body: bytes) -> bytes:
        if path == "/challenges":
            return b"challenge"
        if path == "/enrollments":
            request = EnrollmentRequest.from_bytes(body)
            assert request.evidence == b"evidence " + attested_digest(URL.encode(), b"challenge", request.public_key)
            self.enrolled[request.public_key] = request.evidence
            return b""
        order = TokenOrder.from_bytes(body)
        if order.public_key not in self.enrolled:
            raise StatusError(method="POST", path=path, status=403)
        task, time = path.removeprefix("/tasks/").split("/tokens/")
        verify_order(order, URL.encode(), _task_id(task), int(time))
        first = self.answered.setdefault((order.public_key, path), order.request.to_bytes())
        if first != order.request.to_bytes():
            raise StatusError(method="POST", path=path, status=409)
        return make_issuer().issue(order.request).to_bytes()


def _task_id(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=")


def attest(digest: bytes) -> bytes:
    """Vouch for the device."""
    return b"evidence " + digest


@pytest.fixture
def issuer() -> FakeIssuer:
    """The issuer of the task's tokens."""
    return FakeIssuer()


def make_token_parties(device: Device, issuer: FakeIssuer | None = None) -> FakeAggregators:
    """Return both aggregators, which say of the issuer's key what is so."""
    made = FakeAggregators(device)
    made.issuers[URL] = issuer or FakeIssuer()
    made.token_keys = dict.fromkeys((PAIR.leader_url, PAIR.helper_url), make_issuer().key.encoded)
    return made


@pytest.fixture
def fake(device: Device, issuer: FakeIssuer) -> FakeAggregators:
    """Both aggregators of the task."""
    return make_token_parties(device, issuer)


def _enroll(device: Device, fake: FakeAggregators, **options: Any) -> Client:
    return enroll(device, fake, policy=POLICY, **({"attestation": attest} | options))


def _go_to(device: Device, window: int, share: float = 1.0) -> None:
    """Go to a place of the window so many after the first."""
    device.clock.time_s = (NOW // WINDOW_S + window) * WINDOW_S + int((WINDOW_S - 1) * share)


def test_token_comes_in_its_window_and_the_report_in_the_next_with_it(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """Both aggregators take it; the report's own time has nothing of the issuer, nor the issuer's of the report."""
    client = _enroll(device, fake)
    _go_to(device, 0)
    assert client.report().error is None
    assert [path.rsplit("/", 2)[-2] for path in issuer.requests] == ["token_keys", "", "", "tokens"]
    _go_to(device, 1)
    asked = len(issuer.requests)
    result = client.report()
    assert (result.sent, result.error) == (1, None)
    assert all(f"/{NOW // WINDOW_S}" not in path for path in issuer.requests[asked:])  # nothing of the reported window
    (report,) = fake.sealings()
    task = make_dap_task(task_of(device.world))
    check_token(task, report.metadata, make_issuer().key)
    share = ReportShare(report.metadata, report.public_share, report.helper_input_share)
    check_secret(report.metadata, open_input_share(task, Role.HELPER, {1: fake.parties.helper_key}, share))
    _go_to(device, 2)
    assert client.report().sent == 1
    assert issuer.requests.count("/enrollments") == 1
    assert len({each.metadata.public_extensions for each in fake.sealings()}) == 2


def test_token_is_asked_for_at_a_time_that_was_drawn(device: Device, fake: FakeAggregators, issuer: FakeIssuer) -> None:
    """Before that there is nothing to do; the result says when there is."""
    client = _enroll(device, fake)
    _go_to(device, 1, 0.0)
    client.report()
    asked = len(issuer.requests)
    result = client.report()
    assert len(issuer.requests) == asked
    assert result.next_due_s is not None
    assert 0 < result.next_due_s < WINDOW_S


def test_device_that_was_off_asks_later_and_reports_at_another_moment(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """The report of a window whose token came late waits for a draw of its own."""
    client = _enroll(device, fake)
    _go_to(device, 1, 0.75)
    result = client.report()
    assert (result.sent, fake.reports) == (0, {})
    assert any(path.endswith(f"/tokens/{NOW // WINDOW_S}") for path in issuer.requests)
    again = client.report()
    assert again.next_due_s is not None
    _go_to(device, 1, 0.99)
    assert client.report().sent == 1


@pytest.mark.parametrize("party", ["leader", "helper", "issuer"])
def test_keys_that_differ_are_found_out_and_no_token_is_asked_for(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer, party: str
) -> None:
    """An issuer with another key for this device would know its token again: it gets no request to sign."""
    other = make_issuer("other").key.encoded
    if party == "issuer":
        issuer.key = other
    else:
        fake.token_keys[PAIR.leader_url if party == "leader" else PAIR.helper_url] = other
    client = _enroll(device, fake)
    _go_to(device, 0)
    assert isinstance(client.report().error, TokenKeyMismatchError)
    _go_to(device, 1)
    assert isinstance(client.report().error, TokenKeyMismatchError)
    assert fake.reports == {}
    assert not [path for path in issuer.requests if "/token_keys/" not in path]


def test_issuer_that_the_aggregators_do_not_know_hears_nothing(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """Who steals the policy's key and names an issuer of his own learns of no device."""
    fake.token_keys.clear()
    client = _enroll(device, fake)
    _go_to(device, 0)
    assert isinstance(client.report().error, StatusError)
    assert issuer.requests == []


def test_every_interruption_leaves_one_request_for_a_window(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """A connection that breaks, before or after each answer; then the process is another; one report comes of it."""
    client = _enroll(device, fake)
    _go_to(device, 0)
    for when in ("before", "after"):
        for name in ("/token_keys/", "/challenges", "/enrollments", "/tokens/"):

            def fail(at: str, path: str, when: str = when, name: str = name) -> None:
                if at == when and name in path:
                    raise TransportError(method="POST", path=path, reason="broke")

            issuer.fault = fail
            client.report()
            client = open_client(device, fake, attestation=attest)
    issuer.fault = lambda _when, _path: None
    assert client.report().error is None
    _go_to(device, 1)
    assert client.report().sent == 1
    assert len(fake.reports) == 1


def test_file_that_is_damaged_costs_the_token_and_nothing_else(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """The device enrolls again; the issuer gives no second token of the window, and the next one is as ever."""
    client = _enroll(device, fake)
    _go_to(device, 0)
    client.report()
    (path,) = Path(device.folder).rglob("tokens.json")
    sound = path.read_bytes()
    for damage in (b"", b"{", b"[]", b'{"held":[{}]}', sound.replace(b'"token": "', b'"token": "00'), sound[:-9]):
        path.write_bytes(damage)
        issuer.answered = {(b"the installation", key[1]): value for key, value in issuer.answered.items()}
        real = issuer._answer

        def refuse(path: str, body: bytes, real: Callable[[str, bytes], bytes] = real) -> bytes:
            if "/tokens/" in path and (b"the installation", path) in issuer.answered:
                raise StatusError(method="POST", path=path, status=409)
            return real(path, body)

        issuer._answer = refuse  # type: ignore[method-assign]
        assert isinstance(client.report().error, StatusError)
        assert client.report().error is None  # it asks no more
    _go_to(device, 1)
    assert client.report().sent == 0
    _go_to(device, 2)
    assert client.report().sent == 1


def test_issuer_that_forgot_the_device_has_it_enroll_again(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """The refusal is the error of one turn."""
    client = _enroll(device, fake)
    _go_to(device, 0)
    client.report()
    issuer.enrolled.clear()
    _go_to(device, 1)
    assert isinstance(client.report().error, StatusError)
    client.report()
    assert len(issuer.enrolled) == 1
    _go_to(device, 2)
    assert client.report().sent == 1


def test_platform_that_gives_no_evidence_is_asked_again(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """What the app's code raises is the error of one turn."""
    answers: list[Callable[[bytes], bytes]] = [attest]

    def fail(_digest: bytes) -> bytes:
        raise RuntimeError("no network")

    def ask(digest: bytes) -> bytes:
        return answers[-1](digest)

    answers.append(fail)
    client = _enroll(device, fake, attestation=ask)
    _go_to(device, 0)
    assert isinstance(client.report().error, AttestationError)
    answers.pop()
    assert client.report().error is None
    assert len(issuer.enrolled) == 1


def test_app_without_attestation_makes_no_report_of_such_a_task(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """Nobody hears of the device, nothing is paid, and the result says why."""
    client = _enroll(device, fake, attestation=None)
    _go_to(device, 1)
    result = client.report()
    assert isinstance(result.error, DapTaskError)
    assert (result.sent, result.epsilon_spent, issuer.requests, fake.requests) == (0, Fraction(0), [], [])


def test_user_who_says_no_has_no_enrollment_and_no_token_left(
    device: Device, fake: FakeAggregators, issuer: FakeIssuer
) -> None:
    """On the device; a later yes enrolls another key."""
    client = _enroll(device, fake)
    _go_to(device, 0)
    client.report()
    client.set_reports(False)
    assert list(Path(device.folder).rglob("tokens.json")) == []
    client.set_reports(True)
    assert client.sync().error is None
    _go_to(device, 1)
    client.report()
    assert len(issuer.enrolled) == 2
