"""A feature of someone else's: made in a folder outside the repository, shipped by README's own commands."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from alcove.platform.cli.demo.testing import Environment
from alcove.sdk import Client, UnknownFeatureError

ALCOVE = Path(sys.executable).parent / "alcove"


def alcove(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in `folder`; fails the test with what it printed."""
    done = subprocess.run(
        [ALCOVE, *arguments], cwd=folder, check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"alcove {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done


@contextmanager
def run_registry(folder: Path) -> Iterator[dict[str, str]]:
    """`alcove serve` on ports that the system chose; yields its ready line."""
    ports = ["--grpc-port", "0", "--http-port", "0", "--no-console"]
    command: list[str | Path] = [ALCOVE, "serve", "--data-dir", "server", *ports]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        try:
            ready: dict[str, str] = json.loads(process.stdout.readline())
            yield ready
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


def block(readme: str, language: str, containing: str) -> str:
    """The code block of README.md in `language` that contains a text."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL)
    (found,) = [text for text in blocks if containing in text]
    return found


@pytest.fixture
def readme(repository: Path) -> str:
    """README.md."""
    return (repository / "README.md").read_text(encoding="utf-8")


def refuses_a_second_push(folder: Path, line: str, server: str) -> None:
    """Check that a version that exists is immutable: the command says so, names it, and exits with an error."""
    (folder / "other.md").write_text("# Another card\n", encoding="utf-8")
    command: list[str | Path] = [ALCOVE, *line.split()[1:], "--card", "other.md"]
    environment = {**os.environ, "ALCOVE_SERVER": server}
    again = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=environment)
    assert again.returncode != 0
    assert "polite" in again.stderr
    assert "1.0.0" in again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.thorough
def test_the_readme_takes_a_foreign_feature_from_torch_to_a_prediction(tmp_path: Path, readme: str) -> None:
    """Every command of "In a product team" works in an empty folder, and the SDK answers as torch does."""
    (tmp_path / "polite.py").write_text(block(readme, "python", "# polite.py"), encoding="utf-8")
    lines = [line.split("  #")[0].strip() for line in block(readme, "sh", "alcove keys create").splitlines()]
    commands = [line for line in lines if line and not line.endswith("&") and "--help" not in line]
    before, after = commands[:3], commands[3:]
    assert [line.split()[1] for line in before + after] == ["keys", "token", "token", *["model"] * 6, "rollout"]

    def run(line: str, **environment: str) -> None:
        arguments = re.findall(r'"([^"]*)"|(\S+)', line)
        alcove(tmp_path, *[quoted or bare for quoted, bare in arguments][1:], **environment)

    for line in before:
        run(line)
    with run_registry(tmp_path) as ready:
        for line in after:
            run(line, ALCOVE_SERVER=ready["grpc"])
        refuses_a_second_push(tmp_path, next(line for line in after if " push " in line), ready["grpc"])
        root = tmp_path / "server" / "tree" / "metadata" / "1.root.json"
        with Client("notes", tmp_path / "device", ready["http"], root) as client:
            with pytest.raises(UnknownFeatureError):
                client.feature("polite")
            result = client.sync()
            assert result.error is None
            polite = client.feature("polite")
            x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
            answer = polite.predict(x)
            assert (answer.version, answer.error) == ("1.0.0", None)

    namespace: dict[str, object] = {}
    exec((tmp_path / "polite.py").read_text(encoding="utf-8"), namespace)
    module, _ = namespace["feature"]()  # type: ignore[operator]
    with torch.inference_mode():
        expected = module(torch.from_numpy(x)).numpy()
    assert answer.value is not None
    (value,) = answer.value.values()
    np.testing.assert_allclose(value, expected, atol=1e-6)


def test_the_readme_shows_a_working_use_of_the_sdk(
    tmp_path: Path, readme: str, world: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example for apps runs as it stands, with this server, folder and root in the place of its own."""
    code = block(readme, "python", "from alcove.sdk import Client")
    for example, ours in (
        ('Path("~/.messenger/alcove").expanduser()', f"Path({str(tmp_path)!r})"),
        ("https://models.example.org", world.server.http),
        ('Path("root.json")', f"Path({str(world.places.root)!r})"),
    ):
        assert example in code
        code = code.replace(example, ours)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    namespace["client"].close()
    printed = capsys.readouterr().out
    assert printed.startswith("de ")
    assert "PrivacySummary" in printed
