"""One shop for all tests of the command line: keys, tokens, programs and a running server, all made by commands."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.runtime.testing import samples

from tests.platform.cli.terminal import Shop, alcove

FACTORY = '''
"""A small model of somebody's own."""
import torch
from torch import nn


class Polite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(16, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.out(torch.relu(self.hidden(x))), dim=-1)


def make(seed: int = 1):
    torch.manual_seed(seed)
    samples = [(torch.rand(1, 16),) for _ in range(3)]
    return Polite(), (torch.zeros(1, 16),), samples


def other():
    return make(seed=2)


def nonsense():
    return 42
'''


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The ceremony, two tokens, two programs, and `alcove serve`."""
    folder = tmp_path_factory.mktemp("shop")
    data_dir = folder / "server"
    for arguments in (
        (
            "keys",
            "create",
            folder / "keys",
            "--data-dir",
            data_dir,
            "--team",
            "writing=polite,kind,planned,adjusted,first,compared",
        ),
        ("token", "create", "--data-dir", data_dir, "--role", "operator", "--out", folder / "operator.token"),
        ("token", "create", "--data-dir", data_dir, "--role", "team:writing", "--out", folder / "team.token"),
    ):
        said = alcove(*arguments)
        assert said.code == 0, said.err
    (folder / "polite_model.py").write_text(FACTORY)
    command = [sys.executable, "-W", "error", "-m", "alcove.platform.cli.entry", "serve"]
    places = ["--data-dir", str(data_dir), "--keys", str(folder / "server-keys")]
    options = [*places, "--grpc-port", "0", "--http-port", "0", "--no-console", "--behind-proxy", "127.0.0.1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (folder / "log").read_text()
    ready = json.loads(line)
    yield Shop(folder, ready["grpc"], ready["http"])
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.fixture(scope="session")
def programs(shop: Shop) -> tuple[Path, Path]:
    """Two programs, compiled by the command from a file outside of the repository."""
    paths = shop.folder / "one.alc", shop.folder / "two.alc"
    for path, factory in zip(paths, ("make", "other"), strict=True):
        said = alcove("model", "export", f"{shop.folder}/polite_model.py:{factory}", "--out", path, "--json")
        assert said.code == 0, said.err
        assert said.json["size_bytes"] == path.stat().st_size
    return paths


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """A small text model."""
    path = tmp_path / "classifier.alc"
    path.write_bytes(samples()["classifier_int8"])
    return path
