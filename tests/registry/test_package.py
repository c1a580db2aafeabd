"""A package is what its manifest says, byte for byte, or is refused with an error that names the fault."""

import dataclasses
import hashlib
import json
import random
from pathlib import Path

import pytest
from alcove.registry import limits
from alcove.registry.canonical import canonical_json, version_key
from alcove.registry.delta import make_delta
from alcove.registry.errors import (
    DeltaError,
    DocumentError,
    DocumentTooLargeError,
    IntegrityError,
    PackageError,
    ProgramRefusedError,
    StorageError,
)
from alcove.registry.manifest import Manifest, ModelSignature, PortSignature, Requirements
from alcove.registry.package import Package, create_package, read_package, verify_package, write_package
from alcove.registry.program_verification import ProgramFacts
from alcove.registry.testing import FakeVerifier
from hypothesis import given
from hypothesis import strategies as st

INSPECTOR = FakeVerifier()


def package(**changes: object) -> Package:
    """A package of two variants."""
    fields: dict[str, object] = {
        "feature": "language_id",
        "team": "text",
        "version": "1.2.3",
        "programs": {"int8": b"program small", "f32": b"program large"},
        "card": "# Sprachen: äöü",
        "verifier": INSPECTOR,
    }
    return create_package(**{**fields, **changes})  # type: ignore[arg-type]


def with_file(original: Package, path: str, data: bytes | None) -> Package:
    """The package with one file replaced, or dropped."""
    files = {name: content for name, content in original.files.items() if name != path}
    return Package(original.manifest, files if data is None else files | {path: data})


def test_created_package_verifies_and_survives_its_folder(tmp_path: Path) -> None:
    """What was written is read back equal; the report names every variant."""
    created = package()
    write_package(created, tmp_path / "out")
    again = read_package(tmp_path / "out")
    assert (again.manifest, dict(again.files)) == (created.manifest, dict(created.files))
    report = verify_package(again, verifier=INSPECTOR)
    assert [item.name for item in report.variants] == ["f32", "int8"]
    assert report.manifest_sha256 == created.manifest.sha256
    assert created.manifest.path == "language_id/1.2.3.json"
    assert again.blobs().keys() == created.manifest.blobs().keys()
    assert created.program("f32") == b"program large"
    with pytest.raises(PackageError, match="no variant 'f16'; it has f32, int8"):
        created.program("f16")


def test_manifest_round_trips_and_every_flipped_byte_changes_it_or_is_refused() -> None:
    """Canonical bytes name one manifest."""
    manifest = package().manifest
    data = manifest.to_bytes()
    assert Manifest.from_bytes(data) == manifest
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1
        try:
            assert Manifest.from_bytes(bytes(altered)).sha256 != manifest.sha256
        except DocumentError:
            continue


def test_oversize_manifest_is_refused_before_it_is_parsed() -> None:
    """The cap stands in the error."""
    with pytest.raises(DocumentTooLargeError) as caught:
        Manifest.from_bytes(b"{" * (limits.MANIFEST_MAX_BYTES + 1))
    assert caught.value.limit_bytes == limits.MANIFEST_MAX_BYTES


@given(st.binary(max_size=200))
def test_any_bytes_give_a_manifest_or_a_typed_error(data: bytes) -> None:
    """Nothing but DocumentError escapes."""
    with pytest.raises(DocumentError):
        Manifest.from_bytes(data)


@pytest.mark.parametrize("path", ["CARD.md", "programs/f32.alc", "programs/int8.alc"])
def test_altered_absent_or_superfluous_file_is_refused(path: str) -> None:
    """Each file is named with what was expected and seen."""
    good = package()
    altered = bytes([good.files[path][0] ^ 1]) + good.files[path][1:]
    with pytest.raises(IntegrityError) as caught:
        verify_package(with_file(good, path, altered), verifier=INSPECTOR)
    assert caught.value.thing == path
    with pytest.raises(IntegrityError, match="bytes"):
        verify_package(with_file(good, path, good.files[path] + b"x"), verifier=INSPECTOR)
    with pytest.raises(PackageError, match=path):
        verify_package(with_file(good, path, None), verifier=INSPECTOR)
    with pytest.raises(PackageError, match="extra"):
        verify_package(with_file(good, "extra", b""), verifier=INSPECTOR)


def test_program_that_breaks_its_certificate_is_refused() -> None:
    """The variant is named."""
    with pytest.raises(ProgramRefusedError) as caught:
        verify_package(package(programs={"f32": b"program wrong"}), verifier=INSPECTOR)
    assert caught.value.variant == "f32"


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_ceiling_bytes": 1},
        {"certificate_sha256": "0" * 64},
        {
            "signature": ModelSignature(
                inputs=(PortSignature(name="a", dtype="f32", shape=()),),
                outputs=(PortSignature(name="b", dtype="f32", shape=()),),
            )
        },
    ],
)
def test_manifest_that_says_something_else_than_the_program_is_refused(changes: dict[str, object]) -> None:
    """Signature, memory and certificate are the program's own."""

    class Different(FakeVerifier):
        def inspect(self, variant: str, program: bytes) -> ProgramFacts:
            return dataclasses.replace(super().inspect(variant, program), **changes)  # type: ignore[arg-type]

    with pytest.raises(ProgramRefusedError):
        verify_package(package(), verifier=Different())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feature": "policy"}, "folder of the tree"),
        ({"feature": "../x"}, "feature"),
        ({"team": "Text"}, "team"),
        ({"version": "1.2"}, "version"),
        ({"version": "01.2.3"}, "version"),
        ({"programs": {}}, "at least one program"),
        ({"programs": {"../up": b"program"}}, "variants"),
        ({"programs": {f"v{index}": b"program" for index in range(17)}}, "variants"),
        ({"programs": {"f32": b"nonsense"}}, "no program"),
        ({"card": ""}, "card"),
    ],
)
def test_impossible_package_is_refused(changes: dict[str, object], words: str) -> None:
    """The error names the field and the bound."""
    with pytest.raises(PackageError, match=words):
        package(**changes)


def test_variants_with_different_signatures_are_refused() -> None:
    """All variants of a version keep one contract."""

    class Disagreeing(FakeVerifier):
        def inspect(self, variant: str, program: bytes) -> ProgramFacts:
            facts = super().inspect(variant, program)
            port = PortSignature(name=f"text of {variant}", dtype="text", shape=())
            return dataclasses.replace(facts, signature=ModelSignature(inputs=(port,), outputs=facts.signature.outputs))

    with pytest.raises(PackageError, match="'int8' differs from 'f32'"):
        package(verifier=Disagreeing())


def test_folder_of_another_package_is_not_overwritten(tmp_path: Path) -> None:
    """Writing the same again is harmless; another version is refused."""
    write_package(package(), tmp_path)
    write_package(package(), tmp_path)
    with pytest.raises(PackageError, match="another package"):
        write_package(package(version="2.0.0"), tmp_path)
    assert read_package(tmp_path).manifest.version == "1.2.3"


def test_folder_with_a_missing_or_oversize_file_is_refused(tmp_path: Path) -> None:
    """Nothing beyond the bound is read."""
    write_package(package(), tmp_path)
    (tmp_path / "CARD.md").write_bytes(b" " * (limits.CARD_MAX_BYTES + 1))
    with pytest.raises(PackageError, match="1048576"):
        read_package(tmp_path)
    (tmp_path / "CARD.md").unlink()
    with pytest.raises(StorageError) as caught:
        read_package(tmp_path)
    assert caught.value.path.endswith("CARD.md")


def test_signed_documents_hold_no_float() -> None:
    """Anywhere inside."""
    for value in (1.0, [1.0], {"a": [{"b": 0.5}]}):
        with pytest.raises(ValueError, match="float"):
            canonical_json(value)
    assert canonical_json({"b": [1, "ä", None], "a": True}) == '{"a":true,"b":[1,"ä",null]}'.encode()


def test_versions_sort_by_number() -> None:
    """1.10.0 is above 1.9.0; another form is refused."""
    assert sorted(["1.10.0", "1.9.0", "0.99.99"], key=version_key) == ["0.99.99", "1.9.0", "1.10.0"]
    for text in ("1", "1.2", "1.2.3.4", "1.2.x", "-1.2.3", "1.2.3 ", "1.2.03"):
        with pytest.raises(ValueError, match="MAJOR"):
            version_key(text)


BASE = b"program" + random.Random(0).randbytes(2000)
NEXT = BASE[:1000] + b"another layer" + BASE[1100:]


def test_package_holds_deltas_from_the_programs_before_it(tmp_path: Path) -> None:
    """Only where they are worth it, from no more bases than allowed, and never from the program itself."""
    strangers = [random.Random(seed).randbytes(2000) for seed in range(1, limits.DELTAS_MAX + 1)]
    made = package(programs={"int8": NEXT}, bases={"int8": [BASE, NEXT, *strangers]})
    (delta,) = made.manifest.variants[0].deltas
    assert delta.base_sha256 == hashlib.sha256(BASE).hexdigest()
    assert delta.size_bytes < 0.5 * len(NEXT)
    assert made.manifest.blobs()[delta.sha256] == delta.size_bytes
    assert Manifest.from_bytes(made.manifest.to_bytes()) == made.manifest
    write_package(made, tmp_path / "out")
    again = read_package(tmp_path / "out")
    assert dict(again.files) == dict(made.files)
    known = {delta.base_sha256: BASE}
    verify_package(again, verifier=INSPECTOR, base=known.get)
    late = package(programs={"int8": NEXT}, bases={"int8": [*strangers, BASE]})
    assert late.manifest.variants[0].deltas == ()
    assert late.manifest == package(programs={"int8": NEXT}).manifest


def test_delta_that_makes_another_program_is_refused() -> None:
    """Its own digest is right, so only applying it tells; without its base nobody can."""
    made = package(programs={"int8": NEXT}, bases={"int8": [BASE]})
    (path,) = (path for path in made.files if path.startswith("deltas/"))
    (delta,) = made.manifest.variants[0].deltas
    verify_package(made, verifier=INSPECTOR)
    for data, error in ((make_delta(BASE, bytes(len(NEXT))), IntegrityError), (b"no delta", DeltaError)):
        signed = {"base_sha256": delta.base_sha256, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        document = json.loads(made.manifest.to_bytes())
        document["variants"][0]["deltas"] = [signed]
        wrong = Package(Manifest.from_bytes(canonical_json(document)), dict(made.files) | {path: data})
        with pytest.raises(error):
            verify_package(wrong, verifier=INSPECTOR, base={delta.base_sha256: BASE}.get)
    with pytest.raises(IntegrityError):
        verify_package(with_file(made, path, b"no delta"), verifier=INSPECTOR)
    with pytest.raises(PackageError):
        verify_package(with_file(made, path, None), verifier=INSPECTOR)


def test_manifest_with_impossible_deltas_is_refused() -> None:
    """Bases twice or out of order, the program as its own base, a delta as large as the program, too many."""
    document = json.loads(package(programs={"int8": NEXT}, bases={"int8": [BASE]}).manifest.to_bytes())
    variant = document["variants"][0]
    (good,) = variant["deltas"]
    others = [good | {"base_sha256": f"{number:064x}"} for number in range(limits.DELTAS_MAX + 1)]
    for wrong in (
        [good, good],
        [others[1], others[0]],
        [good | {"base_sha256": variant["sha256"]}],
        [good | {"size_bytes": variant["size_bytes"]}],
        others,
    ):
        variant["deltas"] = wrong
        with pytest.raises(DocumentError, match=r"deltas|delta must be smaller|at most 4"):
            Manifest.from_bytes(canonical_json(document))
    variant["deltas"] = others[: limits.DELTAS_MAX]
    assert len(Manifest.from_bytes(canonical_json(document)).variants[0].deltas) == limits.DELTAS_MAX


def test_needs_of_a_variant_are_signed_and_only_of_variants_that_are_there() -> None:
    """A manifest without requirements has no such field, so that older ones keep their bytes."""
    made = package(requirements={"f32": Requirements(memory_bytes=1 << 32, isa="avx512")})
    assert [str(variant.requirements or "") for variant in made.manifest.variants] == [
        "avx512, 4294967296 bytes of memory",
        "",
    ]
    assert Manifest.from_bytes(made.manifest.to_bytes()) == made.manifest
    assert b"needs" not in package().manifest.to_bytes()
    with pytest.raises(PackageError, match="given for f16, which the package does not have"):
        package(requirements={"f16": Requirements(cores=2)})
    for wrong in ({"isa": "mmx"}, {"cores": -1}, {}, {"memory_bytes": 2**41}):
        document = json.loads(made.manifest.to_bytes())
        document["variants"][0]["needs"] = wrong
        with pytest.raises(DocumentError):
            Manifest.from_bytes(canonical_json(document))
