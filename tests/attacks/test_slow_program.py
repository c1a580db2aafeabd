"""A verified program that takes its host's time: refused by the count of its steps, or cancelled."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.program_verification import RuntimeVerifier
from alcove.runtime import Cancellation, Model, ProgramError, RunCancelledError, _native, load
from alcove.runtime.certificate import check_certificate
from alcove.runtime.certificate.document import canonical
from alcove.runtime.errors import CertificateError
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly
from alcove.sdk import AnswerError
from alcove.sdk.deadline import DeadlineExceededError, DeadlineRunner

SIDE = 4096
TURNED = (0, 1, SIDE, *(0,) * 6)
OP_BUDGET = 1 << 34
PATIENCE_S = 120
"""For what takes minutes if it is not stopped, and milliseconds if it is."""


def chain(operators: int, certificate: bytes = b"") -> bytes:
    """A program that turns an image of 16 MB over and over: a cache line for each byte."""
    build = Assembly()
    x = build.input("x", DType.F32, (4,))
    (image,) = build.op("fill", [], (DType.I8, (SIDE, SIDE)), attributes=(0,))
    for _ in range(operators):
        (image,) = build.op("as_strided_copy", [image], (DType.I8, (SIDE, SIDE)), attributes=TURNED)
    build.output("y", x)
    build.output("image", image)
    return write_program(_in_turns(build.spec(certificate)))


def _in_turns(spec: ProgramSpec) -> ProgramSpec:
    """Two places for all images, so that the arena stays small."""
    room, tensors = SIDE * SIDE, list(spec.tensors)
    images = [index for index, tensor in enumerate(tensors) if tensor.size_bytes == room]
    for turn, index in enumerate(images):
        tensors[index] = replace(tensors[index], offset=64 + turn % 2 * room)
    return replace(spec, tensors=tuple(tensors), arena_bytes=64 + 2 * room)


def certify_operators(operators: int) -> bytes:
    """The same with a certificate of sixteen samples, which nobody could have made."""
    rule = {"rule": "uniform", "dtype": "f32", "shape": [4], "seed": 1, "low": 0.0, "high": 1.0}
    promised = {"native_sha256": "0" * 64, "torch": {"dtype": "f32", "hex": "", "shape": [0]}}
    outputs = [promised | {"name": "y"}, promised | {"name": "image"}]
    record = {"inputs": [rule], "outputs": outputs, "source": "made"}
    document = {"format": 2, "licence": "procedural", "samples": [record] * 16, "tolerance": "exact"}
    return chain(operators, canonical(document))


INPUT = np.zeros(4, np.float32)
LONGEST = (OP_BUDGET - (1 << 25)) // (33 * SIDE * SIDE)


def stop_during(model: Model, stop: Callable[[], object], run: Callable[[], object]) -> list[type[BaseException]]:
    """Begin `run` on a thread, stop it, and return what it raised; fails where it does not end."""
    raised: list[type[BaseException]] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(type(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("operators", [LONGEST + 2, 100, 1_000, 4_000])
def test_chain_of_copies_that_takes_minutes_is_refused_when_it_is_opened(operators: int) -> None:
    """4,000 copies of 64 MB took an hour; strided elements count like the cache lines that they take."""
    with pytest.raises(ProgramError) as caught:
        load(chain(operators))
    assert caught.value.code == "op_budget"


def test_operator_that_cannot_be_stopped_within_has_a_cap_of_its_own() -> None:
    """A sine of 128 million elements: its 16 steps each are no bomb, but nobody could stop it before its end."""
    for size, is_refused in (((1 << 27) + 1, True), (1 << 26, False)):
        build = Assembly()
        (x,) = build.op("fill", [], (DType.I8, (size,)), attributes=(1,))
        build.output("y", build.op("unary", [x], (DType.I8, (size,)), attributes=(1, 0.0, 0.0, 0.0))[0])
        if is_refused:
            with pytest.raises(ProgramError, match="can't be stopped within"):
                load(build.program())
        else:
            load(build.program())


def test_longest_program_that_opens_ends_soon_after_it_is_cancelled() -> None:
    """By session, by cancellation, by a deadline; each time the same model answers the next one."""
    model = load(chain(LONGEST))
    session, cancellation = model.session(), Cancellation()
    assert stop_during(model, session.cancel, lambda: session(INPUT)) == [RunCancelledError]
    assert stop_during(model, cancellation.cancel, lambda: model.run([INPUT], cancellation)) == [RunCancelledError]
    runner = DeadlineRunner()
    for _ in range(2):
        with pytest.raises(DeadlineExceededError):
            runner.run(lambda late: model.run([INPUT], late), 0.01)
    assert runner.run(lambda _: "the thread is free", PATIENCE_S) == "the thread is free"


def test_certificate_that_takes_too_long_is_refused_by_type() -> None:
    """Sixteen runs of the longest program: ended after the limit, on the device and at publishing."""
    program = certify_operators(LONGEST)
    with pytest.raises(CertificateError, match=r"longer than 0\.05 s"):
        check_certificate(load(program), limit_s=0.05)


def test_check_at_install_ends_when_the_client_is_closed() -> None:
    """Nothing is learned of the program: that is no refusal."""
    program, closing = certify_operators(LONGEST), Cancellation()
    verifier = RuntimeVerifier(closing)
    assert stop_during(load(program), closing.cancel, lambda: verifier.certify("f32", program)) == [RunCancelledError]
    with pytest.raises(RunCancelledError):
        verifier.certify("f32", program)
    with pytest.raises(ProgramRefusedError):
        RuntimeVerifier().certify("f32", b"no program")


def test_closing_a_client_stops_what_runs_on_its_threads(tmp_path: Path) -> None:
    """An awaited prediction of the longest program answers "cancelled", and close() returns."""
    from alcove.sdk import Client
    from alcove.sdk.handle import Inputs

    path = tmp_path / "slow.alc"
    path.write_bytes(chain(LONGEST))
    client = Client("app", tmp_path / "data", "http://127.0.0.1:1", b"", baselines={"slow": path})
    handle = client.feature("slow")
    executor = client._open_executor()
    answer = executor.submit(handle._predict, Inputs((INPUT,), {}), client._closing)
    closer = threading.Thread(target=client.close, daemon=True)
    closer.start()
    closer.join(PATIENCE_S)
    assert not closer.is_alive()
    assert answer.result(PATIENCE_S).error is AnswerError.CANCELLED


def test_committed_programs_are_far_below_the_cap(repository: Path) -> None:
    """The cap is for bombs: what is shipped takes less than a fifteenth of it, painting a frame the most."""
    programs = sorted((repository / "features").rglob("*.alc"))
    assert programs
    for program in programs:
        assert _native.open_bytes(program.read_bytes()).run_cost < OP_BUDGET // 15
