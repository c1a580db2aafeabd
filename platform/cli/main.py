"""Defines the verbs of the `alcove` command, runs a command line and returns its exit code.

A verb's module is loaded when it is asked for: one command does not wait for the libraries of all others.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from alcove import __version__
from alcove.platform.cli.examples import add_examples
from alcove.platform.cli.exit_codes import MISUSED
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.summaries import SUMMARIES

__all__ = ["VERBS", "app_of", "run"]

VERBS: Final = MappingProxyType(
    {
        "serve": ("serve", "serve_command"),
        "server": ("server", "app"),
        "demo": ("demo.command", "demo_command"),
        "bench": ("bench", "bench_command"),
        "simulate": ("simulate", "simulate"),
        "feature": ("feature", "app"),
        "keys": ("keys", "app"),
        "token": ("token", "app"),
        "access": ("access", "app"),
        "audit": ("audit", "app"),
        "alert": ("alert", "app"),
        "login": ("login", "login"),
        "profile": ("login", "profiles"),
        "model": ("model", "app"),
        "rollout": ("rollout", "app"),
        "experiment": ("experiment", "app"),
        "override": ("override", "app"),
        "metric": ("metric", "app"),
        "layer": ("policy", "layers"),
        "holdout": ("readouts", "holdouts"),
        "policy": ("policies", "policies"),
        "registry": ("registry", "app"),
        "aggregator": ("aggregator", "app"),
        "completion": ("completion", "completion"),
    }
)
"""Module below this package and name in it, by verb; a group of verbs is a `Typer`, a single one a function."""

SERVER_ONLY: Final = frozenset(
    {
        "aiohttp",
        "aiosqlite",
        "alembic",
        "grpc_health",
        "grpc_reflection",
        "obstore",
        "prometheus_client",
        "psycopg",
        "sqlalchemy",
    }
)
"""Libraries that only a machine which runs the server has; the others' verbs need none of them."""


_ANYTHING: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


def outline() -> typer.Typer:
    """Return the command with the names of all verbs and what each is for: enough for help and for a misspelling."""
    app = _make_root()
    for name in VERBS:

        def stub() -> None:
            """Do nothing: help is all that is shown of it."""

        stub.__doc__ = SUMMARIES.get(name, "")
        app.command(name)(stub)
    return app


def _make_root() -> CommandGroup:
    app = CommandGroup(
        name="alcove",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _alcove(
        *,
        is_version: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        """Compile, certify, sign, ship, compare and run models that stay on the device."""

    return app


def app_of(verb: str | None = None, subverb: str | None = None) -> typer.Typer:
    """Return the command with one verb loaded, or with all where there is no such verb.

    Of a verb whose module has a `make_app` only the command `subverb` is loaded, where it has one of this name.
    """
    app = _make_root()
    for name, (module, attribute) in VERBS.items():
        if verb in VERBS and name != verb:
            continue
        try:
            loaded = import_module(f"alcove.platform.cli.{module}")
            found = loaded.make_app(subverb) if hasattr(loaded, "make_app") else getattr(loaded, attribute)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in SERVER_ONLY:
                raise
            found = _missing(name, library)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            is_stub = found.__module__ == __name__
            app.command(name, context_settings=_ANYTHING if is_stub else None)(found)
    add_examples(app)
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from alcove.platform.cli.output import say_text  # noqa: PLC0415 - loads rich

        say_text(f"alcove {__version__}")
        raise typer.Exit


def explain_missing_extra(command: str, library: str) -> str:
    """Return the sentence about a library of the server that is not installed."""
    return f"{command}: needs the server's libraries: pip install 'alcove-platform[server]' (missing: {library})"


def _missing(verb: str, library: str) -> Callable[[typer.Context], None]:
    """Return a command in the place of one whose libraries are not installed; it says what installs them."""

    def refuse(context: typer.Context) -> None:
        """Needs the server's libraries: pip install 'alcove-platform[server]'."""
        from alcove.platform.cli.output import say_text  # noqa: PLC0415 - loads rich

        say_text(explain_missing_extra(f"alcove {verb}", library), err=True)
        context.exit(2)

    return refuse


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; return its exit code.  An error that a user can cause is one sentence, not a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's own lines are neither JSON nor for people
    try:
        ended = _app_for(given)(given, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        from alcove.platform.cli.output import say_text  # noqa: PLC0415 - loads rich
        from alcove.platform.cli.usage import UsageError, explain_usage  # noqa: PLC0415

        if isinstance(error, UsageError):
            say_text(explain_usage(error), err=True)
            return MISUSED
        from alcove.platform.cli.failures import explain  # noqa: PLC0415 - loads what may fail: server and runtime

        if isinstance(error, ModuleNotFoundError) and (library := (error.name or "").partition(".")[0]) in SERVER_ONLY:
            say_text(explain_missing_extra("alcove", library), err=True)
            return 2
        explained = explain(error, options_of(given))
        if explained is None:
            raise
        message, code = explained
        if message:
            say_text(f"alcove: {message}", err=True)
        return code
    return ended if isinstance(ended, int) else 0


def _app_for(given: list[str]) -> typer.Typer:
    """Return as much of the command as a command line needs."""
    return app_of(*given[:2]) if given and given[0] in VERBS else outline()


def options_of(given: list[str]) -> set[str]:
    """Return the options of the command that a command line runs; none where it runs none."""
    command: Any = typer.main.get_command(_app_for(given))
    for word in given:
        command = getattr(command, "commands", {}).get(word, command)
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
