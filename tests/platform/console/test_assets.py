"""The files that pages load: those of others are as published, and all together are small."""

import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

from alcove.platform.console.assets import LAZY, OURS, VENDORED

PAGE_BYTES = 60_000  # of the longest list with its tables, compressed
MOST_BYTES = 200_000


def test_a_page_with_all_its_files_is_at_most_200_kb_on_the_way() -> None:
    """Also one with charts and live regions, which loads every file that there is."""
    folder = files("alcove.platform.console.assets")
    names = (*OURS, *(f"vendor/{name}" for name in VENDORED))
    sizes = {name: len(gzip.compress(folder.joinpath(name).read_bytes())) for name in names}
    assert sum(sizes.values()) + PAGE_BYTES <= MOST_BYTES, sizes
    assert set(LAZY) <= {name.rpartition("/")[2] for name in names}


def _luminance(color: str) -> float:
    """Relative luminance of "#rrggbb", by WCAG 2.2."""
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_colors_of_series_stand_out_from_their_ground() -> None:
    """At least 3 : 1, as WCAG 2.2 asks of pictures, in each of the themes."""
    text = files("alcove.platform.console.assets").joinpath("console.css").read_text(encoding="utf-8")
    themes = [block for block in re.findall(r"\{([^{}]*)\}", text) if "--series-1:" in block]
    assert len(themes) == 3
    for block in themes:
        tokens = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
        ground = _luminance(tokens["surface"])
        for number in range(1, 8):
            lighter, darker = sorted((_luminance(tokens[f"series-{number}"]), ground), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 3, (number, tokens["surface"])


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
