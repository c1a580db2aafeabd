"""Says in words where a rollout stands, what an analysis found and how long something lasts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from alcove.platform.client import AuditLine, Rollout
from alcove.platform.console.rendering import show_share

__all__ = ["DECISIONS", "MECHANISMS", "SERVER", "VERDICTS", "describe_state", "reason_of", "say_duration", "say_who"]

SERVER: Final = "server/rollouts"  # who does what happens by itself, in the audit log
DECISIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "wait": "The stage is younger than its minimum.",
        "hold": "Not safe yet: the share stays.",
        "ready": "Every guardrail is within its margin: it may advance.",
        "harm": "A guardrail is beyond its margin.",
        "timeout": "The stage was not found safe in time.",
        "alarm": "Devices cannot have sent these reports.",
    }
)
VERDICTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "safe": "within its margin",
        "harmful": "worse than its margin allows",
        "inconclusive": "not known yet",
    }
)
MECHANISMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "prio3": "two aggregators add up reports that neither can read (Prio3)",
        "randomized_response": "each device reports a randomized cell (randomized response)",
    }
)
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def describe_state(rollout: Rollout) -> str:
    """Return where a rollout stands: "running at 10 %, stage 1"."""
    words = f"{rollout.state.replace('_', ' ')} at {show_share(rollout.share_basis_points)}"
    if rollout.proposal is not None:
        words += f", {show_share(rollout.proposal.share_basis_points)} proposed"
    return words + (f", stage {rollout.stage}" if rollout.stage else "")


def say_duration(seconds: int) -> str:
    """Return a duration in its largest unit that divides it: "2 days", "36 hours"."""
    size, name = next(unit for unit in _UNITS if seconds % unit[0] == 0)
    count = seconds // size
    return f"{count:,} {name}{'' if count == 1 else 's'}".replace(",", " ")


def say_who(principal: str) -> str:
    """Return who did something; what happened by itself was the server's doing."""
    return "the server, as the plan says" if principal == SERVER else principal


def reason_of(line: AuditLine) -> str:
    """Return why something was done, as the audit log has it; "": it has no reason."""
    details: Mapping[str, Any] = line.details
    reason = details.get("reason") or details.get("override_reason") or details.get("signature_override_reason")
    if reason:
        return str(reason)
    analysis = details.get("analysis")
    if isinstance(analysis, Mapping):
        return str(analysis.get("reason", ""))
    if analysis:
        return str(analysis)
    winner = details.get("winner_of")
    return f"winner of experiment {winner}" if winner else ""
