"""Defines the verbs of the `alcove` command, runs a command line and returns its exit code.

A verb's module is loaded when it is asked for: one command does not wait for the libraries of all others.
"""

import sys
from importlib import import_module
from types import MappingProxyType
from typing import Final

import typer
from alcove.platform.cli.options import CommandGroup

__all__ = ["VERBS", "app_of", "run"]

VERBS: Final = MappingProxyType(
    {
        "serve": ("serve", "serve_command"),
        "demo": ("demo.command", "demo_command"),
        "bench": ("bench", "bench_command"),
        "simulate": ("simulate", "simulate"),
        "feature": ("feature", "app"),
        "keys": ("keys", "app"),
        "token": ("token", "app"),
        "audit": ("audit", "app"),
        "model": ("model", "app"),
        "rollout": ("rollout", "app"),
        "experiment": ("experiment", "app"),
        "layer": ("policy", "layers"),
        "holdout": ("policy", "holdouts"),
        "registry": ("registry", "app"),
    }
)
"""Module below this package and name in it, by verb; a group of verbs is a `Typer`, a single one a function."""


def app_of(verb: str | None) -> typer.Typer:
    """Return the command with one verb loaded, or with all where there is no such verb (help, a misspelling)."""
    app = CommandGroup(
        name="alcove",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _alcove() -> None:
        """Compile, certify, sign, ship, compare and run models that stay on the device."""

    for name, (module, attribute) in VERBS.items():
        if verb in VERBS and name != verb:
            continue
        found = getattr(import_module(f"alcove.platform.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; return its exit code.  What a user can cause is told in a sentence, not in a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["serve"]:
        from alcove.platform.core.log import silence_grpc  # noqa: PLC0415 - only a server's lines are all JSON

        silence_grpc()
    try:
        ended = app_of(given[0] if given else None)(given, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        from alcove.platform.cli.failures import explain  # noqa: PLC0415 - loads what may fail: server and runtime
        from alcove.platform.cli.output import say_text  # noqa: PLC0415 - loads rich

        told = explain(error)
        if told is None:
            raise
        message, code = told
        if message:
            say_text(f"alcove: {message}", err=True)
        return code
    return ended if isinstance(ended, int) else 0
