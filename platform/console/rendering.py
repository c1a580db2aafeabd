"""Renders pages: one place for how a number, a size, a time, a share and a state look.

Templates escape whatever they are given; the filters here build markup from escaped parts.  Nothing else may.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.console.assets import LAZY, Assets
from alcove.platform.console.kept_forms import KeptForm
from alcove.platform.console.markdown import render_markdown
from alcove.platform.console.problems import Problem
from alcove.platform.console.security import CSRF_FIELD, CSRF_HEADER
from alcove.platform.console.viewer import VIEWER
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["THEMES", "THEME_COOKIE", "Ready", "Renderer", "theme_of", "wants_json"]

THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "alcove-theme"
GZIP_LEVEL: Final = 6  # of a page that is compressed once for many
_MISSING: Final = Markup('<span class="missing" aria-label="none">–</span>')
_UNITS: Final = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))
_HTMX: Final = json.dumps(
    {"includeIndicatorStyles": False, "allowEval": False, "allowScriptTags": False, "selfRequestsOnly": True}
)


@dataclass(frozen=True)
class Ready:
    """A page that is made: its HTML, and the same compressed."""

    content: bytes
    compressed: bytes


class Renderer:
    """Makes answers of templates.

    Args:
        assets: have addresses.

    Attributes:
        environment: of the templates.
    """

    def __init__(self, assets: Assets) -> None:
        self.environment = Environment(
            loader=PackageLoader("alcove.platform.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= FILTERS
        self.environment.globals |= {
            "asset": assets.address,
            "lazy_assets": {name: assets.address(name) for name in LAZY},
            "htmx_config": _HTMX,
            "csrf_field": CSRF_FIELD,
            "csrf_header": CSRF_HEADER,
            "themes": THEMES,
        }

    def page(
        self,
        request: web.Request,
        template: str,
        context: Mapping[str, Any],
        *,
        status: int = HTTPStatus.OK,
    ) -> web.Response:
        """Return a page; `context` beside who asks, the theme and the address."""
        text = self._render(request, template, context)
        answer = web.Response(text=text, content_type="text/html", charset="utf-8", status=status)
        answer.enable_compression()
        return answer

    def prepare(self, request: web.Request, template: str, context: Mapping[str, Any]) -> Ready:
        """Return a page that is made once and sent to several; `context` as of `page`, with its own viewer."""
        content = self._render(request, template, context).encode()
        return Ready(content, gzip.compress(content, GZIP_LEVEL))

    def send(self, request: web.Request, ready: Ready) -> web.Response:
        """Return a page that was made before, compressed where the browser takes that."""
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=ready.content, content_type="text/html", charset="utf-8")
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=ready.compressed, content_type="text/html", charset="utf-8", headers=headers)

    def _render(self, request: web.Request, template: str, context: Mapping[str, Any]) -> str:
        common = {
            "viewer": request.get(VIEWER),
            "theme": theme_of(request),
            "path": request.path,
            "address": str(request.rel_url),
            "json_address": json_address(request) if request.method == "GET" else "",
        }
        return self.environment.get_template(template).render(common | dict(context))

    def problem(self, request: web.Request, problem: Problem, unsent: KeptForm | None = None) -> web.Response:
        """Return a page, or JSON, that says what went wrong; a form that was not sent can be sent from it again."""
        if wants_json(request):
            answer = web.json_response(problem.to_json(), status=problem.status)
        else:
            answer = self.page(request, "problem.html", {"problem": problem, "unsent": unsent}, status=problem.status)
        if problem.retry_s:
            answer.headers["Retry-After"] = str(problem.retry_s)
        return answer


def theme_of(request: web.Request) -> str:
    """Return which colors the viewer has chosen."""
    theme = request.cookies.get(THEME_COOKIE, "")
    return theme if theme in THEMES else THEMES[0]


def wants_json(request: web.Request) -> bool:
    """Return whether a program asks: by `.json` at the end of the address, or by what it accepts."""
    accepted = request.headers.get("Accept", "")
    return request.path.endswith(".json") or (accepted.startswith("application/json") and "text/html" not in accepted)


def json_address(request: web.Request) -> str:
    """Return where a page's data are as JSON."""
    path = request.rel_url.path
    named = path if path.endswith(".json") else f"{path.rstrip('/') or '/index'}.json"
    return str(request.rel_url.with_path(named).with_query(request.rel_url.query))


def show_time(at_s: int) -> Markup:
    """Return a time: in UTC, which a script shows in the viewer's zone; 0: none."""
    if not at_s:
        return _MISSING
    at = datetime.fromtimestamp(at_s, UTC)
    shown = f"{at:%Y-%m-%d %H:%M} UTC"
    template = '<time datetime="{}" title="{}">{}</time>'
    return Markup(template).format(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%d %H:%M:%S} UTC", shown)  # noqa: S704


def show_utc(at_s: int) -> str:
    """Return a time in UTC, for what is printed: it stays so."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M} UTC"


def show_bytes(size_bytes: int) -> Markup:
    """Return a size with its unit; the exact bytes are its title."""
    for unit, name in _UNITS:
        if abs(size_bytes) >= unit:
            text = f"{size_bytes / unit:.3g} {name}"
            break
    else:
        text = f"{size_bytes} B"
    return Markup('<data value="{}" title="{} bytes">{}</data>').format(
        size_bytes, f"{size_bytes:,}".replace(",", " "), text
    )


def show_number(value: float | None, unit: str = "", low: float | None = None, high: float | None = None) -> Markup:
    """Return a number with its unit and, where there is one, its interval; None: none, or an end that is unbounded."""
    if value is None:
        return _MISSING
    text = f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:.4g}"
    unit = f" {unit}" if unit else ""
    if low is None and high is None:
        return Markup('<span class="number">{}{}</span>').format(text, unit)
    ends = ["…" if end is None else f"{end:.4g}" for end in (low, high)]
    template = '<span class="number">{}{} <span class="interval">[{}, {}]</span></span>'
    return Markup(template).format(text, unit, *ends)  # noqa: S704 - a constant


def show_share(basis_points: int) -> str:
    """Return a share of devices in percent; `basis_points` are 1/10 000 of all."""
    return f"{basis_points / 100:g} %"


def show_state(state: str) -> Markup:
    """Return a state as a badge: its word, and a color that says no more than the word."""
    name = "".join(character for character in state if character.isalnum() or character == "_")
    return Markup('<span class="badge badge-{}">{}</span>').format(name, state.replace("_", " "))


def show_digest(digest: str) -> Markup:
    """Return a digest, short; the whole is its title."""
    return Markup('<code title="{}">{}…</code>').format(digest, digest[:12])


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "time": show_time,
    "utc": show_utc,
    "bytes": show_bytes,
    "number": show_number,
    "share": show_share,
    "state": show_state,
    "digest": show_digest,
    "markdown": render_markdown,
}
