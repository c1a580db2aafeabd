"""Shows whom devices trust and how the server is.  Mixed into `PlatformClient`."""

from typing import Annotated, Literal

from alcove.api.status.v1 import status_pb2 as pb
from alcove.api.status.v1.status_pb2_grpc import StatusServiceStub
from alcove.platform.client.calls import Caller
from alcove.platform.client.models import Value, value_of, without_prefix

__all__ = [
    "HealthCheck",
    "ServerHealth",
    "StatusCalls",
    "TokenSummary",
    "TreeSize",
    "Trust",
    "TrustedKey",
    "TrustedRole",
]

HolderName = Annotated[Literal["online", "offline", "team"], without_prefix("HOLDER_")]
HealthStateName = Annotated[Literal["ok", "degraded", "failed", "off"], without_prefix("HEALTH_STATE_")]


class TrustedKey(Value):
    """A public key of a role: its id and scheme, and whether it has signed what the tree has now."""

    key_id: str
    scheme: str
    has_signed: bool


class TrustedRole(Value):
    """A role of the signed tree; times are seconds since 1970-01-01 UTC.

    Attributes:
        role: "root", "targets", "snapshot", "timestamp", "policy", "halt" or "team-" and the name of a team.
        holder: who holds its keys.
        threshold: number of keys that have to sign.
        keys: those that may.
        version: of its metadata.
        signed_at_s: when it was signed.
        expires_at_s: when it expires.
        targets: number of documents that it names.
        features: that a team may publish; (): it is no team.
    """

    role: str
    holder: HolderName
    threshold: int
    keys: tuple[TrustedKey, ...]
    version: int
    signed_at_s: int
    expires_at_s: int
    targets: int
    features: tuple[str, ...]


class TreeSize(Value):
    """The tree as devices could read it now: bytes of metadata and documents, and numbers of them."""

    metadata_bytes: int
    snapshot_bytes: int
    targets: int
    target_bytes: int
    versions: int


class TokenSummary(Value):
    """The API tokens that hold now, those that end soon, and when the first of these does (0: none)."""

    valid: int
    expiring: int
    next_expires_at_s: int


class Trust(Value):
    """Whom devices trust; `certificate_expires_at_s` 0: the server has no TLS certificate; `now_s` is its clock."""

    roles: tuple[TrustedRole, ...]
    tree: TreeSize
    tokens: TokenSummary
    certificate_expires_at_s: int
    now_s: int


class HealthCheck(Value):
    """What was found of one part of the server.

    Attributes:
        name: of the part.
        state: how well it works; "off": this server has none.
        summary: what was found, a sentence.
        remedy: what to do, a sentence; "": nothing.
        detail: the words of what failed, for operators of everything; "": there are none.
        latency_ms: milliseconds that it took to answer; 0: it was not asked anything.
        last_ok_s: when it last worked, seconds since 1970-01-01 UTC; 0: not known.
    """

    name: str
    state: HealthStateName
    summary: str
    remedy: str
    detail: str
    latency_ms: float
    last_ok_s: int


class ServerHealth(Value):
    """The worst state of the parts, each of them, and when they were looked at (seconds since 1970-01-01 UTC)."""

    state: HealthStateName
    checks: tuple[HealthCheck, ...]
    checked_at_s: int


class StatusCalls:
    """Calls about the server itself."""

    _status: StatusServiceStub
    _call: Caller

    def trust(self) -> Trust:
        """Return whom devices trust: roles with their keys and expiry dates, the size of the tree, tokens."""
        return value_of(Trust, self._call(self._status.GetTrust, pb.GetTrustRequest()))

    def health(self) -> ServerHealth:
        """Return how the parts of the server are; a part that fails is an answer, not an error."""
        return value_of(ServerHealth, self._call(self._status.GetHealth, pb.GetHealthRequest()))
