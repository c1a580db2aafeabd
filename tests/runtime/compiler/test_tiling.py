"""Tiles give the bits of the whole picture, at every border and scale; a network that is not local is refused."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from alcove.runtime import ArgumentError, ExportError, InputError, Model, ProgramError, export, load
from alcove.runtime.compiler.tiling import export_tiled, plan_tiles
from alcove.runtime.tiles import Axis, Tiling, run_tiled, spans, tiling_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

LARGEST = 200
"""Of a tile: the whole of each picture here fits into one."""


class Local(nn.Module):
    """A network of convolutions, with one of several middles."""

    def __init__(self, middle: str, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.middle = middle
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 5, padding=2, stride=2)
        self.inner = nn.Conv2d(8, 8, 3, padding=1)
        self.back = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
        self.valid = nn.Conv2d(8, 4, 7, dilation=2)
        self.last = nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, picture: Tensor) -> Tensor:
        """Return the answer, f32 [1, channels, height, width] at some scale."""
        found = functional.leaky_relu(self.first(picture), 0.1)
        match self.middle:
            case "valid":
                return self.valid(found)
            case "down":
                return functional.avg_pool2d(self.inner(self.down(found)), 3, 2, 1)
            case "transposed":
                found = found + self.back(self.down(found))
            case "linear":
                small = functional.interpolate(self.inner(self.down(found)), scale_factor=2, mode="bilinear")
                found = torch.sigmoid(small) * found
            case "mirrored":
                found = self.inner(functional.pad(found, (2, 2, 2, 2), mode="reflect"))
        return functional.pixel_shuffle(self.last(found), 2)


@cache
def model_of(middle: str, seed: int = 0, growth_bytes: int | None = None) -> Model:
    """Return the program of a network for tiles of up to `LARGEST` pixels."""
    module = Local(middle, seed).eval()
    example = torch.zeros(1, 3, 64, 72)
    return load(bytes(export_tiled(module, example, tile_px=LARGEST, least_px=3, growth_bytes=growth_bytes)))


def least_tile(tiling: Tiling) -> int:
    """Return the smallest side of a tile that has room beside its halo."""
    return next(side for side in range(1, LARGEST + 1) if tiling.core_px(side) >= tiling.axis.step_px)


def check(model: Model, height: int, width: int, tile: int, workers: int = 1) -> None:
    """Fail unless tiles give the bits of the whole."""
    picture = np.random.default_rng(height * 1000 + width).standard_normal((1, 3, height, width), np.float32)
    whole = run_tiled(model, picture)
    tiled = run_tiled(model, picture, tile=tile, workers=workers)
    assert tiled.shape == whole.shape
    assert np.array_equal(tiled.view(np.uint32), whole.view(np.uint32))


@pytest.mark.parametrize("middle", ["none", "transposed"])
def test_tiles_have_the_bits_of_the_whole_picture_at_every_border(middle: str) -> None:
    """Sizes from the smallest to several tiles, with the last tile of one row, of all, and in between."""
    model = model_of(middle)
    tiling = tiling_of(model)
    tile, multiple = least_tile(tiling) + 3, tiling.axis.multiple_px
    core = tiling.core_px(tile)
    sizes = {tiling.least_px, tile, tile + multiple, 2 * core, 2 * core + multiple, 3 * core - multiple}
    for height in sorted(size // multiple * multiple for size in sizes if size >= tiling.least_px):
        check(model, height, max(tiling.least_px, (tile + core) // multiple * multiple), tile)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(
    middle=st.sampled_from(["none", "valid", "down", "transposed", "linear", "mirrored"]),
    seed=st.integers(0, 1),
    is_direct=st.booleans(),
    sizes=st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST), st.integers(1, LARGEST)),
    workers=st.integers(1, 2),
)
def test_tiles_of_any_network_size_and_scale_have_the_bits_of_the_whole(
    middle: str, seed: int, *, is_direct: bool, sizes: tuple[int, int, int], workers: int
) -> None:
    """Whatever the network, with Winograd's form and without it."""
    model = model_of(middle, seed, 0 if is_direct else None)
    tiling = tiling_of(model)
    multiple = tiling.axis.multiple_px
    height, width = (max(tiling.least_px, size // multiple * multiple) for size in sizes[:2])
    check(model, height, width, max(least_tile(tiling), sizes[2]), workers)


@pytest.mark.thorough
def test_a_halo_that_is_a_step_short_changes_bits() -> None:
    """The halo is what it takes: with a smaller one, tiles differ from the whole."""
    module = Local("none").eval()
    program = export_tiled(module, torch.zeros(1, 3, 64, 64), tile_px=96, halo_px=1, scale=2, growth_bytes=0)
    model = load(bytes(program))
    assert not tiling_of(model).is_exact
    picture = np.random.default_rng(3).standard_normal((1, 3, 90, 90), np.float32)
    assert not np.array_equal(run_tiled(model, picture, tile=40), run_tiled(model, picture))


def test_a_known_network_sees_as_far_as_its_kernels_add_up_to() -> None:
    """3x3, 3x3 and a shuffle by 2 see two pixels to each side; Winograd's form three more for each of the two."""
    module, example = Local("none").eval(), torch.zeros(1, 3, 32, 32)
    direct = plan_tiles(module, example, tile_px=64, has_winograd=False)
    # One more after it: a shuffled pixel counts half.
    assert direct.axis == Axis(2 + 1, 2 + 1, 1, 1, Fraction(2))
    assert plan_tiles(module, example, tile_px=64).axis == Axis(9, 9, 4, 1, Fraction(2))


def test_two_workers_and_an_array_of_the_callers_give_the_same() -> None:
    """Threads write different parts of one array, which may be the caller's; any strides are taken."""
    model = model_of("none")
    picture = np.random.default_rng(4).standard_normal((1, 90, 110, 3), np.float32).transpose(0, 3, 1, 2)
    whole = run_tiled(model, picture)
    out = np.empty_like(whole)
    assert run_tiled(model, picture, tile=50, workers=2, out=out) is out
    assert np.array_equal(out, whole)
    with pytest.raises(InputError, match="out"):
        run_tiled(model, picture, out=np.empty((1, 3, 1, 1), np.float32))


@pytest.mark.parametrize(
    ("layer", "path"),
    [
        (nn.AdaptiveAvgPool2d(1), "1"),
        (nn.InstanceNorm2d(4), "1"),
        (nn.Upsample(size=(50, 50)), "1"),
        (nn.Upsample(scale_factor=3, mode="bilinear"), "1"),
        (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), "1"),
        (nn.MaxPool2d(2, ceil_mode=True), "1"),
        (nn.Softmax(dim=3), "1"),
        (nn.Flatten(), "1"),
    ],
)
def test_a_layer_that_is_not_local_is_refused_by_its_name(layer: nn.Module, path: str) -> None:
    """What sees the whole picture, or rounds by where it is, cannot be run in tiles."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer).eval()
    with pytest.raises(ExportError) as caught:
        plan_tiles(module, torch.zeros(1, 3, 25, 25), tile_px=64)
    assert caught.value.findings[0].module_path == path


def test_a_program_that_was_not_made_for_tiles_says_so() -> None:
    """Nobody guesses a halo."""
    model = load(bytes(export(nn.Conv2d(3, 3, 1).eval(), (torch.zeros(1, 3, 8, 8),))))
    with pytest.raises(ProgramError, match="no method 'tiling'"):
        run_tiled(model, np.zeros((1, 3, 8, 8), np.float32))


@pytest.mark.parametrize(
    "numbers", [[], [2] * 14, [1, 0, 0, 1, 1, 0, 1, 1, 9, 0, 1, 0, 1, 1], [1, 9, 9, 1, 1, 1, 1, 1, 9, 0, 1, 0, 1, 1]]
)
def test_numbers_that_are_no_tiling_are_refused(numbers: list[int]) -> None:
    """Another version, a scale of nothing, and a tile without room."""
    with pytest.raises(ProgramError, match="tiling"):
        Tiling.from_numbers(numbers)


def test_sizes_that_a_network_does_not_take_are_refused_with_the_bound() -> None:
    """A picture that is too small or no multiple, a tile without room, an array of other axes."""
    model = model_of("transposed")
    cases = {"multiple of 2": (1, 3, 7, 8), "at least 4": (1, 3, 0, 8), "4 axes": (3, 8, 8)}
    for message, shape in cases.items():
        with pytest.raises(InputError, match=message):
            run_tiled(model, np.zeros(shape, np.float32))
    with pytest.raises(InputError, match="no room"):
        run_tiled(model, np.zeros((1, 3, 64, 64), np.float32), tile=8)
    with pytest.raises(InputError, match="1 to 200"):
        run_tiled(model, np.zeros((1, 3, 64, 64), np.float32), tile=201)
    with pytest.raises(ValueError, match="workers"):
        run_tiled(model, np.zeros((1, 3, 64, 64), np.float32), workers=0)
    with pytest.raises(ArgumentError, match="tile_px must be at least"):
        plan_tiles(Local("none").eval(), torch.zeros(1, 3, 32, 32), tile_px=16)


@settings(deadline=None)
@given(size=st.integers(1, 3000), before=st.integers(0, 20), after=st.integers(0, 20), step=st.sampled_from([1, 2, 8]))
def test_spans_cover_each_output_once_and_hold_what_it_depends_on(
    size: int, before: int, after: int, step: int
) -> None:
    """I1 to I3, for any size of a picture."""
    tiling = Tiling(Axis(before, after, step, 1, Fraction(2)), 1, 96, (0, 1), (0, 1), is_exact=True)
    covered = 0
    for span in spans(tiling, size, 96):
        assert span.first == covered
        covered = 2 * size if span.last is None else span.last
        assert span.start % step == 0
        assert span.stop - span.start <= 96
        assert span.start <= max(0, span.first // 2 - before)
        assert span.stop >= min(size, covered // 2 + after)
        assert span.origin == 2 * span.start
    assert covered == 2 * size
