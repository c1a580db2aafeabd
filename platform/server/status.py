"""Maps each domain error to its gRPC status.

The one table; a test walks all error classes and fails on a gap.

An error travels as status + message, and its class name in the trailing metadata `alcove-error`, from which clients
tell apart what shares a status.  What is in no table is INTERNAL, and its words stay in the server's log.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import grpc
from alcove.platform.domain import errors as platform_errors
from alcove.platform.stats import errors as stats_errors
from alcove.registry import errors as registry_errors

__all__ = ["STATUS", "status_of"]

_S = grpc.StatusCode
_p, _r = platform_errors, registry_errors

STATUS: Final[Mapping[type[Exception], grpc.StatusCode]] = MappingProxyType(
    {
        # the call
        _p.InvalidFieldError: _S.INVALID_ARGUMENT,
        _p.ResourceNotFoundError: _S.NOT_FOUND,
        _p.RequestIdReusedError: _S.ALREADY_EXISTS,
        _p.BlobTooLargeError: _S.RESOURCE_EXHAUSTED,
        _p.BlobMismatchError: _S.INVALID_ARGUMENT,
        _p.OffsetError: _S.OUT_OF_RANGE,
        _p.TooManyCallsError: _S.RESOURCE_EXHAUSTED,
        _p.BusyCallerError: _S.RESOURCE_EXHAUSTED,
        _p.LateRequestError: _S.DEADLINE_EXCEEDED,
        _p.QuotaError: _S.RESOURCE_EXHAUSTED,
        _p.ChecksFullError: _S.RESOURCE_EXHAUSTED,
        _p.CheckBoundError: _S.INVALID_ARGUMENT,
        _p.CallTooLongError: _S.DEADLINE_EXCEEDED,
        _p.ReportRefusedError: _S.INVALID_ARGUMENT,
        _p.IssuanceRefusedError: _S.INVALID_ARGUMENT,
        # the caller
        _p.UnauthenticatedError: _S.UNAUTHENTICATED,
        _p.PlaintextRefusedError: _S.UNAUTHENTICATED,
        _p.PermissionDeniedError: _S.PERMISSION_DENIED,
        _p.SignInRefusedError: _S.PERMISSION_DENIED,
        _p.OwnApprovalError: _S.PERMISSION_DENIED,
        # the state
        _p.IllegalTransitionError: _S.FAILED_PRECONDITION,
        _p.VersionRevokedError: _S.FAILED_PRECONDITION,
        _p.NotReleasedError: _S.FAILED_PRECONDITION,
        _p.BreakingSignatureError: _S.FAILED_PRECONDITION,
        _p.StaleProposalError: _S.FAILED_PRECONDITION,
        _p.StaleEtagError: _S.ABORTED,
        _p.UploadBusyError: _S.UNAVAILABLE,
        _p.FeatureBusyError: _S.FAILED_PRECONDITION,
        _p.ValuesOverriddenError: _S.FAILED_PRECONDITION,
        _p.ResultsRefusedError: _S.FAILED_PRECONDITION,
        _p.AggregatorsMissingError: _S.FAILED_PRECONDITION,
        _p.WindowCollectedError: _S.FAILED_PRECONDITION,
        _p.OverlappingClaimError: _S.FAILED_PRECONDITION,
        _p.LayerExistsError: _S.ALREADY_EXISTS,
        _p.MetricDeprecatedError: _S.FAILED_PRECONDITION,
        _p.HoldoutRaisedError: _S.FAILED_PRECONDITION,
        _p.ReadoutRunningError: _S.FAILED_PRECONDITION,
        _p.BelowMinVersionError: _S.FAILED_PRECONDITION,
        _p.NoDefaultVersionError: _S.FAILED_PRECONDITION,
        _p.ShareNotRaisedError: _S.FAILED_PRECONDITION,
        _p.ApprovalRequiredError: _S.FAILED_PRECONDITION,
        _p.SessionError: _S.FAILED_PRECONDITION,
        _p.OverrideRequiredError: _S.FAILED_PRECONDITION,
        # the server itself: these stop it at its start
        _p.KeyWithinReachError: _S.INTERNAL,
        _p.OnlineKeyError: _S.INTERNAL,
        _p.RepositoryMissingError: _S.INTERNAL,
        _p.DataFolderBusyError: _S.INTERNAL,
        _p.TlsFilesError: _S.INTERNAL,
        _p.OtherStoreError: _S.INTERNAL,
        _p.SchemaTooNewError: _S.INTERNAL,
        _p.CertificateListError: _S.INTERNAL,
        _p.ProviderSettingsError: _S.INTERNAL,
        _p.AggregatorFileError: _S.INTERNAL,
        _p.AlertsFileError: _S.INTERNAL,
        _p.PeerUnavailableError: _S.UNAVAILABLE,
        _p.IngressFailedError: _S.INTERNAL,
        _p.ConsoleFailedError: _S.INTERNAL,
        _p.TracingMissingError: _S.INTERNAL,
        _p.ServerStoppingError: _S.UNAVAILABLE,
        _p.ServerFullError: _S.RESOURCE_EXHAUSTED,
        _p.StoreDamagedError: _S.INTERNAL,
        _p.StoreOccupiedError: _S.INTERNAL,
        _p.BackupError: _S.INTERNAL,
        _p.RestoreRefusedError: _S.INTERNAL,
        # the server, for a moment
        _p.StoreBusyError: _S.UNAVAILABLE,
        _p.StoreFullError: _S.UNAVAILABLE,
        _p.StoreUnavailableError: _S.UNAVAILABLE,
        # registry: what was sent is not acceptable
        _r.DocumentError: _S.INVALID_ARGUMENT,
        _r.DocumentTooLargeError: _S.INVALID_ARGUMENT,
        _r.SignatureError: _S.PERMISSION_DENIED,
        _r.ExpiredMetadataError: _S.FAILED_PRECONDITION,
        _r.RollbackError: _S.FAILED_PRECONDITION,
        _r.MissingTargetError: _S.NOT_FOUND,
        _r.IntegrityError: _S.INVALID_ARGUMENT,
        _r.AudienceError: _S.INVALID_ARGUMENT,
        _r.AudienceSyntaxError: _S.INVALID_ARGUMENT,
        _r.UnknownAttributeError: _S.INVALID_ARGUMENT,
        _r.AttributeValueError: _S.INVALID_ARGUMENT,
        _r.EmptyAudienceError: _S.INVALID_ARGUMENT,
        _r.DimensionError: _S.INVALID_ARGUMENT,
        _r.WrongSubjectError: _S.INVALID_ARGUMENT,
        _r.MetadataError: _S.INVALID_ARGUMENT,
        _r.PackageError: _S.INVALID_ARGUMENT,
        _r.DeltaError: _S.INVALID_ARGUMENT,
        _r.ProgramRefusedError: _S.INVALID_ARGUMENT,
        # registry: the tree's state
        _r.PublishError: _S.FAILED_PRECONDITION,
        _r.VersionExistsError: _S.ALREADY_EXISTS,
        _r.StaleMetadataError: _S.ABORTED,
        _r.MissingBlobError: _S.FAILED_PRECONDITION,
        _r.VersionHaltedError: _S.FAILED_PRECONDITION,
        _r.FeatureUnknownError: _S.NOT_FOUND,
        # registry: the server's disk, keys and network; repeating may help
        _r.StorageError: _S.UNAVAILABLE,
        _r.FetchError: _S.UNAVAILABLE,
        _r.SigningError: _S.UNAVAILABLE,
        _r.KeyFileError: _S.INTERNAL,
        _r.ReadOnlyRepositoryError: _S.INTERNAL,
        # statistics
        stats_errors.AggregateError: _S.INTERNAL,
        stats_errors.ArgumentError: _S.INTERNAL,
    }
)


def status_of(error: Exception) -> grpc.StatusCode | None:
    """Return the status of a domain error, or None for anything else."""
    return STATUS.get(type(error))
