"""Trains the small variant to say what the full one says; no labels are needed.

    python -m alcove.features.scene_tags.distill --weights FOLDER --run RUN --pictures FILE --device cuda

Every step draws pictures, cuts and recolors them, puts some four in one, and asks the full variant.  RUN is a folder
that `fit.py` filled; `small.pt` goes there, and `progress.jsonl`.  `--pack FOLDERS` makes FILE first.

Source: Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network" (2015).
"""

import argparse
import io
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.scene_tags.config import SIZE
from alcove.features.scene_tags.dataset import is_left_out, photos, scenes, single_person_photos, small
from alcove.features.scene_tags.documents import documents
from alcove.features.scene_tags.fit import fitted_module
from alcove.features.scene_tags.model import SceneModule
from alcove.features.scene_tags.small import SIZE as SMALL_SIZE
from alcove.features.scene_tags.small import SmallModule, pool
from torch import Tensor
from torch.nn import functional

KEPT: Final = 160
"""Longer side of a packed picture, in pixels; photos of several things keep more."""
PHOTO_KEPT: Final = 288
SMALL_EACH: Final = 50
"""Pictures of a class of Tiny ImageNet."""
DOCUMENTS: Final = 200


@dataclass(frozen=True)
class Plan:
    """How the small variant is trained.

    Attributes:
        seconds: in all.
        batch: pictures a step.
        learning_rate: highest, of the new layers; the old ones have a third of it.
        weight_decay: of AdamW.
        averaging: of the running average of weights.
        mosaics: share of pictures that are made of four.
        embedding_weight: of one less the cosine, beside the cross entropy of the tags.
    """

    seconds: float = 270.0
    batch: int = 128
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    averaging: float = 0.998
    mosaics: float = 0.3
    embedding_weight: float = 20.0


def pack(photo_folder: Path, tagging: Path, file: Path, seed: int = 1) -> int:
    """Write the pictures that are learned from into one file, small; return how many."""
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    several = [photo for photo in photos(photo_folder) if photo.is_free]
    several += [photo for photo in single_person_photos(photo_folder) if photo.is_free]
    others = [photo for photo in scenes(tagging) if not photo.is_dev]
    count: dict[int, int] = {}
    for photo in small(tagging):
        count[photo.label] = count.get(photo.label, 0) + 1
        if not photo.is_dev and not is_left_out(photo) and count[photo.label] <= SMALL_EACH:
            others.append(photo)
    given = [(photo.pixels(), PHOTO_KEPT) for photo in several] + [(photo.pixels(), KEPT) for photo in others]
    given += [(page, KEPT) for page in documents(DOCUMENTS, seed)]
    parts, kinds = [], []
    for at, (pixels, most) in enumerate(given):
        image = Image.fromarray(pixels)
        image.thumbnail((most, most), Image.Resampling.LANCZOS)
        data = io.BytesIO()
        image.save(data, "WEBP", quality=55)
        parts.append(np.frombuffer(data.getvalue(), np.uint8))
        kinds.append(0 if at < len(several) else 1)
    sizes = np.array([len(part) for part in parts])
    np.savez(file, data=np.concatenate(parts), sizes=sizes, kinds=np.array(kinds))
    return len(parts)


def unpack(file: Path) -> tuple[Tensor, Tensor]:
    """Return squares uint8 [n, 3, 256, 256] and which of them are photos of ordinary life, bool [n]."""
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    held = np.load(file)
    squares = np.empty((len(held["sizes"]), 256, 256, 3), np.uint8)
    data, at = held["data"], 0
    for row, size in enumerate(held["sizes"]):
        with Image.open(io.BytesIO(data[at : at + size].tobytes())) as image:
            squares[row] = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.BICUBIC))
        at += size
    return torch.from_numpy(squares).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(held["kinds"] == 0)


class Drawing:
    """Draws batches of pictures as the full variant takes them.

    Args:
        squares: uint8 [n, 3, 256, 256], on the device.
        is_photo: bool [n]; a third of a batch.
        plan: of the training.
        seed: of everything random.
    """

    def __init__(self, squares: Tensor, is_photo: Tensor, plan: Plan, seed: int) -> None:
        self.squares, self.plan = squares, plan
        self.photos = torch.nonzero(is_photo)[:, 0]
        self.others = torch.nonzero(~is_photo)[:, 0]
        self.rng = np.random.default_rng(seed)

    def batch(self) -> Tensor:
        """Return f32 [n, 3, 352, 352] in [0, 255]."""
        count = self.plan.batch
        whole = self._cut(self._rows(count), SIZE)
        chosen = torch.from_numpy(np.flatnonzero(self.rng.random(count) < self.plan.mosaics))
        if len(chosen):
            tiles = self._cut(self._rows(4 * len(chosen)), SIZE // 2)
            tiles = tiles.reshape(len(chosen), 2, 2, 3, SIZE // 2, SIZE // 2).permute(0, 3, 1, 4, 2, 5)
            whole[chosen.to(whole.device)] = tiles.reshape(len(chosen), 3, SIZE, SIZE)
        return self._recolor(whole)

    def _rows(self, count: int) -> Tensor:
        of_photos = self.rng.random(count) < 1 / 3
        rows = np.where(of_photos, self._pick(self.photos, count), self._pick(self.others, count))
        return torch.from_numpy(rows)

    def _pick(self, rows: Tensor, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return rows.numpy()[self.rng.integers(0, len(rows), count)]

    def _cut(self, rows: Tensor, size: int) -> Tensor:
        """Return random pieces, half of them mirrored: 25 to 100 % of the area, sides of 2:3 to 3:2."""
        count = len(rows)
        area, aspect = self.rng.uniform(0.25, 1.0, count), np.exp(self.rng.uniform(-0.4, 0.4, count))
        width, height = np.minimum(np.sqrt(area * aspect), 1), np.minimum(np.sqrt(area / aspect), 1)
        theta = np.zeros((count, 2, 3), np.float32)
        theta[:, 0, 0] = width * np.where(self.rng.random(count) < 0.5, -1, 1)
        theta[:, 1, 1] = height
        theta[:, 0, 2] = self.rng.uniform(-1, 1, count) * (1 - width)
        theta[:, 1, 2] = self.rng.uniform(-1, 1, count) * (1 - height)
        given = self.squares[rows.to(self.squares.device)].float()
        grid = functional.affine_grid(
            torch.from_numpy(theta).to(given.device), [count, 3, size, size], align_corners=False
        )
        return functional.grid_sample(given, grid, mode="bilinear", padding_mode="reflection", align_corners=False)

    def _recolor(self, x: Tensor) -> Tensor:
        brightness, contrast, saturation = (
            torch.from_numpy(self.rng.uniform(0.6, 1.4, (len(x), 1, 1, 1)).astype(np.float32)).to(x.device)
            for _ in range(3)
        )
        grey = x.mean(dim=1, keepdim=True)
        middle = grey.mean(dim=(2, 3), keepdim=True)
        x = grey + (x - grey) * saturation
        return ((x - middle) * contrast + middle * brightness).clamp(0, 255)


def train(teacher: SceneModule, student: SmallModule, drawing: Drawing, plan: Plan, log: Path) -> dict[str, Tensor]:
    """Train until the time is over; return the running average of the student's state."""
    old = [*student.stem.parameters(), *student.blocks.parameters()]
    new = [
        each
        for layer in (student.head, student.tags, student.document, student.embedding)
        for each in layer.parameters()
    ]
    groups = [{"params": old, "share": 1 / 3}, {"params": new, "share": 1.0}]
    for each in (*old, *new):
        each.requires_grad = True
    optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, weight_decay=plan.weight_decay)
    average = {name: value.detach().clone() for name, value in student.state_dict().items()}
    began, step = time.monotonic(), 0
    with log.open("w", encoding="utf-8") as lines:
        while (share := (time.monotonic() - began) / plan.seconds) < 1:
            rate = plan.learning_rate * min(1.0, (step + 1) / 200) * 0.5 * (1 + np.cos(np.pi * share))
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]
            picture = drawing.batch()
            loss = step_loss(teacher, student, picture, plan)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_([*old, *new], 2.0)
            optimizer.step()
            step += 1
            kept = min(plan.averaging, (1 + step) / (10 + step))
            with torch.no_grad():
                for name, value in student.state_dict().items():
                    average[name].lerp_(value, 1 - kept) if value.is_floating_point() else average[name].copy_(value)
            if step % 50 == 0:
                lines.write(
                    json.dumps(
                        {"step": step, "loss": float(loss.detach()), "seconds": round(time.monotonic() - began, 1)}
                    )
                    + "\n"
                )
                lines.flush()
    return average


def step_loss(teacher: SceneModule, student: SmallModule, picture: Tensor, plan: Plan) -> Tensor:
    """Return the cross entropy of the tags, in sum over them, and what the embedding is off."""
    with torch.no_grad():
        scores, embedding, _, _, signs_of_full = teacher.answer(picture)
    near = functional.interpolate(functional.avg_pool2d(picture, 2), (SMALL_SIZE, SMALL_SIZE), mode="bilinear")
    at_places, document, direction = student.read(near * (1 / 127.5) - 1)
    tags = functional.binary_cross_entropy_with_logits(pool(at_places), scores, reduction="none").sum(1).mean()
    page = functional.binary_cross_entropy_with_logits(document, signs_of_full[:, 1])
    apart = 1 - functional.cosine_similarity(direction, embedding).mean()
    return tags + page + plan.embedding_weight * apart


def main() -> None:
    """Pack pictures, or train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--run", type=Path, required=True, help="folder that fit.py filled")
    parser.add_argument("--pictures", type=Path, required=True, help="file of packed pictures")
    parser.add_argument("--pack", type=Path, nargs=2, metavar=("PHOTOS", "TAGGING"), help="make that file first")
    parser.add_argument("--seconds", type=float, default=Plan.seconds)
    parser.add_argument("--batch", type=int, default=Plan.batch)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.pack:
        count = pack(arguments.pack[0], arguments.pack[1], arguments.pictures)
        print(f"{count:,} pictures, {arguments.pictures.stat().st_size:,} bytes")  # noqa: T201 (what the command is for)
        return
    torch.manual_seed(arguments.seed)
    plan = Plan(seconds=arguments.seconds, batch=arguments.batch)
    teacher = fitted_module(arguments.weights, arguments.run).to(arguments.device)
    source = fitted_module(arguments.weights, arguments.run)
    student = SmallModule(source.mobilenet, source.faces)
    student.known.weight.data.copy_(source.known.weight)
    student.to(arguments.device)
    squares, is_photo = unpack(arguments.pictures)
    drawing = Drawing(squares.to(arguments.device), is_photo, plan, arguments.seed)
    state = train(teacher, student, drawing, plan, arguments.run / "progress.jsonl")
    torch.save({name: value.cpu() for name, value in state.items()}, arguments.run / "small.pt")
    (arguments.run / "small.json").write_text(
        json.dumps(asdict(plan) | {"seed": arguments.seed}, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
