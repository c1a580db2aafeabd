"""The bill of materials names what a release carries, in valid CycloneDX, with the same bytes each time."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tools.distributions import SDK
from tools.sbom import INSIDE, describe_wheel


def write_sbom(repository: Path, folder: Path, *extras: str) -> bytes:
    """What `python -m tools.sbom` writes."""
    out = folder / "sbom.json"
    chosen = [f"--extra={name}" for name in extras]
    command = [sys.executable, "-W", "error", "-m", "tools.sbom", "--out", str(out), *chosen]
    subprocess.run(command, check=True, cwd=repository, stdout=subprocess.DEVNULL)
    return out.read_bytes()


@pytest.fixture(scope="module")
def bare(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bill of the bare install."""
    return write_sbom(repository, tmp_path_factory.mktemp("sbom"))


def names(bill: bytes) -> dict[str, dict[str, Any]]:
    """Components by name."""
    return {part["name"]: part for part in json.loads(bill)["components"]}


def find_error(bill: str) -> object:
    """What CycloneDX's own strict schema says of a bill; None: it is valid."""
    # The validator's grammar takes seconds to load, which only the process that runs these tests need spend.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill)


def test_the_bill_is_valid_and_the_same_each_time(bare: bytes, repository: Path, tmp_path: Path) -> None:
    """By CycloneDX's own strict schema; no random number, no time of today."""
    assert find_error(bare.decode("utf-8")) is None
    assert write_sbom(repository, tmp_path) == bare


def test_a_broken_bill_would_be_noticed(bare: bytes) -> None:
    """A test for the tests: the validator refuses a component without a name."""
    assert find_error(bare.decode("utf-8").replace('"name"', '"nom"', 1)) is not None


def test_every_requirement_of_the_bare_install_is_there_with_version_and_licence(bare: bytes) -> None:
    """What every app carries, and what the native libraries hold inside; nothing of the server."""
    parts = names(bare)
    required = [line for line in metadata.requires(SDK) or [] if "extra ==" not in line]
    direct = {re.split(r"[^\w.-]", line)[0].lower().replace(".", "-") for line in required}
    assert len(direct) == 5
    assert direct | INSIDE.keys() | {"nanobind", "cffi", "securesystemslib"} <= parts.keys()
    assert not parts.keys() & {"torch", "grpcio", "sqlalchemy", "pytest"}
    for name, part in parts.items():
        assert part["licenses"], name
        if name not in INSIDE:
            assert part["version"] == metadata.version(name)
            assert part["purl"] == f"pkg:pypi/{name}@{part['version']}"
    links = {entry["ref"]: entry.get("dependsOn", []) for entry in json.loads(bare)["dependencies"]}
    root = json.loads(bare)["metadata"]["component"]["bom-ref"]
    assert {parts[name]["bom-ref"] for name in direct} <= set(links[root])
    assert links.keys() == {root} | {part["bom-ref"] for part in parts.values()}


def test_an_extra_adds_what_it_needs(bare: bytes, repository: Path, tmp_path: Path) -> None:
    """The server's libraries with the extras `commands` and `server`."""
    added = names(write_sbom(repository, tmp_path, "commands", "server")).keys() - names(bare).keys()
    assert {"grpcio", "sqlalchemy", "obstore", "jinja2", "htmx.org"} <= added
    assert "torch" not in added


def test_a_wheel_says_what_lies_inside_it(repository: Path) -> None:
    """A valid bill, the same each time: what native libraries hold, or programs with their digests."""
    native = describe_wheel(SDK, "0.1.0", {}, is_native=True)
    assert names(native.encode()).keys() == INSIDE.keys() | {"nanobind"}
    feature = describe_wheel("alcove-feature-x", "0.1.0", {"x-1.0.0": b"a program"}, is_native=False)
    (program,) = names(feature.encode()).values()
    assert program["hashes"] == [{"alg": "SHA-256", "content": sha256(b"a program").hexdigest()}]
    platform = describe_wheel("alcove-platform", "0.1.0", {}, is_native=False, has_console=True)
    assert names(platform.encode()).keys() == {"htmx.org", "uplot"}
    for bill in (native, feature, platform):
        assert find_error(bill) is None
    assert describe_wheel(SDK, "0.1.0", {}, is_native=True) == native


def test_licences_of_what_the_modules_hold_are_those_of_the_installed(repository: Path) -> None:
    """A newer nanobind brings its own text: the file of licences has it, and that of the hash tables inside it."""
    text = " ".join((repository / "THIRD_PARTY_LICENSES.txt").read_text(encoding="utf-8").split())
    (own,) = [each for each in metadata.files("nanobind") or [] if each.name == "LICENSE"]
    assert " ".join(own.read_text().split()) in text
    (header,) = [each for each in metadata.files("nanobind") or [] if each.name == "robin_map.h"]
    assert " ".join(header.read_text().partition("*/")[0].replace("*", " ").strip("/ ").split()) in text
