"""Writes the bill of materials of a release: `python -m tools.sbom [--extra NAME ...] [--out FILE]`.

In CycloneDX: the distribution `alcove-sdk` with what the environment has installed of its requirements (the bare
install, and the extras that are named), each with version, licence and package URL, who needs whom, and what native
libraries hold inside them. The same environment gives the same bytes: the time is SOURCE_DATE_EPOCH, or the beginning
of 1980.
Each wheel carries a smaller bill (`describe_wheel`): what lies inside it, and nothing that is installed beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from tools.distributions import SDK

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent
VENDORED = ROOT / "platform/console/assets/vendor/digests.json"
FIRST_ZIP_TIME = 315532800
"""1980-01-01, as in the wheel: the earliest time that an archive can say."""
INSIDE = {
    "libstdc++": (
        "GPL-3.0-only WITH GCC-exception-3.1",
        "the C++ library, linked into libalcove.so",
    ),
    "libgcc": ("GPL-3.0-only WITH GCC-exception-3.1", "the compiler's own functions, linked into the same"),
    "robin-map": ("MIT", "hash tables of nanobind, in the Python modules"),
    "unicode-character-database": ("Unicode-3.0", "tables of characters, in libalcove.so and the runtime's module"),
}
"""What is inside the native libraries; versions are the compiler's and nanobind's. nanobind is listed with its own."""


def normal(name: str) -> str:
    """Return a distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def list_requirements(name: str, extras: frozenset[str]) -> list[Requirement]:
    """Return what an installed distribution requires here, with some of its extras.

    Raises:
        metadata.PackageNotFoundError: it is not installed.
    """
    found = [Requirement(line) for line in metadata.requires(name) or []]
    environments = [{"extra": extra} for extra in sorted(extras) or [""]]
    return [r for r in found if r.marker is None or any(r.marker.evaluate(e) for e in environments)]


def licence(name: str) -> str:
    """Return what a distribution says of its licence: an expression, or a name; "" if it says nothing."""
    facts = metadata.metadata(name)
    licence_name = next(iter([*(facts.get_all("License-Expression") or []), *(facts.get_all("License") or [])]), "")
    if licence_name and "\n" not in licence_name and len(licence_name) < 100:
        return licence_name
    classes = [line.rsplit(" :: ", 1)[1] for line in facts.get_all("Classifier") or [] if line.startswith("License")]
    return classes[0] if classes else ""


def component(name: str) -> Component:
    """Return the entry of an installed distribution."""
    version, licence_name = metadata.version(name), licence(name)
    url = PackageURL("pypi", None, normal(name), version)
    licences = [LicenseFactory().make_from_string(licence_name)] if licence_name else []
    kind = ComponentType.APPLICATION if name == SDK else ComponentType.LIBRARY
    return Component(name=normal(name), version=version, type=kind, purl=url, bom_ref=str(url), licenses=licences)


def bill(extras: frozenset[str], time_s: int) -> Bom:
    """Return the bill of the distribution with some of its extras.

    Args:
        extras: of pyproject.toml.
        time_s: when it is said to be written, in seconds since 1970.

    Raises:
        metadata.PackageNotFoundError: a requirement is not installed; names it.
    """
    bom = Bom()
    bom.metadata.timestamp = datetime.fromtimestamp(time_s, UTC)
    parts: dict[str, Component] = {}
    waiting = [(SDK, extras)]
    links: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        parts.setdefault(name, component(name))
        for requirement in list_requirements(name, wanted):
            other = normal(requirement.name)
            if other != name:
                links.setdefault(name, set()).add(other)
            waiting.append((other, frozenset(requirement.extras) | (wanted if other == name else frozenset())))
    inside = inside_native() | (inside_console() if "server" in extras else {})
    parts |= inside
    links.setdefault(SDK, set()).update(inside)
    bom.metadata.component = parts[SDK]
    for name, part in parts.items():
        if name != SDK:
            bom.components.add(part)
        bom.register_dependency(part, [parts[other] for other in sorted(links.get(name, ()))])
    listed = " ".join(sorted(str(part.bom_ref) for part in parts.values()))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{listed} {time_s}")
    return bom


def inside_native() -> dict[str, Component]:
    """Return what the native libraries hold of others, by name."""
    parts = {"nanobind": component("nanobind")}  # compiled into the Python modules
    for name, (licence_name, role) in INSIDE.items():
        parts[name] = Component(name=name, type=ComponentType.LIBRARY, description=role, bom_ref=f"inside:{name}")
        parts[name].licenses.add(LicenseFactory().make_from_string(licence_name))
    return parts


def inside_console() -> dict[str, Component]:
    """Return what the console has of others, by name."""
    parts: dict[str, Component] = {}
    for file, facts in json.loads(VENDORED.read_text(encoding="utf-8")).items():
        name, version = facts["package"], facts["version"]
        url = PackageURL("npm", None, name, version)
        digest = HashType(alg=HashAlgorithm.SHA_256, content=facts["sha256"])
        kind = ComponentType.LIBRARY
        part = Component(
            name=name, version=version, type=kind, purl=url, bom_ref=str(url), description=file, hashes=[digest]
        )
        part.licenses.add(LicenseFactory().make_from_string(facts["licence"]))
        parts[name] = part
    return parts


def describe_wheel(
    name: str, version: str, programs: Mapping[str, bytes], *, is_native: bool, has_console: bool = False
) -> str:
    """Return the bill that a wheel carries, as CycloneDX: what lies inside it that is not its own Python.

    Args:
        name: of the distribution.
        version: of the distribution.
        programs: bytes of its compiled models, by their names with versions.
        is_native: it holds the native libraries.
        has_console: it holds the console.
    """
    bom = Bom()
    bom.metadata.timestamp = datetime.fromtimestamp(FIRST_ZIP_TIME, UTC)
    url = PackageURL("pypi", None, name, version)
    whole = Component(name=name, version=version, type=ComponentType.LIBRARY, purl=url, bom_ref=str(url))
    whole.licenses.add(LicenseFactory().make_from_string("Apache-2.0"))
    bom.metadata.component = whole
    parts = list(inside_native().values()) if is_native else []
    parts += inside_console().values() if has_console else ()
    for program, data in sorted(programs.items()):
        digest = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())
        model = Component(
            name=program, type=ComponentType.MACHINE_LEARNING_MODEL, bom_ref=f"inside:{program}", hashes=[digest]
        )
        model.licenses.add(LicenseFactory().make_from_string("Apache-2.0"))
        parts.append(model)
    for part in parts:
        bom.components.add(part)
        bom.register_dependency(part)
    bom.register_dependency(whole, parts)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{url} {sorted(str(part.bom_ref) for part in parts)}")
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def main() -> None:
    """Write the bill."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("--extra", action="append", default=[], help="an extra of pyproject.toml; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "build/sbom.cdx.json")
    options = parser.parse_args()
    bom = bill(frozenset(options.extra), int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_ZIP_TIME)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n", encoding="utf-8")
    print(f"{options.out}: {SDK} and {len(bom.components)} components")


if __name__ == "__main__":
    main()
