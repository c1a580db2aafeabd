"""`alcove` is a module with a version, and its packages may lie in several folders."""

import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest


def run(code: str, *folders: Path) -> str:
    """What some code prints where only these folders are searched, beside Python's own."""
    code = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n{code}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(name="folders")
def _folders(repository: Path, tmp_path: Path) -> tuple[Path, Path]:
    """What the wheel of the SDK and another wheel leave, each in a folder of its own."""
    sdk, other = tmp_path / "sdk", tmp_path / "other"
    shutil.copytree(repository / "namespace" / "alcove", sdk / "alcove")
    for folder, name in ((sdk, "runtime"), (other, "extension")):
        (folder / "alcove" / name).mkdir(parents=True)
        (folder / "alcove" / name / "__init__.py").touch()
    return sdk, other


def test_packages_in_another_folder_are_found_in_either_order(folders: tuple[Path, Path]) -> None:
    """A wheel may be installed beside the environment that has the SDK; the version is the SDK's."""
    code = "import alcove.runtime, alcove.extension; print(alcove.__version__)"
    versions = {run(code, *order) for order in permutations(folders)}
    assert len(versions) == 1
    assert "." in versions.pop()


def test_without_the_module_the_packages_import_as_before(folders: tuple[Path, Path]) -> None:
    """Removing the wheel that has `alcove/__init__.py` leaves those that are still there a namespace."""
    sdk, other = folders
    shutil.rmtree(sdk)
    assert run("import alcove.extension; print(hasattr(alcove, '__version__'))", other) == "False\n"


def test_a_feature_in_another_folder_is_in_the_catalogue(repository: Path, tmp_path: Path) -> None:
    """A feature may be installed for one user, beside an SDK that is the system's."""
    feature = tmp_path / "alcove" / "features" / "scene_tags"
    feature.mkdir(parents=True)
    (feature / "__init__.py").touch()
    sdk = tmp_path / "sdk"
    shutil.copytree(repository / "namespace" / "alcove", sdk / "alcove")
    (sdk / "alcove" / "features").mkdir()
    shutil.copy(repository / "features" / "__init__.py", sdk / "alcove" / "features")
    code = "from alcove.features import catalogue; print(list(catalogue()))"
    assert run(code, sdk) == "[]\n"
    assert run(code, sdk, tmp_path) == "['scene_tags']\n"


def test_importing_alcove_loads_no_library(repository: Path) -> None:
    """An app that asks for the version alone waits for no library, and for no package of alcove."""
    code = "import sys, alcove; alcove.__version__; print(*sorted(n for n in sys.modules if n.startswith('alcove')))\n"
    code += "print(*sorted({'numpy', 'pydantic', 'tuf', 'importlib.metadata'} & sys.modules.keys()))"
    assert run(code, repository / "namespace") == "alcove\n\n"
