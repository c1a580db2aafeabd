"""Two published networks that read text, written from the description of their weights, with CTC inside.

The weights are of others and not in this repository: `../shared/data/pretrained`, described by its WEIGHTS.md.
"""

from pathlib import Path
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.runtime.audio import CtcText, ctc_beam, ctc_greedy
from safetensors.torch import load_file
from torch import Tensor, nn

PRETRAINED: Final = Path(__file__).resolve().parents[4] / "shared/data/pretrained"
LINE, PLATE = PRETRAINED / "tesseract_english_line", PRETRAINED / "lprnet"
GATES: Final = ("input", "forget", "candidate", "output")
PLATE_CLASSES: Final = [
    *"京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO",
    "",
]


def make_lstm(weights: dict[str, Tensor], name: str) -> nn.LSTM:
    """Return a layer of four gates, each a matrix over the input and the output before."""
    joined = torch.cat([weights[f"{name}.{gate}.weight"] for gate in GATES])
    hidden = joined.shape[0] // 4
    layer = nn.LSTM(joined.shape[1] - hidden, hidden)
    layer.load_state_dict(
        {
            "weight_ih_l0": joined[:, :-hidden],
            "weight_hh_l0": joined[:, -hidden:],
            "bias_ih_l0": torch.cat([weights[f"{name}.{gate}.bias"] for gate in GATES]),
            "bias_hh_l0": torch.zeros(4 * hidden),
        }
    )
    return layer


class Line(nn.Module):
    """One printed line of English, uint8 [36, width] with 0 for ink, to its text: greedy, and by a beam."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        weights = load_file(LINE / "model.safetensors")
        labels = (LINE / "classes.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        stem = weights["stem.weight"].reshape(16, 1, 3, 3).transpose(2, 3)  # columns are outermost there
        self.register_buffer("stem", stem.contiguous())
        self.register_buffer("stem_bias", weights["stem.bias"])
        self.columns, self.ahead = make_lstm(weights, "columns"), make_lstm(weights, "forward")
        self.back, self.last = make_lstm(weights, "backward"), make_lstm(weights, "last")
        self.classifier = nn.Linear(192, 111)
        self.classifier.load_state_dict({key: weights[f"classifier.{key}"] for key in ("weight", "bias")})
        self.width, self.text = width, CtcText(labels, 110, 256)

    def log_probs(self, pixels: Tensor) -> Tensor:
        """Return f32 [1, width / 3, 111]."""
        x = pixels.float()[None, None] / 127.5 - 1
        x = F.max_pool2d(F.conv2d(x, self.get_buffer("stem"), self.get_buffer("stem_bias"), padding=1).tanh(), 3)
        rows = x[0].permute(1, 2, 0)  # [12, columns, 16]
        steps = self.columns(rows)[1][0].transpose(0, 1)  # [columns, 1, 48]
        steps = self.back(self.ahead(steps)[0].flip(0))[0].flip(0)
        scores: Tensor = self.classifier(self.last(steps)[0]).log_softmax(-1).transpose(0, 1)
        return scores

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Return both texts, each uint8 [256] and its size, and the score of the second."""
        scores = self.log_probs(pixels)
        greedy, beam = ctc_greedy(scores, 110), ctc_beam(scores, self.width, 110)
        return (*self.text(greedy.ids[0]), *self.text(beam.ids[0, 0]), beam.scores)


class SmallBlock(nn.Module):
    """A column and a row of three instead of a square, between two products."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        inner = outputs // 4
        self.block = nn.Sequential(
            nn.Conv2d(inputs, inner, 1),
            nn.ReLU(),
            nn.Conv2d(inner, inner, (3, 1), padding=(1, 0)),
            nn.ReLU(),
            nn.Conv2d(inner, inner, (1, 3), padding=(0, 1)),
            nn.ReLU(),
            nn.Conv2d(inner, outputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return as many pixels."""
        made: Tensor = self.block(x)
        return made


class Plate(nn.Module):
    """A number plate, uint8 [24, 94, 3] with blue first, to its text: greedy, and by a beam."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.backbone = nn.ModuleDict(
            {
                "0": nn.Conv2d(3, 64, 3),
                "1": nn.BatchNorm2d(64),
                "4": SmallBlock(64, 128),
                "5": nn.BatchNorm2d(128),
                "8": SmallBlock(64, 256),
                "9": nn.BatchNorm2d(256),
                "11": SmallBlock(256, 256),
                "12": nn.BatchNorm2d(256),
                "16": nn.Conv2d(64, 256, (1, 4)),
                "17": nn.BatchNorm2d(256),
                "20": nn.Conv2d(256, 68, (13, 1)),
                "21": nn.BatchNorm2d(68),
            }
        )
        self.container = nn.Sequential(nn.Conv2d(516, 68, 1))
        self.load_state_dict(load_file(PLATE / "model.safetensors"))
        self.width, self.text = width, CtcText(PLATE_CLASSES, 67, 64)

    def _stage(self, x: Tensor, *names: str) -> Tensor:
        for name in names:
            x = self.backbone[name](x)
        return F.relu(x)

    def log_probs(self, pixels: Tensor) -> Tensor:
        """Return f32 [1, 18, 68]."""
        x = (pixels.float().permute(2, 0, 1)[None] - 127.5) / 128
        a = self._stage(x, "0", "1")
        b = self._stage(F.max_pool2d(a, 3, 1), "4", "5")
        c = self._stage(F.max_pool2d(b, 3, (1, 2))[:, ::2], "8", "9")
        c = self._stage(c, "11", "12")
        d = self._stage(self._stage(F.max_pool2d(c, 3, (1, 2))[:, ::4], "16", "17"), "20", "21")
        pooled = [F.avg_pool2d(a, 5, 5), F.avg_pool2d(b, 5, 5), F.avg_pool2d(c, (4, 10), (4, 2)), d]
        joined = torch.cat([each / each.square().mean() for each in pooled], 1)
        scores: Tensor = self.container(joined).mean(2).transpose(1, 2).log_softmax(-1)
        return scores

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Return both texts, each uint8 [64] and its size, and the score of the second."""
        scores = self.log_probs(pixels)
        greedy, beam = ctc_greedy(scores, 67), ctc_beam(scores, self.width, 67)
        return (*self.text(greedy.ids[0]), *self.text(beam.ids[0, 0]), beam.scores)
