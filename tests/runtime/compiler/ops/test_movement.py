"""Exported movements of elements agree with torch, bit for bit wherever nothing is computed; shapes of every kind."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from torch import Tensor, nn

Agrees = Callable[..., None]
TYPES = (torch.float32, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool)


def of_type(dtype: torch.dtype, *shape: int) -> Tensor:
    """Return elements that all differ, as far as the type can tell them apart."""
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_order_of_dimensions(agrees: Agrees, dtype: torch.dtype) -> None:
    """All permutations of four dimensions, odd sizes; two dimensions around the blocks of a transposition."""
    orders: dict[str, Any] = {str(order): lambda x, order=order: x.permute(order) for order in permutations(range(4))}
    agrees(orders, of_type(dtype, 2, 3, 5, 4))
    agrees({"t": lambda x: x.t(), "mT": lambda x: x.mT, "again": lambda x: x.t().t()}, of_type(dtype, 33, 67))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (4, 4), (5, 4), (31, 33), (64, 3), (3, 64), (100, 101)])
def test_transposition_of_every_size(agrees: Agrees, shape: tuple[int, int]) -> None:
    """Whole blocks, tails, single rows; inside other dimensions too."""
    x = of_type(torch.float32, 2, *shape, 3)
    agrees({"plain": lambda x: x[0, :, :, 0].t(), "inner": lambda x: x.transpose(1, 2)}, x)
    agrees({"outer": lambda x: x.permute(3, 2, 1, 0), "last": lambda x: x.transpose(1, 3)}, x)


@pytest.mark.parametrize("dtype", TYPES)
def test_parts_of_a_tensor(agrees: Agrees, dtype: torch.dtype) -> None:
    """Slices with steps, bounds beyond the end, single positions, splits, windows, diagonals, mirror images."""
    agrees(
        {
            "slices": lambda x: (x[1:], x[:, ::2], x[..., 1:-1:3], x[-3:100, 2:3], x[:, 1:5, ::4]),
            "select": lambda x: (x[2], x[:, -1], x.select(2, 3), x[1, 2, 3]),
            "narrow": lambda x: x.narrow(1, 2, 3),
            "unbind": lambda x: x.unbind(0) + x.unbind(2)[:2],
            "split": lambda x: x.split(3, 1) + x.split([1, 5], 1) + x.chunk(4, 2) + torch.tensor_split(x, 3, 1),
            "flip": lambda x: (x.flip(0), x.flip(2, 0), x.flip(0, 1, 2), x.fliplr(), x.flipud()),
            "rot90": lambda x: (x.rot90(1, (0, 2)), x.rot90(2, (1, 2)), x.rot90(-1, (0, 1))),
            "roll": lambda x: (x.roll(1, 0), x.roll((2, -1), (0, 2)), x.roll(5), x.roll((9, 0), (1, 1)), x.roll(-7, 2)),
            "unfold": lambda x: (x.unfold(2, 3, 2), x.unfold(0, 2, 1), x.unfold(1, 6, 1)),
            "diagonal": lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 0, 2), x.diagonal(0, 2, 0)),
            "as_strided": lambda x: (
                x.as_strided((3, 2), (2, 5), 4),
                x.as_strided((4, 4), (0, 1)),
                x.as_strided((), ()),
            ),
            "copies": lambda x: (
                torch.slice_copy(x, 1, 1, 4),
                torch.select_copy(x, 0, 1),
                torch.narrow_copy(x, 2, 1, 2),
            ),
            "more copies": lambda x: torch.ops.aten.split_copy(x, 4, 1) + torch.ops.aten.unbind_copy(x, 1),
            "views": lambda x: (
                torch.permute_copy(x, (2, 0, 1)),
                torch.view_copy(x, (6, 20)),
                torch.expand_copy(x[:1], (2, 6, 5)),
            ),
        },
        of_type(dtype, 4, 6, 5),
    )


def test_shapes_come_and_go(agrees: Agrees) -> None:
    """Views, squeezes, flattenings, broadcasts and repetitions, scalars among them."""
    agrees(
        {
            "view": lambda x: (
                x.view(6, 20),
                x.reshape(-1),
                x.view(2, 3, 2, 2, 5),
                x.flatten(1),
                x.unflatten(2, (2, 2)),
            ),
            "ones": lambda x: (x.unsqueeze(0), x.unsqueeze(-1).squeeze(), x[:1].squeeze(0), x[:1].squeeze((0, 1))),
            "after": lambda x: (x.transpose(1, 2).reshape(2, -1), x.movedim(0, -1), x.movedim((0, 1), (2, 0))),
            "expand": lambda x: (x[:, :1].expand(2, 7, 4, 5), x.expand(3, 2, 3, 4, 5), x[:1, :, :1].expand_as(x)),
            "scalar": lambda x: (x[0, 0, 0, 0].expand(3, 2), x[0, 0, 0, 0].reshape(1, 1), x[0, 0, 0, 0].repeat(4)),
            "repeat": lambda x: (x.repeat(1, 2, 1, 3), x.repeat(2, 1, 2, 2, 2), x[0, 0].tile(2, 3), x.tile(2)),
            "interleave": lambda x: (x.repeat_interleave(3, 1), x.repeat_interleave(2), x.repeat_interleave(2, -1)),
            "broadcast": lambda x: (
                *torch.ops.aten.broadcast_tensors([x[:, :1], x[:1]]),
                *torch.meshgrid(x[0, 0, 0], x[0, 1, :, 0], indexing="ij"),
            ),
            "copies": lambda x: (x.clone(), x.contiguous(), x.detach(), torch.alias_copy(x), x.clone().unsqueeze(1)),
            "stack": lambda x: (
                torch.stack((x, x), 1),
                torch.hstack((x, x)),
                torch.vstack((x, x)),
                torch.dstack((x, x)),
            ),
        },
        torch.randn(2, 3, 4, 5),
    )


def test_parts_are_joined(agrees: Agrees) -> None:
    """Along each dimension, of one input and of forty, with empty parts, of mixed types."""

    def join(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        along = tuple(torch.cat((x, x[:, :, :], x.flip(0)), axis) for axis in range(3))
        empty = torch.cat((x[:0], x, x.new_empty(0)))
        return (
            *along,
            empty,
            torch.cat([x[:, i % 3 : i % 3 + 1] for i in range(40)], 1),
            torch.cat((x, y)),
            torch.cat((x,)),
        )

    agrees({"cat": join}, torch.randn(2, 3, 5), torch.arange(15).reshape(1, 3, 5))
    agrees({"block_diag": lambda x: torch.ops.aten.block_diag([x[0], x[1, :2]])}, torch.randn(2, 3, 5))


PADS: tuple[tuple[int, ...], ...] = ((1, 2), (2, 0, 0, 1), (0, 3, 2, 1, 1, 0))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_margins(agrees: Agrees, mode: str) -> None:
    """Of one, two and three dimensions, with and without a batch."""

    def margins(x: Tensor) -> tuple[Tensor, ...]:
        flat, image = x[:, :, 0, 0], x[:, :, 0]
        padded = [F.pad(flat, PADS[0], mode), F.pad(image, PADS[1], mode), F.pad(x, PADS[2], mode)]
        if mode != "circular":
            padded += [F.pad(flat[0], PADS[0], mode), F.pad(image[0], PADS[1], mode)]
        return tuple(padded)

    agrees({mode: lambda x: margins(x[..., :]) + margins(x.transpose(2, 4))}, torch.randn(2, 3, 4, 4, 4))


def test_margins_of_numbers(agrees: Agrees) -> None:
    """Any number, any type, infinities; negative margins crop."""
    cropped = {
        "number": lambda x: (F.pad(x, (1, 1), value=-1.5), F.pad(x, (0, 0, 2, 1), value=float("-inf"))),
        "crop": lambda x: (F.pad(x, (-1, 2)), F.pad(x, (2, -1, -1, -1), value=3), F.pad(x, (-1, 0, 0, 0, 1, -1))),
        "layers": lambda x: (nn.ZeroPad2d(1)(x), nn.ReflectionPad2d((1, 2, 0, 1))(x), nn.ReplicationPad2d(3)(x)),
    }
    agrees(cropped, torch.randn(2, 4, 5))
    for dtype in TYPES[1:]:
        agrees({"typed": lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 0, 2), value=1))}, of_type(dtype, 3, 4))


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 7), (7, 3), (1, 4), (4, 1)])
def test_triangles(agrees: Agrees, shape: tuple[int, ...]) -> None:
    """Of square, wide and tall matrices, for every diagonal and beyond."""
    functions: dict[str, Any] = {}
    for k in (-9, -3, -1, 0, 1, 2, 8):
        functions[f"tril {k}"] = lambda x, k=k: (x.tril(k), (x > 0).tril(k))
        functions[f"triu {k}"] = lambda x, k=k: (x.triu(k), (x * 10).long().triu(k))
    agrees(functions, torch.randn(shape))


def test_parts_are_written(agrees: Agrees) -> None:
    """Slices, positions, diagonals and any view; the source may be the tensor itself."""
    agrees(
        {
            "slice": lambda x, y: (x.slice_scatter(y[:2], 0, 1, 3), x.slice_scatter(y[:, ::2], 1, 0, 6, 2)),
            "select": lambda x, y: (x.select_scatter(y[:, 0], 1, -1), x.select_scatter(y[1], 0, 2)),
            "diagonal": lambda x, y: (
                x.diagonal_scatter(y[0, :, :4], 0, 0, 2),
                x.diagonal_scatter(y[:, 0], -1, 1, 2),
                x.diagonal_scatter(y[1, :5, :4], 2, 0, 1),
            ),
            "view": lambda x, y: x.as_strided_scatter(y[:2, :3, 0], (2, 3), (1, 5), 7),
            "itself": lambda x, y: (x.slice_scatter(x, 0), x.select_scatter(x[0] + y[1], 0, 1)),
            "assigned": _assign,
            "copy": lambda x, y: torch.ops.aten.copy(x, y[0, 0, 0]),
        },
        torch.randn(4, 6, 5),
        torch.randn(4, 6, 5),
    )


def _assign(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[1:3, ::2] = y[:2, :3]
    x[:, 5] = 7
    x[0].fill_(2)
    x[2, 2, 2] += 1
    return x


def test_images_are_rearranged(agrees: Agrees) -> None:
    """Pixels to channels and back, groups of channels, patches to columns and back."""
    agrees(
        {
            "shuffle": lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 4)),
            "layers": lambda x: (nn.PixelShuffle(2)(x), nn.ChannelShuffle(2)(x)),
            "unfold": lambda x: (F.unfold(x, 3), F.unfold(x, (2, 3), 2, 1, (1, 2)), F.unfold(x[0], 2)),
            "fold": lambda x: (
                F.fold(F.unfold(x, 3), (6, 8), 3),
                F.fold(F.unfold(x, (2, 3), 2, 1, (1, 2)), (6, 8), (2, 3), 2, 1, (1, 2)),
                F.fold(F.unfold(x[0], 2, stride=2), (6, 8), 2, stride=2),
            ),
        },
        torch.randn(2, 8, 6, 8),
    )


def test_tensors_from_nothing(agrees: Agrees) -> None:
    """Numbers, ranges, identities beside an input, and with its type and shape."""
    agrees(
        {
            "like": lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2.5), x.new_zeros(2, 2)),
            "made": lambda x: (x + torch.arange(5), x[:, :3] + torch.eye(3), x + torch.linspace(0, 1, 5)),
            "fill": lambda x: (torch.fill(x, 3.0), x.clone().zero_(), x.clone().fill_(x[0, 0])),
            "indices": lambda x: (torch.tril_indices(3, 3) + x[0, 0].long(), torch.diag_embed(x), torch.diag(x[0])),
        },
        torch.randn(3, 5),
    )


class Whole(nn.Module):
    """A view of the storage of something that is not row-major."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x.t().as_strided((2, 2), (1, 2))


def test_view_of_a_transposed_storage_is_refused() -> None:
    """`as_strided` counts in torch's storage, which a program doesn't have: no silent other answer."""
    with pytest.raises(ExportError, match=r"contiguous\(\)"):
        export(Whole(), (torch.randn(3, 4),))
