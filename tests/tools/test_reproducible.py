"""Two builds of the wheel are the same bytes, and differences between two archives are named."""

import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_two_builds_of_the_wheel_are_the_same_bytes(repository: Path) -> None:
    """In other folders, with other times, umask, zone, locale and number of compilers."""
    command = [sys.executable, "-m", "tools.reproducible"]
    done = subprocess.run(command, check=False, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("twice")


def test_differences_of_two_archives_are_named(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content, names, order, times, modes, what is around them."""
    monkeypatch.syspath_prepend(str(repository))
    differing = import_module("tools.reproducible").differing

    def archive(*files: tuple[str, str], year: int = 1980, mode: int = 0o644, comment: bytes = b"") -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.whl"
        with zipfile.ZipFile(path, "w") as result:
            result.comment = comment
            for name, text in files:
                member = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
                member.external_attr = mode << 16
                result.writestr(member, text)
        return path

    one = archive(("a", "1"), ("b", "2"))
    assert differing(one, archive(("a", "1"), ("b", "2"))) == []
    assert differing(one, archive(("a", "1"), ("b", "3"))) == ["b"]
    assert differing(one, archive(("a", "1"), ("c", "2"))) == ["b", "c"]
    assert differing(one, archive(("b", "2"), ("a", "1"))) == ["order"]
    assert differing(one, archive(("a", "1"), ("b", "2"), year=1981)) == ["time of a", "time of b"]
    assert differing(one, archive(("a", "1"), ("b", "2"), mode=0o600)) == ["mode of a", "mode of b"]
    assert differing(one, archive(("a", "1"), ("b", "2"), comment=b"made here")) == ["archive"]
