"""Writes sections of a page between comments of their own, so that several commands share one page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        name: one word.
        command: what writes it.
    """

    name: str
    command: str

    @property
    def begin(self) -> str:
        """The comment before it."""
        return f"<!-- {self.name}: written by `{self.command}` -->"

    @property
    def end(self) -> str:
        """The comment behind it."""
        return f"<!-- end of {self.name} -->"

    def replace_in(self, page: str, text: str) -> str:
        """Return a page with the text in this section, or in a new one at its end."""
        block = f"{self.begin}\n\n{text}\n{self.end}\n"
        if self.begin not in page:
            return page.rstrip() + "\n\n" + block
        before, _, rest = page.partition(self.begin)
        return before + block + rest.partition(self.end + "\n")[2]

    def write(self, page: Path, text: str, plots: Mapping[str, str]) -> None:
        """Write the section into a page, which is begun if it is not there, and its plots into a folder beside it."""
        before = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n"
        page.write_text(self.replace_in(before, text), encoding="utf-8")
        for name, picture in plots.items():
            folder = page.parent / "plots"
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(picture, encoding="utf-8")


def micros(value: float) -> str:
    """Return a time in microseconds with three digits or so."""
    if value >= 1000:
        return f"{value / 1000:,.2f} ms"
    return f"{value:,.3f} µs" if value < 10 else f"{value:,.1f} µs"


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table and the empty line below it."""
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def untimed_lines(absent: Mapping[str, str], failed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return who is not there and who failed on what, with the reason: nobody is left out silently.

    Args:
        absent: name and reason.
        failed: for each thing that was timed, name and reason.
    """
    missing = [f"{name}, {why}" for name, why in sorted(absent.items())]
    silent = [f"{name} on {what} ({why})" for what, reasons in failed.items() for name, why in sorted(reasons.items())]
    lines = []
    for title, found in (("Not timed", missing), ("Gave no time", silent)):
        lines += [f"{title}: " + "; ".join(found) + ".", ""] if found else []
    return lines
