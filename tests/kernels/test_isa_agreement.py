"""Every instruction set gives the bits of the scalar reference, tails and NaN included; ALCOVE_ISA chooses the set.

The tolerance is zero: one accumulator per output, a fixed order and a fixed tree make the bits a part of the program.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, RELU, Assembly

RANDOM_SEED = 20
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 3.4e38, -3.4e38, np.inf, -np.inf, 1.0], np.float32)
NANS = np.array([0x7F800001, 0xFFC00000, 0x7FC00001, 0xFF812345], np.uint32).view(np.float32)
KNOWN = ["scalar", "avx2", "avx512", "avx512_vnni", "avx512_vbmi", "neon", "neon_dotprod", "neon_i8mm"]
COLUMNS = [*range(1, 35), 47, 48, 49, 63, 64, 65, 79, 80, 127, 128, 129, 130, 200]


def floats(random: np.random.Generator, *shape: int, special: float = 0.0) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Numbers around 1; a share of them zeros, denormals, huge, infinite, and NaN with payloads."""
    values = random.standard_normal(shape, np.float32)
    pool = np.concatenate([SPECIAL, NANS])
    odd = random.random(shape) < special
    values[odd] = random.choice(pool, int(odd.sum()))
    return values


def embedding_bag_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Columns around every tile; counts around the int16 flush of 256 rows; sum and mean."""
    cases: dict[str, Any] = {}
    sizes = [(d, 7) for d in COLUMNS] + [(d, c) for d in (1, 15, 66) for c in (0, 1, 2, 255, 256, 257, 512, 1000)]
    for dim, count in sizes:
        for mode in (0, 1):
            for special in (0.0, 0.02):
                build = Assembly()
                table = build.constant("table", floats(random, 11, dim, special=special))
                ids = build.input("ids", DType.I32, (1000,), is_ragged=True)
                outputs = build.op("text_embedding_bag", [ids, table], (DType.F32, (1, dim)), attributes=(mode,))
                build.output("bag", outputs[0])
                picks = random.integers(0, 11, count).astype(np.int32)
                cases[f"bag f32 dim {dim} count {count} mode {mode} special {special}"] = (build.program(), [picks])
            build = Assembly()
            rows = random.integers(-128, 128, (11, dim)).astype(np.int8)
            rows[0], rows[1] = -128, 127
            table = build.constant("table", rows)
            scale = build.constant("scale", floats(random, dim, special=0.1))
            ids = build.input("ids", DType.I32, (1000,), is_ragged=True)
            outputs = build.op("text_embedding_bag", [ids, table, scale], (DType.F32, (1, dim)), attributes=(mode,))
            build.output("bag", outputs[0])
            for kind, picks in {
                "mixed": random.integers(0, 11, count).astype(np.int32),
                "least": np.zeros(count, np.int32),
                "most": np.ones(count, np.int32),
            }.items():
                cases[f"bag i8 dim {dim} count {count} mode {mode} {kind}"] = (build.program(), [picks])
    return cases


def linear_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Rows around the tile of 4, outputs around panels and tiles of panels."""
    cases: dict[str, Any] = {}
    sizes = [(m, n, 5) for m in (1, 4, 5) for n in COLUMNS] + [
        (m, n, k) for m in range(1, 10) for n in (17, 33) for k in (1, 40)
    ]
    for m, n, k in sizes:
        for special in (0.0, 0.01):
            build = Assembly()
            weight = build.panels("weight", floats(random, n, k, special=special), floats(random, n, special=special))
            x = build.input("x", DType.F32, (m, k))
            build.output("y", build.op("linear", [x, weight], (DType.F32, (m, n)), attributes=PLAIN_LINEAR)[0])
            cases[f"linear {m}x{n}x{k} special {special}"] = (build.program(), [floats(random, m, k, special=special)])
    return cases


def row_cases(random: np.random.Generator) -> "dict[str, Any]":
    """relu, softmax and topk over rows of 1 to 70 elements and more."""
    cases: dict[str, Any] = {}
    for count in [*range(1, 71), 127, 128, 129, 1000]:
        for rows in (1, 3):
            build = Assembly()
            x = build.input("x", DType.F32, (rows, count))
            build.output("relu", build.op("unary", [x], (DType.F32, (rows, count)), attributes=RELU)[0])
            build.output("softmax", build.op("softmax", [x], (DType.F32, (rows, count)), attributes=(0,))[0])
            build.output("logs", build.op("softmax", [x], (DType.F32, (rows, count)), attributes=(1,))[0])
            k = max(1, count // 2)
            both = build.op("topk", [x], (DType.F32, (rows, k)), (DType.I64, (rows, k)), attributes=(k, 1))
            build.output("values", both[0])
            build.output("indices", both[1])
            program = build.program()
            cases[f"rows {rows}x{count} plain"] = (program, [floats(random, rows, count)])
            cases[f"rows {rows}x{count} wide"] = (program, [floats(random, rows, count) * np.float32(60)])
            for special in (0.2, 0.02):
                values = floats(random, rows, count, special=special)
                cases[f"rows {rows}x{count} special {special}"] = (program, [values])
            cases[f"rows {rows}x{count} all -inf"] = (program, [np.full((rows, count), -np.inf, np.float32)])
            ties = random.integers(0, 3, (rows, count)).astype(np.float32)
            cases[f"rows {rows}x{count} ties"] = (program, [ties])
            infinities = floats(random, rows, count)
            infinities[:, ::2] = -np.inf
            cases[f"rows {rows}x{count} half -inf"] = (program, [infinities])
    return cases


def isa_cases() -> "dict[str, Any]":
    """All of them."""
    random = np.random.default_rng(RANDOM_SEED)
    return {**embedding_bag_cases(random), **linear_cases(random), **row_cases(random)}


@pytest.fixture(scope="module")
def cases() -> "dict[str, Any]":
    """All of them, made once."""
    return isa_cases()


@pytest.fixture(scope="module")
def reference(cases: Mapping[str, Any], run_with: Callable[..., Any]) -> "dict[str, list[bytes]]":
    """What the scalar kernels answer."""
    return dict(run_with("scalar", cases))


def test_every_instruction_set_gives_the_bits_of_the_reference(
    cases: Mapping[str, Any], reference: "dict[str, list[bytes]]", run_with: Callable[..., Any]
) -> None:
    """Bit for bit, for each instruction set that this machine has."""
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, cases)
        differ = [name for name in cases if answers[name] != reference[name]]
        assert not differ, f"{isa} differs in {len(differ)} of {len(cases)} cases: {differ[:10]}"


def test_no_nan_but_the_canonical_one_leaves_an_operator(
    cases: Mapping[str, Any], reference: "dict[str, list[bytes]]"
) -> None:
    """0x7FC00000, whatever payload went in."""
    nans = 0
    for name in cases:
        for output in reference[name]:
            bits = np.frombuffer(output, np.uint32)
            found = bits[np.isnan(bits.view(np.float32))]
            assert (found == 0x7FC00000).all(), name
            nans += found.size
    assert nans > 1000


def test_the_cases_would_catch_a_kernel_that_changes_the_order(reference: "dict[str, list[bytes]]") -> None:
    """A test for the test: numpy sums pairwise and without fma, and must differ somewhere."""
    random = np.random.default_rng(1)
    build = Assembly()
    weight, x = floats(random, 33, 40), floats(random, 4, 40)
    build.panels("weight", weight, np.zeros(33, np.float32))
    build.output(
        "y",
        build.op("linear", [build.input("x", DType.F32, (4, 40)), 0], (DType.F32, (4, 33)), attributes=PLAIN_LINEAR)[0],
    )
    from alcove.runtime import load

    (ours,) = load(build.program())(x)
    assert np.allclose(ours, x @ weight.T, atol=1e-4)
    assert (ours != x @ weight.T).any()


def test_every_kernel_of_the_manifest_is_for_a_known_instruction_set() -> None:
    """The manifest's lines cover each operator with a scalar kernel, and name nothing unknown."""
    kernels = _native.kernels()
    assert {isa for _, _, isa, _ in kernels} <= set(KNOWN)
    # Run by the kernels of pool2d and scan; write_rows is copies of rows, without a kernel.
    shared = {"adaptive_pool2d", "scan_extreme", "write_rows"}
    assert {op for op, _, isa, _ in kernels if isa == "scalar"} == {op.name for op in _native.manifest()} - shared
    assert len({function for _, _, _, function in kernels}) == len(kernels)


def refusal_of(isa: str) -> str:
    """What a child with ALCOVE_ISA set says when it loads a program."""
    code = """
from alcove.runtime import IsaError, load
from alcove.runtime.testing import samples
for _ in range(2):
    try:
        load(samples()["layers"])
    except IsaError as error:
        print(error.isa, "|", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "ALCOVE_ISA": isa}, check=True, capture_output=True, text=True
    )
    first, second = done.stdout.splitlines()
    assert first == second
    return first


def test_an_unknown_instruction_set_is_refused_at_first_use() -> None:
    """An IsaError that names the value and what is known; no silent fallback."""
    for name in ("sse2", "AVX2", "avx2 ", "é" * 40):
        assert refusal_of(name).startswith(f"{name} | "), name
        assert f"known are {', '.join(KNOWN)}" in refusal_of(name)


def test_a_lacking_instruction_set_is_refused_at_first_use() -> None:
    """Each that this machine lacks: at least those of other processors."""
    for isa in set(KNOWN) - set(_native.machine_isas()):
        assert "this machine lacks" in refusal_of(isa)


def test_the_best_instruction_set_is_the_default() -> None:
    """Without ALCOVE_ISA, or with an empty one."""
    for environment in ({}, {"ALCOVE_ISA": ""}):
        clean = {key: value for key, value in os.environ.items() if key != "ALCOVE_ISA"}
        done = subprocess.run(
            [sys.executable, "-c", "from alcove.runtime import _native; print(_native.isa())"],
            env={**clean, **environment},
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == _native.machine_isas()[-1]
