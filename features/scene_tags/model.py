"""Defines the module that becomes a program: picture bytes in; calibrated scores, embedding, map and signs out.

Three published networks look at the picture, and a few numbers say how far each is to be believed:

    picture 352 x 352 → MobileNetV2 at 192 → probability of each of 1,000 classes, on the whole and at each of 36 places
                      → FastestDet at 352  → probability of each of 80 categories, at each of 484 places
                      → BlazeFace at 128   → the largest face

What a tag's classes have, the tag has; so has what is above it.  The log odds of a tag are a weighted sum of the log
odds that the networks give it, with weights that tags share (`fit.py`): weights of its own would be learned from a
handful of pictures.

The detector knows ten animals and calls others by the nearest of those: a crab is a dog to it.  MobileNetV2 knows 404;
where it is sure of one that the detector has no name for, what the detector says counts little (`RIVALRY`).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from alcove.features.scene_tags.config import EMBEDDING, FACES, KNOWN, MAP, SCENES, WHOLE
from alcove.features.scene_tags.evidence import (
    ABOVE_RIVALS,
    CATEGORIES_OF_TAGS,
    CLASSES_OF_TAGS,
    DETECTED,
    RIVALS,
    Subtrees,
    log_odds,
    places,
    sources,
)
from alcove.features.scene_tags.networks.blaze_face import BlazeFace
from alcove.features.scene_tags.networks.fastest_det import FastestDet
from alcove.features.scene_tags.networks.mobilenet_v2 import HEAD, MobileNetV2
from alcove.features.scene_tags.tags import TAGS
from torch import Tensor, nn
from torch.nn import functional

NOTHING: Final = 0.05
"""Added to the sum of a map: where nothing speaks for any tag the map is nearly 0, not noise."""
SHORTEST: Final = 1e-12
"""Length of an embedding before it is made 1, at least; as `torch.nn.functional.normalize` has it."""
SHARPNESS: Final = 8.0
"""Of the known directions, which pictures are spread about."""
SMALL: Final = 0.03
"""Share of the picture under which a thing counts less and less: it is there, and not what the picture shows."""
STEEPNESS: Final = 2.5
"""How fast it does."""
FACE_FROM: Final = 0.75
"""Score from which on BlazeFace's authors count a face."""
LUMA: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue; ITU-R BT.601."""
RIVALRY: Final = 6
"""What the detector says counts 1 - p^6, p the probability of the likeliest animal that it has no name for: nearly all
up to a half, half at 0.9.  Chosen on photos of another source than what is measured."""
WHITE: Final = 0.7
"""Luminance, in [0, 1], of paper."""


class Evidence(NamedTuple):
    """What the networks say of n pictures.

    Attributes:
        mean: f32 [n, 1280], mean of MobileNetV2's last map.
        odds: f32 [n, 2, tags], log odds by MobileNetV2 on the whole and at the likeliest place.
        detected: f32 [n, 5, detected tags], log odds by the detector (as a category anywhere, as a thing that is large
            enough at the likeliest place and at any), and `odds` of these tags.
        seen: f32 [n, tags, 36], probabilities at each of MobileNetV2's places.
        things: f32 [n, 22, 22], probability of a thing at each of the detector's.
        rival: f32 [n, 1], probability of the likeliest animal that the detector has no name for, on the whole.
    """

    mean: Tensor
    odds: Tensor
    detected: Tensor
    seen: Tensor
    things: Tensor
    rival: Tensor


@dataclass(frozen=True)
class Fusion:
    """How far each network is believed.

    Attributes:
        both: of tags that both see: five weights of `Evidence.detected`, intercept.
        detector: of tags that the detector alone sees: three weights, intercept.
        classes: of tags that MobileNetV2 alone sees: two weights of `Evidence.odds`, intercept.
    """

    both: tuple[float, ...] = (0.2, 0.2, 0.2, 0.2, 0.2, 0.0)
    detector: tuple[float, ...] = (0.3, 0.3, 0.3, 0.0)
    classes: tuple[float, ...] = (0.5, 0.5, 0.0)


class SceneModule(nn.Module):
    """The networks, and what is read from them.

    Args:
        mobilenet: with its weights.
        detector: with its weights.
        faces: with its weights.
    """

    def __init__(self, mobilenet: MobileNetV2, detector: FastestDet, faces: BlazeFace) -> None:
        super().__init__()
        self.mobilenet, self.detector, self.faces = mobilenet, detector, faces
        self.classes_of_tags = Subtrees(CLASSES_OF_TAGS, range(len(TAGS)))
        self.categories_of_tags = Subtrees(CATEGORIES_OF_TAGS, DETECTED)
        self.scenes = nn.Linear(HEAD, len(SCENES) + 1)  # and whether it is a document
        self.embedding = nn.Linear(HEAD, EMBEDDING)
        self.known = nn.Linear(EMBEDDING, KNOWN, bias=False)
        source, within = sources()
        self.source, self.within, self.detected = places(source), places(within), places(DETECTED)
        self.rivals = places(RIVALS)
        gives_way = torch.tensor([0.0 if TAGS[at] in ABOVE_RIVALS else 1.0 for at in DETECTED])
        self.gives_way = nn.Parameter(gives_way, requires_grad=False)
        self.set_fusion(Fusion())

    def set_fusion(self, fusion: Fusion) -> None:
        """Set how far each network is believed."""
        sees_classes = torch.tensor([self.classes_of_tags.is_seen[at] for at in DETECTED])
        alone = torch.tensor((*fusion.detector[:3], 0.0, 0.0, fusion.detector[3]))
        weights = torch.where(sees_classes[:, None], torch.tensor(fusion.both), alone)
        self.detector_weights = nn.Parameter(weights[:, :5].T.contiguous(), requires_grad=False)
        self.detector_shift = nn.Parameter(weights[:, 5].contiguous(), requires_grad=False)
        self.class_weights = fusion.classes

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return scores f32 [1, tags], embedding [1, 128], map [1, 11, 11], commonness [1, 1] and signs [1, 6].

        The map: where the networks see the tags that the picture has, as shares of the whole.

        Commonness: how near the embedding is to what pictures usually have, log(mean(exp(8 cosine))) / 8.  Up to a
        constant it is what a mixture of von Mises-Fisher distributions about them says, so that a cosine less the
        commonness is a ratio of likelihoods: of the tag, and of everything else (Reynolds, Quatieri and Dunn, "Speaker
        verification using adapted Gaussian mixture models", 2000, for the like of it).

        Signs: share of the picture that the largest face takes; probability of a document; mean luminance, its
        deviation, mean difference of neighbors, and share of paper white; all in [0, 1].

        Args:
            pixels: uint8 [352, 352, 3].
        """
        return self.answer(pixels.to(torch.float32).permute(2, 0, 1).unsqueeze(0))

    def answer(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return what `forward` does, of n pictures.

        Args:
            picture: f32 [n, 3, 352, 352] in [0, 255].
        """
        whole = functional.interpolate(picture, (WHOLE, WHOLE), mode="bilinear") * (1 / 127.5) - 1
        evidence = self.look(picture, whole)
        kinds = torch.sigmoid(self.scenes(evidence.mean))
        scores = self._scores(evidence, kinds[:, :-1])
        embedding, commonness = embed(self.embedding(evidence.mean), self.known)
        return scores, embedding, _map(scores, evidence), commonness, signs(self.faces, whole, kinds[:, -1])

    def look(self, picture: Tensor, whole: Tensor) -> Evidence:
        """Return what the networks say.

        Args:
            picture: f32 [n, 3, 352, 352] in [0, 255].
            whole: f32 [n, 3, 192, 192] in [-1, 1].
        """
        found = self.mobilenet(whole)
        mean = found.mean((2, 3))
        rows = torch.cat([mean.unsqueeze(1), found.flatten(2).transpose(1, 2)], 1)
        by_class = self.classes_of_tags(torch.softmax(self.mobilenet.classifier(rows), 2).transpose(1, 2))
        rival = by_class[:, :, 0].index_select(1, self.rivals).amax(1, keepdim=True)
        odds = log_odds(torch.stack([by_class[:, :, 0], by_class[:, :, 1:].amax(2)], 1))
        objects, boxes, categories = self.detector(picture * (1 / 255))
        things = torch.sigmoid(objects).flatten(2)
        sized = (torch.sigmoid(boxes[:, 2:3]) * torch.sigmoid(boxes[:, 3:])).flatten(2) ** STEEPNESS
        shares = self.categories_of_tags(torch.softmax(categories, 1).flatten(2))
        shown = shares * (things * (sized / (sized + SMALL**STEEPNESS)))
        anywhere = 1 - torch.exp(torch.log1p(-shown.clamp_max(0.999)).sum(2))
        by_detector = log_odds(torch.stack([shares.amax(2), shown.amax(2), anywhere], 1))
        detected = torch.cat([by_detector, odds.index_select(2, self.detected)], 1)
        return Evidence(mean, odds, detected, by_class[:, :, 1:], things.reshape(-1, *objects.shape[2:]), rival)

    def _scores(self, evidence: Evidence, scenes: Tensor) -> Tensor:
        """Return f32 [n, tags], in [0, 1]."""
        detected = torch.sigmoid((evidence.detected * self.detector_weights).sum(1) + self.detector_shift)
        detected = detected * (1 - evidence.rival**RIVALRY * self.gives_way)
        whole, likeliest, shift = self.class_weights
        classified = torch.sigmoid(evidence.odds[:, 0] * whole + evidence.odds[:, 1] * likeliest + shift)
        scores = torch.cat([detected, classified, scenes], 1).index_select(1, self.source)
        return scores * functional.pad(detected, (0, 1), value=1.0).index_select(1, self.within)


def embed(direction: Tensor, known: nn.Module) -> tuple[Tensor, Tensor]:
    """Return embeddings f32 [n, 128] of length 1 and their commonness [n, 1]."""
    embedding = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True).clamp_min(SHORTEST)
    return embedding, torch.log(torch.exp(SHARPNESS * known(embedding)).mean(dim=1, keepdim=True)) / SHARPNESS


def signs(faces: BlazeFace, whole: Tensor, document: Tensor) -> Tensor:
    """Return what tells whether pictures suit to be decorated, f32 [n, 6].

    Args:
        faces: the detector.
        whole: f32 [n, 3, rows, columns] in [-1, 1].
        document: f32 [n], probability of a document.
    """
    near = functional.interpolate(whole, (FACES, FACES), mode="bilinear")
    logits, boxes = faces(near)
    areas = (boxes[:, :, 2] * boxes[:, :, 3]) * (1 / (FACES * FACES))
    face = torch.where(torch.sigmoid(logits) >= FACE_FROM, areas, 0.0).amax(1).clamp(0, 1)
    red, green, blue = (near[:, each] * (0.5 * share) for each, share in enumerate(LUMA))
    luminance = red + green + blue + 0.5
    middle = luminance.mean((1, 2))
    spread = (luminance - middle[:, None, None]).square().mean((1, 2)).sqrt()
    across = (luminance[:, :, 1:] - luminance[:, :, :-1]).abs().mean((1, 2))
    down = (luminance[:, 1:] - luminance[:, :-1]).abs().mean((1, 2))
    white = torch.sigmoid((luminance - WHITE) * 40).mean((1, 2))
    return torch.stack([face, document, middle, spread, (across + down) / 2, white], 1)


def map_of(seen: Tensor, side: int) -> Tensor:
    """Return a map of the program's size, f32 [n, 11, 11], as shares; about 0 where there is nothing.

    Args:
        seen: f32 [n, side * side], >= 0.
        side: rows and columns.
    """
    square = functional.interpolate(seen.reshape(-1, 1, side, side), (MAP, MAP), mode="bilinear")[:, 0]
    return square / (square.sum((1, 2), keepdim=True) + NOTHING)


def _map(scores: Tensor, evidence: Evidence) -> Tensor:
    """Return the mean of two maps, f32 [n, 11, 11]: of things, and of the classes of the tags that a picture has."""
    classes = torch.matmul((scores * scores).unsqueeze(1), evidence.seen)[:, 0]
    things = functional.adaptive_avg_pool2d(evidence.things, MAP)
    things = things / (things.sum((1, 2), keepdim=True) + NOTHING)
    return (things + map_of(classes, round(classes.shape[1] ** 0.5))) / 2
