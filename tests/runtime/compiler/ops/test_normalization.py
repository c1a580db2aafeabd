"""Exported softmax and norms agree with torch: all statistics, with and without weights, and fully masked rows."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn

Agrees = Callable[..., None]


def close(module: nn.Module, *inputs: Tensor) -> None:
    """Compare a module's program with eager."""
    module.eval()
    with torch.no_grad():
        expected = module(*inputs)
    seen = load(bytes(export(module, inputs)))(*(tensor.numpy() for tensor in inputs))
    for wanted, got in zip(expected if isinstance(expected, tuple) else (expected,), seen, strict=True):
        torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def train_once(module: nn.Module) -> nn.Module:
    """Return the module with weights and statistics that are not those of a new one."""
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + 0.5 if "var" in name else torch.randn_like(tensor))
    return module


def test_softmax_along_every_dimension(agrees: Agrees) -> None:
    """And its logarithm, and of the negative."""
    functions: dict[str, Any] = {}
    for dim in (0, 1, 2, -1):
        functions[f"{dim}"] = lambda x, d=dim: (x.softmax(d), x.log_softmax(d), F.softmin(x, d))
    agrees(functions, torch.randn(3, 5, 37) * 10)
    agrees({"scalar": lambda x: (x.softmax(0), x.log_softmax(0))}, torch.tensor(3.0))
    agrees({"type": lambda x: x.softmax(0, dtype=torch.float32)}, torch.tensor([3, 4, 5]))


def test_softmax_of_masked_rows(agrees: Agrees) -> None:
    """Some, all but one and all masked; NaN and infinity spoil their row alone."""
    inf = float("inf")
    x = torch.randn(7, 40)
    x[1, 3:] = x[2, 1:] = x[3] = -inf
    x[4, 5] = float("nan")
    x[5, 39] = inf
    agrees({"softmax": lambda x: x.softmax(1), "log": lambda x: x.log_softmax(1)}, x)


@pytest.mark.parametrize("shape", [(1,), (2,), (15,), (16,), (17,), (64,), (100,), (3, 7), (2, 3, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_of_every_length(shape: Sequence[int], *, affine: bool) -> None:
    """Over one and more dimensions, with weight, with weight and bias, with neither; root mean squares too."""
    layer = train_once(nn.LayerNorm(shape, elementwise_affine=affine))
    weight_alone = train_once(nn.LayerNorm(shape, elementwise_affine=affine, bias=False))
    rms = train_once(nn.RMSNorm(shape, elementwise_affine=affine))
    close(nn.Sequential(layer, weight_alone, rms), torch.randn(4, 3, *shape) * 3 + 2)


def test_layer_norm_of_a_constant_row_is_its_bias() -> None:
    """No deviation: eps alone divides; a row with a NaN is NaN."""
    x = torch.randn(4, 20)
    x[1] = 7
    x[2, 3] = float("nan")
    close(train_once(nn.LayerNorm(20)), x)
    close(train_once(nn.LayerNorm(20, eps=0.5)), x)
    close(nn.LayerNorm(20, eps=-0.5), x)  # as torch: NaN where nothing deviates
    close(train_once(nn.RMSNorm(20, eps=0.1)), x)


class Moments(nn.Module):
    """A layer norm with its mean and scale."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run."""
        return torch.native_layer_norm(x, [6], None, None, 1e-5)


class GroupMoments(nn.Module):
    """A group norm with its mean and scale."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run."""
        return torch.native_group_norm(x, None, None, 2, 4, 15, 2, 1e-5)


def test_moments_are_given_to_who_asks() -> None:
    """The second and third results of torch's native norms."""
    close(Moments(), torch.randn(3, 4, 6))
    close(GroupMoments(), torch.randn(2, 4, 3, 5))


@pytest.mark.parametrize(
    ("groups", "channels"),
    [(1, 1), (1, 6), (2, 6), (3, 6), (6, 6), (1, 70), (2, 130), (35, 70), (70, 70), (32, 64), (1, 128)],
)
def test_group_norm_of_every_size(groups: int, channels: int) -> None:
    """Groups smaller and larger than a block of columns; positions in one, two and no dimensions."""
    affine = train_once(nn.GroupNorm(groups, channels))
    plain = nn.GroupNorm(groups, channels, eps=0.1, affine=False)
    for shape in ((2, channels, 5, 7), (1, channels, 33), (3, channels) if channels > groups else (3, channels, 2)):
        close(nn.Sequential(affine, plain), torch.randn(shape) * 2 + 1)


def test_instance_norms() -> None:
    """Of its own statistics, or those of training."""
    x = torch.randn(2, 5, 6, 7)
    close(nn.InstanceNorm2d(5), x)
    close(train_once(nn.InstanceNorm2d(5, affine=True)), x)
    close(train_once(nn.InstanceNorm2d(5, affine=True, track_running_stats=True)), x)
    close(nn.InstanceNorm1d(5), x[:, :, 0])
    close(nn.InstanceNorm1d(5), x[0, :, 0])
    close(nn.InstanceNorm3d(5), x[:, :, None])


def test_batch_norms() -> None:
    """Of training's statistics, with and without weights; of the batch's, where a norm keeps none."""
    x = torch.randn(3, 5, 6, 7)
    close(train_once(nn.BatchNorm2d(5)), x)
    close(train_once(nn.BatchNorm2d(5, affine=False)), x)
    close(train_once(nn.BatchNorm1d(5, eps=0.1)), x[:, :, 0, 0])
    close(train_once(nn.BatchNorm1d(5)), x[:, :, 0])
    close(train_once(nn.BatchNorm3d(5)), x[:, :, None])
    close(train_once(nn.BatchNorm2d(5, track_running_stats=False)), x)


def test_local_response_norm() -> None:
    """By composition, over neighbours among the channels."""
    close(nn.LocalResponseNorm(3, alpha=0.1), torch.randn(2, 7, 4, 5))
    close(nn.LocalResponseNorm(2, alpha=0.1, k=2.0), torch.randn(2, 7, 9))


class Computed(nn.Module):
    """A batch norm whose statistics are inputs."""

    def forward(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Run."""
        return F.batch_norm(x, mean, variance)


def test_statistics_may_be_computed() -> None:
    """They need not be constants."""
    close(Computed(), torch.randn(2, 3, 4), torch.randn(3), torch.rand(3) + 0.5)


class Training(nn.Module):
    """A batch norm that always learns."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=True)


def test_statistics_of_training_are_refused() -> None:
    """With what to do about it."""
    with pytest.raises(ExportError, match=r"call module\.eval\(\)"):
        export(Training().eval(), (torch.randn(4, 3),))
