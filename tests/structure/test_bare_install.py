"""A phone is not a server: what the bare install holds, loads and says."""

import json
import os
import subprocess
import sys
import threading
import venv
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from alcove.features.language_id.contract import LanguageId, program_path

from tests.platform.cli.terminal import COMMANDS
from tests.tutorials import SERVER, read_blocks, run_tutorial
from tools.distributions import list_distributions

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]  # it builds everything

SERVER_SIDE = ("torch", "grpc", "sqlalchemy", "typer", "rich", "aiohttp", "obstore", "alembic", "google")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with what `make wheel` cuts the built wheel into; `ALCOVE_WHEELS=build/wheels`: what it wrote there."""
    if given := os.environ.get("ALCOVE_WHEELS"):
        return (repository / given).resolve(strict=True)
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(repository)]
    subprocess.run([*build, f"--config-settings=build-dir={folder}/build"], check=True)
    (whole,) = folder.glob("alcove_sdk-*.whl")
    subprocess.run([sys.executable, "tools/view.py"], check=True, cwd=repository, capture_output=True)
    subprocess.run([sys.executable, "-m", "tools.wheels", whole, folder / "parts"], check=True, cwd=repository)
    return folder / "parts"


def install(folder: Path, repository: Path, wheels: Path, *names: str) -> Path:
    """Install wheels and what they need into a fresh environment; return its `bin` folder."""
    venv.create(folder / "env", with_pip=True)
    command = [
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "-c",
        str(repository / "constraints.txt"),
    ]
    subprocess.run([folder / "env/bin/python", *command, "--find-links", wheels, *names], check=True)
    return folder / "env" / "bin"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, repository: Path, wheels: Path) -> Path:
    """An environment with one feature, and so with `alcove` and its bare requirements."""
    return install(tmp_path_factory.mktemp("bare"), repository, wheels, "alcove-feature-language-id")


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory, repository: Path, wheels: Path) -> Path:
    """An environment with the command line of a team, and no server."""
    return install(tmp_path_factory.mktemp("light"), repository, wheels, "alcove-platform")


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
        "root = tempfile.TemporaryDirectory()\n"
        "folder = pathlib.Path(root.name) / 'data'\n"
        "client = Client(app='a', data_dir=folder, server='https://example.invalid', trusted_root=b'{}')\n"
        "answer = client.feature('language_id').predict('Wo ist der Bahnhof?')\n"
        "assert answer.value.language == 'de', answer\n"
        f"loaded = [name for name in {SERVER_SIDE!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "client.close()\n"
        "root.cleanup()\n"
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
    assert "pip install alcove-platform (" in done.stderr
    assert "Traceback" not in done.stderr


def test_export_names_the_missing_extra(bare: Path) -> None:
    """`alcove.runtime.export` without torch says what to install."""
    done = run(bare, "python", "-c", "import alcove.runtime; alcove.runtime.export(None, ())")
    assert done.returncode != 0
    assert "alcove-platform[export]" in done.stderr


def package_of(environment: Path) -> Path:
    """Return the folder that `alcove` is installed in."""
    (package,) = environment.parent.glob("lib/python*/site-packages/alcove")
    return package


def test_the_bare_wheel_holds_what_apps_need_and_nothing_else(bare: Path) -> None:
    """Header, library, stubs, types and one feature are installed; compiler, training, server, doubles are not."""
    package = package_of(bare)
    for wanted in (
        "runtime/include/alcove.h",
        "runtime/libalcove.so",
        "runtime/_native.pyi",
        "privacy/_native.pyi",
        "runtime/py.typed",
        "features/language_id/programs/language_id-4.1.0.alc",
        "features/language_id/sentences.tsv",
        "features/language_id/CARD.md",
    ):
        assert (package / wanted).is_file(), f"{wanted} is not installed"
    for unwanted in (
        "runtime/compiler",
        "runtime/coverage",
        "platform/server",
        "platform/cli/main.py",
        "sdk/testing.py",
        "registry/testing.py",
        "api",
        "features/scene_tags",
        "features/language_id/train.py",
    ):
        assert not (package / unwanted).exists(), f"{unwanted} is installed"
    assert [path.name for path in package.rglob("*.h")] == ["alcove.h"]


def test_every_module_of_the_bare_wheel_imports_there(bare: Path) -> None:
    """What an app carries needs nothing that it does not carry."""
    package = package_of(bare)
    modules = [
        ".".join(("alcove", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(package.rglob("*.py"))
    ]
    optional = {"alcove.sdk.openfeature"}  # needs its extra
    code = f"import importlib\nfor name in {sorted(set(modules) - optional)!r}:\n    importlib.import_module(name)\n"
    done = run(bare, "python", "-W", "error", "-c", code)
    assert len(modules) > 80
    assert done.returncode == 0, done.stderr


def test_an_absent_feature_is_not_in_the_catalogue(bare: Path) -> None:
    """An app that installs one feature has one; another's name says what to install."""
    code = "from alcove.features import catalogue; print(list(catalogue())); catalogue()['scene_tags']"
    done = run(bare, "python", "-c", code)
    assert done.stdout == "['language_id']\n"
    assert "pip install alcove-feature-scene-tags" in done.stderr


def test_the_light_command_line_has_no_server(light: Path) -> None:
    """A team's machine runs features and lists commands; what needs the server says what to install."""
    done = run(light, "alcove", "feature", "list", "--json")
    assert done.returncode == 0, done.stderr
    assert {"language_id", "scene_tags"} <= {one["feature"] for one in json.loads(done.stdout)}
    assert run(light, "python", "-c", "import sqlalchemy").returncode != 0
    refused = run(light, "alcove", "serve", "--data-dir", "data")
    assert refused.returncode == 2
    assert "pip install 'alcove-platform[server]'" in refused.stderr


SERVER_SIDE_COMMANDS = {name for name in COMMANDS if name.startswith("aggregator ")}
"""What runs or prepares a server, and has no help without its libraries either; `serve` has."""


def test_every_other_command_of_the_light_install_has_its_help(light: Path) -> None:
    """No command but an aggregator's needs the server's libraries to be loaded."""
    code = (
        "import contextlib, io\n"
        "from alcove.platform.cli.entry import main\n"
        f"for name in {sorted(COMMANDS)!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "        code = main([*name.split(), '--help'])\n"
        "    if code:\n"
        "        print(name)\n"
    )
    done = run(light, "python", "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == SERVER_SIDE_COMMANDS


def test_the_light_install_pushes_to_a_server_of_another_environment(light: Path, tmp_path: Path) -> None:
    """A version is signed and published from where the server's libraries are absent, and listed there."""
    own = [sys.executable, "-m", "alcove.platform.cli.entry"]
    data = ["--data-dir", "server"]

    def alcove(*command: str | Path, server: str = "") -> str:
        environment = {**os.environ, "ALCOVE_SERVER": server}
        done = subprocess.run(
            [*command], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    alcove(*own, "keys", "create", "keys", "--team", "text=language_id", *data)
    alcove(*own, "token", "create", *data, "--role", "team:text", "--out", "team.token")
    ports = ["--grpc-port", "0", "--http-port", "0"]
    with subprocess.Popen([*own, "serve", *data, *ports], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["grpc"]
            token = ["--token-file", "team.token"]
            version = ["--feature", "language_id", "--version", "1.0.0", "--team", "text"]
            key = ["--key", "keys/teams/text.pem"]
            alcove(light / "alcove", "model", "push", program_path("1.0.0"), *version, *key, *token, server=address)
            listed = alcove(light / "alcove", "model", "list", "--json", *token, server=address)
            assert [one["version"] for one in json.loads(listed)] == ["1.0.0"]
        finally:
            server.terminate()


def test_the_tutorial_for_apps_runs_in_the_bare_install(bare: Path, repository: Path, tmp_path: Path) -> None:
    """From top to bottom, with a signed tree of static files in the place of the page's server."""
    subprocess.run([sys.executable, "-m", "tools.wheel_reference", tmp_path / "site"], check=True, cwd=repository)
    (tmp_path / "root.json").write_bytes((tmp_path / "site" / "root.json").read_bytes())
    code = "\n".join(read_blocks(repository / "docs/tutorials/app.md", "python"))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site" / "tree"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "app.py").write_text(
            code.replace(SERVER, f"http://127.0.0.1:{server.server_port}"), encoding="utf-8"
        )
        done = subprocess.run(
            [bare / "python", "-W", "error", "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert "baseline → 1.0.0" in done.stdout


def test_the_tutorial_for_automation_runs_in_the_light_install(light: Path, repository: Path, tmp_path: Path) -> None:
    """From top to bottom; the server alone runs in another environment, where its libraries are."""
    run_tutorial(repository / "docs/tutorials/automation.md", tmp_path, light, Path(sys.executable).parent)


@pytest.fixture
def own(tmp_path: Path, wheels: Path) -> Path:
    """An environment with every distribution of ours, by the digests beside the wheels, and nothing else."""
    venv.create(tmp_path / "env", with_pip=True)
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", "--require-hashes"]
    found = ["--find-links", str(wheels), "-r", str(wheels / "requirements.txt")]
    subprocess.run([tmp_path / "env/bin/python", *install, *found], check=True, capture_output=True)
    return tmp_path / "env" / "bin"


def test_the_digests_beside_the_wheels_install_all_of_them(own: Path, repository: Path) -> None:
    """`requirements.txt` names each distribution, and `alcove` has its version without any library."""
    listed = run(own, "python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check")
    names = {one["name"] for one in json.loads(listed.stdout) if one["name"].startswith("alcove")}
    assert names == set(list_distributions(repository))
    assert run(own, "python", "-c", "import alcove; print(alcove.__version__)").stdout == "0.1.0\n"
    refused = run(own, "python", "-m", "alcove")
    assert (refused.returncode, "pip install alcove-platform" in refused.stderr) == (2, True)


def test_removing_a_feature_leaves_the_others(own: Path) -> None:
    """Each file belongs to one distribution."""
    run(own, "python", "-m", "pip", "uninstall", "--yes", "alcove-feature-language-id", "alcove-platform")
    code = "import alcove; from alcove.features import catalogue; print(alcove.__version__, *catalogue())"
    left = "background bandwidth cutouts feed_ranking noise_suppression photo_enhance scene_tags style_transfer"
    assert run(own, "python", "-c", code).stdout == f"0.1.0 {left}\n"


def test_a_strangers_higher_version_is_not_installed(wheels: Path, tmp_path: Path) -> None:
    """Whoever offers a higher version under our name is taken by the name, and refused by the digests."""
    stranger = tmp_path / "index" / "alcove_platform-99.0-py3-none-any.whl"
    stranger.parent.mkdir()
    info = "alcove_platform-99.0.dist-info"
    with zipfile.ZipFile(stranger, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: alcove-platform\nVersion: 99.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--no-index"]
    pip += ["--find-links", str(wheels), "--find-links", str(stranger.parent), "--dest"]
    subprocess.run([*pip, tmp_path / "by-name", "alcove-platform"], check=True)
    assert [path.name for path in (tmp_path / "by-name").iterdir()] == [stranger.name]
    digests = ["--require-hashes", "-r", str(wheels / "requirements.txt")]
    subprocess.run([*pip, tmp_path / "by-digest", *digests], check=True)
    assert stranger.name not in {path.name for path in (tmp_path / "by-digest").iterdir()}


def test_what_is_installed_agrees(bare: Path, light: Path) -> None:
    """`pip check` finds nothing missing and nothing too old."""
    for each in (bare, light):
        assert run(each, "python", "-m", "pip", "check").returncode == 0


def test_the_wheels_carry_licences_and_a_bill_of_materials(wheels: Path) -> None:
    """What the native libraries and the features hold of others is named inside; METADATA lists each licence."""
    for each in wheels.glob("*.whl"):
        archive = zipfile.ZipFile(each)
        names = archive.namelist()
        licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
        is_native = any(name.endswith(".so") for name in names)
        has_others = is_native or any("/assets/vendor/" in name for name in names)
        assert licences == ({"LICENSE", "THIRD_PARTY_LICENSES.txt"} if has_others else {"LICENSE"}), each.name
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        lines = archive.read(metadata).decode("utf-8").splitlines()
        assert {line.partition(": ")[2] for line in lines if line.startswith("License-File: ")} == licences
        (bill,) = [name for name in names if "/sboms/" in name]
        inside = {part["name"] for part in json.loads(archive.read(bill)).get("components", [])}
        if is_native:
            assert {"nanobind", "robin-map", "libstdc++", "libgcc", "unicode-character-database"} <= inside
        if "language_id" in each.name:
            assert inside == {f"language_id-{LanguageId().default_version}"}


def test_no_file_is_in_two_wheels(wheels: Path) -> None:
    """The wheels install beside each other, without sources and tests; the platform has the migrations."""
    names = [name for each in sorted(wheels.glob("*.whl")) for name in zipfile.ZipFile(each).namelist()]
    assert len(names) == len(set(names))
    assert any(name.startswith("alcove/platform/store/migrations/versions/v0001") for name in names)
    assert not [name for name in names if name.endswith((".cpp", ".inc", "CMakeLists.txt")) or "/test_" in name]
    assert not [name for name in names if name.startswith(("alcove/platform/testing/", "alcove/registry/testing"))]
    assert "alcove/sdk/testing.py" in names
