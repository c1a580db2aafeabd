"""Modules that use torch.distributions have the numbers of eager, and its checks of shapes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export, load
from torch import Tensor, distributions, nn
from torch.export import Dim

D: Any = distributions  # torch has no types for most of it
Function = Callable[[Tensor], object]


@pytest.fixture(autouse=True)
def torch_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's default, which its tracer takes away from a whole process."""
    monkeypatch.setattr(D.Distribution, "_validate_args", True)


class Of(nn.Module):
    """A module made of a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        """Run."""
        return self.function(x)


def normal(x: Tensor) -> tuple[Tensor, ...]:
    """Return what a normal distribution tells; of tensors, of numbers, checked or not by its maker's wish."""
    made = D.Normal(x, x.exp())
    return (
        made.log_prob(x + 1),
        made.entropy(),
        made.cdf(x + 0.3),
        made.icdf(x.sigmoid()),
        D.Normal(0.0, 2.0).log_prob(x),
        D.Normal(x, 1.0, validate_args=True).log_prob(x * 2),
        D.kl_divergence(made, D.Normal(x + 1, 1.0)),
        D.Independent(made, 1).log_prob(x + 1),
    )


def categorical(x: Tensor) -> tuple[Tensor, ...]:
    """Return what categorical distributions tell, of logits and of probabilities."""
    made, other = D.Categorical(logits=x), D.Categorical(probs=x.softmax(-1))
    one_hot = F.one_hot(x.argmax(-1), 4).float()
    return (
        made.log_prob(x.argmin(-1)),
        made.entropy(),
        other.log_prob(x.argmin(-1)),
        other.entropy(),
        D.kl_divergence(made, D.Categorical(logits=x * 2)),
        D.OneHotCategorical(logits=x).log_prob(one_hot),
    )


def others(x: Tensor) -> tuple[Tensor, ...]:
    """Return logarithms of other densities, each with values that it allows."""
    scale, share, count = x.exp(), x.sigmoid(), x.abs().round()
    squashed = D.TransformedDistribution(D.Normal(x, scale), [D.TanhTransform()])
    return (
        D.Bernoulli(logits=x).log_prob((x > 0).float()),
        D.Beta(scale, scale + 1).log_prob(share),
        D.Gamma(scale, scale).log_prob(scale),
        D.Dirichlet(scale).log_prob(x.softmax(-1)),
        D.Laplace(x, scale).log_prob(x * 2),
        D.Uniform(x, x + 2).log_prob(x + 1),
        D.Exponential(scale).log_prob(x.abs()),
        D.Poisson(scale).log_prob(count),
        D.Geometric(probs=share).log_prob(count),
        D.StudentT(scale + 2, x, 1.0).log_prob(x * 3),
        D.LogNormal(x, scale).log_prob(scale),
        squashed.log_prob(x.tanh() * 0.9),
    )


def mixture(x: Tensor) -> tuple[Tensor, ...]:
    """Return what a mixture of normal distributions tells, one for each row: the head of a mixture density network."""
    made = D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, x.exp()))
    return made.log_prob(x[:, 0]), made.mean, made.variance


@pytest.mark.parametrize("function", [normal, categorical, others, mixture])
def test_numbers_are_those_of_eager_at_every_size(function: Function) -> None:
    """Of batches that vary."""
    module = Of(function).eval()
    model = load(bytes(export(module, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("batch", min=1, max=5)},))))
    for batch in range(1, 6):
        x = torch.randn(batch, 4)
        for found, wanted in zip(model(x.numpy()), module(x), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-4, atol=2e-5)


class Prior(nn.Module):
    """A distribution that the module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.prior = D.Normal(torch.zeros(4), torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.prior.log_prob(x) - D.kl_divergence(D.Normal(x, x.exp()), self.prior)


def test_a_held_distribution_is_traced_and_checks_again_afterwards() -> None:
    """The export leaves torch as it was."""
    module, x = Prior().eval(), torch.randn(3, 4)
    (found,) = load(bytes(export(module, (x,))))(x.numpy())
    np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="support"):
        module.prior.log_prob(torch.full((4,), float("nan")))
    with pytest.raises(ValueError, match="constraint"):
        D.Normal(0.0, -1.0)


class Held(nn.Module):
    """Distributions that the module holds, which compute what they are asked when they are first asked."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.randn(3))
        self.categories = D.Categorical(probs=torch.tensor([0.2, 0.3, 0.5]))
        self.of_parameter = D.Categorical(logits=self.scores)
        self.coins = [D.Bernoulli(torch.tensor([0.2, 0.7, 0.4]))]
        self.normal = D.MultivariateNormal(torch.zeros(3), covariance_matrix=2 * torch.eye(3) + 1)
        self.angles = D.VonMises(torch.zeros(3), torch.ones(3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Run."""
        place = x.argmax(-1)
        return (
            self.categories.log_prob(place),
            self.categories.entropy(),
            self.of_parameter.log_prob(place) + self.of_parameter.entropy(),
            self.of_parameter.probs,
            self.coins[0].log_prob((x > 0).float()),
            self.normal.log_prob(x),
            self.angles.log_prob(x) + self.angles.variance,
        )


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's tracer looks at it
def test_a_held_distribution_that_keeps_what_it_is_asked_is_no_state() -> None:
    """And keeps nothing of the export."""
    module, x = Held().eval(), torch.randn(5, 3)
    model = load(bytes(export(module, (x,))))
    held = [*vars(module.categories).values(), *vars(module.angles).values()]
    assert all(type(tensor) is Tensor for tensor in held if isinstance(tensor, Tensor))
    for found, wanted in zip(model(x.numpy()), module(x), strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: D.Normal(x, 1.0).log_prob(x[:2]), "forward stops with"),
        (lambda x: D.Dirichlet(x.exp()).log_prob(x[:, :1]), "must match event_shape"),
        (lambda x: D.Normal(x, 1.0).log_prob(1.0), "must be a Tensor"),
    ],
)
def test_shapes_that_eager_refuses_are_refused(function: Function, words: str) -> None:
    """Before there is a program."""
    with pytest.raises(ValueError, match=r".*"):
        function(torch.randn(3, 4))
    with pytest.raises(ExportError, match=words):
        export(Of(function).eval(), (torch.randn(3, 4),))
