"""Shows a program on one page that needs no network: page.html with page.css, page.js and the facts inside.

Facts come from untrusted programs: they are data in a JSON block, which page.js puts on the page as text alone, and the
page's own policy forbids it to load or to send anything.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from alcove.platform.inspection.page.layout import layout_of

__all__ = ["page_of", "page_of_refusal", "policy_of_page"]

_FOLDER = files("alcove.platform.inspection.page")


def page_of(facts: dict[str, Any], *, theme: str = "auto") -> str:
    """Return the page of a program.

    Args:
        facts: as `summarize_program` gives them.
        theme: "light", "dark", or "auto": as the browser likes it.
    """
    facts = facts | {"graph": layout_of(facts["ops"])}
    data = json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = _read("page.html")
    for mark, text in (
        ("/*THEME*/", html.escape(theme)),
        ("/*STYLE*/", _read("page.css")),
        ("/*SCRIPT*/", _read("page.js")),
        ("/*DATA*/", _inert(data)),  # the last: what a program says is not looked at again
    ):
        page = page.replace(mark, text)
    return page


def page_of_refusal(reason: str, *, theme: str = "auto") -> str:
    """Return the page that says why there is none."""
    return (
        f'<!doctype html>\n<html lang="en" data-theme="{html.escape(theme)}"><head><meta charset="utf-8">'
        f"<title>Not shown</title><style>{_read('page.css')}</style></head>"
        f"<body><main><h1>This program is not shown</h1><p>{html.escape(reason)}</p></main></body></html>\n"
    )


def policy_of_page() -> str:
    """Return the policy under which a server gives the page: its own style and script, by digest, and nothing else.

    The page is of an origin of its own wherever it stands: it reads nothing of the site that gives it.
    """
    return (
        f"default-src 'none'; style-src {_digest('page.css')}; script-src {_digest('page.js')}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _digest(name: str) -> str:
    digest = hashlib.sha256(_read(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _inert(data: str) -> str:
    """Return JSON that cannot end the element that it stands in, nor begin another."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
