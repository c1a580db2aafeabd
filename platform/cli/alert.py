"""`alcove alert`: shows what was sent of alerts, sends it again, and tries where they go."""

import asyncio
import secrets
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from alcove.platform.cli.connection import Database
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, Wide, print_json, print_rows, say, when
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from alcove.platform.alerts.outcomes import Outcome
    from alcove.platform.store.alerts import Delivery

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="See what was sent of alerts, send it again, and try where they go.")

DataDir = Annotated[Path, typer.Option(help="The server's data folder.")]


class State(StrEnum):
    """Which deliveries are listed."""

    OPEN = "open"
    WAITING = "waiting"
    DEAD = "dead"
    DELIVERED = "delivered"
    ALL = "all"


@app.callback()
def alert() -> None:
    """See what was sent of alerts, send it again, and try where they go."""


@app.command("list")
def list_command(
    *,
    data_dir: DataDir,
    database: Database = None,
    state: Annotated[State, typer.Option(help="Which to list; open: those that wait and those given up.")] = State.OPEN,
    to: Annotated[str, typer.Option(help="List only what goes to this destination of alerts.toml.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number to list.")] = 50,
    is_wide: Wide = False,  # noqa: ARG001 - its callback is what it does
    as_json: AsJson = False,
) -> None:
    """List deliveries, the newest first: what, to whom, how often tried, and why the last attempt failed."""
    from alcove.platform.services.alerts import list_local_deliveries  # noqa: PLC0415 - help needs no database
    from alcove.platform.store.alerts import DeliveryState  # noqa: PLC0415

    chosen = {
        State.OPEN: [DeliveryState.WAITING, DeliveryState.DEAD],
        State.ALL: list(DeliveryState),
    }.get(state) or [DeliveryState(state.value)]
    found = list_local_deliveries(data_dir, chosen, destination=to, limit=limit, database=database)
    if as_json:
        print_json([_plain(each) for each in found])
        return
    rows = [
        {
            "number": each.sequence,
            "when": when(each.alert.at_s),
            "event": each.alert.kind,
            "subject": each.alert.subject,
            "to": each.destination,
            "state": each.state,
            "attempts": each.attempts,
            "problem": each.problem or "-",
        }
        for each in found
    ]
    print_rows(rows, as_json=False, empty="nothing waits, and nothing was given up" if state is State.OPEN else "none")


@app.command("show")
def show_command(
    number: Annotated[int, typer.Argument(help="Number of the delivery (alcove alert list).")],
    *,
    data_dir: DataDir,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show one delivery: what it says, and what came of it."""
    from alcove.platform.services.alerts import get_local_delivery  # noqa: PLC0415

    found = get_local_delivery(data_dir, number, database=database)
    if as_json:
        print_json(_plain(found))
        return
    say(found.alert.summary)
    for name, value in _plain(found).items():
        if name not in ("summary", "facts"):
            say(f"{name.removesuffix('_s').replace('_', ' ')}: {when(value) if name.endswith('_s') else value}")
    for name, value in found.alert.facts:
        say(f"{name.replace('_', ' ')}: {value}")


@app.command("retry")
def retry_command(
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER...", help="Numbers of the deliveries (alcove alert list).")
    ] = None,
    *,
    data_dir: DataDir,
    database: Database = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="Send again everything that was given up.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let the server send deliveries again, under the same ids."""
    if bool(numbers) == all_dead:
        problem = "name the numbers of deliveries, or --all-dead"
        raise typer.BadParameter(problem, param_hint="NUMBER")
    from alcove.platform.services.alerts import retry_local_deliveries  # noqa: PLC0415

    retried = retry_local_deliveries(data_dir, None if all_dead else numbers, database=database)
    if as_json:
        print_json([_plain(each) for each in retried])
        return
    count = len(retried)
    say(f"{count} deliver{'y' if count == 1 else 'ies'} will be sent again by the server")


@app.command("test")
def try_command(
    *,
    config: Annotated[Path, typer.Option(help="alerts.toml, as alcove serve --alerts reads it.")],
    to: Annotated[str, typer.Option(help="Try this destination alone.")] = "",
    as_json: AsJson = False,
) -> None:
    """Send a test to each destination now, from this machine, and say whether it arrived; fails where one did not."""
    from alcove.platform.alerts.config import read_alerts_config  # noqa: PLC0415
    from alcove.platform.alerts.running import make_port  # noqa: PLC0415
    from alcove.platform.domain.alerts.conditions import alert_of_test  # noqa: PLC0415

    wanted = read_alerts_config(config)
    chosen = [each for each in wanted.destinations if to in ("", each.name)]
    if not chosen:
        names = ", ".join(each.name for each in wanted.destinations)
        problem = f"one of {names}; got {to!r}"
        raise typer.BadParameter(problem, param_hint="--to")
    example = alert_of_test(wanted.source, now_s=SYSTEM_CLOCK.now_s(), unique=secrets.token_hex(8))

    async def send() -> "list[Outcome]":
        ports = [make_port(each, source=wanted.source, console=wanted.console, clock=SYSTEM_CLOCK) for each in chosen]
        return await asyncio.gather(*(port.send(example) for port in ports))

    outcomes = asyncio.run(send())
    rows = [
        {"to": each.name, "outcome": "failed" if outcome.problem else "delivered", "problem": outcome.problem or "-"}
        for each, outcome in zip(chosen, outcomes, strict=True)
    ]
    print_rows(rows, as_json=as_json, empty="")
    if any(outcome.problem for outcome in outcomes):
        raise typer.Exit(1)


def _plain(each: "Delivery") -> dict[str, Any]:
    """Return a delivery as plain JSON values."""
    alert = each.alert
    return {
        "number": each.sequence,
        "alert_id": alert.alert_id,
        "event": alert.kind,
        "subject": alert.subject,
        "app": alert.app,
        "feature": alert.feature,
        "summary": alert.summary,
        "facts": dict(alert.facts),
        "happened_at_s": alert.at_s,
        "to": each.destination,
        "state": each.state,
        "attempts": each.attempts,
        "next_at_s": each.next_at_s,
        "ended_at_s": each.ended_at_s,
        "problem": each.problem,
    }
