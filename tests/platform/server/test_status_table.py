"""Every domain error has a status, and each status has a typed error on the client's side."""

from collections.abc import Iterator

import grpc
import pytest
from alcove.platform.client import errors as client_errors
from alcove.platform.domain import errors as platform_errors
from alcove.platform.server.status import STATUS, status_of
from alcove.platform.stats import errors as stats_errors
from alcove.registry import errors as registry_errors

ROOTS = (platform_errors.PlatformError, registry_errors.RegistryError, stats_errors.StatsError)
# Roots and branches that are never raised themselves.
ABSTRACT = {
    platform_errors.PlatformError,
    platform_errors.CallError,
    platform_errors.IdentityError,
    platform_errors.StateError,
    platform_errors.ServerError,
    registry_errors.RegistryError,
    stats_errors.StatsError,
}


def descendants(kind: type[Exception]) -> Iterator[type[Exception]]:
    """The class and all classes below it."""
    yield kind
    for child in kind.__subclasses__():
        yield from descendants(child)


def test_every_error_class_of_platform_registry_and_statistics_has_a_status() -> None:
    """A new error class without a line in the table fails here, not in front of a user."""
    classes = {kind for root in ROOTS for kind in descendants(root) if kind.__module__.startswith("alcove.")}
    missing = sorted(f"{kind.__module__}.{kind.__name__}" for kind in classes - ABSTRACT - STATUS.keys())
    assert not missing, missing
    assert not STATUS.keys() - classes


def test_a_gap_in_the_table_is_seen() -> None:
    """The walk itself finds classes that nobody wrote down."""

    class ForgottenError(platform_errors.StateError):
        """Written down nowhere."""

    assert ForgottenError in set(descendants(platform_errors.PlatformError))
    assert status_of(ForgottenError()) is None


def test_an_error_that_is_no_domain_error_has_no_status() -> None:
    """What is in no table is INTERNAL: its words stay in the log."""
    assert status_of(KeyError("secret")) is None


@pytest.mark.parametrize("status", sorted({status.name for status in STATUS.values()}))
def test_every_status_that_the_server_sends_has_a_typed_client_error(status: str) -> None:
    """No status of the table arrives as a nameless failure."""
    kind = client_errors._CLASSES.get(grpc.StatusCode[status], client_errors.RemoteInternalError)
    assert issubclass(kind, client_errors.ClientError)
    assert (kind is client_errors.RemoteInternalError) == (status == "INTERNAL")
