"""Make `build/view/alcove`: links to the packages, and stubs of the generated messages, for type checkers.

Top-level folders are installed as `alcove.<folder>`; checkers don't see that mapping, so they read this view.
`alcove` itself is there as a stub: import-linter and grimp would leave out `platform/`, which has no `__init__.py`,
below a package that has one.  So does the reader of the documentation site, even below a stub: in `build/names` each
folder has one.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VIEW = ROOT / "build" / "view"
NAMES = ROOT / "build" / "names"


def main() -> None:
    """Link each package of pyproject.toml into the view and generate the stubs of `alcove.api`."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    for place in (VIEW / "alcove", NAMES / "alcove/platform"):
        place.mkdir(parents=True, exist_ok=True)
    packages = dict(build["wheel"]["packages"])
    links = {VIEW / "alcove" / "__init__.pyi": ROOT / packages.pop("alcove") / "__init__.py"}
    links |= {VIEW / name: ROOT / folder for name, folder in packages.items()}
    links |= {NAMES / name: ROOT / folder for name, folder in packages.items() if folder != "platform"}
    links |= {NAMES / "alcove/platform" / path.name: path for path in (ROOT / "platform").iterdir() if path.is_dir()}
    for folder in ("alcove", "alcove/platform"):
        (NAMES / folder / "__init__.py").touch()
    for link, target in links.items():
        if not link.is_symlink():
            link.symlink_to(target)
    subprocess.run([sys.executable, ROOT / "proto/generate.py", ROOT / "proto", VIEW, "--stubs"], check=True)


if __name__ == "__main__":
    main()
