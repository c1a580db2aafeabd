"""Programs compute with dynamic sizes as torch does; an assumption that fails at some size is refused."""

import math
from collections.abc import Callable, Sequence
from math import sqrt

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export, load
from alcove.runtime.program import Program
from torch import Tensor, nn
from torch.export import Dim

TOLERANCE = 1e-4
Shape = tuple[int, ...]


class Of(nn.Module):
    """A module made of a function of a table and x."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.table = nn.Parameter(torch.randn(81, 8, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.function(self.table, x)


def mean_by_size(_table: Tensor, x: Tensor) -> Tensor:
    """Return sums over a size, by that size and by a real number of it."""
    return x.sum(1) / x.size(1) + x.sum(1) * (0.5 / x.size(1)) ** 2


def functions_of_size(_table: Tensor, x: Tensor) -> Tensor:
    """Return x scaled by functions of Python's math of sizes, under both of their names."""
    length = x.size(1)
    scaled = x * math.sqrt(length) + sqrt(length) - math.log(length, 3) + math.exp(-length / 8) + math.log(8.0)
    return scaled / math.log2(length + 1) + math.sin(length) * math.pow(length, 0.3)


def relative_places(_table: Tensor, x: Tensor) -> Tensor:
    """Return x with weights by distance; the distances begin at a size."""
    length = x.size(1)
    weights = torch.sin(torch.arange(-(length - 1), length).float() * 0.3)
    index = torch.arange(length)[None] - torch.arange(length)[:, None] + length - 1
    return (x @ x.transpose(1, 2) * weights[index]) @ x


def middle_of_table(table: Tensor, x: Tensor) -> Tensor:
    """Return x and as many rows of a table, from before its middle."""
    return x + table[40 - x.size(1) + 1 : 41]


def relative_shift(table: Tensor, x: Tensor) -> Tensor:
    """Return scores by distance, shifted row by row as Transformer-XL does by views."""
    batch, length, _ = x.shape
    scores = x @ table[40 - length + 1 : 40 + length].T
    scores = torch.cat([scores.new_zeros(batch, length, 1), scores], -1).view(batch, 2 * length, length)
    return scores[:, 1:].view(batch, length, 2 * length - 1)[:, :, :length]


def warp(_table: Tensor, x: Tensor) -> Tensor:
    """Return x sampled where its first channels point, in coordinates normalized by the sizes."""
    n, _, height, width = x.shape
    columns = torch.arange(width).view(1, -1).repeat(height, 1).expand(n, 1, -1, -1)
    rows = torch.arange(height).view(-1, 1).repeat(1, width).expand(n, 1, -1, -1)
    places = torch.cat((columns, rows), 1).float() + x[:, :2]
    places[:, 0] = 2.0 * places[:, 0].clone() / max(width - 1, 1) - 1.0
    places[:, 1] = 2.0 * places[:, 1].clone() / max(height - 1, 1) - 1.0
    return F.grid_sample(x, places.permute(0, 2, 3, 1), align_corners=True)


def gram(_table: Tensor, x: Tensor) -> Tensor:
    """Return products of channels, by the product of all sizes."""
    flat = x.flatten(2)
    return flat @ flat.transpose(1, 2) / (x.size(1) * x.size(2) * x.size(3))


def peaks(_table: Tensor, x: Tensor) -> Tensor:
    """Return row and column of the largest of each channel."""
    index = x.flatten(2).argmax(-1)
    return torch.stack((torch.div(index, x.size(3), rounding_mode="floor"), index % x.size(3)), -1)


def grid_points(_table: Tensor, x: Tensor) -> Tensor:
    """Return x flattened, each pixel's place added."""
    rows, columns = torch.meshgrid(torch.arange(x.size(2)), torch.arange(x.size(3)), indexing="ij")
    return x.flatten(2).transpose(1, 2)[..., :2] + torch.stack((columns, rows), -1).reshape(-1, 2)


def halve(_table: Tensor, x: Tensor) -> Tensor:
    """Return x made smaller by a factor, and as large as before by a size."""
    small = F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False)
    return F.interpolate(small, size=x.shape[2:], mode="nearest")


def windows(_table: Tensor, x: Tensor) -> Tensor:
    """Return softmax within windows of 4x4 of x, padded to whole ones."""
    x = F.pad(x, (0, (4 - x.size(3) % 4) % 4, 0, (4 - x.size(2) % 4) % 4))
    n, c, height, width = x.shape
    parts = x.view(n, c, height // 4, 4, width // 4, 4).permute(0, 2, 4, 3, 5, 1)
    return parts.reshape(-1, 16, c).softmax(1)


SEQUENCES: Sequence[Shape] = ((2, 2, 8), (2, 9, 8), (2, 40, 8), (2, 23, 8))
IMAGES: Sequence[Shape] = ((1, 3, 5, 5), (1, 3, 8, 10), (1, 3, 30, 30), (1, 3, 9, 17))


def check(program: Program, module: nn.Module, shapes: Sequence[Shape]) -> None:
    """Compare with torch at each shape."""
    model = load(bytes(program))
    for shape in shapes:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[-2]))
        (native,) = model(x.numpy())
        with torch.no_grad():
            eager = module(x)
        assert native.shape == tuple(eager.shape)
        assert (torch.from_numpy(native) - eager).abs().max() <= TOLERANCE * eager.abs().max(), shape


@pytest.mark.parametrize(
    "function", [mean_by_size, functions_of_size, relative_places, middle_of_table, relative_shift]
)
def test_sizes_of_sequences_among_the_elements_are_those_of_the_call(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """One program, at the bounds and between."""
    module = Of(function).eval()
    shapes = [{1: Dim("length", min=2, max=40)}]
    check(export(module, (torch.randn(2, 9, 8),), dynamic_shapes=shapes), module, SEQUENCES)


@pytest.mark.parametrize("function", [warp, gram, peaks, grid_points, halve, windows])
def test_sizes_of_images_among_the_elements_are_those_of_the_call(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Two sizes at once, odd ones too."""
    module = Of(function).eval()
    shapes = [{2: Dim("height", min=5, max=30), 3: Dim("width", min=5, max=30)}]
    check(export(module, (torch.randn(1, 3, 8, 10),), dynamic_shapes=shapes), module, IMAGES)


def test_an_example_of_one_row_varies_where_its_dim_says_so() -> None:
    """Torch takes a size of 1 as fixed; a program does not."""
    module = Of(mean_by_size).eval()
    batch = Dim("batch", min=1, max=8)
    program = export(module, (torch.randn(1, 9, 8),), dynamic_shapes=[{0: batch}])
    check(program, module, [(1, 9, 8), (3, 9, 8), (8, 9, 8)])


def branch(_: Tensor, x: Tensor) -> Tensor:
    """Return another thing of pictures of four columns."""
    return x * 2 if x.shape[3] == 4 else x


def test_branch_at_one_size_is_refused_with_that_size() -> None:
    """The module asks, not torch's bookkeeping, which asks too whether there is one window a row."""
    shapes = [{2: Dim("height", min=5, max=30), 3: Dim("width", min=4, max=30)}]
    with pytest.raises(ExportError, match=r"another way at \{'width': 4\}"):
        export(Of(branch).eval(), (torch.randn(1, 3, 8, 10),), dynamic_shapes=shapes)
    check(export(Of(windows).eval(), (torch.randn(1, 3, 8, 10),), dynamic_shapes=shapes), Of(windows), [(1, 3, 5, 4)])


def test_branch_at_a_size_of_one_is_refused() -> None:
    """Torch alone takes it that no size is 1."""
    shapes = [{1: Dim("length", min=1, max=30)}]
    with pytest.raises(ExportError, match=r"another way at \{'length': 1\}"):
        export(Of(lambda _, x: x * 2 if x.shape[1] == 1 else x).eval(), (torch.randn(2, 9),), dynamic_shapes=shapes)


def test_a_size_of_too_many_values_is_not_computed_with() -> None:
    """The table would be larger than the model."""
    shapes = [{1: Dim("length", min=2, max=100_000)}]
    with pytest.raises(ExportError, match="a size of more than 16384 values"):
        export(Of(mean_by_size).eval(), (torch.randn(2, 9, 8),), dynamic_shapes=shapes)
