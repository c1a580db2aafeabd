"""64-bit ARM, in an emulator, gives the same bits as the scalar reference here, for every operator.

The tolerance is zero. Each family runs with the scalar kernels of this machine; then with its others, and on ARM with
the scalar ones, with NEON and with its products of bytes and of matrices, in a process whose app rounds up and flushes
denormals.
The tests are skipped where the cross compiler or the emulator is missing: `make arm` installs them.
"""

import math
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.certificate.document import decode_input, parse
from alcove.runtime.errors import ProgramError
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import NUMPY_TYPES, Assembly, samples
from alcove.runtime.testing_ops import op_samples

from tests.kernels import (
    emulated,
    test_images,
    test_isa_agreement,
    test_long_sums,
    test_math,
    test_products,
    test_reduction,
    test_winograd,
)
from tests.runtime.compiler.quantize.cases import cases as quantized_cases

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
    pytest.mark.needs("aarch64-gcc", "qemu-aarch64"),
]

TEXTS = ["", "Wo ist der nächste Bahnhof?", "これはペンです。", "a" * 400]
UNBOUND = (-math.inf, math.inf)
ARM_ISAS = ["scalar", "neon", "neon_dotprod", "neon_i8mm"]
Cases = Mapping[str, tuple[bytes, Any]]


def numbers(random: np.random.Generator, dtype: DType, shape: tuple[int, ...], kind: str) -> Any:
    """What a caller may give: plain and odd floats, small whole numbers, which are indices of all samples."""
    if dtype is DType.F32:
        return test_isa_agreement.floats(random, *shape, special=0.15 if kind == "odd" else 0.0)
    if dtype is DType.BOOL:
        return random.random(shape) < 0.5
    return random.integers(0, 3, shape).astype(NUMPY_TYPES[dtype])


def inputs_of(program: bytes, random: np.random.Generator) -> list[list[Any]]:
    """What a committed program is run with: two samples of its certificate, texts, statistics plain and odd."""
    samples_of = parse(load(program).certificate).samples[:2]
    values = [[decode_input(place, value) for value in sample.inputs] for place, sample in enumerate(samples_of)]
    spec = read_spec(program)
    tensors = [spec.tensors[port.tensor] for port in spec.inputs]
    if [tensor.dtype for tensor in tensors] == [DType.TEXT]:
        values += [[text] for text in TEXTS]
    elif [tensor.dtype for tensor in tensors] == [DType.F32]:
        # Shares are statistics that can be; odd numbers are not.
        values += [
            [random.random(tensors[0].shape, np.float32)],
            [numbers(random, DType.F32, tensors[0].shape, "odd")],
        ]
    return values


def sample_cases() -> Cases:
    """The small programs that together have every operator, and the committed ones."""
    random = np.random.default_rng(70)
    results: dict[str, tuple[bytes, Any]] = {}
    families = dict(op_samples())
    tokens = families.pop("tokens")
    for name, program in families.items():
        spec = read_spec(program)
        for kind in ("plain", "odd"):
            tensors = [spec.tensors[port.tensor] for port in spec.inputs]
            inputs = [numbers(random, tensor.dtype, tensor.shape, kind) for tensor in tensors]
            for port, value in zip(spec.inputs, inputs, strict=True):
                if port.name == "offsets":
                    value[:] = np.sort(value)
                    value[0] = 0
            results[f"{name} {kind}"] = (program, inputs)
    programs = samples()
    for text in TEXTS:
        for name in ("classifier_int8", "classifier_float32"):
            results[f"{name} {text[:4]}"] = (programs[name], [text])
        results[f"tokens {text[:4]}"] = (tokens, [text, np.arange(5)])
    for path in sorted(Path(__file__).resolve().parents[2].glob("features/*/programs/*.alc")):
        program = path.read_bytes()
        for place, inputs in enumerate(inputs_of(program, random)):
            results[f"{path.stem} {place}"] = (program, inputs)
    tiny = np.full((6, 5), 1e-39, np.float32)
    results["layers"] = (programs["layers"], [tiny, np.full((2, 1, 3), -1e-45, np.float32)])
    results["counter"] = (programs["counter"], [tiny[0]])
    results["rows"] = (programs["rows"], [tiny[:, :4], random.standard_normal((5, 4), np.float32)])
    return results


def whole_cases() -> Cases:
    """Every function of one and of two whole numbers or bools, of each type that takes it; casts between all types."""
    random = np.random.default_rng(71)
    results: dict[str, tuple[bytes, Any]] = {}
    for dtype, kind in NUMPY_TYPES.items():
        a, b = (random.integers(0, 256, 1000).astype(np.uint8).view(np.int8) for _ in range(2))
        x, y = ((v % 2 == 0 if dtype is DType.BOOL else v).astype(kind) for v in (a, b))
        if dtype is DType.F32:
            x = test_math.mixed_floats(300)
        elif dtype is not DType.BOOL:
            limits = np.iinfo(x.dtype)
            x[:4] = y[2:6] = limits.min, limits.max, 0, 1
            y[y == 0] = 1  # a division by zero is refused
        for to in NUMPY_TYPES:
            build = Assembly()
            build.output("y", build.op("cast", [build.input("x", dtype, x.shape)], (to, x.shape))[0])
            results[f"cast {dtype.name} {to.name}"] = (build.program(), [x])
        if dtype is DType.F32:
            continue
        for name in _native.functions("unary"):
            results[f"unary {name} {dtype.name}"] = (
                test_math.unary_program(name, dtype, x.shape, (0.0, 0.0, 0.0)),
                [x],
            )
        for name in _native.functions("binary"):
            results[f"binary {name} {dtype.name}"] = (test_math.binary_program(name, dtype, x.shape, y.shape), [x, y])
    return {name: case for name, case in results.items() if is_accepted(case[0])}


def is_accepted(program: bytes) -> bool:
    """Whether the function takes the type."""
    try:
        load(program)
    except ProgramError:
        return False
    return True


def product_cases() -> Cases:
    """Matrix products, attention and recurrent layers."""
    return {name: (program, inputs) for name, (program, inputs, _) in test_products.all_cases()}


def weight_cases() -> Cases:
    """Products with few and many rows, whose weights are float32, int8 and int4: every tile of each kernel."""
    random = np.random.default_rng(72)
    results: dict[str, tuple[bytes, Any]] = {}
    for m in (1, 2, 3, 4, 5, 6, 7, 8, 13):
        for n, k in ((1, 16), (3, 6), (5, 3), (16, 16), (18, 4), (64, 9), (100, 33), (129, 64)):
            for odd, activation in (
                (0.0, (1, -1.0, 2.0)),
                (0.02, (1, -1.0, 2.0)),
                (0.02, (1, 0.0, -0.0)),
                (0.02, (2, *UNBOUND)),
            ):
                build = Assembly()
                weight = build.panels(
                    "weight", *(test_isa_agreement.floats(random, *s, special=odd) for s in ((n, k), (n,)))
                )
                x = build.input("x", DType.F32, (m, k))
                attributes = (0, *activation)
                build.output("y", build.op("linear", [x, weight], (DType.F32, (m, n)), attributes=attributes)[0])
                results[f"linear {m} {n} {k} {odd} {activation}"] = (
                    build.program(),
                    [test_isa_agreement.floats(random, m, k, special=odd)],
                )
    return results


FAMILIES: dict[str, Callable[[], Cases]] = {
    "functions": test_math.isa_cases,
    "whole": whole_cases,
    "reductions": test_reduction.isa_cases,
    "rows": test_isa_agreement.isa_cases,
    "images": test_images.isa_cases,
    "winograd": test_winograd.cases,
    "products": product_cases,
    "long sums": test_long_sums.cases,
    "weights": weight_cases,
    "quantized": quantized_cases,
    "samples": sample_cases,
}


@pytest.fixture(scope="module")
def arm(repository: Path) -> list[str]:
    """The command that runs programs on ARM."""
    return emulated.on_arm(repository)


@pytest.fixture(scope="module")
def here(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs programs on this machine."""
    return emulated.here(repository, tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module", params=FAMILIES)
def family(
    request: pytest.FixtureRequest, here: list[str], tmp_path_factory: pytest.TempPathFactory
) -> "tuple[Cases, dict[str, list[bytes]]]":
    """The cases of a family and what the scalar kernels answer here."""
    cases = FAMILIES[request.param]()
    return cases, emulated.run(here, "scalar", cases, tmp_path_factory.mktemp("family"))


def differing(seen: "dict[str, list[bytes]]", reference: "dict[str, list[bytes]]") -> str:
    """Which cases have other bits, in words; empty: none."""
    names = [name for name, expected in reference.items() if seen[name] != expected]
    return f"{len(names)} of {len(reference)} cases differ: {names[:10]}" if names else ""


@pytest.mark.parametrize("isa", [isa for isa in _native.machine_isas() if isa != "scalar"])
def test_this_machine_gives_the_bits_of_the_reference(
    family: "tuple[Cases, dict[str, list[bytes]]]", isa: str, here: list[str], tmp_path: Path
) -> None:
    """Bit for bit, for each instruction set that it has."""
    cases, reference = family
    assert not differing(emulated.run(here, isa, cases, tmp_path), reference)


@pytest.mark.parametrize("isa", ARM_ISAS)
def test_arm_gives_the_bits_of_the_reference(
    family: "tuple[Cases, dict[str, list[bytes]]]", isa: str, arm: list[str], tmp_path: Path
) -> None:
    """Bit for bit, whatever mode the app has set."""
    cases, reference = family
    assert not differing(emulated.run(arm, isa, cases, tmp_path), reference)


def test_the_families_have_every_operator() -> None:
    """Each of the manifest is somewhere among the samples, so that a new one cannot be forgotten."""
    seen = {op.name for program, _ in sample_cases().values() for op in read_spec(program).ops}
    assert seen == {op.name for op in _native.manifest()}


@pytest.mark.parametrize(
    ("isa", "processor", "why"),
    [
        ("avx2", "max", "this machine lacks; its best is neon_i8mm"),
        ("neon_dotprod", "cortex-a53", "this machine lacks; its best is neon"),
        ("neon_i8mm", "neoverse-n1", "this machine lacks; its best is neon_dotprod"),
        ("NEON", "max", "known are scalar"),
    ],
)
def test_what_an_arm_processor_lacks_is_refused(
    isa: str, processor: str, why: str, arm: list[str], tmp_path: Path
) -> None:
    """The same error as here, and no fallback."""
    with pytest.raises(AssertionError, match=why):
        emulated.run(
            arm, isa, {"any": (samples()["counter"], [np.zeros(5, np.float32)])}, tmp_path, processor=processor
        )


def test_an_old_arm_processor_chooses_plain_neon(arm: list[str], here: list[str], tmp_path: Path) -> None:
    """One without products of bytes runs, and gives the same bits."""
    cases = quantized_cases()
    expected = emulated.run(here, "scalar", cases, tmp_path)
    assert not differing(emulated.run(arm, "", cases, tmp_path, processor="cortex-a53"), expected)


def test_the_library_for_arm_needs_nothing_but_the_system(repository: Path, arm: list[str]) -> None:
    """Of shared libraries libc's and libm's; no C++ runtime."""
    assert Path(arm[-1]).exists()
    library = repository / "build/aarch64/runtime/native/libalcove.so"
    command = ["aarch64-linux-gnu-readelf", "-d", str(library)]
    dynamic = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"}
