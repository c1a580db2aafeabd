"""Makes the time line of a rollout: where it was, where it is, where it goes, and who moved it.

What was comes from the audit log, what will be from the plan:

    draft ─▶ stage 1 ─▶ … ─▶ the present one ─▶ stages to come ─▶ all devices | an end
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from alcove.platform.client import AuditLine, Rollout, StagePlan
from alcove.platform.console.pages.rollouts.words import reason_of, say_duration, say_who
from alcove.platform.console.rendering import show_share

__all__ = ["Move", "Step", "make_timeline"]

ALL: Final = 10_000  # basis points
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "create rollout": "created it",
        "update rollout": "changed the plan or the audience",
        "propose advance": "proposed to advance",
        "advance rollout": "advanced it",
        "pause rollout": "paused it",
        "resume rollout": "resumed it",
        "rollback rollout": "rolled it back",
        "halt rollout": "halted it",
        "raise alarm": "raised an alarm",
    }
)
ENDS: Final[Mapping[str, str]] = MappingProxyType({"rollback rollout": "Rolled back", "halt rollout": "Halted"})


@dataclass(frozen=True)
class Move:
    """What somebody did, when and why; `action` is the audit log's word, `words` what people read."""

    at_s: int
    who: str
    action: str
    words: str
    reason: str


@dataclass
class Step:
    """One place on the way.

    Attributes:
        title: what people read, with its share.
        share_basis_points: of the devices, in 1/10 000.
        when: whether it lies behind, is where the rollout stands, or comes.
        bounds: what it takes to leave it, in words; "": nothing.
        moves: that happened there, the oldest first; the first one led to it.
    """

    title: str
    share_basis_points: int
    when: Literal["past", "now", "to come"] = "past"
    bounds: str = ""
    moves: list[Move] = field(default_factory=list)


def make_timeline(rollout: Rollout, history: Sequence[AuditLine]) -> list[Step]:
    """Return the steps of a rollout.

    Args:
        rollout: as it is.
        history: lines of the audit log about it, the newest first.
    """
    steps = [Step("Draft", 0)]
    reached = 0
    for line in reversed(history):
        if line.action == "advance rollout":
            reached += 1
            steps.append(_stage(rollout, reached, _share(line.details, "to_basis_points")))
        elif line.action in ENDS:
            steps.append(Step(ENDS[line.action], 0))
        steps[-1].moves.append(_move(line))
    steps[-1].when = "now"
    if rollout.state in ("draft", "running", "paused"):
        steps += _coming(rollout)
    return steps


def _stage(rollout: Rollout, number: int, share: int) -> Step:
    stages = rollout.plan.stages
    plan = stages[number - 1] if number <= len(stages) else None
    name = "All devices" if share == ALL and not rollout.audience else f"Stage {number}" if plan else "Step"
    return Step(f"{name}: {show_share(share)}", share, bounds="" if plan is None else _bounds(plan))


def _bounds(stage: StagePlan) -> str:
    bounds = [f"lasts at least {say_duration(stage.minimum_s)}"] if stage.minimum_s else []
    if stage.minimum_cohort:
        bounds.append(f"at least {stage.minimum_cohort:,} devices in each group".replace(",", " "))
    return ", ".join(bounds)


def _coming(rollout: Rollout) -> list[Step]:
    coming = []
    for number in range(rollout.stage + 1, len(rollout.plan.stages) + 1):
        step = _stage(rollout, number, rollout.plan.stages[number - 1].share_basis_points)
        step.when = "to come"
        coming.append(step)
    last = coming[-1].share_basis_points if coming else rollout.share_basis_points
    if rollout.plan.stages and last < ALL:
        name = f"All of the audience: {show_share(ALL)}" if rollout.audience else f"All devices: {show_share(ALL)}"
        coming.append(Step(name, ALL, "to come"))
    return coming


def _move(line: AuditLine) -> Move:
    words = WORDS.get(line.action, line.action)
    share = _share(line.details, "to_basis_points")
    if share:
        words += f" to {show_share(share)}"
    approver = line.details.get("approved_by")
    if approver:
        words += f", approved by {approver}"
    return Move(line.at_s, say_who(line.who), line.action, words, reason_of(line))


def _share(details: Mapping[str, Any], name: str) -> int:
    share = details.get(name)
    return share if isinstance(share, int) else 0
