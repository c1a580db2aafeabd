"""Defines what a caller may not do: bring another token."""

from collections.abc import Sequence

from alcove.platform.domain.errors.root import PlatformError


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


class SignInRefusedError(IdentityError):
    """What is to prove a person to the console does not hold, or nobody gave that person access."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class OwnApprovalError(IdentityError):
    """The person who asks for something cannot be the second person who approves it."""

    def __init__(self, what: str, principal: str) -> None:
        self.what, self.principal = what, principal
        super().__init__(f"{what} was asked for by {principal}: somebody else must approve it")
