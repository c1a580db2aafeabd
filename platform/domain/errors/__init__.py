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
    │   ├── SignInRefusedError     a proof of a person does not hold, or nobody gave that person access
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
    │   ├── ValuesOverriddenError  values are overridden: nothing can be compared
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
    │   ├── ApprovalRequiredError  a second person must approve it
    │   ├── SessionError           a session is asked of a caller who has no token, or ended by one who has none
    │   └── OverrideRequiredError  no experiment named this version the winner
    ├── ReportRefusedError         a report body that is not counted
    ├── IssuanceRefusedError       a device that is not enrolled, or gets no token
    └── ServerError                us
        ├── KeyWithinReachError    a private key that the server must never see
        ├── OnlineKeyError         an online key is missing or not the one that the tree trusts
        ├── RepositoryMissingError       no signed tree in the data folder
        ├── DataFolderBusyError    another server uses the data folder
        ├── IngressFailedError     the devices' process does not start
        ├── ConsoleFailedError     the console's process does not start
        ├── TlsFilesError          certificate and key do not belong together
        ├── OtherStoreError        a database or blobs that are not the data folder's
        ├── SchemaTooNewError      a newer alcove wrote the database
        ├── CertificateListError   the list of client certificates is none
        ├── ProviderSettingsError  sign-in by OpenID Connect is set up wrongly
        ├── AggregatorFileError    a key or configuration of aggregators is none
        ├── AlertsFileError        the configuration of alerts is none
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

from alcove.platform.domain.errors.calls import (
    BlobMismatchError,
    BlobTooLargeError,
    BusyCallerError,
    CallError,
    CallTooLongError,
    CheckBoundError,
    ChecksFullError,
    InvalidFieldError,
    IssuanceRefusedError,
    LateRequestError,
    OffsetError,
    QuotaError,
    ReportRefusedError,
    RequestIdReusedError,
    ResourceNotFoundError,
    TooManyCallsError,
)
from alcove.platform.domain.errors.identity import (
    IdentityError,
    OwnApprovalError,
    PermissionDeniedError,
    PlaintextRefusedError,
    SignInRefusedError,
    UnauthenticatedError,
)
from alcove.platform.domain.errors.root import (
    ERROR_KEY,
    PUSHBACK_KEY,
    PlatformError,
)
from alcove.platform.domain.errors.server import (
    AggregatorFileError,
    AlertsFileError,
    BackupError,
    CertificateListError,
    ConsoleFailedError,
    DataFolderBusyError,
    IngressFailedError,
    KeyWithinReachError,
    OnlineKeyError,
    OtherStoreError,
    PeerUnavailableError,
    ProviderSettingsError,
    RepositoryMissingError,
    RestoreRefusedError,
    SchemaTooNewError,
    ServerError,
    ServerFullError,
    ServerStoppingError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
    StoreOccupiedError,
    StoreUnavailableError,
    TlsFilesError,
    TracingMissingError,
)
from alcove.platform.domain.errors.states import (
    AggregatorsMissingError,
    ApprovalRequiredError,
    BelowMinVersionError,
    BreakingSignatureError,
    FeatureBusyError,
    HoldoutRaisedError,
    IllegalTransitionError,
    LayerExistsError,
    MetricDeprecatedError,
    NoDefaultVersionError,
    NotReleasedError,
    OverlappingClaimError,
    OverrideRequiredError,
    ReadoutRunningError,
    ResultsRefusedError,
    SessionError,
    ShareNotRaisedError,
    StaleEtagError,
    StaleProposalError,
    StateError,
    UploadBusyError,
    ValuesOverriddenError,
    VersionRevokedError,
    WindowCollectedError,
)

__all__ = [
    "ERROR_KEY",
    "PUSHBACK_KEY",
    "AggregatorFileError",
    "AggregatorsMissingError",
    "AlertsFileError",
    "ApprovalRequiredError",
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
    "ConsoleFailedError",
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
    "ProviderSettingsError",
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
    "SessionError",
    "ShareNotRaisedError",
    "SignInRefusedError",
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
    "ValuesOverriddenError",
    "VersionRevokedError",
    "WindowCollectedError",
]
