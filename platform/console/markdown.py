"""Renders what teams write, Markdown, as markup that can do nothing: no HTML of its own, no picture, no odd link."""

from collections.abc import MutableMapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["render_markdown"]

SCHEMES: Final = frozenset({"http", "https", "mailto"})
MAX_NESTING: Final = 20


def _is_harmless(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, environment: MutableMapping[str, Any]
) -> str:
    tokens[index].attrSet("rel", "nofollow noopener noreferrer")
    return renderer.renderToken(tokens, index, options, environment)


def _make() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": MAX_NESTING})
    made.enable("table")
    made.disable("image")  # a picture elsewhere would tell that place who reads the card
    made.validateLink = _is_harmless  # type: ignore[method-assign]  # how the library takes a rule for links
    made.add_render_rule("link_open", _open_link)
    return made


_MARKDOWN: Final = _make()


def render_markdown(text: str) -> Markup:
    """Return markup of a text; headings begin at level 3, below those of the page."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704 - made of escaped parts
