"""Scene tags: sums over the tree, the fit of what joins the networks, and the small variant's training."""

from pathlib import Path

import numpy as np
import pytest
from alcove.features.scene_tags.config import CATEGORIES, EMBEDDING, MAP, SCENES, SIZE
from alcove.features.scene_tags.dataset import Photo, truth
from alcove.features.scene_tags.tags import TAGS, TREE, subtree

torch = pytest.importorskip("torch", reason="fits need torch: install alcove-platform[export]")

from alcove.features.scene_tags.distill import Drawing, Plan, step_loss  # noqa: E402
from alcove.features.scene_tags.evidence import (  # noqa: E402
    ABOVE_RIVALS,
    CLASSES_OF_TAGS,
    DETECTED,
    RIVALS,
    Subtrees,
    log_odds,
    sources,
)
from alcove.features.scene_tags.fit import fit_embedding, fit_fusion, fit_scenes, logistic, mean_directions  # noqa: E402
from alcove.features.scene_tags.model import Evidence, Fusion, SceneModule  # noqa: E402
from alcove.features.scene_tags.networks.blaze_face import BlazeFace  # noqa: E402
from alcove.features.scene_tags.networks.fastest_det import FastestDet  # noqa: E402
from alcove.features.scene_tags.networks.mobilenet_v2 import CLASSES, HEAD, MobileNetV2  # noqa: E402
from alcove.features.scene_tags.small import SmallModule, pool  # noqa: E402
from alcove.features.scene_tags.weights import FOLDERS, load_networks  # noqa: E402
from torch import Tensor, nn  # noqa: E402

WEIGHTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "pretrained"


@pytest.fixture(scope="module")
def module() -> SceneModule:
    """The full variant with weights drawn at random."""
    torch.manual_seed(1)
    return SceneModule(MobileNetV2(), FastestDet(), BlazeFace()).eval()


def test_sums_over_subtrees_are_those_of_each_tag_and_all_below_it() -> None:
    """A running sum and two look-ups give what adding one by one does; a class of two branches counts once at most."""
    own = [list(tag.classes) for tag in TREE]
    rows = torch.rand(2, CLASSES, 3) / CLASSES
    found = Subtrees(own, range(len(TAGS)))(rows)
    for at, name in enumerate(TAGS):
        members = [row for below in subtree(name) for row in own[below]]
        assert torch.allclose(found[:, at], rows[:, members].sum(1), atol=1e-5), name
    assert Subtrees(own, [0])(torch.ones(1, CLASSES, 1)).max() == 1


def test_log_odds_are_finite_and_rise_with_probability() -> None:
    """From never to always."""
    odds = log_odds(torch.linspace(0, 1, 101))
    assert torch.isfinite(odds).all()
    assert (odds[1:] > odds[:-1]).all()
    assert odds[50] == pytest.approx(0, abs=1e-3)


def test_each_score_comes_from_what_knows_the_tag_best() -> None:
    """The detector, the classes, the scenes; a taxi is no more likely than a car."""
    source, within = sources()
    taxi, car, fox = (TAGS.index(name) for name in ("taxi", "car", "fox"))
    assert source[car] == DETECTED.index(car)
    assert source[taxi] == len(DETECTED) + taxi
    assert within[taxi] == DETECTED.index(car)
    assert source[fox] == len(DETECTED) + fox
    assert within[fox] == within[car] == len(DETECTED)
    for place, name in enumerate(SCENES):
        assert source[TAGS.index(name)] == len(DETECTED) + len(TAGS) + place


def test_logistic_fit_finds_the_weights_that_made_the_labels() -> None:
    """Within what 20,000 draws can tell."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 2, generator=generator)
    y = (torch.rand(20_000, generator=generator) < torch.sigmoid(x @ torch.tensor([1.5, -0.5]) + 0.3)).float()
    assert logistic(x, y, 0.0) == pytest.approx((1.5, -0.5, 0.3), abs=0.08)


def test_small_things_count_neither_way() -> None:
    """A photo with a bird of one hundredth is no example of birds, and none without."""
    shown = Photo("a", Path("a"), 0, 0, shares={"bird": 0.01, "dog": 0.3})
    has, counts = truth([shown], CATEGORIES)
    bird, dog, cat = (CATEGORIES.index(name) for name in ("bird", "dog", "cat"))
    assert has[0, [bird, dog, cat]].tolist() == [False, True, False]
    assert counts[0, [bird, dog, cat]].tolist() == [False, True, True]


def test_fusion_believes_the_network_that_is_right() -> None:
    """Where the detector's evidence tells and the classes' is noise, the detector's weights are larger."""
    rng = np.random.default_rng(0)
    photos = [
        Photo(str(at), Path("a"), 0, 0, shares={CATEGORIES[int(rng.integers(80))]: 0.5 for _ in range(3)})
        for at in range(60)
    ]
    has, _ = truth(photos, CATEGORIES)
    evidence = []
    for row in range(len(photos)):
        detected = torch.from_numpy(rng.normal(size=(1, 5, len(DETECTED))).astype(np.float32))
        for place, tag in enumerate(DETECTED):
            if TREE[tag].category:
                detected[0, :3, place] += 6.0 * bool(has[row, CATEGORIES.index(TREE[tag].category)]) - 3.0
        nothing = torch.zeros(1)
        evidence.append(Evidence(torch.zeros(1, HEAD), torch.zeros(1, 2, 1), detected, nothing, nothing, nothing))
    fusion = fit_fusion(evidence, photos)
    assert min(fusion.both[:3]) > 3 * max(abs(each) for each in fusion.both[3:5])
    assert min(fusion.detector[:3]) > 0.3
    assert max(abs(each) for each in fusion.classes[:2]) < 0.2


def test_what_the_detector_says_gives_way_to_an_animal_that_it_has_no_name_for(module: SceneModule) -> None:
    """A sure crab takes nearly all of the dog and nothing of "mammal"; a doubtful one takes little."""
    detected = torch.full((1, 5, len(DETECTED)), 2.0)
    scores = {}
    for rival in (0.0, 0.5, 0.97):
        evidence = Evidence(
            torch.zeros(1, HEAD),
            torch.zeros(1, 2, len(TAGS)),
            detected,
            torch.zeros(1),
            torch.zeros(1),
            torch.full((1, 1), rival),
        )
        scores[rival] = module._scores(evidence, torch.zeros(1, len(SCENES)))[0]
    dog, mammal, crab = (TAGS.index(name) for name in ("dog", "mammal", "crab"))
    assert scores[0.97][dog] < 0.2 * scores[0.0][dog]
    assert scores[0.5][dog] > 0.9 * scores[0.0][dog]
    assert scores[0.97][mammal] == scores[0.0][mammal]
    assert scores[0.97][crab] == scores[0.0][crab]


def test_rivals_are_the_animals_without_a_category() -> None:
    """A fox and what a crab belongs to are; a dog and a hammer are not; what is above one does not give way."""
    rivals = {TAGS[at] for at in RIVALS}
    assert {"sea animal", "fox", "fish"} <= rivals
    assert not {"animal", "mammal", "crab", "dog", "bird", "owl", "polar bear", "hammer"} & rivals
    assert {"animal", "mammal"} == ABOVE_RIVALS


def test_scenes_layer_separates_what_it_was_shown_and_ignores_what_is_not_known(module: SceneModule) -> None:
    """Labels that do not count may say anything."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, HEAD, generator=generator)
    labels = (rows[:, : len(SCENES) + 1] > 0).float()
    counts = torch.ones_like(labels)
    labels[200:, 0] = 1.0
    counts[200:, 0] = 0.0
    fit_scenes(module, rows, labels, counts)
    right = (torch.sigmoid(module.scenes(rows)) >= 0.5) == (rows[:, : len(SCENES) + 1] > 0)
    assert right[:200].float().mean() > 0.95


def test_embedding_is_orthonormal_and_its_known_directions_have_length_one(module: SceneModule) -> None:
    """Directions of the classifier; the mean picture lies at nought."""
    middle = torch.rand(HEAD)
    fit_embedding(module, middle, seed=1)
    weight = module.embedding.weight
    assert torch.allclose(weight @ weight.T, torch.eye(EMBEDDING), atol=1e-4)
    assert module.embedding(middle[None]).abs().max() < 1e-3
    assert torch.allclose(module.known.weight.norm(dim=1), torch.ones(len(module.known.weight)), atol=1e-5)


def test_groups_are_mean_directions_of_rows_near_each_other() -> None:
    """Two bundles give two directions, in any order."""
    one, other = torch.tensor([1.0, 0, 0]), torch.tensor([0, 0, 1.0])
    rows = nn.functional.normalize(
        torch.cat([one + 0.05 * torch.randn(20, 3), other + 0.05 * torch.randn(20, 3)]), dim=1
    )
    found = mean_directions(rows, 2, seed=3)
    near = (found @ torch.stack([one, other]).T).max(0).values
    assert (near > 0.99).all()


def test_module_gives_probabilities_a_direction_a_map_and_signs(module: SceneModule) -> None:
    """With any weights, of any picture."""
    module.set_fusion(Fusion())
    pixels = torch.randint(0, 256, (SIZE, SIZE, 3), dtype=torch.uint8)
    with torch.no_grad():
        scores, embedding, saliency, commonness, signs = module(pixels)
    assert scores.shape == (1, len(TAGS))
    assert (scores >= 0).all()
    assert (scores <= 1).all()
    assert embedding.norm() == pytest.approx(1, abs=1e-4)
    assert saliency.shape == (1, MAP, MAP)
    assert commonness.shape == (1, 1)
    assert ((signs >= 0) & (signs <= 1)).all()


def test_pooling_lies_between_the_mean_and_the_most() -> None:
    """Of the places' logits."""
    at_places = torch.randn(3, 64, 5)
    found: Tensor = pool(at_places)
    assert (found <= at_places.amax(1)).all()
    assert (found >= at_places.mean(1)).all()


def test_small_variant_learns_what_the_full_one_says(module: SceneModule) -> None:
    """Some steps on a few pictures bring them nearer; nothing of the full one changes."""
    torch.manual_seed(2)
    student = SmallModule(MobileNetV2(), BlazeFace())
    squares = torch.randint(0, 256, (6, 3, 256, 256), dtype=torch.uint8)
    plan = Plan(batch=2)
    drawing = Drawing(squares, torch.tensor([True, False] * 3), plan, seed=0)
    picture = drawing.batch()
    assert picture.shape == (2, 3, SIZE, SIZE)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    optimizer = torch.optim.Adam([*student.head.parameters(), *student.tags.parameters()], lr=3e-3)
    losses = []
    for _ in range(6):
        loss = step_loss(module, student, picture, plan)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_missing_weights_are_named(tmp_path: Path) -> None:
    """With the option that says where they are."""
    with pytest.raises(FileNotFoundError, match=r"mobilenet_v2_imagenet.*--weights"):
        load_networks(tmp_path)


@pytest.mark.skipif(not WEIGHTS.is_dir(), reason="the published weights are not here: ../shared/data/pretrained")
def test_published_weights_fill_the_networks_to_the_last_tensor() -> None:
    """By torch's strict rules; and a picture of one color is answered."""
    networks = load_networks(WEIGHTS)
    assert [type(network) for network in networks] == list(FOLDERS)
    module = SceneModule(*networks).eval()
    with torch.no_grad():
        outputs = module(torch.full((SIZE, SIZE, 3), 128, dtype=torch.uint8))
    assert all(torch.isfinite(output).all() for output in outputs)


def test_classes_of_tags_are_those_of_the_tree() -> None:
    """In its order."""
    assert tuple(tag.classes for tag in TREE) == CLASSES_OF_TAGS
