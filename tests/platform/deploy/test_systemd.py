"""deploy/systemd: the units are what systemd reads, and confine what they start."""

import configparser
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from alcove.platform.cli.main import app_of

from tools.test_packages import find_tool

UNITS = ("alcove-grpc.service", "alcove-ingress.service", "alcove-backup.service")
EXPOSURE_MOST = 15  # tenths of systemd's own measure; 100 is a unit without any confinement


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    """Where the units are."""
    return repository / "deploy/systemd"


@pytest.mark.needs("systemd-analyze")
def test_units_are_read_without_a_warning(folder: Path, tmp_path: Path) -> None:
    """With a program that is here in the place of the one that is installed."""
    for path in [*folder.glob("*.service"), *folder.glob("*.timer")]:
        text = path.read_text(encoding="utf-8").replace("/opt/alcove/bin/alcove", sys.executable)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    (tool,) = find_tool("systemd-analyze") or []
    names = sorted(str(path) for path in tmp_path.iterdir())
    assert len(names) == len(UNITS) + 1
    done = subprocess.run([tool, "verify", "--man=no", *names], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_units_are_confined(folder: Path, name: str) -> None:
    """What a broken-in process could reach, by systemd's own measure, is below the bound."""
    (tool,) = find_tool("systemd-analyze") or []
    command = [tool, "security", "--offline=yes", f"--threshold={EXPOSURE_MOST}", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("systemd-analyze")
def test_users_of_the_units_can_be_made(folder: Path, tmp_path: Path) -> None:
    """systemd-sysusers takes every line: it leaves out one that it does not, and its user."""
    (tool,) = find_tool("systemd-analyze") or []
    (tmp_path / "etc").mkdir()
    command = [str(Path(tool).with_name("systemd-sysusers")), f"--root={tmp_path}", str(folder / "alcove.sysusers")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    users = [line.split(":")[0] for line in (tmp_path / "etc/passwd").read_text(encoding="utf-8").splitlines()]
    assert users == ["alcove", "alcove-devices"]


@pytest.mark.parametrize("name", UNITS)
def test_commands_of_units_parse(folder: Path, name: str) -> None:
    """Each ExecStart is a command of alcove, with options that it takes."""
    text = (folder / name).read_text(encoding="utf-8").replace("\\\n", " ")
    root: Any = typer.main.get_command(app_of(None))
    lines = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart")]
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "/opt/alcove/bin/alcove"
        command = root
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_teams_process_may_confine_its_children(folder: Path) -> None:
    """Programs are checked behind a filter of their own (seccomp), which systemd's list of a service leaves out."""
    assert "SystemCallFilter=seccomp " in (folder / "alcove-grpc.service").read_text(encoding="utf-8")


def test_devices_process_can_read_no_key(folder: Path) -> None:
    """Another user, no folder of keys, nothing that it may write."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string((folder / "alcove-ingress.service").read_text(encoding="utf-8").replace("\\\n", " "))
    service = unit["Service"]
    assert service["User"] == "alcove-devices"
    assert "-/etc/alcove/online" in service["InaccessiblePaths"].split()
    assert "/var/lib/alcove" in service["ReadOnlyPaths"].split()
    assert "ReadWritePaths" not in service
    assert "StateDirectory" not in service
