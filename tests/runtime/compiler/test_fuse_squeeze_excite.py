"""Squeeze-and-excitation and the convolution behind it are fused into one operator, with the same bits."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import ProgramError, load
from alcove.runtime.compiler import export, pipeline
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.weights import load_state
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.testing import Assembly
from torch import nn
from torch.export import Dim
from torch.nn import functional

Function = Callable[[torch.Tensor], torch.Tensor]
CHANNELS, SQUEEZED = 20, 6


def same(graph: Graph) -> Graph:
    """Return the graph: a pipeline without the pass."""
    return graph


def ops(spec: ProgramSpec) -> Counter[str]:
    """Return how often a program has each operator."""
    return Counter(op.name for op in spec.ops)


class Unit(nn.Module):
    """A depthwise convolution, a squeeze-and-excitation and a 1x1 convolution, as MobileNetV3 and EfficientNet have."""

    def __init__(
        self, after_squeeze: Function, after_excite: Function, outputs: int, *, is_linear: bool = False
    ) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.squeeze: nn.Module = nn.Linear(CHANNELS, SQUEEZED) if is_linear else nn.Conv2d(CHANNELS, SQUEEZED, 1)
        self.excite: nn.Module = nn.Linear(SQUEEZED, CHANNELS) if is_linear else nn.Conv2d(SQUEEZED, CHANNELS, 1)
        self.project = nn.Conv2d(CHANNELS, outputs, 1)
        self.after_squeeze, self.after_excite = after_squeeze, after_excite
        self.is_linear, self.is_sum = is_linear, outputs == CHANNELS

    def gates(self, y: torch.Tensor) -> torch.Tensor:
        """Return one number for each channel of each image."""
        mean = y.mean((2, 3)) if self.is_linear else functional.adaptive_avg_pool2d(y, 1)
        gates = self.after_excite(self.excite(self.after_squeeze(self.squeeze(mean))))
        return gates[:, :, None, None] if self.is_linear else gates

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run."""
        y = torch.relu(self.depthwise(x))
        projected: torch.Tensor = self.project(self.gates(y) * y)
        return x + projected if self.is_sum else functional.hardswish(projected)


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize("outputs", [CHANNELS, 33])
@pytest.mark.parametrize(
    "functions",
    [(torch.relu, functional.hardsigmoid), (functional.silu, torch.sigmoid), (functional.relu6, functional.hardswish)],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_unit_gives_the_bits_of_its_parts(
    functions: tuple[Function, Function], outputs: int, is_linear: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions or linears, every function of the gates, with a residual and without, a batch, more than a block."""
    torch.manual_seed(1)
    unit = Unit(*functions, outputs, is_linear=is_linear).eval()
    x = torch.randn(3, CHANNELS, 19, 23)
    together = export(unit, (x,))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "fuse_squeeze_excite", same)
        apart = export(unit, (x,))
    assert ops(together.spec)["squeeze_excite_conv2d"] == 1
    assert not {"reduce", "binary", "linear", "unary"} & set(ops(together.spec))
    assert ops(apart.spec)["squeeze_excite_conv2d"] == 0
    assert len(together.spec.ops) <= len(apart.spec.ops) - 4
    expected = load(bytes(apart))(x.numpy())[0]
    assert load(bytes(together)).session(threads=threads)(x.numpy())[0].tobytes() == expected.tobytes()
    with torch.no_grad():
        np.testing.assert_allclose(expected, unit(x).numpy(), rtol=1e-4, atol=1e-5)


def test_gates_that_someone_else_reads_are_made() -> None:
    """The gates are also an answer."""

    class Shown(Unit):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            gates = self.gates(x)
            return gates, self.project(x * gates)

    shown = Shown(torch.relu, torch.sigmoid, 8).eval()
    program = export(shown, (torch.randn(1, CHANNELS, 5, 5),))
    assert ops(program.spec)["squeeze_excite_conv2d"] == 0


def test_gates_of_another_image_stay_apart() -> None:
    """The mean is of x, the gates are applied to y: no squeeze-and-excitation."""

    class Crossed(Unit):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gated: torch.Tensor = self.project(self.depthwise(x) * self.gates(x))
            return gated

    crossed = Crossed(torch.relu, torch.sigmoid, 8).eval()
    x = torch.randn(1, CHANNELS, 5, 5)
    program = export(crossed, (x,))
    assert ops(program.spec)["squeeze_excite_conv2d"] == 0
    with torch.no_grad():
        np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], crossed(x).numpy(), rtol=1e-4, atol=1e-5)


def test_sizes_may_vary() -> None:
    """One program for all batches and heights."""
    torch.manual_seed(2)
    unit = Unit(torch.relu, functional.hardsigmoid, 8).eval()
    sizes = {0: Dim("batch", min=1, max=4), 2: Dim("height", min=2, max=32)}
    program = export(unit, (torch.randn(4, CHANNELS, 32, 16),), dynamic_shapes={"x": sizes})
    assert ops(program.spec)["squeeze_excite_conv2d"] == 1
    model = load(bytes(program))
    for batch, rows in ((1, 2), (4, 3), (2, 17), (4, 32)):
        x = torch.randn(batch, CHANNELS, rows, 16)
        with torch.no_grad():
            np.testing.assert_allclose(model(x.numpy())[0], unit(x).numpy(), rtol=1e-4, atol=1e-5)


def test_weights_are_found_again() -> None:
    """The weights of all three layers come back as the module had them."""
    torch.manual_seed(3)
    unit = Unit(torch.relu, functional.hardsigmoid, 8).eval()
    state = load_state(export(unit, (torch.randn(1, CHANNELS, 9, 9),)).spec)
    for name, value in unit.state_dict().items():
        np.testing.assert_array_equal(np.asarray(state[name]), value.numpy(), err_msg=name)


NUMBERS = (0, 0, 0.0, 0.0, 43, 0, 0.0, 0.0, 34, 0, 0.0, 0.0)


def program(
    attributes: tuple[int | float, ...] = NUMBERS, *, squeeze_inputs: int = 4, excite_outputs: int = 4, room: int = 0
) -> bytes:
    """Return a unit of 4 channels, squeezed to 2, 3 outputs."""
    build = Assembly()
    x = build.input("x", DType.F32, (1, 5, 6, 4))
    squeeze = build.panels("s", np.ones((2, squeeze_inputs), np.float32), np.ones(2, np.float32))
    excite = build.panels("e", np.ones((excite_outputs, 2), np.float32), np.ones(excite_outputs, np.float32))
    project = build.panels("p", np.ones((3, 4), np.float32), np.ones(3, np.float32))
    scratch = room or 4 * (2 * 4 + 2 + 64 * 4)
    outputs = [(DType.F32, (1, 5, 6, 3)), (DType.U8, (scratch,))]
    result = build.op("squeeze_excite_conv2d", [x, squeeze, excite, project], *outputs, attributes=attributes)
    build.output("y", result[0])
    return build.program()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: program(squeeze_inputs=5), "squeezing weight"),
        (lambda: program(excite_outputs=5), "exciting weight"),
        (lambda: program(room=1063), "scratch"),
        (lambda: program((1, *NUMBERS[1:])), "inputs"),
        (lambda: program((*NUMBERS[:4], 1, *NUMBERS[5:])), "function is 1"),
        (lambda: program((*NUMBERS[:8], 43 << 32, *NUMBERS[9:])), "function"),
        (lambda: program((*NUMBERS[:9], 4, *NUMBERS[10:])), "activation"),
    ],
)
def test_wrong_programs_are_refused(make: Callable[[], bytes], problem: str) -> None:
    """Weights of other shapes, too little scratch, a residual that is not there, functions of other operators."""
    load(program())
    with pytest.raises(ProgramError, match=problem):
        load(make())
