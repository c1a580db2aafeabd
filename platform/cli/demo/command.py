"""`alcove demo`: reads the options, and gives the exit code and the record."""

from __future__ import annotations

import json
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class DemoMechanism(StrEnum):
    """Mechanisms that the demo shows, by their names in `alcove.platform.stats.Mechanism`."""

    PRIO3 = "prio3"
    RANDOMIZED_RESPONSE = "randomized-response"


def demo_command(
    *,
    devices: Annotated[
        int, typer.Option(min=1, max=200, help="Number of devices that run in a process of their own.")
    ] = 24,
    fleet: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Number of devices that run in this process.")
    ] = 20_000,
    mechanism: Annotated[
        DemoMechanism,
        typer.Option(help="How reports become sums: by two aggregators (prio3), or randomized on each device."),
    ] = DemoMechanism.PRIO3,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="File to write the result to, as JSON.")
    ] = None,
    given_folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Write all into this empty folder, and leave it there."),
    ] = None,
    is_kept: Annotated[
        bool, typer.Option("--keep", help="Stay up after the last step, with the console, until Ctrl-C.")
    ] = False,
    swap: Annotated[bool, typer.Option("--swap", help="Publish the larger model as the control.")] = False,
    canary: Annotated[str, typer.Option(help="Text added to everything that is typed, to search for.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Also run every feature on real input.")] = False,
) -> None:
    """Show the main job, end to end: publish, try on devices, decide from private reports, ramp, refuse a forgery.

    Exits with 0 only if all steps held.
    """
    # Client, server and runtime at once: other commands should not wait for them.
    from alcove.platform.cli.demo.display import Display  # noqa: PLC0415
    from alcove.platform.cli.demo.scenario import REFUSED, Scenario  # noqa: PLC0415
    from alcove.platform.cli.demo.settings import DemoSettings  # noqa: PLC0415
    from alcove.platform.cli.demo.staying import stay_up  # noqa: PLC0415
    from alcove.platform.stats import Mechanism  # noqa: PLC0415

    if given_folder is not None and given_folder.exists() and any(given_folder.iterdir()):
        raise typer.BadParameter(f"{given_folder} is not empty", param_hint="--folder")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{json_file.absolute().parent} is no folder", param_hint="--json")
    with tempfile.TemporaryDirectory(prefix="alcove-demo-") as temporary:
        folder = given_folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        display = Display()
        settings = DemoSettings(
            folder,
            devices=devices,
            fleet=fleet,
            mechanism=Mechanism(mechanism),
            is_swapped=swap,
            canary=canary,
        )
        story = Scenario(settings, display, stay_up if is_kept else None)
        try:
            with display:
                story.run()
        except REFUSED as error:
            story.result.error = f"{type(error).__name__}: {error}"
        except BaseException as error:
            story.result.error = type(error).__name__
            raise
        finally:
            if json_file is not None:
                record = json.dumps(story.result.as_json(), indent=2)
                json_file.write_text(record + "\n", encoding="utf-8")
        if not story.has_stayed:
            display.show(story.result)
        if every:
            from alcove.platform.cli.demo.features import show_all  # noqa: PLC0415

            show_all(display.console)
        raise typer.Exit(0 if story.result.has_held else 1)
