"""Accepts audiences, and says which may take the place of another while devices are in it.

A device that takes part shows that it is in the audience, so an audience should be large.  How many devices meet one is
known to nobody here; what can be known is how finely it is cut: memory is compared in steps, as devices do, and no
audience names more than `AUDIENCE_ATTRIBUTES_MAX` attributes.
"""

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.limits import AUDIENCE_ATTRIBUTES_MAX
from alcove.registry.errors import AudienceError, AudienceSyntaxError
from alcove.registry.policy.attributes import MEMORY_STEPS_MB, RANGED
from alcove.registry.policy.audience import Audience, Interval, both
from alcove.registry.policy.audience_text import parse_audience

__all__ = ["parse_optional_audience", "validate_audience", "validate_wider"]


def validate_audience(text: str) -> str:
    """Return an audience in its one spelling; "": every device.

    Raises:
        InvalidFieldError: it cannot be read, names an unknown attribute, nobody could be in it, or it is cut too
            finely.
    """
    if not text.strip():
        return ""
    try:
        audience = parse_audience(text)
    except AudienceSyntaxError as error:
        raise InvalidFieldError("audience", f"{error.expected} at character {error.position + 1}", text) from None
    except AudienceError as error:
        raise InvalidFieldError("audience", f"what devices can meet ({error})", text) from None
    if len(audience.constraints) > AUDIENCE_ATTRIBUTES_MAX:
        bound = f"an audience of at most {AUDIENCE_ATTRIBUTES_MAX} attributes: more leave too few devices"
        raise InvalidFieldError("audience", bound, text)
    memory = dict(audience.constraints).get("memory_mb")
    if isinstance(memory, Interval):
        ends = {memory.low, memory.high} - {RANGED["memory_mb"]}
        if not ends <= set(MEMORY_STEPS_MB):
            steps = ", ".join(map(str, MEMORY_STEPS_MB[1:]))
            raise InvalidFieldError("audience", f"memory_mb from and below one of {steps}", text)
    return str(audience)


def parse_optional_audience(text: str) -> Audience | None:
    """Return what a checked text means; None: every device."""
    return parse_audience(text) if text else None


def validate_wider(before: str, after: str) -> None:
    """Let the audience of a live rollout grow; both texts are checked.

    Raises:
        InvalidFieldError: a device would be left out that takes part now.
    """
    if not after:
        return
    bound = f"{before or 'every device'} and more, while the rollout is live"
    narrow, wide = parse_optional_audience(before), parse_audience(after)
    try:
        grows = narrow is not None and both(narrow, wide) == narrow
    except AudienceError:  # they share no device
        grows = False
    if not grows:
        raise InvalidFieldError("audience", bound, after)
