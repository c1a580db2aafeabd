"""How do the command line, the demo and other programs talk to the server?  Typed calls over gRPC."""

from alcove.platform.client.client import PlatformClient
from alcove.platform.client.errors import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    DeadlineError,
    FailedPreconditionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RemoteInternalError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from alcove.platform.client.models import (
    Arm,
    ArmDifference,
    ArmResult,
    Decision,
    Estimate,
    Experiment,
    ExperimentReport,
    Results,
    Rollout,
    Variant,
    Version,
)
from alcove.platform.client.push import push_package

__all__ = [
    "AlreadyExistsError",
    "Arm",
    "ArmDifference",
    "ArmResult",
    "ClientError",
    "ConflictError",
    "DeadlineError",
    "Decision",
    "Estimate",
    "Experiment",
    "ExperimentReport",
    "FailedPreconditionError",
    "InvalidRequestError",
    "NotFoundError",
    "PermissionDeniedError",
    "PlatformClient",
    "RemoteInternalError",
    "Results",
    "Rollout",
    "TooLargeError",
    "UnauthenticatedError",
    "UnavailableError",
    "Variant",
    "Version",
    "push_package",
]
