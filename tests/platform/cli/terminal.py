"""Runs `alcove` commands in this process, and returns their exit code, standard output and standard error."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import typer
from alcove.platform.cli import entry, main


class Said(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


def alcove(*arguments: object, **variables: str) -> Said:
    """Run a command line in this process, in a terminal so wide that no path is wrapped; variables are its own."""
    out, err = io.StringIO(), io.StringIO()
    environment = mock.patch.dict(os.environ, COLUMNS="400", **variables)
    with environment, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = entry.main([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Shop:
    """A folder with keys, programs and a running server, all made by commands."""

    folder: Path
    server: str
    http: str

    def operator(self, *arguments: object) -> Said:
        """Run a command as an operator."""
        return alcove(*arguments, "--server", self.server, "--token-file", self.folder / "operator.token")

    def team(self, *arguments: object) -> Said:
        """Run a command as the team."""
        return alcove(*arguments, "--server", self.server, "--token-file", self.folder / "team.token")

    def release(self, *versions: str, feature: str = "polite") -> None:
        """Have pushed versions validated, and release them."""
        for version in versions:
            ok(self.team("model", "validate", f"{feature}@{version}"))
            ok(self.team("model", "release", f"{feature}@{version}", "--reason", "for a test"))


def leaves(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its path."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(leaves(typer.main.get_command(main.app_of(None))))


def ok(said: Said) -> Said:
    """Return what a command said, which must have succeeded."""
    assert said.code == 0, said.err
    return said
