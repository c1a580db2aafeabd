"""Each device installs and runs the variant that fits its memory, cores and instruction sets."""

from collections.abc import Callable
from pathlib import Path

import alcove.runtime._native as native
import pytest
from alcove.registry.manifest import Requirements
from alcove.sdk import NoVariantError
from alcove.sdk.capability import Capability, choose_variant, this_machine
from alcove.sdk.engine import NativeEngine
from alcove.sdk.testing import FakeEngine, fake_program

from tests.sdk.conftest import Device, World

MakeDevice = Callable[..., Device]
GIB = 1 << 30
PROGRAMS = {name: fake_program(name) for name in ("large", "quick", "wide", "small")}
REQUIREMENTS = {
    "large": Requirements(memory_bytes=4 * GIB),
    "quick": Requirements(isa="avx512_vnni", memory_bytes=GIB),
    "wide": Requirements(cores=8, memory_bytes=GIB),
}


def device_with(isa: str, memory_bytes: int, cores: int) -> Capability:
    """Return a device whose latest instruction set is `isa`."""
    levels = ("scalar", "avx2", "avx512", "avx512_vnni")
    return Capability(levels[: levels.index(isa) + 1], memory_bytes, cores)


KINDS = [
    (device_with("avx2", GIB // 2, 2), "small"),
    (device_with("avx2", 2 * GIB, 2), "small"),
    (device_with("avx2", 4 * GIB, 2), "large"),
    (device_with("avx2", 4 * GIB - 1, 2), "small"),
    (device_with("avx512_vnni", 2 * GIB, 2), "quick"),
    (device_with("avx512", 2 * GIB, 2), "small"),
    (device_with("avx512_vnni", 2 * GIB, 8), "wide"),
    (device_with("avx512_vnni", 2 * GIB, 7), "quick"),
    (device_with("avx2", 5 * GIB + 12_345, 3), "large"),
    (device_with("avx512_vnni", 8 * GIB, 8), "large"),
]


@pytest.mark.parametrize(("capability", "variant"), KINDS)
def test_variant_that_needs_most_of_those_that_fit_is_taken(
    released_world: World, capability: Capability, variant: str
) -> None:
    """Memory first, then cores, then instruction sets; a bound that is met to the byte is met."""
    others = {name: PROGRAMS[name] for name in ("large", "quick", "wide")}
    released_world.push("3.0.0", PROGRAMS["small"], others=others, requirements=REQUIREMENTS)
    chosen = choose_variant(released_world.manifests["3.0.0"], capability)
    assert chosen.name == {"small": "fake"}.get(variant, variant)


def test_devices_fetch_and_run_their_own_variant(released_world: World, make_device: MakeDevice) -> None:
    """A phone with much memory and one with little, of one version."""
    released_world.push(
        "3.0.0", PROGRAMS["small"], others={"large": PROGRAMS["large"]}, requirements={"large": REQUIREMENTS["large"]}
    )
    released_world.set_policy("3.0.0")
    for capability, label in ((device_with("avx2", 8 * GIB, 2), "large"), (device_with("avx2", GIB, 2), "small")):
        device = make_device(released_world, label)
        engine = FakeEngine()
        engine.capability = capability
        client = device.client(engine=engine)
        assert client.sync().error is None
        assert device.answer(client) == f"{label} 3.0.0 default"
        asked = [sent.path for sent in device.transport.requests if sent.path.startswith("/blobs")]
        assert len(asked) == 1


def test_version_without_a_variant_for_a_device_leaves_it_what_it_has(
    released_world: World, make_device: MakeDevice
) -> None:
    """With an error that says what each variant needs."""
    released_world.push(
        "3.0.0", PROGRAMS["large"], requirements={"fake": Requirements(memory_bytes=4 * GIB, isa="neon")}
    )
    device = make_device(released_world)
    client = device.client()
    assert client.sync().error is None
    released_world.set_policy("3.0.0")
    error = client.sync().error
    assert isinstance(error, NoVariantError)
    assert error.variants == ("fake (neon, 4294967296 bytes of memory)",)
    assert device.answer(client) == "one 1.0.0 default"


def test_device_that_grew_takes_the_other_variant_after_a_restart(
    released_world: World, make_device: MakeDevice
) -> None:
    """What is installed is not what it would choose now: it is fetched again."""
    released_world.push(
        "3.0.0", PROGRAMS["small"], others={"large": PROGRAMS["large"]}, requirements={"large": REQUIREMENTS["large"]}
    )
    released_world.set_policy("3.0.0")
    device = make_device(released_world)
    client = device.client()
    client.sync()
    assert device.answer(client) == "small 3.0.0 default"
    client.close()
    engine = FakeEngine()
    engine.capability = device_with("avx2", 8 * GIB, 2)
    after = device.client(engine=engine)
    assert after.sync().error is None
    assert device.answer(after) == "large 3.0.0 default"


def test_machine_says_what_it_has() -> None:
    """Its instruction sets are those of the runtime, the weakest among them."""
    capability = NativeEngine().capability
    assert capability == this_machine(tuple(native.machine_isas()))
    assert capability.isas[0] == "scalar"
    assert native.isa() in capability.isas
    total = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemTotal:")[2].split()[0]
    assert capability.memory_bytes == pytest.approx(1024 * int(total), rel=0.01)
    assert capability.cores >= 1


@pytest.mark.parametrize("memory_bytes", [4 * GIB, 5 * GIB, 6 * GIB - 1])
def test_devices_of_one_step_choose_alike_whatever_a_team_signs(released_world: World, memory_bytes: int) -> None:
    """A need between two steps is met from the next step on: no need tells two devices of one step apart."""
    for need in range(4 * GIB, 6 * GIB, GIB // 4):
        version = f"3.0.{need * 4 // GIB}"
        requirements = {"large": Requirements(memory_bytes=need), "wide": Requirements(cores=5)}
        others = {name: PROGRAMS[name] for name in requirements}
        released_world.push(version, PROGRAMS["small"], others=others, requirements=requirements)
        for cores in (4, 5):
            chosen = choose_variant(released_world.manifests[version], device_with("avx2", memory_bytes, cores))
            assert chosen.name == ("large" if need == 4 * GIB else "fake"), need
