"""Authenticates callers and says what each may do: tokens, roles, and the permissions of each role."""

from alcove.platform.domain.permissions import PERMISSIONS, Permission, require
from alcove.platform.domain.principal import Principal, Role, current_principal
from alcove.platform.services.auth.tokens import IssuedToken, authenticate, issue_token

__all__ = [
    "PERMISSIONS",
    "IssuedToken",
    "Permission",
    "Principal",
    "Role",
    "authenticate",
    "current_principal",
    "issue_token",
    "require",
]
