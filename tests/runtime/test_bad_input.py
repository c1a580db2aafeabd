"""Arrays odd in place, size or number, and missing instruction sets: each is handled or refused with the reason."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, Model, _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import NUMPY_TYPES, RELU, Assembly, samples

X = np.linspace(-1, 1, 30, dtype=np.float32).reshape(6, 5)
CUBE = np.zeros((2, 1, 3), np.float32)
LIBRARY = Path(_native.__file__).with_name("libalcove.so")
BAD_ISA = 5  # ALCOVE_BAD_ISA


@pytest.fixture(scope="module")
def layers() -> Model:
    """float32 [6, 5] and [2, 1, 3] in; the third output is x."""
    return load(samples()["layers"])


def unalign(values: Any) -> Any:
    """The same numbers at an odd address."""
    return np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(values.dtype).reshape(values.shape)


def gap(values: Any) -> Any:
    """The same numbers as a field of records, five bytes apart where one takes four."""
    records = np.zeros(values.shape, [("flag", "u1"), ("value", values.dtype)])
    records["value"] = values
    return records["value"]


def take_strided(values: Any) -> Any:
    """The same numbers, every second of a larger array, backwards."""
    wide = np.zeros(tuple(2 * size for size in values.shape), values.dtype)
    view = wide[tuple(slice(None, None, -2) for _ in values.shape)]
    view[...] = values
    return view


def freeze(values: Any) -> Any:
    """The same numbers, not to be written."""
    copy = values.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("odd", [unalign, gap, take_strided, freeze, np.asfortranarray])
def test_arrays_that_lie_oddly_give_the_answers_of_their_copies(odd: Callable[[Any], Any]) -> None:
    """Of each type; what they hold is neither changed nor taken for something else."""
    build = Assembly()
    for name, dtype in (("f32", DType.F32), ("i8", DType.I8), ("i64", DType.I64), ("bool", DType.BOOL)):
        argument = build.input(name, dtype, (3, 4))
        build.output(f"{name} back", build.op("reshape", [argument], (dtype, (12,)))[0])
    model = load(build.program())
    random = np.random.default_rng(3)
    plain = [random.integers(0, 2, (3, 4)).astype(NUMPY_TYPES[port.dtype]) for port in model.inputs]
    arrays = [odd(values) for values in plain]
    assert [array.tolist() for array in model(*arrays)] == [values.reshape(12).tolist() for values in plain]
    assert all((array == values).all() for array, values in zip(arrays, plain, strict=True))


def test_tensors_of_torch_are_taken_as_arrays(layers: Model) -> None:
    """By `__dlpack__`: contiguous, transposed, cut, expanded."""
    expected = [out.tobytes() for out in layers(X, CUBE)]
    x, cube = torch.from_numpy(X), torch.from_numpy(CUBE)
    for same in (x, x.t().contiguous().t(), torch.cat([x, x], 1)[:, :5], x.clone().requires_grad_()):
        assert [out.tobytes() for out in layers(same, cube)] == expected
    assert layers(torch.full((1, 1), 0.5).expand(6, 5), cube)[2].tolist() == np.full((6, 5), 0.5).tolist()


def test_a_tensor_whose_minus_is_not_in_its_memory_is_refused(layers: Model) -> None:
    """Torch negates the imaginary part of a conjugate by a bit, which `__dlpack__` does not tell."""
    x = torch.complex(torch.zeros(X.shape), torch.from_numpy(X)).conj().imag
    with pytest.raises(InputError, match=r"negative bit: pass x\.resolve_neg\(\)"):
        layers(x, CUBE)
    assert [out.tobytes() for out in layers(x.resolve_neg(), CUBE)] == [out.tobytes() for out in layers(-X, CUBE)]


class Foreign:
    """Something with `__dlpack__`, on a device of a kind: 1 is the processor, 2 CUDA."""

    def __init__(self, kind: object, answer: object) -> None:
        self._kind, self._answer = kind, answer

    def __dlpack_device__(self) -> object:
        """Return kind and number."""
        return self._kind

    def __dlpack__(self, **_: object) -> object:
        """Return what should be a capsule, or fail."""
        if isinstance(self._answer, Exception):
            raise type(self._answer)(*self._answer.args)  # this one would keep its frames for the whole module
        return self._answer


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (Foreign((2, 0), AssertionError("read")), r"one on device \(2, 0\); copy it to the processor's memory first"),
        (Foreign((1, 0), BufferError("locked")), "one that can't be read: locked"),
        (Foreign((1, 0), 5), "got Foreign"),
        (Foreign("cpu", 5), "one that names no device"),
        (torch.zeros(6, 5, device="meta"), "one that can't be read: .*meta"),
        (torch.zeros(6, 5).to_sparse(), "one that can't be read: .*layout"),
        (torch.zeros(6, 5, dtype=torch.bfloat16), "expected float32, got bfloat16"),
        (torch.zeros(6, 5, dtype=torch.float64), "expected float32, got float64"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused_with_the_reason(layers: Model, odd: Any, reason: str) -> None:
    """Another device, another layout, a refusal of their own: an InputError that names port and cause."""
    with pytest.raises(InputError, match=reason) as caught:
        layers(odd, CUBE)
    assert caught.value.port == "x"


@pytest.mark.parametrize("shape", [(0, 5), (6, 0), (0, 0), (0,), (0, 5, 1)])
def test_dimensions_of_zero_are_refused_where_there_must_be_some(layers: Model, shape: tuple[int, ...]) -> None:
    """Whether or not the array lies row-major."""
    for argument in (np.zeros(shape, np.float32), np.asfortranarray(np.zeros(shape, np.float32)), torch.zeros(shape)):
        with pytest.raises(InputError, match="dimension"):
            layers(argument, CUBE)


def test_views_that_claim_more_than_there_is_memory_are_refused_by_their_shape(layers: Model) -> None:
    """Nothing is copied before the shape is known to be right: four terabytes of one number."""
    for argument in (
        np.broadcast_to(np.float32(0), (2**20, 2**20)),
        np.broadcast_to(np.float32(0), (6, 2**50)),
        torch.zeros(1).expand(2**20, 2**20),
        torch.zeros(1).expand(2**31, 2**31),
    ):
        with pytest.raises(InputError, match=r"dimension [01] is \d+, expected [65]"):
            layers(argument, CUBE)
    with pytest.raises(InputError, match="expected 2 dimensions, got 3"):
        layers(np.broadcast_to(np.float32(0), (2**20, 2**10, 2**10)), CUBE)


def test_c_arrays_whose_size_overflows_are_refused() -> None:
    """Through the C interface, where a shape is what the caller says: the data are never read."""
    code = """
import ctypes, sys
from alcove.runtime.testing import samples
lib = ctypes.CDLL(sys.argv[1])
data = samples()["layers"]
model, session = ctypes.c_void_p(), ctypes.c_void_p()
assert lib.alcove_model_open_bytes(data, ctypes.c_size_t(len(data)), ctypes.byref(model)) == 0
assert lib.alcove_session_create(model, ctypes.byref(session)) == 0
lib.alcove_last_error.restype = ctypes.c_char_p
for dims in ((2**63, 2**63), (2**32, 2**32), (6, 2**64 - 1), (2**64 - 1, 5), (0, 5)):
    shape = (ctypes.c_uint64 * 2)(*dims)
    status = lib.alcove_session_set_tensor(session, ctypes.c_size_t(0), 1, shape, 2, ctypes.c_void_p(1))
    print(status, lib.alcove_last_error().decode())
"""
    done = subprocess.run([sys.executable, "-c", code, LIBRARY], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert not line.startswith("0 "), line
        assert "expected" in line


DENORMALS = """
import sys
import numpy as np
from alcove.runtime import load
from alcove.runtime.testing import samples
x = np.array([1e-40, -1e-40, 1e-45, 3e-39, 1.1e-38] * 6, np.float32).reshape(6, 5)
for out in load(samples()["layers"])(x, np.full((2, 1, 3), 1e-39, np.float32)):
    print(out.tobytes().hex())
"""


def test_denormals_give_the_same_bits_on_every_instruction_set() -> None:
    """And are not flushed: what only passes through comes out as it went in."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", DENORMALS],
            env={**os.environ, "ALCOVE_ISA": isa},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for isa in _native.machine_isas()
    }
    assert len(answers) == 1
    build = Assembly()
    x = build.input("x", DType.F32, (40,))
    build.output("y", build.op("unary", [x], (DType.F32, (40,)), attributes=RELU)[0])
    inputs = np.full(40, 1e-45, np.float32)
    assert load(build.program())(inputs)[0].tobytes() == inputs.tobytes()


C_OPENS = """
import ctypes, sys
from alcove.runtime.testing import samples
lib = ctypes.CDLL(sys.argv[1])
lib.alcove_last_error.restype = ctypes.c_char_p
data = samples()["layers"]
model = ctypes.c_void_p()
status = lib.alcove_model_open_bytes(data, ctypes.c_size_t(len(data)), ctypes.byref(model))
print(status, bool(model), lib.alcove_last_error().decode())
"""


@pytest.mark.parametrize("isa", ["sse2", "AVX512", *sorted({"avx2", "avx512", "neon"} - set(_native.machine_isas()))])
def test_an_instruction_set_that_is_not_there_is_a_status_in_c(isa: str) -> None:
    """Unknown or lacking: ALCOVE_BAD_ISA when the first program is opened, no model, and a sentence with the name."""
    done = subprocess.run(
        [sys.executable, "-c", C_OPENS, LIBRARY],
        env={**os.environ, "ALCOVE_ISA": isa},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(f"{BAD_ISA} False ALCOVE_ISA is {isa}")
