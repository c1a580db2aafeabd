"""Names the arms in sentences of the server, which numbers them."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.platform.client import Arm

__all__ = ["name_arms"]

_ARM: Final = re.compile(r"\barm (\d+)\b", re.ASCII)
"""How the server's reasons name an arm: by its number."""


def name_arms(text: str, arms: "Sequence[Arm]") -> str:
    """Return a sentence in which "arm 0" is the name of the first arm; a number that no arm has stays."""
    return _ARM.sub(lambda found: f"arm {arms[int(found[1])].name}" if int(found[1]) < len(arms) else found[0], text)
