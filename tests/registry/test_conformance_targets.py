"""Our client follows the TUF specification for targets: delegations, quoted names and downloads.

The other half of `test_conformance.py`; see there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alcove.registry._tuf import Key

from tests.registry.simulator import DAY_S, Repository, Subject, serve


@pytest.fixture
def repository() -> Repository:
    """A repository with version 1 of each top role."""
    return Repository()


@pytest.fixture
def client(repository: Repository, tmp_path: Path) -> Iterator[Subject]:
    """A client that began with the repository's first root."""
    with serve(repository) as url:
        subject = Subject(tmp_path, url, repository)
        assert subject.init() == 0
        yield subject


# --- delegations


@dataclass(frozen=True)
class Edge:
    """`delegator` trusts `role` for paths."""

    delegator: str
    role: str
    paths: tuple[str, ...] = ("*",)
    is_terminating: bool = False


ANY, PYTHON = ("*",), ("*.py",)
GRAPHS = {
    "one": ([Edge("targets", "A")], "A"),
    "two beside each other": ([Edge("targets", "A"), Edge("targets", "B")], "AB"),
    "two levels": ([Edge("targets", "A"), Edge("targets", "B"), Edge("B", "C")], "ABC"),
    "first the depth": ([Edge("targets", "A"), Edge("targets", "B"), Edge("A", "C"), Edge("A", "D")], "ACDB"),
    "three levels": ([Edge("targets", "A"), Edge("targets", "B"), Edge("A", "C"), Edge("C", "D")], "ACDB"),
    "terminating ends the search": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("A", "C", ANY, is_terminating=True), Edge("A", "D")],
        "AC",
    ),
    "terminating, with one beneath": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("A", "C", ANY, is_terminating=True), Edge("C", "D")],
        "ACD",
    ),
    "paths that do not match": ([Edge("targets", "A", PYTHON), Edge("targets", "B"), Edge("A", "C")], "B"),
    "paths that do not match, deeper": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("A", "C", PYTHON), Edge("C", "D")],
        "AB",
    ),
    "a cycle": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("B", "C"), Edge("C", "D"), Edge("D", "B")],
        "ABCD",
    ),
    "two that delegate to a third": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("B", "C"), Edge("A", "C")],
        "ACB",
    ),
    "two that delegate to a third, one for other paths": (
        [Edge("targets", "A"), Edge("targets", "B"), Edge("B", "C"), Edge("A", "C", PYTHON)],
        "ABC",
    ),
}


def delegate(repository: Repository, edges: list[Edge]) -> None:
    """Make a graph of delegations."""
    for edge in edges:
        repository.delegate(edge.delegator, edge.role, list(edge.paths), is_terminating=edge.is_terminating)


@pytest.mark.parametrize("name", GRAPHS)
def test_roles_are_visited_depth_first_in_the_order_they_stand(
    name: str, client: Subject, repository: Repository
) -> None:
    """Each once, none that was not delegated the path, none after a terminating one."""
    edges, order = GRAPHS[name]
    delegate(repository, edges)
    repository.publish_all(*repository.delegated)
    assert client.download("missing") == 1
    assert repository.requests[4:] == [(role, 1) for role in order]


TREE = [
    Edge("targets", "A", ("*.doc", "*.md")),
    Edge("targets", "B", ("releases/*/*",)),
    Edge("B", "C", ("releases/x/*",)),
    Edge("B", "D", ("releases/y/*.zip",)),
]
FOUND = {
    "targetfile": ("targets", True, ""),
    "README.md": ("A", True, "A"),
    "releases/x/x_v1": ("C", True, "BC"),
    "releases/y/y_v1.zip": ("D", True, "BD"),
    # D signed it, but nobody let D sign it.
    "releases/z/z_v1.zip": ("D", False, "B"),
}


@pytest.mark.parametrize("path", FOUND)
def test_target_is_found_only_along_roles_that_were_delegated_its_path(
    path: str, client: Subject, repository: Repository
) -> None:
    """A star stops at a slash; every role on the way must have been given the path."""
    role, is_found, order = FOUND[path]
    delegate(repository, TREE)
    for target, (owner, _, _) in FOUND.items():
        repository.add_artifact(owner, target, f"{target} by {owner}".encode())
    repository.publish_all(*repository.delegated)
    assert (client.download(path) == 0) == is_found
    assert client.downloads() == ([f"{path} by {role}".encode()] if is_found else [])
    assert repository.requests[4:] == [(role, 1) for role in order]


def test_stored_role_is_verified_by_its_present_delegator(client: Subject, repository: Repository) -> None:
    """B's keys for C are others than A's: what A vouched for is nothing to B, though it has the same name."""
    delegate(repository, [Edge("targets", "A", ("a/*",)), Edge("targets", "B", ("b/*",))])
    delegate(repository, [Edge("A", "C", ("a/*",)), Edge("B", "C", ("b/*",))])
    repository.roles["B"].delegations.roles["C"].keyids.clear()
    repository.add_key("C", delegator=repository.roles["B"])
    repository.signers["C"].pop()
    for path in ("a/file", "b/file"):
        repository.add_artifact("C", path, path.encode())
    repository.publish_all(*repository.delegated)
    assert client.download("a/file") == 0
    assert client.download("b/file") == 1
    assert client.downloads() == [b"a/file"]
    assert client.download("a/file", "b/file") == 1, "nor where one client has just read it for A"
    assert client.downloads() == [b"a/file"]


PATTERNS = {
    "*.doc": {"a.doc": True, "a.DOC": False, "a/b.doc": False, "a.docx": False},
    "a/*/c": {"a/b/c": True, "a/b/b/c": False, "a/c": False},
    "a?c": {"abc": True, "ac": False, "abbc": False, "a/c": False},
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_paths_match_as_the_specification_says(
    pattern: str, client: Subject, repository: Repository
) -> None:
    """Stars and question marks stop at a slash; letters are compared as they are."""
    repository.delegate("targets", "team", [pattern])
    for path in PATTERNS[pattern]:
        repository.add_artifact("team", path, path.encode())
    repository.publish_all("team", "targets")
    for path, is_matched in PATTERNS[pattern].items():
        assert (client.download(path) == 0) == is_matched, path
    assert client.downloads() == [path.encode() for path, is_matched in PATTERNS[pattern].items() if is_matched]


def test_delegated_role_needs_its_threshold(client: Subject, repository: Repository) -> None:
    """Two keys must sign; one does, then both."""
    repository.delegate("targets", "team", ["team/*"])
    repository.add_key("team", delegator=repository.roles["targets"])
    repository.roles["targets"].delegations.roles["team"].threshold = 2
    repository.add_artifact("team", "team/file", b"content")
    second = repository.signers["team"].pop()
    repository.publish_all("team", "targets")
    assert client.download("team/file") == 1
    repository.signers["team"].append(second)
    repository.publish_all("team")
    assert client.download("team/file") == 0


def test_delegated_role_with_one_key_under_two_names_is_refused(client: Subject, repository: Repository) -> None:
    """A threshold of two is no threshold where both are the same key."""
    repository.delegate("targets", "team", ["team/*"])
    delegations = repository.roles["targets"].delegations
    twin = delegations.keys[delegations.roles["team"].keyids[0]].to_dict()
    delegations.keys["0" * 64] = Key.from_dict("0" * 64, twin)
    delegations.roles["team"].keyids.append("0" * 64)
    repository.publish_all("team", "targets")
    assert client.refresh() == 1


def test_delegated_role_that_expired_before_it_was_seen_is_not_used(client: Subject, repository: Repository) -> None:
    """The refresh is fine; the target is not to be had, and nothing of the role is kept."""
    repository.delegate("targets", "team", ["team/*"])
    repository.roles["team"].expires = repository.date(-1)
    repository.add_artifact("team", "team/file", b"content")
    repository.publish_all("team", "targets")
    assert client.refresh() == 0
    assert client.download("team/file") == 1
    assert client.downloads() == []
    assert client.versions() == {"root": 1, "timestamp": 2, "snapshot": 2, "targets": 2}


def test_delegated_role_that_expires_in_the_store_leads_to_the_next(client: Subject, repository: Repository) -> None:
    """Day 0 it is good, day 18 it is not, and its next version is."""
    repository.delegate("targets", "team", ["team/*"])
    repository.roles["team"].expires = repository.date(7)
    for name in ("first", "second"):
        repository.add_artifact("team", f"team/{name}", name.encode())
    repository.publish_all("team", "targets")
    assert client.download("team/first") == 0
    client.clock.time_s += 18 * DAY_S
    assert client.download("team/second") == 1
    assert client.downloads() == [b"first"]
    repository.roles["team"].expires = repository.date(21)
    repository.publish_all("team")
    assert client.download("team/second") == 0
    assert client.downloads() == [b"first", b"second"]


def test_search_ends_at_its_bound(client: Subject, repository: Repository) -> None:
    """A repository that delegates without end is not followed without end."""
    delegate(repository, [Edge("targets", f"r{number}") for number in range(30)])
    repository.publish_all(*repository.delegated)
    assert client.download("missing") == 1
    assert 5 < len(repository.requests[4:]) <= 10


@pytest.mark.parametrize("role", ["?", "#", "/role", "../role", "a b", "ä"])
def test_unusual_role_names_lead_nowhere_else(role: str, client: Subject, repository: Repository) -> None:
    """In addresses and in file names alike they are quoted."""
    repository.delegate("targets", role, ["*"])
    repository.publish_all(role, "targets")
    assert client.download("missing") == 1
    assert repository.requests[-1] == (role, 1)
    assert client.versions()[role] == 1
    assert sorted(path.name for path in client.metadata.parent.iterdir()) == ["initial.json", "metadata", "targets"]


# --- downloads


@pytest.mark.parametrize("path", ["file.txt", "path/to/a/file.txt", "a b.txt"])
def test_target_is_fetched_once(path: str, client: Subject, repository: Repository) -> None:
    """A refresh fetches none; a second download asks for nothing."""
    repository.add_artifact("targets", path, b"content")
    repository.publish_all("targets")
    assert client.refresh() == 0
    assert client.downloads() == []
    for _ in range(2):
        assert client.download(path) == 0
        assert client.downloads() == [b"content"]
    assert len(repository.artifacts) == 1


@pytest.mark.parametrize("algorithms", [["sha256"], ["sha512"], ["sha256", "sha512"]])
def test_targets_by_each_digest_are_fetched_and_all_digests_compared(
    algorithms: list[str], client: Subject, repository: Repository
) -> None:
    """Which digests a target has is its signer's choice; one that is wrong is enough to refuse it."""
    repository.add_artifact("targets", "file", b"content", algorithms=algorithms)
    repository.publish_all("targets")
    for _ in range(2):
        assert client.download("file") == 0
        assert client.downloads() == [b"content"]
    repository.add_artifact("targets", "other", b"content", algorithms=algorithms)
    repository.roles["targets"].targets["other"].hashes[algorithms[-1]] = "0" * (
        64 if algorithms[-1] == "sha256" else 128
    )
    repository.served[repository.artifact_place("targets", "other")] = b"content"
    repository.publish_all("targets")
    assert client.download("other") == 1
    assert client.downloads() == [b"content"]


@pytest.mark.parametrize(
    "digests", [{"md5": "0" * 32}, {"sha512": "../" * 42 + "xx"}, {"sha256": "0" * 63}, {"x": "0" * 64}]
)
def test_target_without_a_digest_that_is_known_is_refused(
    digests: dict[str, str], client: Subject, repository: Repository
) -> None:
    """An algorithm that nobody knows, or a digest that would lead elsewhere."""
    repository.add_artifact("targets", "file", b"content")
    repository.roles["targets"].targets["file"].hashes = digests
    repository.publish_all("targets")
    assert client.download("file") == 1
    assert client.downloads() == []
    assert repository.artifacts == []


@pytest.mark.parametrize("served_instead", [b"other bytes!", b"cont", b"content and more", b"", None])
def test_target_other_than_it_was_signed_is_not_kept(
    served_instead: bytes | None, client: Subject, repository: Repository
) -> None:
    """Other, shorter, longer, empty or no bytes: refused, and what was fetched before stays."""
    for path in ("first", "second"):
        repository.add_artifact("targets", path, b"content")
    repository.publish_all("targets")
    assert client.download("first") == 0
    for path in ("first", "second"):
        place = repository.artifact_place("targets", path)
        del repository.served[place]
        if served_instead is not None:
            repository.served[place] = served_instead
    assert client.download("second") == 1
    client.download("first")
    assert client.downloads() == [b"content"]


def test_target_that_changes_again_and_again_is_followed(client: Subject, repository: Repository) -> None:
    """Each signed change arrives, in the same file; each unsigned one does not."""
    for turn in range(6):
        content = f"content {turn}".encode()
        repository.add_artifact("targets", "file", content)
        repository.publish_all("targets")
        if turn % 2:
            continue
        assert client.download("file") == 0
        assert client.downloads() == [content]
        repository.served[repository.artifact_place("targets", "file")] = b"malicious"
        client.download("file")
        assert client.downloads() == [content]
