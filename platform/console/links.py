"""Finds the page of what an entry of the audit log is about."""

import re
from typing import Final

__all__ = ["path_of_object"]

_ADDRESSES: Final = (
    (re.compile(r"(ro-[A-Za-z0-9_-]{1,60})"), "/rollouts/{}"),
    (re.compile(r"(ex-[A-Za-z0-9_-]{1,60})"), "/experiments/{}"),
    (re.compile(r"([a-z][a-z0-9_]{0,63}) (\d+\.\d+\.\d+)"), "/features/{}/versions/{}"),
    (re.compile(r"([a-z][a-z0-9_]{0,63})@[a-z0-9_-]+"), "/features/{}"),
)
_FEATURE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_APP: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FEATURE_ACTIONS: Final = frozenset({"set rules", "create metric", "deprecate metric"})
_APP_ACTIONS: Final = frozenset({"create layer", "set holdout", "override values", "clear override", "reinstate"})
_KEY_ACTIONS: Final = frozenset({"create token", "renew token", "revoke token"})


def path_of_object(action: str, subject: str) -> str:
    """Return the address of the page of what was changed; "": it has none, or is gone."""
    if action.startswith("delete "):
        return ""
    for pattern, address in _ADDRESSES:
        if match := pattern.fullmatch(subject):
            return address.format(*match.groups())
    name = subject.partition("/")[0]
    if action in _FEATURE_ACTIONS and _FEATURE.fullmatch(name):
        return f"/features/{name}"
    if action in _APP_ACTIONS and _APP.fullmatch(name):
        return f"/policies/{name}"
    return "/trust" if action in _KEY_ACTIONS else ""
