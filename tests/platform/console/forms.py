"""Reads the form of a page as a browser would send it."""

from html.parser import HTMLParser

__all__ = ["fields_of"]


def fields_of(page: str, form: str = "wizard") -> dict[str, str]:
    """What the form with an id would send, but the buttons."""
    reader = _Reader(form)
    reader.feed(page)
    return reader.fields


class _Reader(HTMLParser):
    """Collects names and values inside one form."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._form, self._is_inside = form, False
        self._select = self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a field."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_inside = self._form in (given.get("id", ""), given.get("action", ""))
        if not self._is_inside:
            return
        name = given.get("name", "")
        if tag == "input" and name and (given.get("type") != "checkbox" or "checked" in given):
            self.fields[name] = given.get("value", "")
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and ("selected" in given or self._select not in self.fields):
            self.fields[self._select] = given["value"]
        elif tag == "textarea":
            self._textarea = name
            self.fields[name] = ""

    def handle_data(self, data: str) -> None:
        """Note the words of a text area; the line break after its tag is none of them."""
        if self._textarea:
            self.fields[self._textarea] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        """Note where a field or the form ends."""
        if tag == "form":
            self._is_inside = False
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""
