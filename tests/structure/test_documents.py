"""Documents name tests, files and commands; what they name must be there."""

import re
from pathlib import Path

import pytest

CLAIMS = ("docs/privacy.md", "docs/threats.md")


def all_tests(repository: Path) -> set[str]:
    """Names of all test functions."""
    files = (repository / "tests").rglob("test_*.py")
    return {
        name
        for path in files
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("document", CLAIMS)
def test_every_test_that_a_claim_names_exists(repository: Path, document: str) -> None:
    """A claim is only as good as its test: each that is named is defined somewhere below tests/."""
    named = set(re.findall(r"`(test_\w+)`", (repository / document).read_text(encoding="utf-8")))
    assert named
    assert not named - all_tests(repository)


def test_every_link_between_documents_leads_somewhere(repository: Path) -> None:
    """Relative links in README, CHANGELOG and docs/ point to files of the repository."""
    documents = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_make_verb_that_a_document_names_exists(repository: Path) -> None:
    """`make <verb>` in a document is a verb of the Makefile."""
    verbs = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text(encoding="utf-8")))
        assert named <= verbs, f"{document.name} names {sorted(named - verbs)}"


def test_the_architecture_names_every_package(repository: Path) -> None:
    """The map has a line for each top-level folder of the product."""
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder in ("proto", "kernels", "runtime", "privacy", "features", "registry", "platform", "sdk"):
        assert f"| `{folder}/` |" in text


def test_every_row_of_the_threats_has_an_attack_and_every_attack_a_row(repository: Path) -> None:
    """Row `x` of docs/threats.md is attacked by tests/attacks/test_x.py; there is no other file, and none is empty."""
    rows = re.findall(r"^\| `(\w+)` \|", (repository / "docs/threats.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(set(rows))
    attacks = {path.stem.removeprefix("test_"): path for path in (repository / "tests/attacks").glob("test_*.py")}
    assert sorted(rows) == sorted(attacks)
    for path in attacks.values():
        assert re.search(r"^\s*(?:async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE), (
            f"{path} is empty"
        )


def test_every_decision_is_in_the_list_of_decisions(repository: Path) -> None:
    """By its number and file, and under the title that it has."""
    folder = repository / "docs/decisions"
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE
    )
    there = []
    for path in sorted(folder.glob("[0-9]*.md")):
        number, _, title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ").partition(" ")
        there.append((number, path.name, title))
    assert listed == there


def test_the_glossary_is_in_order_with_a_source_for_every_word(repository: Path) -> None:
    """One line a word, alphabetical, with what it means and where it comes from; no word twice."""
    page = (repository / "docs/glossary.md").read_text("utf-8")
    rows = [[field.strip() for field in line.strip("|").split(" | ")] for line in page.splitlines() if line[:2] == "| "]
    words = [re.sub(r"[^a-z0-9 ]", "", row[0].lower()) for row in rows[1:]]
    assert words == sorted(set(words))
    assert len(words) > 80
    assert all(len(row) == 3 and all(row) for row in rows)
