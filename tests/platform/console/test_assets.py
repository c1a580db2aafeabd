"""The files of others that the console has."""

import hashlib
import json
from pathlib import Path

from alcove.platform.console.assets import VENDORED


def test_vendored_files_are_those_that_their_makers_published(repository: Path) -> None:
    """Each has the digest that `tools/console_assets.py` wrote down, a version and a licence; there is no other."""
    folder = repository / "platform/console/assets/vendor"
    digests = json.loads((folder / "digests.json").read_text(encoding="utf-8"))
    assert {path.name for path in folder.iterdir()} == {*VENDORED, "digests.json"}
    licences = (repository / "THIRD_PARTY_LICENSES.txt").read_text(encoding="utf-8")
    for name, (package, version, _) in VENDORED.items():
        content = (folder / name).read_bytes()
        found = digests[name]
        assert (found["package"], found["version"]) == (package, version)
        assert found["sha256"] == hashlib.sha256(content).hexdigest()
        assert f"==== {package.removesuffix('.org')} ({found['licence']}) ====" in licences
