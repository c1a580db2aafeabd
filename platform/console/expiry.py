"""Says how near an end is: of signatures, keys, tokens and certificates.  Pure."""

from typing import Final

from alcove.platform.client import Trust, TrustedRole

__all__ = ["DAY_S", "needs_people", "renewal_command", "validity", "validity_of_role", "words_of"]

DAY_S: Final = 86_400
SOON_S: Final = 30 * DAY_S  # people have time for a ceremony
NOW_S: Final = 7 * DAY_S
LATE_SHARE: Final = 4  # the server renews at half of a life: at a quarter it has failed to
WORRYING: Final = ("ends soon", "ends this week", "not renewed", "expired")


def validity(left_s: int) -> str:
    """Return how near an end is that people can move: "valid", "ends soon" (30 days), "ends this week" or "expired"."""
    if left_s <= 0:
        return "expired"
    if left_s <= NOW_S:
        return "ends this week"
    return "ends soon" if left_s <= SOON_S else "valid"


def validity_of_role(role: TrustedRole, now_s: int) -> str:
    """Return how near the end of a role's signature is; the server's own are valid until it is late."""
    left_s = role.expires_at_s - now_s
    if role.holder != "online" or left_s <= 0:
        return validity(left_s)
    is_late = left_s * LATE_SHARE < role.expires_at_s - role.signed_at_s
    return "not renewed" if is_late else "valid"


def needs_people(trust: Trust) -> list[TrustedRole]:
    """Return the roles whose signature is about to end or has ended, the most urgent first."""
    found = [role for role in trust.roles if validity_of_role(role, trust.now_s) != "valid"]
    return sorted(found, key=lambda role: role.expires_at_s)


def renewal_command(role: TrustedRole) -> str:
    """Return the first command of a renewal; "": the server renews the role itself."""
    if role.holder == "online":
        return ""
    return f"alcove keys renew {role.role}.change --data-dir DATA_DIR --role {role.role}"


def words_of(left_s: int) -> str:
    """Return how long something still holds, or how long ago it ended, in one unit."""
    size_s = abs(left_s)
    unit_s, unit = next(((one, name) for one, name in _UNITS if size_s >= one), _UNITS[-1])
    count = size_s // unit_s
    said = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{said} ago" if left_s < 0 else f"in {said}"


_UNITS: Final = ((2 * 365 * DAY_S, "year"), (DAY_S, "day"), (3600, "hour"), (60, "minute"))
