"""`alcove registry`: is everything in the signed tree what was signed?"""

from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.failures import FAILED
from alcove.platform.cli.output import AsJson, print_json, print_rows
from alcove.registry.checks import check_tree
from alcove.registry.clock import SYSTEM_CLOCK
from alcove.registry.tree import Tree

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Look after the signed tree.")


@app.callback()
def registry() -> None:
    """Look after the signed tree."""


@app.command("check")
def check(
    *,
    data_dir: Annotated[Path, typer.Option(help="The server's data folder.")],
    as_json: AsJson = False,
) -> None:
    """Verify every signature, date, manifest, policy and blob; exit code 1 if anything is wrong."""
    folder = data_dir / "tree"
    report = check_tree(folder, Tree(folder).blobs, now_s=SYSTEM_CLOCK.now_s())
    problems = [
        {"thing": item.thing, "error": type(item.error).__name__, "what": str(item.error)} for item in report.problems
    ]
    if as_json:
        print_json(
            {
                "is_sound": report.is_sound,
                "roles": report.role_count,
                "targets": report.target_count,
                "blobs": report.blob_count,
                "problems": problems,
            }
        )
    else:
        typer.echo(
            f"{report.role_count} roles, {report.target_count} documents and {report.blob_count} blobs are as signed"
        )
        print_rows(problems, as_json=False, empty="nothing is wrong")
    if not report.is_sound:
        raise typer.Exit(FAILED)
