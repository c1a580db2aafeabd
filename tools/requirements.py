"""Print what the development environment installs: all requirements of pyproject.toml, extras flattened."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
groups = [project["dependencies"], *project["optional-dependencies"].values()]
print("\n".join(sorted({line for group in groups for line in group if not line.startswith("alcove[")})))
