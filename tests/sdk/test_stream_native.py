"""Streams over real programs with state: the bits of a session, across a hot swap, and frames read in place."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from alcove.registry.program_verification import RuntimeVerifier
from alcove.runtime import Model, export, load
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.errors import InputError
from alcove.sdk import AnswerError, Client, StreamCounters
from alcove.sdk.engine import NativeEngine
from alcove.sdk.frame_inputs import copy_inputs
from alcove.sdk.testing import ManualClock
from numpy.typing import NDArray
from torch import Tensor, nn

from tests.sdk.conftest import FEATURE, NOW, Device, World, make_world
from tests.sdk.streams import join_warm_up

HOP = 32
OLD, NEW = "1.0.0", "2.0.0"


class Denoiser(nn.Module):
    """A small recurrent network over hops of audio."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.gru = nn.GRU(HOP, 24, batch_first=True)
        self.out = nn.Linear(24, HOP)
        self.register_buffer("hidden", torch.zeros(1, 1, 24))

    def forward(self, hop: Tensor) -> Tensor:
        """Return f32 [1, 1, HOP] of f32 [1, 1, HOP]."""
        y, hidden = self.gru(hop, self.get_buffer("hidden"))
        self.get_buffer("hidden").copy_(hidden)
        return torch.tanh(self.out(y))


class Denoise:
    """The contract: a hop in, a hop out."""

    name = FEATURE

    def decode(self, outputs: list[Any]) -> NDArray[np.float32]:
        """Return f32 [HOP]."""
        hop: NDArray[np.float32] = outputs[0].reshape(HOP)
        return hop


@pytest.fixture(scope="module")
def programs() -> dict[str, bytes]:
    """Two versions, of other weights."""
    hop = torch.zeros(1, 1, HOP)
    samples = [Sample(inputs=(hop.numpy(),), source="silence")]
    made = {}
    for seed, version in enumerate((OLD, NEW)):
        module = Denoiser(seed).eval()
        program = bytes(export(module, (hop,)))
        certificate = certify(program, module, samples, licence="procedural", tolerance="standard")
        made[version] = embed_certificate(program, certificate)
    return made


@pytest.fixture(scope="module")
def denoiser_template(programs: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> World:
    """A tree with both, and a policy that gives everybody the first."""
    world = make_world(tmp_path_factory.mktemp("denoisers"))
    for version, program in programs.items():
        world.push(version, program, verifier=RuntimeVerifier())
    world.set_policy(OLD)
    return world


@pytest.fixture
def denoiser(denoiser_template: World, tmp_path: Path, make_device: Callable[..., Device]) -> Device:
    """A device that runs them."""
    shutil.copytree(denoiser_template.folder.parent, tmp_path / "world")
    world = World(tmp_path / "world" / "tree", denoiser_template.keyring, ManualClock(NOW))
    world.manifests, world.serial = dict(denoiser_template.manifests), denoiser_template.serial
    return make_device(world)


def client_of(device: Device) -> Client:
    """Return a client that has the first version."""
    client = device.client(engine=NativeEngine(), baselines={})
    assert client.sync().error is None
    return client


def hops(count: int) -> list[NDArray[np.float32]]:
    """Return f32 [1, 1, HOP] each."""
    random = np.random.default_rng(3)
    return list(random.standard_normal((count, 1, 1, HOP), np.float32))


def run_session(model: Model, frames: list[NDArray[np.float32]]) -> list[bytes]:
    """Return what a session of its own gives."""
    session = model.session()
    return [session(frame)[0].tobytes() for frame in frames]


def test_swap_before_each_frame_gives_the_bits_of_both_versions(denoiser: Device, programs: dict[str, bytes]) -> None:
    """Before it those of the old version's session, from it on those of a new one that begins there."""
    client, frames = client_of(denoiser), hops(5)
    models = [load(programs[OLD]), load(programs[NEW])]
    versions = [OLD, NEW]
    handle = client.feature(Denoise)
    for warm_up in (False, True):
        for at in range(1, len(frames)):
            with handle.stream(warm_up=warm_up) as stream:
                given = []
                for number, frame in enumerate(frames):
                    if number == at - int(warm_up):
                        if number == 0:
                            stream.process(frames[0])
                            stream.reset()
                        denoiser.world.set_policy(versions[1])
                        assert client.sync().error is None
                    answer = stream.process(frame)
                    given.append(answer)
                    join_warm_up()
                values = [None if answer.value is None else answer.value.tobytes() for answer in given]
                assert values == run_session(models[0], frames[:at]) + run_session(models[1], frames[at:])
                assert [answer.version for answer in given[at - 1 : at + 1]] == versions
                assert given[at].is_fresh
                assert stream.counters.swaps == 1
            versions.reverse()
            models.reverse()


def test_run_that_a_deadline_stops_leaves_no_trace_in_the_state(denoiser: Device, programs: dict[str, bytes]) -> None:
    """A deadline that has passed when the run begins: the frames around it give the bits of a session without it."""
    frames = hops(4)
    with client_of(denoiser).feature(Denoise).stream(deadline_ms=60_000) as stream:
        values = []
        for number, frame in enumerate(frames):
            if number == 2:
                live = stream._runner._sessions.live
                assert live is not None
                assert live.session is not None
                real, stopped = live.session, Stopped(live.session)
                live.session = stopped
                assert stream.process(frame).error is AnswerError.DEADLINE_EXCEEDED
                live.session = real
            else:
                answer = stream.process(frame)
                assert answer.value is not None
                values.append(answer.value.tobytes())
        assert values == run_session(load(programs[OLD]), [*frames[:2], frames[3]])
        assert stream.counters == StreamCounters(received=4, processed=3, missed=1)


class Stopped:
    """A session that is cancelled as its run begins, as by an alarm that rings just then."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.reset, self.cancel, self.uncancel = session.reset, session.cancel, session.uncancel

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run, cancelled."""
        self.session.cancel()
        outputs: list[Any] = self.session(*inputs)
        return outputs


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite_is_kept_out_of_the_state(
    denoiser: Device, programs: dict[str, bytes], value: float
) -> None:
    """It would stay there for ever: the frame is refused by name, place and value, and the stream goes on."""
    frames = hops(3)
    bad = frames[1].copy()
    bad[0, 0, 7] = value
    handle = client_of(denoiser).feature(Denoise)
    with handle.stream() as stream:
        first = stream.process(frames[0])
        for given in (bad, torch.from_numpy(bad), bad.tolist()):
            with pytest.raises(InputError, match=rf"input 'hop': expected finite numbers, got {value} at \[0, 0, 7\]"):
                stream.process(given)
        last = stream.process(frames[2])
        assert first.value is not None
        assert last.value is not None
        assert [first.value.tobytes(), last.value.tobytes()] == run_session(load(programs[OLD]), [frames[0], frames[2]])
    with handle.stream(allow_nan=True) as open_stream:
        answer = open_stream.process(bad)
        assert answer.error is None
        assert answer.value is not None
        if np.isnan(value):
            assert np.isnan(answer.value).all()


REFUSED: list[tuple[Any, str]] = [
    (np.zeros((1, 1, HOP + 1), np.float32), rf"dimension 2 is {HOP + 1}, expected {HOP}"),
    (np.zeros((1, 2, HOP), np.float32), "dimension 1 is 2, expected 1"),
    (np.zeros((1, 1, 0), np.float32), rf"dimension 2 is 0, expected {HOP}"),
    (np.zeros(HOP, np.float32), "expected 3 dimensions, got 1"),
    (np.zeros((1, 1, HOP)), "expected float32, got float64"),
    (np.zeros((1, 1, HOP), np.uint8), "expected float32, got uint8"),
    (np.zeros((1, 1, HOP), ">f4"), "expected an array of float32, got one of >f4"),
    (np.broadcast_to(np.float32(np.nan), (1 << 40, 1, HOP)), "dimension 0 is 1099511627776, expected 1"),
    (b"text", "expected float32, got uint8"),
    (None, "expected an array of float32, got NoneType"),
]


def test_frame_of_another_size_or_type_is_refused_by_both_and_the_stream_continues(
    denoiser: Device, programs: dict[str, bytes]
) -> None:
    """A camera that turns, a microphone that changes its rate: a typed error that names what is due and what came."""
    frames = hops(len(REFUSED) + 1)
    with client_of(denoiser).feature(Denoise).stream() as stream:
        values = [stream.process(frames[0]).value]
        for (frame, message), good in zip(REFUSED, frames[1:], strict=True):
            with pytest.raises(InputError, match=message):
                stream.process(frame)
            values.append(stream.process(good).value)
        assert [None if one is None else one.tobytes() for one in values] == run_session(load(programs[OLD]), frames)
        assert stream.counters == StreamCounters(received=21, processed=11, failed=10)


class Exported:
    """An array that only DLPack knows.

    Attributes:
        addresses: of the memory that it lent.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.lent = 0

    def __dlpack__(self, **options: Any) -> Any:
        """Lend the memory."""
        self.lent += 1
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say that it is the processor's."""
        return 1, 0


def test_every_kind_of_array_gives_the_same_bits(denoiser: Device, programs: dict[str, bytes]) -> None:
    """numpy's, torch's, any object's by DLPack, a bare capsule, one with strides, one that nobody may write, a list."""
    frame = hops(1)[0]
    spread = np.zeros((1, 1, 2 * HOP), np.float32)
    spread[..., ::2] = frame
    locked = frame.copy()
    locked.flags.writeable = False
    kinds: list[Any] = [
        frame,
        torch.from_numpy(frame.copy()),
        Exported(frame),
        frame.__dlpack__(),
        torch.from_numpy(frame.copy()).__dlpack__(),
        spread[..., ::2],
        frame[..., ::-1].copy()[..., ::-1],
        locked,
        frame.tolist(),
    ]
    expected = run_session(load(programs[OLD]), [frame])
    handle = client_of(denoiser).feature(Denoise)
    for kind in kinds:
        with handle.stream() as stream:
            answer = stream.process(kind)
            assert answer.value is not None
            assert [answer.value.tobytes()] == expected, type(kind)
    with handle.stream() as stream:
        capsule = frame.__dlpack__()
        stream.process(capsule)
        with pytest.raises(InputError, match="capsule"):
            stream.process(capsule)


class Total(nn.Module):
    """Adds up all it ever saw; its input is large."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, dtype=torch.int64))

    def forward(self, picture: Tensor) -> Tensor:
        """Return int64 [1] of u8 [4096, 12288]."""
        self.get_buffer("total").add_(picture[0, :1].to(torch.int64))
        return self.get_buffer("total") + 0


MEGABYTE = 1 << 20
ROWS = 12_288
"""Pictures of 48 MiB: the allocator of glibc keeps nothing that large when it is freed, so each copy shows."""


def peak_bytes(action: Callable[[], object]) -> int:
    """Return by how much a process's memory grew at most while something was done (Linux)."""

    def read(name: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text("ascii").splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024

    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    before = read("VmRSS:")
    action()
    return read("VmHWM:") - before


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that takes 48 MiB."""
    path = tmp_path_factory.mktemp("large") / "large.alc"
    path.write_bytes(bytes(export(Total().eval(), (torch.zeros(4096, ROWS, dtype=torch.uint8),))))
    return path


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read as Linux gives it")
def test_frame_that_lies_row_major_is_not_copied_on_its_way(large: Path, tmp_path: Path) -> None:
    """48 MiB of numpy's, of DLPack's and of a capsule's cost no memory beside the session's; with strides they do."""
    client = Client("camera", tmp_path / "device", "http://127.0.0.1:1", b"{}", baselines={"total": large})
    picture = np.ones((4096, ROWS), np.uint8)
    turned = np.ones((ROWS, 4096), np.uint8).T
    with client, client.feature("total").stream() as stream:
        stream.process(picture)  # the session's memory is there from here on
        exported = Exported(picture)
        in_place = [picture, exported, picture.__dlpack__(), torch.from_numpy(picture)]
        for kind in in_place:
            assert peak_bytes(partial(stream.process, kind)) < 8 * MEGABYTE, type(kind)
        assert exported.lent == 1
        assert peak_bytes(lambda: stream.process(turned)) > 40 * MEGABYTE
        assert stream.counters.processed == 6


def test_copy_for_a_warm_up_shares_no_memory() -> None:
    """What the app's buffers hold next never reaches the other thread; what cannot be copied is not run."""
    array = np.ones((2, 3), np.float32)
    copies = copy_inputs((array, torch.from_numpy(array), Exported(array), "text", b"bytes"))
    assert copies is not None
    assert not any(np.shares_memory(array, copy) for copy in copies[:3])
    array[:] = 7
    assert all((copy == 1).all() for copy in copies[:3])
    assert copies[3:] == ("text", b"bytes")
    assert copy_inputs((object(),)) is None
