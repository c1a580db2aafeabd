"""Fits what joins the three networks: some twenty numbers, and a layer for scenes, for embeddings, for documents.

    python -m alcove.features.scene_tags.fit --weights FOLDER --photos FOLDER --tagging FOLDER --run RUN

Writes `heads.pt` and `run.json` into RUN.  The networks stay as they were published.

    fusion     on photos of COCO whose license allows it: whether a photo shows a category
    scenes     on the scenes' training split, against such photos of rooms and of food, and drawn documents
    embedding  from the classifier of MobileNetV2 alone: the directions in which its classes differ
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.picture import fit
from alcove.features.scene_tags.config import CATEGORIES, DEFAULT_VERSION, EMBEDDING, KNOWN, SCENES, SIZE, WHOLE
from alcove.features.scene_tags.dataset import Photo, photos, scenes, single_person_photos, truth
from alcove.features.scene_tags.documents import documents
from alcove.features.scene_tags.evidence import CATEGORIES_OF_TAGS, CLASSES_OF_TAGS, DETECTED
from alcove.features.scene_tags.model import Evidence, Fusion, SceneModule
from alcove.features.scene_tags.ranking import NAMED_FROM
from alcove.features.scene_tags.tags import TAGS, subtree
from alcove.features.scene_tags.weights import load_networks
from numpy.typing import NDArray
from rich.progress import track
from torch import Tensor
from torch.nn import functional

# fmt: off
INSIDE: Final = frozenset({
    "dining table", "chair", "couch", "bed", "toilet", "sink", "oven", "refrigerator", "microwave", "toaster", "tv",
    "laptop", "keyboard", "mouse", "remote", "book", "vase", "teddy bear", "toothbrush", "hair drier", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "pizza", "cake", "sandwich", "broccoli", "carrot", "donut",
    "hot dog", "banana", "apple", "orange",
})
OUTSIDE: Final = frozenset({"car", "bus", "truck", "boat", "train", "airplane", "traffic light"})
# fmt: on
"""Categories of photos that show none of the scenes, unless one of these is there too."""
SCENE_TAGS: Final = (
    ("building",),
    ("forest", "landscape"),
    ("glacier", "landscape"),
    ("landscape", "mountain"),
    ("landscape", "sea"),
    ("street",),
)
"""Of the scenes in the order of their labels."""
DOCUMENTS: Final = 600
DECAY: Final = 0.02
"""Of the scenes' weights, on features that have been made alike in spread."""
ROOM_COUNTS: Final = 10.0
"""What a photo without any of the scenes counts, beside a scene: there are few."""
FUSION_DECAY: Final = 1e-4


@torch.no_grad()
def looks(module: SceneModule, pictures: Sequence[NDArray[np.uint8]], what: str) -> list[Evidence]:
    """Return the evidence of pictures of any size."""
    found = []
    for pixels in track(pictures, description=what, transient=True):
        picture = torch.from_numpy(fit(np.asarray(pixels), SIZE)).float().permute(2, 0, 1).unsqueeze(0)
        whole = functional.interpolate(picture, (WHOLE, WHOLE), mode="bilinear") * (1 / 127.5) - 1
        found.append(module.look(picture, whole))
    return found


@torch.no_grad()
def means(module: SceneModule, pictures: Iterable[NDArray[np.uint8]], count: int, what: str) -> Tensor:
    """Return the means of MobileNetV2's map, f32 [count, 1280]: what `looks` gives, without the detector's part."""
    rows = []
    for pixels in track(pictures, description=what, total=count, transient=True):
        picture = torch.from_numpy(fit(np.asarray(pixels), SIZE)).float().permute(2, 0, 1).unsqueeze(0)
        whole = functional.interpolate(picture, (WHOLE, WHOLE), mode="bilinear") * (1 / 127.5) - 1
        rows.append(module.mobilenet(whole).mean((2, 3)))
    return torch.cat(rows)


def fit_fusion(evidence: Sequence[Evidence], given: Sequence[Photo]) -> Fusion:
    """Return how far each network is to be believed, from photos whose categories are known."""
    has, counts = truth(given, CATEGORIES)
    own = [place for place, tag in enumerate(DETECTED) if CATEGORIES_OF_TAGS[tag]]
    columns = [category for place in own for category in CATEGORIES_OF_TAGS[DETECTED[place]]]
    labels, asked = torch.from_numpy(has[:, columns]), torch.from_numpy(counts[:, columns])
    features = torch.cat([each.detected for each in evidence])[:, :, own].permute(0, 2, 1)
    sees = torch.tensor([any(CLASSES_OF_TAGS[at] for at in subtree(TAGS[DETECTED[place]])) for place in own])

    def fit_columns(first: int, last: int, mask: Tensor) -> tuple[float, ...]:
        keep = asked[:, mask]
        return logistic(features[:, mask, first:last][keep], labels[:, mask][keep].float(), FUSION_DECAY)

    return Fusion(both=fit_columns(0, 5, sees), detector=fit_columns(0, 3, ~sees), classes=fit_columns(3, 5, sees))


def logistic(x: Tensor, y: Tensor, decay: float) -> tuple[float, ...]:
    """Return weights and intercept that make the labels likely; `decay` times the squared weights is added.

    Args:
        x: f32 [n, features].
        y: f32 [n], 0 or 1.
        decay: of the weights, not of the intercept.
    """
    weight, shift = torch.zeros(x.shape[1], requires_grad=True), torch.zeros((), requires_grad=True)

    def cost() -> Tensor:
        loss = functional.binary_cross_entropy_with_logits(x @ weight + shift, y)
        return loss + decay * weight.square().sum()

    minimize(cost, [weight, shift])
    return (*weight.tolist(), float(shift.detach()))


def minimize(cost: Callable[[], Tensor], parameters: list[Tensor]) -> None:
    """Bring parameters to where a smooth cost is least."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = cost()
        torch.autograd.backward(value)
        return value

    step: Callable[[Callable[[], Tensor]], Any] = optimizer.step
    step(closure)


def fit_scenes(module: SceneModule, rows: Tensor, labels: Tensor, counts: Tensor) -> None:
    """Set the layer of scenes and documents.

    Args:
        module: whose layer it is.
        rows: f32 [n, 1280], means of MobileNetV2's map.
        labels: f32 [n, scenes + 1], 0 or 1.
        counts: f32 [n, scenes + 1], how much each counts; 0 where it is not known.
    """
    middle, spread = rows.mean(0), rows.std(0) + 1e-2
    x = (rows - middle) / spread
    weight = torch.zeros(labels.shape[1], rows.shape[1], requires_grad=True)
    shift = torch.zeros(labels.shape[1], requires_grad=True)

    def cost() -> Tensor:
        loss = functional.binary_cross_entropy_with_logits(x @ weight.T + shift, labels, reduction="none")
        return (loss * counts).sum() / len(x) + DECAY * weight.square().sum()

    minimize(cost, [weight, shift])
    with torch.no_grad():
        module.scenes.weight.copy_(weight / spread)
        module.scenes.bias.copy_(shift - (weight / spread) @ middle)


def is_inside(categories: set[str]) -> bool:
    """Return whether a photo with these categories shows none of the scenes."""
    return bool(categories & INSIDE) and not categories & OUTSIDE


def _categories_of(module: SceneModule, evidence: Evidence) -> set[str]:
    """Return the categories that a photo is said to have."""
    scores = torch.sigmoid((evidence.detected * module.detector_weights).sum(1) + module.detector_shift)[0]
    likely = [DETECTED[at] for at in torch.nonzero(scores >= NAMED_FROM)[:, 0].tolist()]
    return {CATEGORIES[each] for at in likely for each in CATEGORIES_OF_TAGS[at]}


def scene_labels(label: int) -> list[float]:
    """Return the row of labels for a scene: what it has of `SCENES`, and that it is no document."""
    return [float(name in SCENE_TAGS[label]) for name in SCENES] + [0.0]


def fit_embedding(module: SceneModule, middle: Tensor, seed: int) -> None:
    """Set the layer of the embedding: where the classifier's classes differ most, all directions alike in weight.

    The rows of a classifier are, up to the spread of pictures about their class, the classes' means (Fisher, 1936):
    their singular directions tell pictures apart that no class was made for.

    Args:
        module: whose layer it is.
        middle: f32 [1280], mean of pictures.
        seed: of the grouping of known directions.
    """
    rows = module.mobilenet.classifier.weight.detach()
    centered = rows - rows.mean(0)
    directions = torch.linalg.svd(centered.double(), full_matrices=False).Vh[:EMBEDDING].float()
    directions = directions * torch.where(directions.sum(1, keepdim=True) < 0, -1.0, 1.0)
    with torch.no_grad():
        module.embedding.weight.copy_(directions)
        module.embedding.bias.copy_(-directions @ middle)
        module.known.weight.copy_(mean_directions(functional.normalize(centered @ directions.T, dim=1), KNOWN, seed))


def mean_directions(rows: Tensor, count: int, seed: int, rounds: int = 30) -> Tensor:
    """Return mean directions of groups of rows that are near each other, f32 [count, width] of length 1.

    Source: Dhillon and Modha, "Concept decompositions for large sparse text data using clustering" (2001).
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = rows[torch.randperm(len(rows), generator=generator)[:count]]
    for _ in range(rounds):
        nearest = (rows @ chosen.T).argmax(1)
        sums = torch.zeros_like(chosen).index_add_(0, nearest, rows)
        chosen = functional.normalize(torch.where(sums.norm(dim=1, keepdim=True) > 0, sums, chosen), dim=1)
    return chosen


def main() -> None:
    """Fit everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--tagging", type=Path, required=True, help="folder with intel_scenes_train.csv")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    module = SceneModule(*load_networks(arguments.weights)).eval()
    free = [photo for photo in photos(arguments.photos) if photo.is_free]
    learned = [photo for photo in scenes(arguments.tagging) if not photo.is_dev]
    pages = documents(DOCUMENTS, arguments.seed)
    shown = looks(module, [photo.pixels() for photo in free], "photos")
    fusion = fit_fusion(shown, free)
    module.set_fusion(fusion)
    alone = [photo for photo in single_person_photos(arguments.photos) if photo.is_free]
    shown += looks(module, [photo.pixels() for photo in alone], "photos of a person")
    inside = [is_inside(set(photo.shares)) for photo in free]
    inside += [is_inside(_categories_of(module, each)) for each in shown[len(free) :]]
    scenery = means(module, (photo.pixels() for photo in learned), len(learned), "scenes")
    drawn = means(module, pages, len(pages), "documents")
    ordinary = torch.cat([each.mean for each in shown])
    nothing = [0.0] * len(SCENES)
    labels = [scene_labels(photo.label) for photo in learned] + [[*nothing, 1.0]] * len(drawn)
    labels += [[*nothing, 0.0]] * len(ordinary)
    counts = torch.ones(len(labels), len(SCENES) + 1)
    counts[len(learned) + len(drawn) :, :-1] = ROOM_COUNTS * torch.tensor(inside)[:, None].float()
    fit_scenes(module, torch.cat([scenery, drawn, ordinary]), torch.tensor(labels), counts)
    fit_embedding(module, torch.cat([scenery, ordinary]).mean(0), arguments.seed)
    arguments.run.mkdir(parents=True, exist_ok=True)
    heads = {name: value for name, value in module.state_dict().items() if name.split(".")[0] in HEADS}
    torch.save(heads, arguments.run / "heads.pt")
    record = {
        "version": DEFAULT_VERSION,
        "seed": arguments.seed,
        "pictures": {
            "photos": len(free),
            "photos of a person": len(alone),
            "scenes": len(learned),
            "documents": len(pages),
        },
        "fusion": asdict(fusion),
    }
    (arguments.run / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


HEADS: Final = ("scenes", "embedding", "known")
"""Layers that are fitted here."""


def fitted_module(weights: Path, run: Path) -> SceneModule:
    """Return the module that a run of this command made.

    Raises:
        FileNotFoundError: there are no weights, or the run wrote nothing.
    """
    module = SceneModule(*load_networks(weights)).eval()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    module.set_fusion(Fusion(**{name: tuple(values) for name, values in record["fusion"].items()}))
    module.load_state_dict(torch.load(run / "heads.pt", weights_only=True), strict=False)
    return module


if __name__ == "__main__":
    main()
