"""The layout that the build, the import system and the type checkers rely on."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tools import lock

PACKAGES = ("kernels", "runtime", "privacy", "features", "registry", "platform", "sdk")


def test_platform_is_no_regular_package(repository: Path) -> None:
    """`platform/__init__.py` must not exist: it would hide Python's own `platform` from what starts at the root."""
    assert not (repository / "platform" / "__init__.py").exists()
    code = "import platform, sys; sys.exit(not hasattr(platform, 'python_version'))"
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, check=False).returncode == 0


def test_alcove_itself_holds_no_module(repository: Path) -> None:
    """`namespace/alcove/` is `alcove`: its version, its command, its promise of types; all else is in the packages."""
    names = {path.name for path in (repository / "namespace" / "alcove").iterdir()} - {"__pycache__"}
    assert names == {"__init__.py", "__main__.py", "py.typed"}


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
    assert table == {"alcove": "namespace/alcove"} | {f"alcove/{package}": package for package in PACKAGES}


def test_every_package_promises_its_types(repository: Path) -> None:
    """Each package ships a `py.typed`, so that users' type checkers read our annotations."""
    for package in PACKAGES:
        assert (repository / package / "py.typed").exists(), f"{package}/py.typed is missing"


def test_torch_is_pinned(repository: Path) -> None:
    """With no exact pin pip would take gigabytes of GPU packages."""
    assert "torch==2.13.0" in (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_every_requirement_is_pinned(repository: Path) -> None:
    """Each requirement of pyproject.toml has its exact version in the constraints file."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    pinned = lock.read_pins((repository / "constraints.txt").read_text(encoding="utf-8"))
    for requirement in (line for group in groups for line in group if not line.startswith("alcove-sdk[")):
        name = requirement.split(">=")[0].split("==")[0].split("[")[0].lower().replace(".", "-")
        assert name in pinned, f"{requirement} is not pinned"


def test_every_pin_is_locked_by_digest(repository: Path) -> None:
    """`make setup` takes no file whose SHA-256 nobody wrote down, and no other version than constraints.txt says."""
    pinned = lock.read_pins((repository / "constraints.txt").read_text(encoding="utf-8"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in lock.LOCKS.glob("*.txt")}
    assert set(texts) == {"requirements.txt", "server.txt", "torch.txt", "torch-cpu.txt"}
    for read in (lock.read_pins, lock.read_hashes):
        assert read(texts["server.txt"]).items() <= read(texts["requirements.txt"]).items(), "of another make lock"
    needed = {re.match(r"[\w.-]+", name)[0].replace(".", "-") for name in lock.server_requirements()}  # type: ignore[index]
    assert needed <= lock.read_pins(texts["server.txt"]).keys()
    assert lock.read_pins(texts["requirements.txt"]) == {name: pinned[name] for name in pinned if name != "torch"}
    for name, version in lock.read_pins(texts["torch.txt"]).items():
        assert pinned.get(name, version) == version
    for text in texts.values():
        hashes = lock.read_hashes(text)
        assert hashes.keys() == lock.read_pins(text).keys()
        assert all(hashes.values()), "a pin without a digest"
