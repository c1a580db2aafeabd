"""Parts of the thorough tests: together they are all of them."""

from pathlib import Path

import pytest

from tests.selection import Part


def test_every_file_is_in_one_part(repository: Path) -> None:
    """However many parts there are, each test file is run by one of them, and no part is empty."""
    paths = [str(path.relative_to(repository)) for path in repository.glob("tests/**/test_*.py")]
    for parts in (1, 2, 6):
        homes = [[part for part in range(1, parts + 1) if Part.read(f"{part}/{parts}").has(path)] for path in paths]
        assert all(len(home) == 1 for home in homes)
        assert {home[0] for home in homes} == set(range(1, parts + 1))


@pytest.mark.parametrize("text", ["0/6", "7/6", "6", "1/0", "-1/6", "1/6/2", "a/b", "1/100", ""])
def test_a_part_that_does_not_exist_is_refused(text: str) -> None:
    """The message shows what was given and what is wanted."""
    with pytest.raises(pytest.UsageError, match=f"--part {text}: wanted K/N"):
        Part.read(text)
