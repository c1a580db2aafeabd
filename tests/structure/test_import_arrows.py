"""The table of folders in docs/architecture.md is the architecture: arrows between packages point one way."""

import ast
from pathlib import Path

import pytest

# package → packages it may import (itself always); `api` is what proto/ generates.
ARROWS: dict[str, set[str]] = {
    "kernels": set(),
    "runtime": {"kernels"},
    "privacy": set(),
    "features": {"runtime"},
    "registry": {"api", "runtime"},
    "sdk": {"features", "runtime", "privacy", "registry"},
    "platform": {"api", "registry", "privacy", "runtime"},
}
COMPOSITION_ROOT = "platform/cli"  # the one place that may import everything
DEVICE_SIDE = {"runtime", "privacy", "registry", "sdk", "features"}
SERVER_ONLY = {"grpc", "sqlalchemy", "alembic", "aiohttp", "typer", "rich", "structlog"}
DEVELOPER_TOOLS = ("runtime/coverage/",)  # shipped with the exporter, run by us, never by an app
FEATURE_TOOLS = {"train.py", "evaluate.py"}  # of each feature: how its weights and its card were made
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


def arrow_violations(path: Path, relative: str) -> list[str]:
    """Imports of alcove packages that the table does not allow."""
    package = relative.split("/", 1)[0]
    if relative.startswith(COMPOSITION_ROOT):
        return []
    targets = {name.split(".")[1] for name in imported_modules(path) if name.startswith("alcove.")}
    return [f"{relative} imports alcove.{target}" for target in sorted(targets - ARROWS[package] - {package})]


def is_feature_tool(relative: str) -> bool:
    """Whether a file is one of a feature's tools."""
    return relative.startswith("features/") and relative.rsplit("/", 1)[-1] in FEATURE_TOOLS


def sources(repository: Path) -> list[tuple[Path, str]]:
    """Every Python file of the packages, with its path relative to the repository."""
    files = [path for package in ARROWS for path in sorted((repository / package).rglob("*.py"))]
    return [(path, path.relative_to(repository).as_posix()) for path in files]


def test_arrows_point_one_way(repository: Path) -> None:
    """No package imports another that the table does not name."""
    found = [line for path, relative in sources(repository) for line in arrow_violations(path, relative)]
    assert not found, "\n".join(found)


def test_device_side_never_imports_server_libraries(repository: Path) -> None:
    """What an app carries needs no gRPC, no database and no web server."""
    for path, relative in sources(repository):
        is_tool = relative.startswith(DEVELOPER_TOOLS) or is_feature_tool(relative)
        if relative.split("/", 1)[0] in DEVICE_SIDE and not is_tool:
            tops = {name.split(".")[0] for name in imported_modules(path)}
            assert not tops & SERVER_ONLY, f"{relative} imports {sorted(tops & SERVER_ONLY)}"


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


@pytest.mark.parametrize(
    ("source", "relative"),
    [
        ("import alcove.sdk\n", "runtime/wrong.py"),
        ("def f():\n    from alcove.platform.stats import compare\n", "sdk/wrong.py"),
        ("from alcove.registry import tree\n", "privacy/wrong.py"),
    ],
)
def test_a_wrong_arrow_is_caught(tmp_path: Path, source: str, relative: str) -> None:
    """The check itself sees imports against the arrows, nested ones too."""
    path = tmp_path / "wrong.py"
    path.write_text(source, encoding="utf-8")
    assert arrow_violations(path, relative)
