"""Who is calling, and may they?  Tokens, roles, and the table of what each role may do."""

from alcove.platform.auth.permissions import PERMISSIONS, Permission, require
from alcove.platform.auth.principal import Principal, Role, current_principal
from alcove.platform.auth.tokens import IssuedToken, authenticate, issue_token

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
