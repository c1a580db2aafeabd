"""The list of pages that pictures, measurements and the browser share: complete, and its pictures small."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from alcove.platform.console.app import AREAS

from benchmarks.console.pages import PAGES
from tools.console_screenshots import FOLDER, MOST_BYTES, SCHEMES

if TYPE_CHECKING:
    from alcove.platform.console.pages.page import Pages

ROUTED = re.compile(r"\{(\w+)[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")


class NoPages:
    """Stands for what areas make their routes with; asks nobody."""

    def routes(self, path: str, page: object, *, is_live: bool = False) -> list[object]:
        """Return a page's path in the place of its routes."""
        return [path]


def test_every_page_of_the_console_is_in_the_list() -> None:
    """A new page is measured and gets its pictures: its path, whatever its parameters are called, is there."""
    listed = {re.sub(r"\{\w+\}", "*", page.address.partition("?")[0]) for page in PAGES}
    for area in AREAS:
        for path in area.routes(cast("Pages", NoPages())):
            if isinstance(path, str):
                assert ROUTED.sub("*", path) in listed, path


def test_the_pictures_take_no_more_than_they_may_and_each_has_its_twin(repository: Path) -> None:
    """Light and dark of each page that is shown, all in the index; 1.5 MB in all."""
    pictures = list(FOLDER.glob("*.webp"))
    assert pictures
    assert sum(path.stat().st_size for path in pictures) <= MOST_BYTES
    index = (repository / "docs" / "console" / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in pictures} == set(re.findall(r"\(([\w-]+\.webp)\)", index))
    names = {path.stem.rpartition("-")[0] for path in pictures}
    assert {path.stem for path in pictures} == {f"{name}-{scheme}" for name in names for scheme in SCHEMES}
