"""A host app's floating-point mode changes no answer, and a run gives the mode back unchanged."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from alcove.runtime import load
from alcove.runtime.testing import samples


@pytest.fixture(scope="module")
def modes(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """tests/runtime/abi/float_mode.c, compiled."""
    library = tmp_path_factory.mktemp("modes") / "float_mode.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    source = repository / "tests/runtime/abi/float_mode.c"
    subprocess.run([compiler, "-std=c11", "-O1", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.third.restype = ctypes.c_float
    return loaded


def test_the_hosts_modes_change_no_bit_and_are_given_back(modes: ctypes.CDLL) -> None:
    """Rounding up, down, to zero; denormals flushed: every sample program, with denormals among its inputs."""
    random = np.random.default_rng(9)
    x = random.standard_normal((6, 5)).astype(np.float32)
    x[0] = np.array([1e-40, -1e-40, 1e-45, 3e-39, 1e-38], np.float32)
    calls = [
        (load(samples()["classifier_int8"]).session(), ("Grüße aus Köln",)),
        (load(samples()["layers"]).session(), (x, np.full((2, 1, 3), 1e-39, np.float32))),
    ]
    expected = [[out.tobytes() for out in session(*inputs)] for session, inputs in calls]
    ours = modes.get_mode()
    third = modes.third()
    seen_thirds = set()
    for index in range(modes.hostile_mode_count()):
        mode = modes.hostile_mode(index)
        for (session, inputs), right in zip(calls, expected, strict=True):
            modes.set_mode(mode)
            try:
                outputs = session(*inputs)
                after = modes.get_mode()
                seen_thirds.add(modes.third())
            finally:
                modes.set_mode(ours)
            assert [out.tobytes() for out in outputs] == right, hex(mode)
            assert after == mode
    assert third in seen_thirds
    assert len(seen_thirds) == 2, "the modes did not take: the test shows nothing"


def test_the_hosts_modes_survive_a_refused_run(modes: ctypes.CDLL) -> None:
    """An error on the way out restores them too."""
    session = load(samples()["classifier_int8"]).session()
    ours = modes.get_mode()
    modes.set_mode(modes.hostile_mode(0))
    try:
        with pytest.raises(Exception, match="UTF-8"):
            session(b"\xff")
        after = modes.get_mode()
    finally:
        modes.set_mode(ours)
    assert after == modes.hostile_mode(0)
