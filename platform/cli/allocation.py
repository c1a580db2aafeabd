"""Reads how a bandit may move the shares of arms, and prints how it did."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.metric_units import is_in_ms
from alcove.platform.cli.output import percent, print_table, say, when
from alcove.platform.cli.shares import share_basis_points

if TYPE_CHECKING:
    from alcove.platform.client import AllocationView, Bandit, Experiment

__all__ = ["AllocationKind", "MaxStep", "MinShare", "bandit_of", "show_allocation"]

AllocationKind = Annotated[
    Literal["fixed", "bandit"] | None,
    typer.Option(
        "--allocation",
        help="bandit: once a day the server moves shares towards the arm that is likely to be the best one (Thompson "
        "sampling); no winner is named then. fixed (the default): shares stay, and tests decide.",
    ),
]
MinShare = Annotated[
    str | None,
    typer.Option("--min-share", metavar="SHARE", help="Least share that a bandit leaves each arm; 10% if not given."),
]
MaxStep = Annotated[
    str | None,
    typer.Option("--max-step", metavar="SHARE", help="Most that a bandit changes a share in a day; 10% if not given."),
]


def bandit_of(kind: str | None, min_share: str | None, max_step: str | None) -> "Bandit | None":
    """Return the bandit that the options ask for; None: shares are fixed.

    Raises:
        typer.BadParameter: a share is none, or a bound is given without a bandit.
    """
    from alcove.platform.client import Bandit  # noqa: PLC0415 - loads gRPC

    if kind != "bandit":
        if min_share is not None or max_step is not None:
            raise typer.BadParameter("--min-share and --max-step belong to --allocation bandit")
        return None
    return Bandit(
        min_share_basis_points=share_basis_points(min_share) if min_share else 0,
        max_step_basis_points=share_basis_points(max_step) if max_step else 0,
    )


def show_allocation(experiment: "Experiment", view: "AllocationView") -> None:
    """Print the shares since the start, why they stay if they do, and the expected regret."""
    names = [arm.name for arm in experiment.arms]
    rows = [
        [
            str(change.first_window),
            when(change.changed_at_s),
            *(percent(share) for share in change.shares_basis_points),
            ", ".join(f"{chance:.1%}" for chance in change.chances) or "-",
            f"{change.report_count:,}",
        ]
        for change in view.changes
    ]
    say("shares by a bandit, which names no winner; chances are those to be the best arm, in the order of the arms:")
    print_table(["from window", "set", *names, "chances", "reports"], rows)
    if view.held:
        say(f"shares stayed when they were last looked at: {name_arms(view.held, experiment.arms)}")
    if view.expected_regret is not None:
        now = _amount(experiment, view.expected_regret)
        say(f"expected regret with these shares: {now} for each report")
    if view.regret_so_far is not None and view.fixed_regret_so_far is not None:
        unit = "ms" if is_in_ms(experiment.primary) else "reports"
        say(
            f"expected regret of all reports so far: {view.regret_so_far:,.1f} {unit}; "
            f"{view.fixed_regret_so_far:,.1f} if the first shares had stayed"
        )


def _amount(experiment: "Experiment", value: float) -> str:
    return f"{value:.3g} ms" if is_in_ms(experiment.primary) else f"{100 * value:.3f} points"
