"""Several entry points of a module become one program: weights once, what a session keeps once, answers as torch's."""

import copy

import numpy as np
import pytest
import torch
from alcove.runtime import ArgumentError, CertificateError, Method, export, load
from alcove.runtime.certificate import Sample, check_certificate, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.format.spec import Storage
from torch import Tensor, nn

LENGTH, WIDTH = 10, 8


class Recorder(nn.Module):
    """Mixes a row with the mean of the rows so far, and can forget one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("rows", torch.zeros(LENGTH, WIDTH))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [l, 8] of f32 [l, 8]."""
        rows, position = self.get_buffer("rows"), self.get_buffer("position")
        rows.index_copy_(0, position + torch.arange(x.shape[0]), self.mix(x))
        position += x.shape[0]
        return x + rows.sum(0)

    def forget(self, at: Tensor) -> Tensor:
        """Return what is left without the rows at int64 [1] `at`."""
        rows = self.get_buffer("rows")
        rows.index_copy_(0, at, torch.zeros(1, WIDTH))
        return rows.sum(0)

    def count(self) -> Tensor:
        """Return how many rows there are, and keep all as it is."""
        return self.get_buffer("position") * 1


class Wrapper(nn.Module):
    """Calls a recorder that it holds under another name."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.inner = recorder

    def forward(self, x: Tensor) -> Tensor:
        """Return twice what the recorder gives."""
        return torch.as_tensor(self.inner(x) * 2)


def rows(count: int) -> Tensor:
    """Rows to add."""
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    """A module with random weights."""
    torch.manual_seed(2)
    return Recorder().eval()


def methods_of(recorder: Recorder) -> dict[str, Method]:
    """Four entry points: sizes that vary, a method, one that only reads, and a module around the module."""
    return {
        "add": Method(recorder, (rows(3),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1, max=6)}}),
        "forget": Method(recorder.forget, (torch.tensor([1]),)),
        "twice": Method(Wrapper(recorder), (rows(1),)),
    }


def test_methods_answer_as_the_module_does_one_after_the_other(recorder: Recorder) -> None:
    """In one session, in any order."""
    program = export(methods_of(recorder))
    eager = copy.deepcopy(recorder)
    model = load(bytes(program))
    assert model.methods == ("add", "forget", "twice")
    assert set(model.states) == {"rows", "position"}
    session = model.session()
    with torch.no_grad():
        for count in (2, 1, 3):
            np.testing.assert_allclose(session(rows(count))[0], eager(rows(count)).numpy(), atol=1e-6)
        at = torch.tensor([1])
        np.testing.assert_allclose(session.run("forget", at)[0], eager.forget(at).numpy(), atol=1e-6)
        np.testing.assert_allclose(session.run("twice", rows(1))[0], (eager(rows(1)) * 2).numpy(), atol=1e-6)
    assert recorder.get_buffer("position").item() == 0


def test_a_method_that_only_reads_sees_what_others_changed(recorder: Recorder) -> None:
    """It keeps no buffer as it was at export, not even one of a single element."""
    model = load(bytes(export({"count": Method(recorder.count, ()), **methods_of(recorder)})))
    session = model.session()
    for total in (2, 4):
        session.run("add", rows(2))
        assert session.run("count")[0] == total
    assert model.method("count").states == ("position",)


def test_weights_that_methods_share_are_in_the_file_once(recorder: Recorder) -> None:
    """Three methods take little more than one."""
    methods = methods_of(recorder)
    one = export(recorder, (rows(1),)).spec
    constants = {t.data for m in export(methods).spec.methods for t in m.tensors if t.storage is Storage.CONSTANT}
    largest = max(len(tensor.data) for tensor in one.tensors)
    assert sum(len(data) == largest for data in constants) == 1


def test_a_single_method_is_the_program_of_its_module(recorder: Recorder) -> None:
    """The same bytes."""
    assert bytes(export({"forward": Method(recorder, (rows(1),))})) == bytes(export(recorder, (rows(1),)))


def test_buffers_of_one_name_that_are_two_are_refused(recorder: Recorder) -> None:
    """A copy of the module keeps rows of its own: to share them would be wrong, and not to as well."""
    other = copy.deepcopy(recorder)
    methods = {"add": Method(recorder, (rows(1),)), "forget": Method(other.forget, (torch.tensor([1]),))}
    with pytest.raises(ArgumentError, match=r"different buffers that are both called 'rows'"):
        export(methods)


def test_what_are_no_methods_is_refused(recorder: Recorder) -> None:
    """None at all, other values, other names, arguments beside them."""
    good = Method(recorder, (rows(1),))
    for bad in ({}, {"add": recorder}, {"a b": good}, {"add": Method(rows, (rows(1),))}):
        with pytest.raises(ArgumentError):
            export(bad)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="with each Method"):
        export({"add": good}, (rows(1),))
    with pytest.raises(ArgumentError, match="needs args"):
        export(recorder)


def test_a_certificate_covers_every_method(recorder: Recorder) -> None:
    """Samples name theirs; one that is left out, or that there is not, is refused."""
    methods = methods_of(recorder)
    program = export(methods)
    samples = [
        Sample((rows(2).numpy(),), "made here", "add"),
        Sample((np.array([0]),), "made here", "forget"),
        Sample((rows(1).numpy(),), "made here", "twice"),
    ]
    certificate = certify(bytes(program), methods, samples, "own text", "tight")
    report = check_certificate(load(embed_certificate(bytes(program), certificate)))
    assert report.samples == 3
    with pytest.raises(CertificateError, match="no sample is for the method 'twice'"):
        certify(bytes(program), methods, samples[:2], "own text", "tight")
    with pytest.raises(CertificateError, match="sample 0 is for the method ''"):
        certify(bytes(program), methods, [Sample((rows(2).numpy(),), "made here")], "own text", "tight")
