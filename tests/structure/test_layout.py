"""The layout that the build, the import system and the type checkers rely on."""

import subprocess
import sys
import tomllib
from pathlib import Path

PACKAGES = ("kernels", "runtime", "privacy", "features", "registry", "platform", "sdk")


def test_platform_is_no_regular_package(repository: Path) -> None:
    """`platform/__init__.py` must not exist: it would hide Python's own `platform` from what starts at the root."""
    assert not (repository / "platform" / "__init__.py").exists()
    code = "import platform, sys; sys.exit(not hasattr(platform, 'python_version'))"
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, check=False).returncode == 0


def test_every_other_package_is_regular(repository: Path) -> None:
    """Every folder with Python in it has an `__init__.py`, except `platform/` itself."""
    for package in PACKAGES:
        for folder in {path.parent for path in (repository / package).rglob("*.py")} - {repository / "platform"}:
            assert (folder / "__init__.py").exists(), f"{folder.relative_to(repository)} has no __init__.py"


def test_tests_are_no_packages(repository: Path) -> None:
    """Nothing under `tests/` has an `__init__.py` (pytest imports by path)."""
    assert not list((repository / "tests").rglob("__init__.py"))


def test_the_wheel_maps_every_package(repository: Path) -> None:
    """The build's table names all packages, and nothing else."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    table = project["tool"]["scikit-build"]["wheel"]["packages"]
    assert table == {f"alcove/{package}": package for package in PACKAGES}


def test_every_package_promises_its_types(repository: Path) -> None:
    """Each package ships a `py.typed`, so that users' type checkers read our annotations."""
    for package in PACKAGES:
        assert (repository / package / "py.typed").exists(), f"{package}/py.typed is missing"


def test_torch_is_pinned(repository: Path) -> None:
    """With no exact pin pip would take gigabytes of GPU packages."""
    assert "torch==2.13.0" in (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_every_requirement_is_pinned(repository: Path) -> None:
    """Each requirement of pyproject.toml has its exact version in the constraints file."""
    names = subprocess.run(
        [sys.executable, "tools/requirements.py"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.split()
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    for requirement in names:
        name = requirement.split(">=")[0].split("==")[0].split("[")[0].lower()
        assert name in pinned, f"{requirement} is not pinned"
