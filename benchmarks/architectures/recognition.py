"""Builds models of text recognition, points, time series, and small classics."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import conv_bn
from benchmarks.architectures.registry import Architecture, image, tokens


class Crnn(nn.Module):
    """Convolutions to one row of columns, two bidirectional LSTMs, scores for CTC (Shi et al. 2015, table 1)."""

    def __init__(self, classes: int = 37) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            conv_bn(32, 48, activation=nn.ReLU()), nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
            nn.Conv2d(48, 48, (4, 2)), nn.ReLU(),
        )  # fmt: skip
        self.recurrent = nn.LSTM(48, 32, num_layers=2, bidirectional=True)
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities [T, N, classes]."""
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        y, _ = self.recurrent(columns)
        return F.log_softmax(self.head(y), -1)


class TextCnn(nn.Module):
    """Windows of three widths over embeddings, the maximum of each (Kim 2014, figure 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.windows = nn.ModuleList(nn.Conv1d(16, 12, width) for width in (2, 3, 4))
        self.head = nn.Linear(36, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits."""
        x = self.embedding(ids).transpose(1, 2)
        pooled = [F.max_pool1d(F.relu(w(x)), x.shape[2] - w.kernel_size[0] + 1).squeeze(2) for w in self.windows]
        y: Tensor = self.head(torch.cat(pooled, 1))
        return y


class SequenceForecaster(nn.Module):
    """An RNN over a window and its last state repeated through LSTM cells: a forecast of six steps, unrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.RNN(3, 16, batch_first=True, nonlinearity="relu")
        self.cell = nn.LSTMCell(3, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, window: Tensor) -> Tensor:
        """Return [N, 6, 3]."""
        _, hidden = self.encoder(window)
        h, c, x = hidden[0], torch.zeros_like(hidden[0]), window[:, -1]
        steps = []
        for _ in range(6):
            h, c = self.cell(x, (h, c))
            x = x + self.head(h)
            steps.append(x)
        return torch.stack(steps, 1)


class NBeats(nn.Module):
    """Doubly residual stacks of a forecaster (Oreshkin et al. 2020, figure 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 25))
            for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 5]."""
        scale = x.abs().amax(1, keepdim=True).clamp_min(1e-6)
        x = x / scale
        forecast = x.new_zeros((x.shape[0], 5))
        for block in self.blocks:
            back, forward = block(x).split([20, 5], 1)
            x, forecast = x - back, forecast + forward
        return forecast * scale


class Vae(nn.Module):
    """Encoder and decoder of a variational autoencoder, with the noise as an input."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.SELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.SELU(), nn.Flatten()
        )
        self.moments = nn.Linear(16 * 49, 16)
        self.decoder = nn.Sequential(
            nn.Linear(8, 16 * 49), nn.Softplus(), nn.Unflatten(1, (16, 7, 7)), nn.ConvTranspose2d(16, 8, 4, 2, 1),
            nn.Mish(), nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the image again, mean and log-variance."""
        mean, log_variance = self.moments(self.encoder(x)).chunk(2, 1)
        code = mean + torch.exp(0.5 * log_variance) * noise
        return self.decoder(code), mean, log_variance


def lenet() -> nn.Module:
    """LeNet-5 (LeCun et al. 1998, figure 2)."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
        nn.LogSoftmax(1),
    )  # fmt: skip


class TransformerEncoder(nn.Module):
    """torch's own encoder layers with a padding mask made from lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return [N, 32]: the mean over each text's own tokens."""
        padding = torch.arange(ids.shape[1]) >= lengths[:, None]
        y = self.encoder(self.embedding(ids), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1).to(y.dtype)
        return (y * kept).sum(1) / kept.sum(1)


ARCHITECTURES = (
    Architecture("crnn", "text recognition", Crnn, image(1, 1, 32, 64)),
    Architecture("text-cnn", "text classification", TextCnn, tokens(100, 2, 15)),
    Architecture("rnn-forecaster", "time series", SequenceForecaster, image(2, 10, 3)),
    Architecture("n-beats", "time series", NBeats, image(3, 20)),
    Architecture("vae", "generation", Vae, lambda: [(torch.rand(2, 1, 28, 28), torch.randn(2, 8))]),
    Architecture("lenet", "image classification", lenet, image(1, 1, 28, 28)),
    Architecture(
        "transformer-encoder",
        "text embedding",
        TransformerEncoder,
        lambda: [(torch.randint(100, (3, 9)), torch.tensor([9, 4, 1]))],
    ),
)
