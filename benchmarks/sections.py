"""How do several commands write one page?  Each between marks of its own; what stands around them stays."""

import re
from dataclasses import dataclass
from typing import Final

_MARKED: Final = re.compile(r"<!-- (\w+): written by [^\n]* -->\n.*?<!-- end of \1 -->\n", re.DOTALL)


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
        """The mark before it."""
        return f"<!-- {self.name}: written by `{self.command}` -->"

    @property
    def end(self) -> str:
        """The mark behind it."""
        return f"<!-- end of {self.name} -->"

    def written(self, page: str, text: str) -> str:
        """Return a page with the text in this section, or in a new one at its end."""
        block = f"{self.begin}\n\n{text}\n{self.end}\n"
        if self.begin not in page:
            return page.rstrip() + "\n\n" + block
        before, _, rest = page.partition(self.begin)
        return before + block + rest.partition(self.end + "\n")[2]


def sections_of(page: str) -> str:
    """Return all sections of a page, marks included, an empty line between them; "" if there is none."""
    return "\n".join(match.group() for match in _MARKED.finditer(page))
