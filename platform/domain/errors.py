"""Defines the errors of the server, grouped by whose fault they are.

    PlatformError
    ├── CallError                  the call: repeat it differently
    │   ├── InvalidFieldError      a field outside its bound
    │   ├── ResourceNotFoundError          names something that does not exist
    │   ├── RequestIdReusedError   one request_id, two contents
    │   ├── BlobTooLargeError      announced or sent more than the limit
    │   ├── OffsetError            beyond what is there
    │   ├── TooManyCallsError      more a second than one caller may make
    │   ├── BusyCallerError        more at once than one caller may have
    │   ├── LateRequestError       the request did not come in time
    │   ├── QuotaError             a team has uploaded more than it may without publishing
    │   ├── ChecksFullError        too many programs wait to be checked
    │   ├── CheckBoundError        checking a program takes more than it may
    │   ├── CallTooLongError       it ran for longer than a call may
    │   └── BlobMismatchError      bytes are not what their header says
    ├── IdentityError              the caller: bring another token
    │   ├── UnauthenticatedError   none, unknown, expired or revoked
    │   ├── PlaintextRefusedError  a token over an unencrypted connection
    │   ├── PermissionDeniedError  known, but not allowed to do this
    │   └── OwnApprovalError       somebody else must approve it
    ├── StateError                 the state: change it first
    │   ├── IllegalTransitionError the state machine has no such arrow
    │   ├── VersionRevokedError    the version is forbidden for ever
    │   ├── NotReleasedError       only released versions reach devices
    │   ├── BreakingSignatureError the version would break apps in use
    │   ├── UploadBusyError        the same upload is under way elsewhere
    │   ├── StaleProposalError     the alias moved since the move was proposed
    │   ├── StaleEtagError         the thing was changed since it was read
    │   ├── FeatureBusyError       another rollout or experiment holds the feature
    │   │   └── OverlappingClaimError  a device could be in both experiments
    │   ├── LayerExistsError       layers have different names
    │   ├── MetricDeprecatedError  the metric is to be used no more
    │   ├── HoldoutRaisedError     an experiment runs: a larger holdout would take devices out of it
    │   ├── ReadoutRunningError    a read-out of the holdout runs: its groups stay as they are
    │   ├── BelowMinVersionError        the team forbids versions as old as this one
    │   ├── NoDefaultVersionError  nothing the other devices could run
    │   ├── ShareNotRaisedError    a rollout's share only rises
    │   ├── ResultsRefusedError    statistics refuse the reports of an experiment
    │   ├── AggregatorsMissingError  Prio3 is asked of a server without aggregators
    │   ├── WindowCollectedError   a window's sums are there, and they are others
    │   └── OverrideRequiredError  no experiment named this version the winner
    ├── ReportRefusedError         a report body that is not counted
    ├── IssuanceRefusedError       a device that is not enrolled, or gets no token
    └── ServerError                us
        ├── KeyWithinReachError    a private key that the server must never see
        ├── OnlineKeyError         an online key is missing or not the one that the tree trusts
        ├── RepositoryMissingError       no signed tree in the data folder
        ├── DataFolderBusyError    another server uses the data folder
        ├── IngressFailedError     the devices' process does not start
        ├── TlsFilesError          certificate and key do not belong together
        ├── OtherStoreError        a database or blobs that are not the data folder's
        ├── SchemaTooNewError      a newer alcove wrote the database
        ├── CertificateListError   the list of client certificates is none
        ├── AggregatorFileError    a key or configuration of aggregators is none
        ├── PeerUnavailableError   another party cannot be reached, or does not answer as its part asks
        ├── TracingMissingError    traces are asked for, and the libraries for them are not there
        ├── ServerStoppingError    it was asked to stop while the call ran
        ├── ServerFullError        all callers together have as many calls under way as there may be
        ├── StoreDamagedError      the database's file is damaged or none
        ├── StoreFullError         the database's disk is full
        ├── StoreOccupiedError     rows are to be restored where rows are
        ├── BackupError            a backup is not there, damaged, or of a newer version
        ├── RestoreRefusedError    a restore would mix with other data, or go backwards unasked
        ├── StoreUnavailableError  the database cannot be reached
        └── StoreBusyError         another writer holds the database

Every class carries its fields; messages name the thing, the bound and the value seen.  None carries a secret.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "ERROR_KEY",
    "PUSHBACK_KEY",
    "AggregatorFileError",
    "AggregatorsMissingError",
    "BackupError",
    "BelowMinVersionError",
    "BlobMismatchError",
    "BlobTooLargeError",
    "BreakingSignatureError",
    "BusyCallerError",
    "CallError",
    "CallTooLongError",
    "CertificateListError",
    "CheckBoundError",
    "ChecksFullError",
    "DataFolderBusyError",
    "FeatureBusyError",
    "HoldoutRaisedError",
    "IdentityError",
    "IllegalTransitionError",
    "IngressFailedError",
    "InvalidFieldError",
    "IssuanceRefusedError",
    "KeyWithinReachError",
    "LateRequestError",
    "LayerExistsError",
    "MetricDeprecatedError",
    "NoDefaultVersionError",
    "NotReleasedError",
    "OffsetError",
    "OnlineKeyError",
    "OtherStoreError",
    "OverlappingClaimError",
    "OverrideRequiredError",
    "OwnApprovalError",
    "PeerUnavailableError",
    "PermissionDeniedError",
    "PlaintextRefusedError",
    "PlatformError",
    "QuotaError",
    "ReadoutRunningError",
    "ReportRefusedError",
    "RepositoryMissingError",
    "RequestIdReusedError",
    "ResourceNotFoundError",
    "RestoreRefusedError",
    "ResultsRefusedError",
    "SchemaTooNewError",
    "ServerError",
    "ServerFullError",
    "ServerStoppingError",
    "ShareNotRaisedError",
    "StaleEtagError",
    "StaleProposalError",
    "StateError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreFullError",
    "StoreOccupiedError",
    "StoreUnavailableError",
    "TlsFilesError",
    "TooManyCallsError",
    "TracingMissingError",
    "UnauthenticatedError",
    "UploadBusyError",
    "VersionRevokedError",
    "WindowCollectedError",
]


ERROR_KEY: Final = "alcove-error"  # trailing metadata that carries the class of an error to clients
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"  # likewise when to try again; gRPC's own retries read it


class PlatformError(Exception):
    """Root of everything that the server refuses or fails at."""


class CallError(PlatformError):
    """The call itself is wrong."""


class InvalidFieldError(CallError):
    """A field is missing or outside its bound."""

    def __init__(self, field: str, bound: str, value: object) -> None:
        self.field, self.bound, self.value = field, bound, value
        # Whole records are not what anybody wrote; their parts that matter are in `bound`.
        seen = "" if isinstance(value, Mapping) else f", got {value!r:.120}"
        super().__init__(f"{field}: expected {bound}{seen}")


class ResourceNotFoundError(CallError):
    """Something named in the call does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"no {kind} named {name!r:.120}")


class RequestIdReusedError(CallError):
    """The request id was used before for another content."""

    def __init__(self, request_id: str, method: str) -> None:
        self.request_id, self.method = request_id, method
        super().__init__(f"request_id {request_id!r} was used before for another {method}; use a new one")


class BlobTooLargeError(CallError):
    """An upload is larger than the limit or than its header said."""

    def __init__(self, limit_bytes: int, size_bytes: int) -> None:
        self.limit_bytes, self.size_bytes = limit_bytes, size_bytes
        super().__init__(f"blob: at most {limit_bytes} bytes, got {size_bytes} or more")


class OffsetError(CallError):
    """Bytes are asked for, or sent, from beyond what is there."""

    def __init__(self, field: str, there_bytes: int, offset_bytes: int) -> None:
        self.field, self.there_bytes, self.offset_bytes = field, there_bytes, offset_bytes
        super().__init__(f"{field}: {there_bytes} bytes are there, expected 0 to {there_bytes}, got {offset_bytes}")


class TooManyCallsError(CallError):
    """One caller makes more calls than it may; `retry_after_s` says when the next one passes."""

    def __init__(self, caller: str, per_second: int) -> None:
        self.caller, self.per_second, self.retry_after_s = caller, per_second, 1 / per_second
        super().__init__(f"calls of {caller}: at most {per_second} a second; wait and try again")


class BusyCallerError(CallError):
    """One caller has as many calls of a kind under way as it may."""

    def __init__(self, caller: str, what: str, most: int) -> None:
        self.caller, self.what, self.most = caller, what, most
        super().__init__(f"{what} of {caller}: at most {most} at once; end one and try again")


class LateRequestError(CallError):
    """A call began, and its request, or the next piece of it, did not come."""

    def __init__(self, method: str, limit_s: float) -> None:
        self.method, self.limit_s = method, limit_s
        super().__init__(f"{method}: nothing came for {limit_s:g} s, the server's limit")


class QuotaError(CallError):
    """A team holds as much as it may of something that takes room on the server's disk."""

    def __init__(self, team: str, what: str, most: int, wanted: int) -> None:
        self.team, self.what, self.most, self.wanted = team, what, most, wanted
        super().__init__(
            f"{what}, of {team}: at most {most}, this would be {wanted}; publish them, or wait until they are collected"
        )


class ChecksFullError(CallError):
    """The queue of programs to check is full, of this team or of all."""

    def __init__(self, team: str, most: int) -> None:
        self.team, self.most = team, most
        super().__init__(f"programs to be checked, of team {team!r}: at most {most} wait; try again when one is done")


class CheckBoundError(CallError):
    """Opening and running a program took more than it may, or ended the process that did it.

    Attributes:
        variant: whose program.
        bound: what it ran into, with the figure.
    """

    def __init__(self, variant: str, bound: str) -> None:
        self.variant, self.bound = variant, bound
        super().__init__(f"variant {variant!r}: checking its program was ended: {bound}")


class CallTooLongError(CallError):
    """The call ran for longer than the server lets one run, whatever deadline its caller gave it."""

    def __init__(self, method: str, limit_s: float) -> None:
        self.method, self.limit_s = method, limit_s
        super().__init__(f"{method} ran for more than {limit_s:g} s, the server's limit")


class BlobMismatchError(CallError):
    """Uploaded bytes do not have the announced digest or length."""

    def __init__(self, field: str, announced: str, seen: str) -> None:
        self.field, self.announced, self.seen = field, announced, seen
        super().__init__(f"blob {field}: announced {announced}, got {seen}")


class IdentityError(PlatformError):
    """The caller may not do this."""


class UnauthenticatedError(IdentityError):
    """No valid token."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; send 'authorization: Bearer alc_…' (make one: alcove token create)")


class PlaintextRefusedError(IdentityError):
    """A token came over an unencrypted connection from another machine."""

    def __init__(self) -> None:
        super().__init__(
            "tokens are accepted over TLS or from this machine only; the token just sent is burnt: revoke it"
        )


class PermissionDeniedError(IdentityError):
    """The token's role does not allow the action; `allowed` are the roles that do, where it is a matter of the role."""

    def __init__(self, role: str, action: str, allowed: Sequence[str] = ()) -> None:
        self.role, self.action, self.allowed = role, action, allowed
        may = f"; {' and '.join(allowed)} may" if allowed else ""
        super().__init__(f"role {role!r} may not {action}{may}")


class OwnApprovalError(IdentityError):
    """The person who asks for something cannot be the second person who approves it."""

    def __init__(self, what: str, principal: str) -> None:
        self.what, self.principal = what, principal
        super().__init__(f"{what} was asked for by {principal}: somebody else must approve it")


class StateError(PlatformError):
    """The call is well formed, but the present state forbids it."""


class IllegalTransitionError(StateError):
    """The state machine has no such arrow; `allowed` names those that it has."""

    def __init__(self, kind: str, name: str, state: str, action: str, allowed: Sequence[str]) -> None:
        self.kind, self.name, self.state, self.action, self.allowed = kind, name, state, action, allowed
        can = ", ".join(allowed) or "nothing any more"
        super().__init__(f"{kind} {name} is {state}: cannot {action}; it can: {can}")


class VersionRevokedError(StateError):
    """The version is forbidden for ever, in every app."""

    def __init__(self, feature: str, version: str) -> None:
        self.feature, self.version = feature, version
        super().__init__(f"{feature} {version} is revoked: nothing may choose it any more")


class NotReleasedError(StateError):
    """Rollouts, experiments and aliases take released versions only, unless the feature's rules say otherwise."""

    def __init__(self, feature: str, version: str, state: str) -> None:
        self.feature, self.version, self.state = feature, version, state
        name = f"{feature}@{version}"
        validate = f"alcove model validate {name}, then " if state == "registered" else ""
        super().__init__(
            f"{feature} {version} is {state}, and only released versions may reach devices: {validate}alcove model "
            f"release {name} --reason … (alcove model rules {feature} --any-state lets in versions of any state)"
        )


class BreakingSignatureError(StateError):
    """A version takes or gives something else than the one that an app's devices run: apps in use would fail."""

    def __init__(self, app: str, feature: str, version: str, default: str, differences: Sequence[str]) -> None:
        self.app, self.feature, self.version, self.default = app, feature, version, default
        self.differences = tuple(differences)
        super().__init__(
            f"{feature} {version} breaks apps that were built for {default}, which app {app!r} runs: "
            f"{'; '.join(differences)}. Push it as another feature; or, where every device that gets it has an app "
            "that is built for it: alcove rollout create … --signature-override-reason …, which is audited"
        )


class UploadBusyError(StateError):
    """Another call of the same sender uploads the same bytes; it may be one that was just cut off."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        super().__init__(f"blob {sha256} is being uploaded by another call: try again")


class StaleProposalError(StateError):
    """The alias moved since its next move was proposed."""

    def __init__(self, proposal_id: str, alias: str) -> None:
        self.proposal_id, self.alias = proposal_id, alias
        super().__init__(
            f"proposal {proposal_id}: {alias} has moved since, or the proposal was approved: propose again"
        )


class StaleEtagError(StateError):
    """The resource changed since the caller read it: read it again and decide again."""

    def __init__(self, kind: str, name: str, etag: str, current: str) -> None:
        self.kind, self.name, self.etag, self.current = kind, name, etag, current
        super().__init__(f"{kind} {name} was changed since it was read: its etag is {current!r}, got {etag!r}")


class ResultsRefusedError(StateError):
    """Nothing can be said of an experiment's reports: they are not what an experiment could have collected."""

    def __init__(self, experiment_id: str, reason: str) -> None:
        self.experiment_id, self.reason = experiment_id, reason
        super().__init__(f"the reports of experiment {experiment_id} cannot be read: {reason}; it can be stopped")


class AggregatorsMissingError(StateError):
    """Reports by Prio3 are asked for, and the server knows no aggregators."""

    def __init__(self) -> None:
        super().__init__(
            "mechanism prio3 needs two aggregators, and this server has none:"
            " ask for randomized response, or leave the mechanism open"
        )


class WindowCollectedError(StateError):
    """A window of a task was collected before, with other sums: its noise is drawn once."""

    def __init__(self, task_id: str, window: int) -> None:
        self.task_id, self.window = task_id, window
        super().__init__(f"window {window} of task {task_id} was collected with other sums: a window is collected once")


class FeatureBusyError(StateError):
    """Another rollout or experiment holds the feature in this app."""

    def __init__(self, app: str, feature: str, holder: str) -> None:
        self.app, self.feature, self.holder = app, feature, holder
        super().__init__(f"feature {feature!r} of app {app!r} is held by {holder}: finish it first")


class OverlappingClaimError(FeatureBusyError):
    """A device could be in this experiment and in one that runs; `reason` says which buckets or which device."""

    def __init__(self, app: str, feature: str, holder: str, reason: str) -> None:
        super().__init__(app, feature, holder)
        self.reason = reason
        self.args = (f"feature {feature!r} of app {app!r} is held by {holder}: {reason}",)


class LayerExistsError(StateError):
    """The app has a layer of this name."""

    def __init__(self, app: str, layer: str) -> None:
        self.app, self.layer = app, layer
        super().__init__(f"app {app!r} has a layer {layer!r} already")


class MetricDeprecatedError(StateError):
    """The metric is deprecated: what runs with it goes on, nothing new may name it."""

    def __init__(self, feature: str, name: str, successor: str, reason: str) -> None:
        self.feature, self.name, self.successor, self.reason = feature, name, successor, reason
        instead = f"; use {successor!r}" if successor else ""
        super().__init__(f"metric {feature}/{name} is deprecated{instead}: {reason}")


class HoldoutRaisedError(StateError):
    """A larger holdout would take devices out of an experiment that runs."""

    def __init__(self, app: str, *, share_basis_points: int, current_basis_points: int, holder: str) -> None:
        self.app, self.share_basis_points = app, share_basis_points
        self.current_basis_points, self.holder = current_basis_points, holder
        super().__init__(
            f"the holdout of app {app!r} is {current_basis_points} of 10000 and cannot rise to {share_basis_points}"
            f" while {holder} runs: devices would leave it"
        )


class ReadoutRunningError(StateError):
    """A read-out of the holdout runs: there is one at a time, and its groups stay as they are."""

    def __init__(self, app: str, readout_id: str) -> None:
        self.app, self.readout_id = app, readout_id
        super().__init__(f"read-out {readout_id} of the holdout of app {app!r} runs: stop it, or wait for its end")


class BelowMinVersionError(StateError):
    """The team has raised the minimum version of its feature above this version."""

    def __init__(self, feature: str, version: str, min_version: str) -> None:
        self.feature, self.version, self.min_version = feature, version, min_version
        super().__init__(f"{feature} {version} is below {min_version}, the minimum version that its team has set")


class NoDefaultVersionError(StateError):
    """A partial rollout of a feature that has no default version in the app."""

    def __init__(self, app: str, feature: str, share_basis_points: int) -> None:
        self.app, self.feature, self.share_basis_points = app, feature, share_basis_points
        super().__init__(
            f"feature {feature!r} of app {app!r} has no default version yet, which the other devices of a share of "
            f"{share_basis_points} basis points would run: advance to 10000, or start an experiment"
        )


class ShareNotRaisedError(StateError):
    """A rollout's share only rises; taking it back is a roll-back."""

    def __init__(self, rollout_id: str, share_basis_points: int, wanted_basis_points: int) -> None:
        self.rollout_id, self.share_basis_points, self.wanted_basis_points = (
            rollout_id,
            share_basis_points,
            wanted_basis_points,
        )
        super().__init__(
            f"rollout {rollout_id} has a share of {share_basis_points} basis points: advance must raise it, "
            f"got {wanted_basis_points} (to take it back: rollback)"
        )


class ApprovalRequiredError(StateError):
    """A call would do alone what the feature's rules ask two people for."""

    def __init__(self, what: str, feature: str, rule: str, instead: str) -> None:
        self.what, self.feature, self.rule, self.instead = what, feature, rule, instead
        super().__init__(f"{what}: the rule {rule} of feature {feature} asks for a second person; {instead}")


class OverrideRequiredError(StateError):
    """Advancing what nothing has found safe needs an explicit reason.

    Attributes:
        feature: of the rollout.
        version: that would go to more devices.
        cause: what is missing, in words.
    """

    def __init__(self, feature: str, version: str, cause: str = "") -> None:
        self.feature, self.version = feature, version
        self.cause = cause or f"no stopped experiment named {feature} {version} the winner"
        super().__init__(f"{self.cause}: give override_reason, which is audited")


class ReportRefusedError(PlatformError):
    """A body of reports is refused as a whole; `reason` is one of a fixed few."""

    def __init__(self, reason: str, bound: str) -> None:
        self.reason, self.bound = reason, bound
        super().__init__(f"{reason}: expected {bound}")


class IssuanceRefusedError(PlatformError):
    """A device is not enrolled, or gets no token; `reason` is one of a fixed few."""

    def __init__(self, reason: str, bound: str) -> None:
        self.reason, self.bound = reason, bound
        super().__init__(f"{reason}: expected {bound}")


class ServerError(PlatformError):
    """The server itself is set up wrongly."""


class KeyWithinReachError(ServerError):
    """A private key that is none of the server's online keys lies in its folders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is a private key that the server must not be able to read: move it elsewhere")


class OnlineKeyError(ServerError):
    """An online key is missing, unreadable or not the one that the tree trusts for its role."""

    def __init__(self, role: str, path: Path, problem: str) -> None:
        self.role, self.path, self.problem = role, path, problem
        super().__init__(f"online key of role {role!r} ({path}): {problem}")


class RepositoryMissingError(ServerError):
    """The data folder holds no signed tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} holds no signed tree: make one with 'alcove keys create'")


class DataFolderBusyError(ServerError):
    """Another server process uses the data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} is used by another server process: stop it or choose another data folder")


class IngressFailedError(ServerError):
    """The process that answers devices does not start."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the devices' process does not start: {problem}")


class TlsFilesError(ServerError):
    """The TLS certificate and its key cannot be used together, or at all."""

    def __init__(self, certificate: Path, key: Path | None, problem: str) -> None:
        self.certificate, self.key, self.problem = certificate, key, problem
        super().__init__(f"TLS certificate {certificate} and key {key}: {problem}")


class OtherStoreError(ServerError):
    """A database or a store of blobs that is not the data folder's; `path` is what says so."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class SchemaTooNewError(ServerError):
    """A newer alcove has changed the database's schema; this one knows nothing of it."""

    def __init__(self, where: str, revision: str, newest: str) -> None:
        self.where, self.revision, self.newest = where, revision, newest
        super().__init__(
            f"{where}: a newer alcove has written it (schema {revision!r}, this one knows up to {newest!r}): start "
            "that version, or restore the back-up from before its start"
        )


class CertificateListError(ServerError):
    """The list of client certificates cannot be read, or is none."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"list of client certificates {path}: {problem}")


class AggregatorFileError(ServerError):
    """A file of an aggregator, its configuration or one of its keys, cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class PeerUnavailableError(ServerError):
    """Another party of a task, an aggregator, cannot be reached or answers what is no answer; asking again helps."""

    def __init__(self, url: str, problem: str) -> None:
        self.url, self.problem = url, problem
        super().__init__(f"{url}: {problem}")


class TracingMissingError(ServerError):
    """Traces are asked for, and OpenTelemetry is not installed."""

    def __init__(self) -> None:
        super().__init__("traces need OpenTelemetry: pip install 'alcove[platform,traces]'")


class ServerStoppingError(ServerError):
    """The server was asked to stop while the call ran."""

    def __init__(self) -> None:
        super().__init__("the server is stopping: try again")


class ServerFullError(ServerError):
    """All callers together have as many calls under way as there may be; some places are for operators only."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(f"calls of all callers: at most {most} at once; try again")


class StoreBusyError(ServerError):
    """Another writer holds the database for longer than a writer waits."""

    def __init__(self) -> None:
        super().__init__("the database is busy: try again")


class StoreDamagedError(ServerError):
    """The database's file is no database, or a damaged one."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}: put a backup in its place")


class StoreOccupiedError(ServerError):
    """A database that is to be filled from a backup holds rows already."""

    def __init__(self, where: str, table: str, count: int) -> None:
        self.where, self.table, self.count = where, table, count
        super().__init__(f"{where}: holds {count} rows of {table}: a backup is restored into an empty database")


class BackupError(ServerError):
    """A backup is not there, is damaged, or was made by a newer version."""

    def __init__(self, backup: str, problem: str) -> None:
        self.backup, self.problem = backup, problem
        super().__init__(f"backup {backup}: {problem}")


class RestoreRefusedError(ServerError):
    """A restore would mix with other data, or go behind what was published, without being asked to."""

    def __init__(self, place: str, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{place}: {problem}")


class StoreFullError(ServerError):
    """The database has no room left; what was asked did not happen."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}: make room and try again")


class StoreUnavailableError(ServerError):
    """The database cannot be reached, or does not let us in; `where` names it without user and password."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")
