"""Says in a sentence what went wrong, and what to do about it."""

from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from alcove.platform.client import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    DeadlineError,
    FailedPreconditionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    TooLargeError,
    TooManyCallsError,
    UnauthenticatedError,
    UnavailableError,
)

__all__ = ["Problem", "problem_of", "problem_of_http"]


@dataclass(frozen=True)
class Problem:
    """What a page says instead of what was asked for.

    Attributes:
        status: of the answer.
        title: what happened, a few words.
        detail: what the server says: the thing, the bound and the value.
        remedy: what to do, a sentence.
        kind: the server's name of the error; "": it was no error of a call.
        retry_s: seconds after which the page asks again by itself; 0: it does not.
    """

    status: HTTPStatus
    title: str
    detail: str
    remedy: str
    kind: str = ""
    retry_s: int = 0

    def to_json(self) -> dict[str, object]:
        """Return it as programs read it."""
        return {"error": {"kind": self.kind, "title": self.title, "detail": self.detail, "remedy": self.remedy}}


_S = HTTPStatus
# The first class that fits, from the most special on.
_CLASSES: tuple[tuple[type[ClientError], HTTPStatus, str, str], ...] = (
    (NotFoundError, _S.NOT_FOUND, "Not found", "Check the address, or go back to the list."),
    (PermissionDeniedError, _S.FORBIDDEN, "Not allowed", "Ask somebody whose role may do this."),
    (UnauthenticatedError, _S.UNAUTHORIZED, "Signed out", "Sign in again with an API token."),
    (InvalidRequestError, _S.BAD_REQUEST, "Not acceptable", "Correct the value that is named and send it again."),
    (AlreadyExistsError, _S.CONFLICT, "Already there", "Load the page again to see what is there."),
    (ConflictError, _S.CONFLICT, "Somebody was faster", "Load the page again, and decide on what it shows now."),
    (FailedPreconditionError, _S.CONFLICT, "Not now", "Load the page again: its state allows other steps."),
    (TooManyCallsError, _S.TOO_MANY_REQUESTS, "Too many requests", "Wait a moment and try again."),
    (TooLargeError, _S.REQUEST_ENTITY_TOO_LARGE, "Too large", "Ask for less at once."),
    (DeadlineError, _S.GATEWAY_TIMEOUT, "No answer in time", "Sending the same form again is safe."),
    (UnavailableError, _S.SERVICE_UNAVAILABLE, "The server does not answer", "This page asks again by itself."),
)


def problem_of(error: ClientError) -> Problem:
    """Return what a page says of a call that failed."""
    for kind, status, title, remedy in _CLASSES:
        if isinstance(error, kind):
            retry_s = 5 if kind is UnavailableError else 0
            return Problem(status, title, error.message, remedy, error.kind or error.status, retry_s)
    remedy = "Try again; if it stays, the server's log says more."
    return Problem(_S.BAD_GATEWAY, "The server failed", error.message, remedy, error.kind or error.status)


def problem_of_http(error: web.HTTPException) -> Problem:
    """Return what a page says of a request that is none of the console's."""
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        return Problem(status, "Not found", "There is no page at this address.", "Go to the start page.")
    if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return Problem(status, "Too large", "The form is longer than forms of this console are.", "Send less.")
    detail = error.text or status.phrase
    return Problem(status, status.phrase, detail, "Go back and load the page again.")
