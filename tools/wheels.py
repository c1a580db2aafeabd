"""Cuts the built wheels into what each kind of user installs: `python -m tools.wheels WHEEL ... OUT`.

    alcove-sdk                what every app carries: SDK, runtime, verification, policy, reports
    alcove-feature-NAME       one feature: its contract, program and card
    alcove-platform           the rest: compiler, training, command line; its extra `server` adds what a server needs

The packages are one tree and one build.  What goes where follows from imports: an app carries what its roots import
(`ROOTS`), a feature what its contract and public names import, and everything else is the platform's.  A file is in
one wheel at most, so that they install beside each other; what only tests run (`TESTS_ONLY`) is in none.
The bare wheel may be `BARE_BYTES` long at most.

Given are a wheel for Python 3.11 and one for all from 3.12 on, or one of them: they differ in the native modules alone,
so that `alcove-sdk` is written for each and the others once.  auditwheel says from which glibc on the native ones run;
that becomes their tag, and without auditwheel they keep `linux`, which says nothing.  What they hold of others is in
a bill of materials inside (PEP 770), and its licences are beside alcove's.  `requirements.txt` beside the wheels has
the version and the digests of each.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grimp

from benchmarks.sections import Section, table_lines
from tools.distributions import PLATFORM, SDK, name_feature, read_extras
from tools.sbom import describe_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
SECTION: Final = Section("wheels", "make wheel")
BARE_BYTES: Final = 2_500_000
THIRD_PARTY: Final = "THIRD_PARTY_LICENSES.txt"
TIME: Final = (2020, 1, 1, 0, 0, 0)
DOUBLES: Final = ("alcove.sdk.testing", "alcove.registry.testing", "alcove.runtime.testing")
TESTS_ONLY: Final = (
    "alcove.platform.cli.demo.testing",
    "alcove.platform.testing",
    "alcove.registry.hostile_trees",
    "alcove.registry.testing",
    "alcove.runtime.testing_ops",
)
"""What no command and no app runs: stays in the repository."""
ROOTS: Final = (
    "alcove.sdk",
    "alcove.privacy",
    "alcove.features",
    "alcove.features.errors",
    "alcove.features.picture",
    "alcove.features.region",
    "alcove.registry.policy",
    "alcove.registry.client",
    "alcove.runtime.model",
    "alcove.runtime.profile",
)
BARE_FILES: Final = (
    "alcove/__init__.py",
    "alcove/__main__.py",
    "alcove/py.typed",
    "alcove/runtime/__main__.py",
    "alcove/runtime/include/",
    "alcove/runtime/libalcove",
    "alcove/runtime/_native",
    "alcove/privacy/_native",
    "alcove/platform/cli/__init__.py",
    "alcove/platform/cli/entry.py",
)
"""What nothing imports: `alcove` itself, the C interface, native modules, the command that names the missing extra."""
EXAMPLES: Final = ("example", "stream", "files")
"""Modules of a feature besides its contract that an app uses, where there are."""
DATA: Final = {
    "language_id": ("alcove/features/language_id/sentences.tsv",),
    "scene_tags": ("alcove/features/scene_tags/tags.tsv",),
}
"""Files that such modules read."""


@dataclass(frozen=True)
class Cut:
    """One wheel: its name, its summary, what it holds and needs."""

    name: str
    summary: str
    files: frozenset[str]
    requires: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    script: str = ""

    @property
    def without(self) -> frozenset[str]:
        """Licences of the whole that are not for this part: those of what native libraries and the console hold."""
        return frozenset() if self.is_native or self.has_console else frozenset({THIRD_PARTY})

    @property
    def has_console(self) -> bool:
        """Whether it holds the console, and so files of others."""
        return any("/console/assets/vendor/" in name for name in self.files)

    @property
    def is_native(self) -> bool:
        """Whether it holds what was compiled."""
        return any(name.endswith(".so") for name in self.files)


@cache
def read_imports(view: str, *, with_types: bool) -> grimp.ImportGraph:
    """Return who imports whom in the tree; optionally also what only type checkers import."""
    sys.path[:0] = [view]
    return grimp.build_graph("alcove", cache_dir=None, exclude_type_checking_imports=not with_types)


def find_imported(graph: grimp.ImportGraph, roots: Iterable[str], within: str = "alcove") -> set[str]:
    """Return the modules that some modules import, directly or not, and the packages that these are in."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in found or not module.startswith(within) or module not in graph.modules:
            continue
        found.add(module)
        waiting += graph.find_modules_directly_imported_by(module)
        waiting.append(module.rpartition(".")[0])
    return found


def below(graph: grimp.ImportGraph, package: str) -> set[str]:
    """Return a module and all below it."""
    return {module for module in graph.modules if module == package or module.startswith(f"{package}.")}


@dataclass(frozen=True)
class Whole:
    """The wheel of the whole tree, open."""

    archive: zipfile.ZipFile
    version: str
    tag: str

    @property
    def info(self) -> str:
        """Its metadata folder."""
        return next(name for name in self.archive.namelist() if ".dist-info/" in name).partition("/")[0]

    @property
    def names(self) -> set[str]:
        """Every file but its metadata."""
        return {name for name in self.archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}


def files_of(modules: Iterable[str], names: set[str]) -> set[str]:
    """Return the files of modules, with `py.typed` and `.pyi` beside them."""
    wanted = set()
    for module in modules:
        path = module.replace(".", "/")
        wanted |= {f"{path}.py", f"{path}.pyi", f"{path}/__init__.py", f"{path}/py.typed"}
    return wanted & names


def features(names: set[str], version: str, run: grimp.ImportGraph, named: grimp.ImportGraph) -> list[Cut]:
    """Return a wheel for each feature: what its contract and public names import, its newest program, its card.

    A folder without a program is no feature yet: its modules are of the wheel that trains.
    """
    found = []
    for name in sorted(
        {name.split("/")[2] for name in names if fnmatch(name, "alcove/features/*/programs/*[0-9].alc")}
    ):
        package, folder = f"alcove.features.{name}", f"alcove/features/{name}"
        starts = [package, f"{package}.contract", *(f"{package}.{each}" for each in EXAMPLES)]
        modules = find_imported(run, starts, package) | find_imported(named, [package], package)
        newest = max(program for program in names if fnmatch(program, f"{folder}/programs/*[0-9].alc"))
        data = {f"{folder}/CARD.md", newest, *DATA.get(name, ())}
        data |= {newest.removesuffix("alc") + kind for kind in ("run.json", "attributes.json")}
        summary = f"The {name} feature of alcove: its contract, program and card"
        files = (files_of(modules, names) | data) & names
        found.append(Cut(name_feature(name), summary, frozenset(files), (f"{SDK}=={version}",), {}))
    return found


def cut(names: set[str], version: str, project: Mapping[str, Any], view: Path) -> list[Cut]:
    """Return the wheels, the bare one first; together they hold every file once that is not for tests only.

    Raises:
        ValueError: a module that is shipped imports one that is not.
    """
    run, named = (read_imports(str(view), with_types=each) for each in (False, True))
    doubles = {module for double in DOUBLES for module in below(run, double)}
    roots = {module for root in ROOTS for module in (below(run, root) if root != "alcove.features" else {root})}
    bare_modules = find_imported(run, roots - doubles) - doubles
    bare = files_of(bare_modules, names) | {name for name in names if name.startswith(BARE_FILES)}
    kept_out = {module for package in TESTS_ONLY for module in below(named, package)}
    importers = {by for one in kept_out for by in named.find_modules_that_directly_import(one)} - kept_out
    if needed := files_of(importers, names):
        raise ValueError(f"{sorted(needed)} import what is for tests only")
    left = names - bare - files_of(kept_out, names)
    parts = features(left, version, run, named)
    left -= {name for each in parts for name in each.files}
    return [
        Cut(
            SDK,
            "Private on-device ML features inside an app: sync signed models, predict, report privately",
            frozenset(bare),
            tuple(project["dependencies"]),
            read_extras(project, SDK),
            project["scripts"]["alcove"],
        ),
        *parts,
        Cut(
            PLATFORM,
            "Compile, certify, sign, ship and compare models for alcove; its extra `server` runs the platform",
            frozenset(left),
            (
                f"{SDK}=={version}",
                *(f"{each.name}=={version}" for each in parts),
                *project["optional-dependencies"]["commands"],
            ),
            read_extras(project, PLATFORM),
        ),
    ]


def metadata_of(whole: bytes, part: Cut) -> bytes:
    """Return the core metadata of a part: the whole's, with its own name, summary, requirements and licences."""
    read = BytesParser().parsebytes(whole)
    result = Message()
    for field, value in read.items():
        if field in ("Requires-Dist", "Provides-Extra") or value in part.without:
            continue
        result[field] = {"Name": part.name, "Summary": part.summary}.get(field, value)
    for requirement in part.requires:
        result["Requires-Dist"] = requirement
    for extra, requirements in part.extras.items():
        result["Provides-Extra"] = extra
        for requirement in requirements:
            result["Requires-Dist"] = f'{requirement}; extra == "{extra}"'
    return result.as_bytes() + whole.partition(b"\n\n")[2]


def write(part: Cut, whole: Whole, out: Path, platform: str) -> Path:
    """Write a part as a wheel; return its path.

    Args:
        part: what it holds.
        whole: where that comes from.
        out: folder of the parts.
        platform: tag of a native part's platform.

    Raises:
        ValueError: the folder has a wheel of this name with other bytes.
    """
    tag = f"{whole.tag.rpartition('-')[0]}-{platform}" if part.is_native else "py3-none-any"
    stem = f"{part.name.replace('-', '_')}-{whole.version}"
    info = f"{stem}.dist-info"
    read = whole.archive.read
    contents = {name: read(name) for name in sorted(part.files)}
    contents[f"{info}/METADATA"] = metadata_of(read(f"{whole.info}/METADATA"), part)
    contents[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: alcove tools.wheels\n"
        f"Root-Is-Purelib: {str(not part.is_native).lower()}\nTag: {tag}\n"
    ).encode()
    licences = [name for name in whole.archive.namelist() if name.startswith(f"{whole.info}/licenses/")]
    contents |= {name.replace(whole.info, info): read(name) for name in licences if Path(name).name not in part.without}
    programs = {Path(name).stem: contents[name] for name in part.files if name.endswith(".alc")}
    bill = describe_wheel(part.name, whole.version, programs, is_native=part.is_native, has_console=part.has_console)
    contents[f"{info}/sboms/{part.name}.cdx.json"] = bill.encode()
    if part.script:
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\nalcove = {part.script}\n".encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    contents[f"{info}/RECORD"] = record.getvalue().encode()
    path = out / f"{stem}-{tag}.whl"
    packed = pack(contents)
    if path.exists() and path.read_bytes() != packed:
        raise ValueError(f"{path.name} is not the same from every wheel that was given")
    path.write_bytes(packed)
    return path


def write_requirements(out: Path) -> None:
    """Write `requirements.txt` into a folder of wheels: every distribution there with the digests of its wheels.

    `pip install --no-deps --require-hashes --find-links FOLDER -r FOLDER/requirements.txt` then takes these bytes and
    no others, whatever an index offers under their names; the lines can be copied into a lock file of an app.
    """
    digests: dict[str, list[str]] = {}
    for path in sorted(out.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        line = f"{name.replace('_', '-')}=={version}"
        digests.setdefault(line, []).append(hashlib.sha256(path.read_bytes()).hexdigest())
    lines = [
        " \\\n    ".join([line, *(f"--hash=sha256:{digest}" for digest in digests[line])]) for line in sorted(digests)
    ]
    (out / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def pack(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive with one time and two modes."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return result.getvalue()


def find_platform(part: Cut, whole: Whole, auditwheel: Path | None) -> str:
    """Return the tag of the systems that a part's native libraries run on: "manylinux_2_35_x86_64".

    Raises:
        ValueError: a library needs one that is neither in the wheel nor on every such system.
        subprocess.CalledProcessError: auditwheel failed.
    """
    written = whole.tag.rpartition("-")[2]
    if auditwheel is None or not part.is_native:
        return written
    with tempfile.TemporaryDirectory() as folder:
        path = write(part, whole, Path(folder), written)
        command = [str(auditwheel), "show", "--json", str(path)]
        said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if missing := said["external_libs"]:
        raise ValueError(f"{part.name} needs {sorted(missing)}, which are on no list of what systems have")
    return str(said["overall_tag"])


def main() -> int:
    """Cut, write, and say what each wheel is; 1 if a bare one is too large."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheels", type=Path, nargs="+", metavar="WHEEL", help="of the whole tree, for some Python")
    parser.add_argument("out", type=Path, help="folder of the parts")
    parser.add_argument("--auditwheel", type=Path, help="the program that tells from which glibc on they run")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the sizes into this page")
    options = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    options.out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[str]] = {}
    largest = 0
    for wheel in options.wheels:
        with zipfile.ZipFile(wheel) as archive:
            whole = Whole(archive, project["version"], wheel.stem.split("-", 2)[2])
            for part in cut(whole.names, whole.version, project, ROOT / "build" / "view"):
                path = write(part, whole, options.out, find_platform(part, whole, options.auditwheel))
                size = path.stat().st_size
                largest = max(largest, size if part.is_native else 0)
                lines = sum(archive.read(name).count(b"\n") for name in part.files if name.endswith(".py"))
                tag = path.stem.split("-", 2)[2]
                rows[path.name] = [part.name, f"`{tag}`", f"{size:,}", f"{len(part.files)}", f"{lines:,}"]
    write_requirements(options.out)
    table = "\n".join(table_lines(("wheel", "for", "bytes", "files", "lines of Python"), sorted(rows.values())))
    print(table)
    if options.write is not None:
        SECTION.write(options.write, table, {})
    if largest > BARE_BYTES:
        print(f"the bare wheel has {largest:,} bytes, at most {BARE_BYTES:,} are allowed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
