"""Which audiences are accepted, and which may take the place of another while devices are in it?"""

from alcove.platform.core.errors import InvalidFieldError
from alcove.registry.errors import AudienceError
from alcove.registry.policy.audience import Audience, both
from alcove.registry.policy.audience_text import parse_audience

__all__ = ["audience_of", "check_wider", "checked_audience"]


def checked_audience(text: str) -> str:
    """Return an audience in its one spelling; "": every device.

    Raises:
        InvalidFieldError: it cannot be read, names an unknown attribute, or nobody could be in it.
    """
    try:
        return str(parse_audience(text)) if text.strip() else ""
    except AudienceError as error:
        raise InvalidFieldError("audience", f"an audience: {error}", text) from None


def audience_of(text: str) -> Audience | None:
    """Return what a checked text means; None: every device."""
    return parse_audience(text) if text else None


def check_wider(before: str, after: str) -> None:
    """Let the audience of a live rollout grow; both texts are checked.

    Raises:
        InvalidFieldError: a device would be left out that takes part now.
    """
    if not after:
        return
    bound = f"{before or 'every device'} and more, while the rollout is live"
    narrow, wide = audience_of(before), parse_audience(after)
    try:
        grows = narrow is not None and both(narrow, wide) == narrow
    except AudienceError:  # they share no device
        grows = False
    if not grows:
        raise InvalidFieldError("audience", bound, after)
