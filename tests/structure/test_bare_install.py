"""A phone is not a server: what the bare install holds, loads and says."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SERVER_SIDE = ("torch", "grpc", "sqlalchemy", "typer", "rich", "aiohttp", "obstore", "alembic", "google")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A fresh environment with the built wheel and its bare requirements; returns its `bin` folder."""
    folder = tmp_path_factory.mktemp("bare")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(repository)]
    subprocess.run([*build, f"--config-settings=build-dir={folder}/build"], check=True)
    venv.create(folder / "env", with_pip=True)
    (wheel,) = folder.glob("alcove-*.whl")
    install = [
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "-c",
        str(repository / "constraints.txt"),
    ]
    subprocess.run([folder / "env/bin/python", *install, wheel], check=True)
    return folder / "env" / "bin"


def run(bare: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the bare environment, away from the checkout."""
    return subprocess.run(
        [bare / arguments[0], *arguments[1:]], check=False, capture_output=True, text=True, cwd=bare, timeout=60
    )


def test_the_sdk_works_without_torch_and_grpc(bare: Path) -> None:
    """The SDK imports, and a baseline answers, with no server-side library installed."""
    code = (
        "import sys, tempfile, pathlib\n"
        "from alcove.sdk import Client\n"
        "root = pathlib.Path(tempfile.mkdtemp())\n"
        "client = Client(app='a', data_dir=root / 'data', server='https://example.invalid', trusted_root=b'{}')\n"
        "answer = client.feature('language_id').predict('Wo ist der Bahnhof?')\n"
        "assert answer.value.language == 'de', answer\n"
        f"loaded = [name for name in {SERVER_SIDE!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = run(bare, "python", "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SERVER_SIDE[:2])
def test_server_libraries_are_absent(bare: Path, name: str) -> None:
    """The environment of this test is bare indeed: the libraries can't be imported there."""
    assert run(bare, "python", "-c", f"import {name}").returncode != 0


def test_the_command_names_the_missing_extra(bare: Path) -> None:
    """`alcove` in a bare install says what to install and exits with 2."""
    done = run(bare, "alcove", "serve")
    assert done.returncode == 2
    assert "alcove[platform]" in done.stderr
    assert "Traceback" not in done.stderr


def test_export_names_the_missing_extra(bare: Path) -> None:
    """`alcove.runtime.export` without torch says what to install."""
    done = run(bare, "python", "-c", "import alcove.runtime; alcove.runtime.export(None, ())")
    assert done.returncode != 0
    assert "alcove[export]" in done.stderr


def test_the_wheel_holds_what_apps_need_and_no_sources(bare: Path) -> None:
    """Header, library, stubs, types, programs and migrations are installed; C++ sources and tests are not."""
    (package,) = bare.parent.glob("lib/python*/site-packages/alcove")
    for wanted in (
        "runtime/include/alcove.h",
        "runtime/libalcove.so",
        "runtime/_native.pyi",
        "runtime/py.typed",
        "features/language_id/programs/language_id-3.1.0.alc",
        "features/language_id/sentences.tsv",
        "features/language_id/CARD.md",
        "platform/store/migrations/versions/v0001_initial.py",
    ):
        assert (package / wanted).is_file(), f"{wanted} is not in the wheel"
    assert not [
        path for pattern in ("*.cpp", "*.inc", "test_*.py", "CMakeLists.txt") for path in package.rglob(pattern)
    ]
    assert [path.name for path in package.rglob("*.h")] == ["alcove.h"]
