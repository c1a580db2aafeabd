"""A package of a compiled program is verified and published, and refusals by the runtime become typed errors."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from alcove.registry.errors import IntegrityError, ProgramRefusedError
from alcove.registry.manifest import PortSignature
from alcove.registry.package import Package, create_package, read_package, verify_package, write_package
from alcove.registry.program_verification import RuntimeVerifier
from alcove.registry.testing import RepositoryFixture
from alcove.runtime import export, load
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.writer import write_program
from alcove.runtime.ops import LabelledTopK, NgramHash
from torch import Tensor, nn
from torch.nn import functional

BUCKETS = 64
CAPACITY = 128


class TinyLanguages(nn.Module):
    """Tells made-up languages by their n-grams; untrained."""

    def __init__(self, labels: Sequence[str] = ("aa", "bb", "cc")) -> None:
        super().__init__()
        self.hash = NgramHash(min_order=1, max_order=2, buckets=BUCKETS, seed=7, capacity=CAPACITY)
        self.table = nn.Parameter(torch.randn(BUCKETS, 8, generator=torch.Generator().manual_seed(1)))
        self.out = nn.Linear(8, len(labels))
        self.top = LabelledTopK(list(labels), 2)

    def forward(self, utf8: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two best probabilities and their languages."""
        ids: Tensor = self.hash(utf8)
        pooled = functional.embedding_bag(ids, self.table, ids.new_zeros(1), mode="mean")
        best: tuple[Tensor, Tensor] = self.top(functional.softmax(self.out(pooled), dim=-1))
        return best


@pytest.fixture(scope="module")
def bare_program() -> bytes:
    """A compiled program without a certificate."""
    return bytes(export(TinyLanguages().eval(), ("a sample",)))


@pytest.fixture(scope="module")
def program() -> bytes:
    """A compiled program with its certificate."""
    torch.manual_seed(3)
    module = TinyLanguages().eval()
    compiled = bytes(export(module, ("a sample",)))
    samples = [Sample(inputs=(text,), source="written for this test") for text in ("ein Satz", "une phrase", "")]
    return embed_certificate(compiled, certify(compiled, module, samples, "own text", "standard"))


def package(program: bytes) -> Package:
    """A package of this one program."""
    return create_package(feature="language_id", team="text", version="1.0.0", programs={"f32": program}, card="# Tiny")


def test_compiled_program_is_packed_verified_published_and_read(
    program: bytes, published_repository: RepositoryFixture, tmp_path: Path
) -> None:
    """From torch to a device's manifest; the signature is the program's own."""
    packed = create_package(
        feature="language_id", team="text", version="2.0.0", programs={"f32": program}, card="# Tiny"
    )
    signature = packed.manifest.signature
    assert [(port.dtype, port.shape) for port in signature.inputs] == [("text", ())]
    assert signature.outputs[-1] == PortSignature(
        name=signature.outputs[-1].name, dtype="i64", shape=(1, 2), labels=("aa", "bb", "cc")
    )
    assert packed.manifest.variants[0].memory_ceiling_bytes > 0
    write_package(packed, tmp_path / "package")
    report = verify_package(read_package(tmp_path / "package"))
    assert report.manifest_sha256 == packed.manifest.sha256
    published_repository.push(packed)
    assert published_repository.client().manifest("language_id", "2.0.0") == packed.manifest
    assert published_repository.tree.check().is_sound


def test_program_without_certificate_is_refused(bare_program: bytes) -> None:
    """Nothing can be published that does not prove what it computes."""
    with pytest.raises(ProgramRefusedError, match="no parity certificate"):
        package(bare_program)


def test_every_seventh_flipped_byte_of_a_program_is_refused(program: bytes) -> None:
    """By the digest of the manifest; and by the runtime alone where a manifest was made to fit."""
    good = package(program)
    verifier = RuntimeVerifier()
    for position in range(0, len(program), 7):
        altered = bytearray(program)
        altered[position] ^= 1
        with pytest.raises(IntegrityError):
            verify_package(Package(good.manifest, {**good.files, "programs/f32.alc": bytes(altered)}))
        with pytest.raises(ProgramRefusedError) as caught:
            verifier.certify("f32", bytes(altered))
        assert caught.value.variant == "f32"


def test_port_name_beyond_the_manifests_bound_is_refused(program: bytes) -> None:
    """The runtime loads it, its bound is wider; the refusal is typed and names the bound."""
    spec = read_spec(program)
    *others, last = spec.outputs
    wide = write_program(dataclasses.replace(spec, outputs=(*others, dataclasses.replace(last, name="n" * 129))))
    with pytest.raises(ProgramRefusedError, match=r"outputs\.1\.name: .*at most 128 characters"):
        package(wide)


def test_more_labels_than_the_manifests_bound_are_refused(program: bytes) -> None:
    """As with names; the message stays short."""
    compiled = bytes(export(TinyLanguages([f"label {number}" for number in range(8193)]).eval(), ("a sample",)))
    wide = embed_certificate(compiled, load(program).certificate)
    with pytest.raises(ProgramRefusedError, match=r"outputs\.1\.labels: .*at most 8192 items") as caught:
        package(wide)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("length", [0, 1, 63, 64, 1000])
def test_truncated_program_is_refused(program: bytes, length: int) -> None:
    """With the runtime's own words."""
    with pytest.raises(ProgramRefusedError, match="f32"):
        package(program[:length])


def test_certificate_of_another_program_is_refused(program: bytes, bare_program: bytes) -> None:
    """The outputs differ from what the certificate promises."""
    foreign = embed_certificate(bare_program, load(program).certificate)
    with pytest.raises(ProgramRefusedError):
        verify_package(package(foreign))
