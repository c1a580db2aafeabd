"""Checks the import contracts of pyproject.toml over a folder that holds the packages as `alcove/…`.

    python tools/imports.py build/view

`-S` keeps the editable install's own finder out: it would offer every module a second time.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import importlinter

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = Path(importlinter.__file__).parents[1]


def check_imports(view: Path) -> subprocess.CompletedProcess[str]:
    """Return what import-linter prints of the packages under `view`, and its exit status."""
    paths = [str(view), str(LIBRARIES), sysconfig.get_path("purelib")]
    command = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"
    return subprocess.run(
        [sys.executable, "-S", "-c", command, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=view,
    )


if __name__ == "__main__":
    found = check_imports(Path(sys.argv[1]).resolve())
    sys.stdout.write(found.stdout + found.stderr if found.returncode else "Import contracts hold.\n")
    raise SystemExit(found.returncode)
