"""The worked example of docs/metrics.md runs from top to bottom, and prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_worked_example_prints_what_the_page_shows() -> None:
    """Each snippet in the names of those before it, and every snippet has its output."""
    page = PAGE.read_text("utf-8")
    examples = EXAMPLE.findall(page)
    assert len(examples) == page.count("```python")
    namespace: dict[str, object] = {}
    for source, shown in examples:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(source, namespace)
        assert output.getvalue() == shown
