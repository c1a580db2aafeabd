"""The import contracts of pyproject.toml hold, and what they cannot express is checked here."""

import ast
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGES = ("kernels", "runtime", "privacy", "features", "registry", "sdk", "platform")
DEVICE_SIDE = {"runtime", "privacy", "registry", "sdk", "features"}
FEATURE_TOOLS = {"train.py", "runs.py", "cross_validate.py", "evaluate.py"}  # how weights and cards were made
SOCKET_MODULES = {"socket", "http", "urllib", "urllib3", "requests", "asyncio.streams", "ssl", "ftplib", "smtplib"}
EGRESS = "sdk/egress.py"


def imported_modules(path: Path) -> set[str]:
    """Names of all modules that a file imports, at any depth of nesting, `TYPE_CHECKING` blocks left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def is_feature_tool(relative: str) -> bool:
    """Whether a file is one of a feature's tools."""
    return relative.startswith("features/") and relative.rsplit("/", 1)[-1] in FEATURE_TOOLS


def sources(repository: Path) -> list[tuple[Path, str]]:
    """Every Python file of the packages, with its path relative to the repository."""
    files = [path for package in PACKAGES for path in sorted((repository / package).rglob("*.py"))]
    return [(path, path.relative_to(repository).as_posix()) for path in files]


def test_what_an_app_runs_imports_no_feature_tool(repository: Path) -> None:
    """Training and evaluation, which may show progress on a terminal, are imported by each other alone."""
    for path, relative in sources(repository):
        if relative.startswith("features/") and not is_feature_tool(relative):
            tools = {name for name in imported_modules(path) if name.split(".")[-1] + ".py" in FEATURE_TOOLS}
            assert not tools, f"{relative} imports {sorted(tools)}"


def test_sockets_are_opened_in_one_sdk_module(repository: Path) -> None:
    """Besides the servers, only `sdk/egress.py` imports anything that can open a connection."""
    for path, relative in sources(repository):
        if relative.split("/", 1)[0] in DEVICE_SIDE and relative != EGRESS:
            names = {name for name in imported_modules(path) if name.split(".")[0] in SOCKET_MODULES}
            assert names <= {"urllib.parse"} | {n for n in names if n.startswith("urllib.parse")}, (
                f"{relative} imports {sorted(names)}; only {EGRESS} may"
            )


@pytest.fixture(name="check")
def _check(repository: Path) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """`tools/imports.py`, which `make lint` runs."""
    return runpy.run_path(str(repository / "tools" / "imports.py"))["check_imports"]  # type: ignore[no-any-return]


@pytest.fixture(name="copy")
def _copy(tmp_path: Path, repository: Path) -> Path:
    """All Python files of the packages, where they may be changed."""
    for package in PACKAGES:
        shutil.copytree(repository / package, tmp_path / "alcove" / package, ignore=everything_but_python)
    return tmp_path


def everything_but_python(_: str, names: list[str]) -> set[str]:
    """Return the names in a folder that are neither a folder's nor a Python file's."""
    return {name for name in names if "." in name and not name.endswith(".py")}


def test_the_contracts_of_imports_hold(copy: Path, check: Callable[[Path], subprocess.CompletedProcess[str]]) -> None:
    """Packages and the rings inside the platform import downwards only, and nothing imports in a circle."""
    found = check(copy)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("import alcove.sdk\n", "runtime/wrong.py"),
        ("def f():\n    from alcove.platform.stats import compare\n", "sdk/wrong.py"),
        ("from alcove.registry import repository\n", "privacy/wrong.py"),
        ("from alcove.platform.store import Store\n", "platform/domain/wrong.py"),
        ("from alcove.platform.server import serve\n", "platform/services/wrong.py"),
        ("from alcove.features import language_id\n", "platform/server/wrong.py"),
        ("from alcove.platform.store import Store\n", "platform/console/wrong.py"),
        ("from alcove.platform.ingress.settings import IngressSettings\n", "platform/console/wrong.py"),
        ("import grpc\n", "sdk/wrong.py"),
    ],
)
def test_an_import_against_the_contracts_is_caught(
    copy: Path, check: Callable[[Path], subprocess.CompletedProcess[str]], source: str, place: str
) -> None:
    """The check itself sees imports upwards, nested ones too."""
    (copy / "alcove" / place).write_text(source, encoding="utf-8")
    found = check(copy)
    assert found.returncode != 0
    assert place.removesuffix(".py").replace("/", ".") in found.stdout, found.stdout + found.stderr
