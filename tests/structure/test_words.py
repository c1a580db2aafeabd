"""Identifiers are in the field's words: functions are verbs, and no name needs a story (docs/glossary.md)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("sdk", "registry", "privacy", "features", "platform", "runtime", "kernels", "benchmarks", "tools", "tests")

_PRIVATE = """
told taken looked whoever weather tries trial serving servings floors lifts colleague colleagues judged proved proven
permyriad
"""
PRIVATE = frozenset(_PRIVATE.split())
"""Words of our own where the field has one: load attempt, active model, minimum version, cosigner, verified."""
STORY = re.compile(r"(?:^|_)(?:told|whoever|anew|goes_on|looked_at|held_against)(?:_|$)")
"""Words that need a story, anywhere in a function's name: reported, every caller, again, continues, compared."""
NOT_OURS = frozenset({"SERVING", "searchsorted"})
"""Names that others gave: a status of gRPC's health service, an operator of torch."""

_IRREGULAR = """
begun bought bound broken brought built caught chosen done drawn driven fallen fed forgotten found frozen given gone
grown heard held hidden kept known laid led left lent lost made meant met paid placed said seen sent shown sold sought
spent spoken stolen stood taken taught thought thrown told torn understood won written
"""
IRREGULAR = frozenset(_IRREGULAR.split())
VERBS_IN_ED = frozenset({"embed", "feed", "need", "seed", "shed", "speed", "searchsorted"})  # the last is torch's


def find_words(source: str) -> Iterator[tuple[int, str]]:
    """Give the line and name of each identifier that is a private word, and of each function that is no verb."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.ClassDef(name=name):
                is_wrong = name.strip("_").lower() in PRIVATE and name not in NOT_OURS
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                is_noun = any(
                    "property" in ast.unparse(one) or "fixture" in ast.unparse(one) for one in node.decorator_list
                )
                word = name.strip("_")
                is_wrong = word not in NOT_OURS and (
                    word in PRIVATE or STORY.search(word) is not None or (not is_noun and is_bare_participle(word))
                )
            case _:
                continue
        if is_wrong:
            yield node.lineno, name


def is_bare_participle(word: str) -> bool:
    """Tell whether a function's name is a past participle alone, such as `joined` or `held`."""
    return word in IRREGULAR or ("_" not in word and word.endswith("ed") and word not in VERBS_IN_ED)


@pytest.mark.parametrize("folder", FOLDERS)
def test_identifiers_are_in_the_fields_words(repository: Path, folder: str) -> None:
    """No private word names anything, and no function is a bare participle."""
    found = [
        f"{path.relative_to(repository)}:{line}: {name}"
        for path in sorted((repository / folder).rglob("*.py"))
        for line, name in find_words(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "def f(taken): ...",
        "x.looked",
        "class Servings: ...",
        "def joined(): ...",
        "async def _held(): ...",
        "def a_told_b(): ...",
    ],
)
def test_private_words_are_found(source: str) -> None:
    """Each kind of identifier is looked at."""
    assert list(find_words(source))


@pytest.mark.parametrize("source", ["def embed(): ...", "@property\ndef named(self): ...", "is_held = 1", "'told'"])
def test_facts_nouns_and_text_are_left_alone(source: str) -> None:
    """Verbs that end so, properties, booleans that read as facts, and text."""
    assert not list(find_words(source))
