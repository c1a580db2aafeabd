"""Shows a program on one page that needs no network: page.html with page.css, page.js and the facts inside.

Facts come from untrusted programs: they are data in a JSON block, which page.js puts on the page as text alone, and the
page's own policy forbids it to load or to send anything.
"""

import json
from importlib.resources import files
from typing import Any

from alcove.platform.cli.page.layout import layout_of

__all__ = ["page_of"]


def page_of(facts: dict[str, Any]) -> str:
    """Return the page of a program; `facts` as `summarize_program` gives them."""
    folder = files("alcove.platform.cli.page")
    facts = facts | {"graph": layout_of(facts["ops"])}
    data = json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = (folder / "page.html").read_text(encoding="utf-8")
    for mark, text in (
        ("/*STYLE*/", (folder / "page.css").read_text(encoding="utf-8")),
        ("/*SCRIPT*/", (folder / "page.js").read_text(encoding="utf-8")),
        ("/*DATA*/", _inert(data)),  # the last: what a program says is not looked at again
    ):
        page = page.replace(mark, text)
    return page


def _inert(data: str) -> str:
    """Return JSON that cannot end the element that it stands in, nor begin another."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
