"""Gets the tokens without which aggregators of a task with an issuer take no report, one for each window.

    leader, helper: key of the window ─▶ the issuer's is the same ─▶ request on the disk ─▶ enrolled ─▶ blind signature
        ─▶ token on the disk ─▶ the window's report, at its own time

The issuer learns that this installation takes part in a task and window, and nothing of its report.

Invariants:
  K1  A request is made with a key that issuer, leader and helper name alike, so the key marks nobody.  The aggregators,
      which the app trusts, are asked first: an issuer that they do not know hears nothing of this device.
  K2  A request is on the disk before it is sent, and is sent again unchanged: a window has one token (P2 of
      `prio3_reports.py`).
  K3  A token is asked for at a time of its own window that was drawn at random; its report leaves in the next one.  A
      device that was off asks later, and then the report waits for a new draw: the two moments tie nothing.
  K4  Damage loses tokens and the enrollment; the device enrolls again, and has no second token of a window.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.privacy.dap.report_tokens import ReportToken, request_report_token, token_key_path
from alcove.privacy.entropy import Entropy, random_word
from alcove.privacy.errors import TokenError
from alcove.privacy.tokens import PendingToken, Token, TokenKey, TokenResponse, finish_token
from alcove.privacy.tokens.enrollment import EnrollmentRequest, attested_digest, sign_order
from alcove.registry.policy.dap import dap_time
from alcove.runtime.clock import Clock
from alcove.sdk.errors import AttestationError, StatusError, TokenKeyMismatchError, TransportError
from alcove.sdk.limits import MAX_PENDING, MAX_STATE_BYTES, TOKEN_KEY_BYTES
from alcove.sdk.storage import Files
from alcove.sdk.transport import OpenTransport, Transport
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if TYPE_CHECKING:
    from alcove.sdk.shared_reports import DueReport

__all__ = ["Attestation", "DeviceTokens"]

Attestation = Callable[[bytes], bytes]
"""Gives the platform's evidence that this is the genuine app on a genuine device, over a digest of 32 bytes."""

SEED_BYTES: Final = 32
MAX_CHALLENGE_BYTES: Final = 255
_NOT_ENROLLED: Final = 403
_ANSWERED_ANOTHER: Final = 409


@dataclass(frozen=True)
class _Enrollment:
    """At one issuer: the key's private seed, and whether the issuer has its public part."""

    seed: str
    is_enrolled: bool = False


@dataclass(frozen=True)
class _Held:
    """What the device has of one window's token, in hexadecimal.

    Attributes:
        task: id in DAP.
        time: in DAP.
        ready_at_s: from when on the report may leave.
        expires_at_s: when the report is given up.
        key: the issuer's.
        secret: behind the token's nonce.
        pending: what the request was made of.
        token: None: it is not there yet.
        is_lost: the issuer has answered another request of this installation: there will be none.
    """

    task: str
    time: int
    ready_at_s: int
    expires_at_s: int
    key: str
    secret: str
    pending: str
    token: str | None = None
    is_lost: bool = False


@dataclass
class _State:
    enrollments: dict[str, _Enrollment] = field(default_factory=dict)
    held: dict[tuple[str, int], _Held] = field(default_factory=dict)


class DeviceTokens:
    """The tokens of one device; its caller lets one thread at a time use it.

    Args:
        folder: holds the file; it exists.
        files: the disk.
        clock: gives the windows.
        entropy: source of keys, secrets and draws.
        attest: asks the platform.
    """

    def __init__(self, folder: Path, files: Files, clock: Clock, entropy: Entropy, attest: Attestation) -> None:
        self._path = folder / "tokens.json"
        self._files = files
        self._clock = clock
        self._entropy = entropy
        self._attest = attest

    def ready_at_s(self, due: "DueReport") -> int | None:
        """Return from when on a window's report may leave, in seconds since 1970; None: its token is to be asked for.

        Raises:
            DeviceStorageError: the disk failed.
        """
        held = self._read().held.get(_place(due))
        return None if held is None or (held.token is None and not held.is_lost) else held.ready_at_s

    def find(self, due: "DueReport", open_transport: OpenTransport) -> ReportToken | None:
        """Return the token of a window's report, asked for now if it is not there; None: it may not be used yet (K3).

        Raises:
            RemoteError: somebody does not answer as they should, or the keys differ (K1).
            DeviceStorageError: the disk failed.
        """
        state = self._read()
        held = state.held.get(_place(due)) or self._begin(state, due, open_transport)
        if held.token is None and not held.is_lost:
            held = self._ask(state, due, held, open_transport)
        if held.token is None or self._clock.now_s() < held.ready_at_s:
            return None
        return ReportToken(Token.from_bytes(bytes.fromhex(held.token)), bytes.fromhex(held.secret))

    def forget(self) -> None:
        """Remove everything (the user opted out).

        Raises:
            DeviceStorageError: the disk failed.
        """
        self._files.remove(self._path)

    def _begin(self, state: _State, due: "DueReport", open_transport: OpenTransport) -> _Held:
        """Make the request for a window's token, and keep it (K1, K2)."""
        time = dap_time(due.task, due.window)
        key = _fetch_key(due, time, open_transport)
        try:
            pending, secret = request_report_token(due.dap_task, time, key, self._entropy)
        except TokenError as error:
            raise TransportError(method="GET", path="/token_keys", reason=str(error)) from error
        now_s = self._clock.now_s()
        end_s = due.task.first_window_start_s + (due.window + 1) * due.task.window_s
        expires_at_s = end_s + due.task.window_s
        left_s = max(0, expires_at_s - now_s)
        draw = random_word(self._entropy)
        held = _Held(
            task=due.dap_task.task_id.hex(),
            time=time,
            ready_at_s=0 if now_s < end_s else now_s + (3 * left_s * draw >> 66),
            expires_at_s=expires_at_s,
            key=key.encoded.hex(),
            secret=secret.hex(),
            pending=pending.to_bytes().hex(),
        )
        self._keep(state, held)
        return held

    def _ask(self, state: _State, due: "DueReport", held: _Held, open_transport: OpenTransport) -> _Held:
        """Ask the issuer, after enrolling if need be; return what the device has then."""
        issuer = due.dap_task.info.token_issuer or ""
        transport = open_transport(issuer)
        enrollment = state.enrollments.get(issuer)
        if enrollment is None or not enrollment.is_enrolled:
            enrollment = self._enroll(state, issuer, enrollment, transport)
        pending = PendingToken.from_bytes(bytes.fromhex(held.pending))
        order = sign_order(_key_of(enrollment), issuer.encode(), due.dap_task.task_id, held.time, pending.request)
        path = "/" + token_key_path(due.dap_task.task_id, held.time).replace("/token_keys/", "/tokens/")
        try:
            answer = transport.post(path, order.to_bytes()).body
        except StatusError as error:
            if error.status == _NOT_ENROLLED:
                state.enrollments[issuer] = replace(enrollment, is_enrolled=False)
                self._write(state)
            if error.status == _ANSWERED_ANOTHER:
                self._keep(state, replace(held, is_lost=True))
            raise
        try:
            key = TokenKey.from_bytes(bytes.fromhex(held.key))
            token = finish_token(pending, TokenResponse.from_bytes(answer), key)
        except TokenError as error:
            raise TransportError(method="POST", path=path, reason=str(error)) from error
        held = replace(held, token=token.to_bytes().hex())
        self._keep(state, held)
        return held

    def _enroll(self, state: _State, issuer: str, enrollment: _Enrollment | None, transport: Transport) -> _Enrollment:
        """Enroll at an issuer, with a key that is on the disk before the issuer hears of it."""
        if enrollment is None:
            enrollment = _Enrollment(self._entropy.random_bytes(SEED_BYTES).hex())
            state.enrollments[issuer] = enrollment
            self._write(state)
        challenge = transport.post("/challenges", b"").body
        if not 0 < len(challenge) <= MAX_CHALLENGE_BYTES:
            raise TransportError(method="POST", path="/challenges", reason=f"a challenge of {len(challenge)} bytes")
        public_key = _key_of(enrollment).public_key().public_bytes_raw()
        try:
            evidence = self._attest(attested_digest(issuer.encode(), challenge, public_key))
        except Exception as error:
            raise AttestationError(reason=type(error).__name__) from error
        transport.post("/enrollments", EnrollmentRequest(challenge, public_key, evidence).to_bytes())
        enrollment = replace(enrollment, is_enrolled=True)
        state.enrollments[issuer] = enrollment
        self._write(state)
        return enrollment

    def _keep(self, state: _State, held: _Held) -> None:
        state.held[held.task, held.time] = held
        self._write(state)

    def _read(self) -> _State:
        """Return what the file says; what is damaged is not there (K4)."""
        data = self._files.read(self._path, MAX_STATE_BYTES)
        try:
            fields = json.loads(data) if data else {}
            enrollments = {str(issuer): _Enrollment(**each) for issuer, each in fields.get("enrollments", {}).items()}
            held = [_read_held(each) for each in fields.get("held", [])]
            for enrollment in enrollments.values():
                _key_of(enrollment)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, TokenError):
            return _State()
        return _State(enrollments, {(each.task, each.time): each for each in held})

    def _write(self, state: _State) -> None:
        """Write the state, without what nobody needs any more."""
        now_s = self._clock.now_s()
        current = [each for each in state.held.values() if now_s < each.expires_at_s]
        fields = {
            "enrollments": {issuer: asdict(each) for issuer, each in state.enrollments.items()},
            "held": [asdict(each) for each in current[-MAX_PENDING:]],
        }
        self._files.write_whole(self._path, json.dumps(fields).encode())


def _place(due: "DueReport") -> tuple[str, int]:
    return due.dap_task.task_id.hex(), dap_time(due.task, due.window)


def _key_of(enrollment: _Enrollment) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(enrollment.seed))


def _read_held(fields: Any) -> _Held:
    """Return an entry of the file; raises ValueError, TypeError or TokenError for one that is damaged."""
    held = _Held(**fields)
    PendingToken.from_bytes(bytes.fromhex(held.pending))
    TokenKey.from_bytes(bytes.fromhex(held.key))
    bytes.fromhex(held.secret + held.task)
    if held.token is not None:
        Token.from_bytes(bytes.fromhex(held.token))
    if not all(isinstance(each, int) for each in (held.time, held.ready_at_s, held.expires_at_s)):
        raise TypeError("times are integers")
    return held


def _fetch_key(due: "DueReport", time: int, open_transport: OpenTransport) -> TokenKey:
    """Return the key for a window's tokens, which leader, helper and issuer name alike (K1)."""
    configuration, issuer = due.dap_task.configuration, due.dap_task.info.token_issuer or ""
    path = "/" + token_key_path(due.dap_task.task_id, time)
    found: set[bytes] = set()
    for url in (configuration.leader_url.decode(), configuration.helper_url.decode(), issuer):
        with open_transport(url).get(path, max_bytes=TOKEN_KEY_BYTES) as download:
            found.add(b"".join(download.chunks))
        if len(found) > 1:
            raise TokenKeyMismatchError(issuer=issuer, path=path)
    try:
        return TokenKey.from_bytes(found.pop())
    except TokenError as error:
        raise TransportError(method="GET", path=path, reason=str(error)) from error
