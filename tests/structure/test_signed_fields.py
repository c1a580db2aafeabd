"""Every field of every signed document stands in docs/deploy/signed_fields.md, with who may set it; no other does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from alcove.registry import limits
from alcove.registry._tuf import Metadata
from alcove.registry.manifest import Manifest
from alcove.registry.policy import Halt, Policy
from alcove.registry.reinstatements import Reinstatement
from alcove.registry.team import raise_min_version, reinstate
from alcove.registry.testing import RepositoryFixture, next_team_metadata
from pydantic import BaseModel

ROLES = ("root", "targets", "snapshot", "timestamp", "policy", "halt", "team-NAME", "bin-NAME-HEX")
DOCUMENTS: dict[str, type[BaseModel]] = {
    "policy/APP.json": Policy,
    "halt/APP.json": Halt,
    "FEATURE/VERSION.json": Manifest,
}
# Mappings whose keys are names, not fields.
NAMED = {"keys": "KEYID", "roles": "ROLE", "meta": "ROLE.json", "targets": "PATH", "hashes": "sha256"}


def of_json(value: Any, place: str = "", parent: str = "") -> Iterator[str]:
    """Dotted names of all fields of signed metadata."""
    if isinstance(value, list):
        parts = [item for item in value if isinstance(item, dict)]
        for item in parts:
            yield from of_json(item, f"{place}[]")
        if not parts:
            yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            name = NAMED.get(parent, str(key))
            yield from of_json(item, f"{place}.{name}" if place else name, key if parent not in NAMED else "")
    else:
        yield place


def of_schema(schema: dict[str, Any], known: dict[str, Any], place: str = "") -> Iterator[str]:
    """Dotted names of all fields of a document, by its schema."""
    if "$ref" in schema:
        yield from of_schema(known[schema["$ref"].rpartition("/")[2]], known, place)
        return
    options = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    if options:
        for one in options:
            yield from of_schema(one, known, place)
    elif "properties" in schema:
        for name, part in schema["properties"].items():
            yield from of_schema(part, known, f"{place}.{name}" if place else name)
    elif "patternProperties" in schema or isinstance(schema.get("additionalProperties"), dict):
        parts = schema.get("patternProperties", {}).values() or [schema["additionalProperties"]]
        for part in parts:
            yield from of_schema(part, known, f"{place}.NAME")
    elif isinstance(schema.get("items"), dict) and schema["items"].get("$ref", schema["items"].get("anyOf")):
        yield from of_schema(schema["items"], known, f"{place}[]")
    else:
        yield place


@pytest.fixture
def signed(tmp_path: Path) -> dict[str, set[str]]:
    """Fields of each document of a tree that uses everything."""
    world = RepositoryFixture(tmp_path)
    world.push(world.package())
    with mock.patch.object(limits, "BIN_VERSIONS", 1):
        for version in ("1.0.0", "1.1.0"):
            world.push(world.package(version, feature="bandwidth", team="speech"))
    world.tree.publish_policy("messenger", world.policy(1).to_bytes())
    world.tree.publish_halt("messenger", Halt(app="messenger", serial=1).to_bytes())
    team = next_team_metadata(world.tree.state(), "speech", expires_s=world.clock.now_s() + 86_400)
    raise_min_version("team-speech", team.signed, "bandwidth", "1.0.0")
    lift = Reinstatement(app="messenger", feature="bandwidth", manifest_sha256="0" * 64, serial=1)
    reinstate("team-speech", team.signed, lift)
    team.sign(world.keys.teams["speech"])
    world.publish_anyway("team-speech", team)
    found: dict[str, set[str]] = {}
    for path in sorted((world.tree.folder / "metadata").iterdir()):
        role = path.name.removesuffix(".json").rpartition(".")[2]
        role = "bin-NAME-HEX" if role.startswith("bin-") else "team-NAME" if role.startswith("team-") else role
        names = of_json(Metadata[Any].from_bytes(path.read_bytes()).to_dict()["signed"])
        found.setdefault(role, set()).update(name for name in names if not name.startswith("x-alcove-min-versions."))
        found[role] |= {"x-alcove-min-versions.FEATURE"} if "x-alcove-min-versions" in path.read_text() else set()
    for kind, model in DOCUMENTS.items():
        schema = model.model_json_schema(mode="validation")
        found[kind] = set(of_schema(schema, schema.get("$defs", {})))
    return found


def read_tables(repository: Path) -> dict[str, set[str]]:
    """The fields in the tables of the document, by the heading above each."""
    text = (repository / "docs" / "deploy" / "signed_fields.md").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    heading = ""
    for line in text.splitlines():
        if match := re.match(r"## `([^`]+)`", line):
            heading = match[1]
        elif heading and line.startswith("| `"):
            found.setdefault(heading, set()).update(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return found


def test_every_signed_field_is_in_the_document(repository: Path, signed: dict[str, set[str]]) -> None:
    """A field that is new, or gone, is found here: somebody has to say who may set it, and what devices demand."""
    document = read_tables(repository)
    assert set(document) == set(signed) == {*ROLES, *DOCUMENTS}
    for kind, fields in signed.items():
        assert document[kind] == fields, kind
