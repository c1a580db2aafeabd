"""Which verbs has the `alcove` command, and how do they end?"""

import sys

import typer
from alcove.platform.cli import audit, bench, experiment, feature, keys, model, registry, rollout, serve, token
from alcove.platform.cli.demo.command import demo_command
from alcove.platform.cli.failures import explain

__all__ = ["app", "run"]

app = typer.Typer(
    name="alcove",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compile, certify, sign, ship, compare and run models that stay on the device.",
)
app.command("serve")(serve.serve_command)
app.command("demo")(demo_command)
app.command("bench")(bench.bench_command)
app.add_typer(feature.app, name="feature")
app.add_typer(keys.app, name="keys")
app.add_typer(token.app, name="token")
app.add_typer(audit.app, name="audit")
app.add_typer(model.app, name="model")
app.add_typer(rollout.app, name="rollout")
app.add_typer(experiment.app, name="experiment")
app.add_typer(registry.app, name="registry")


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; return its exit code.  What a user can cause is told in a sentence, not in a traceback."""
    try:
        app(arguments, standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        told = explain(error)
        if told is None:
            raise
        message, code = told
        sys.stderr.write(f"alcove: {message}\n")
        return code
    return 0
