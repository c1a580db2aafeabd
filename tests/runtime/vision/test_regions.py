"""Pieces of masks and boxes that overlap are those of slow references, in torch and in programs alike."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, ProgramError, _native, export, load, vision
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.kernels.reference import regions as reference

F32, I32, I64, U8, BOOL = DType.F32, DType.I32, DType.I64, DType.U8, DType.BOOL


class Run(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Return its answer."""
        return self.function(*inputs)


def draw(*rows: str) -> Tensor:
    """Return a mask of rows in which # is a pixel."""
    return torch.tensor([[letter == "#" for letter in row] for row in rows])


def show(mask: Tensor) -> list[str]:
    """Return the rows of a mask."""
    return ["".join("#" if pixel else "." for pixel in row) for row in mask.tolist()]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_components_of_any_mask_are_those_of_a_flood(data: st.DataObject) -> None:
    """Labels and areas, by sides and by corners; widths around the eight pixels that are looked at together."""
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 35))
    density, seed = data.draw(st.sampled_from([0.0, 0.1, 0.4, 0.6, 0.9, 1.0])), data.draw(st.integers(0, 1 << 30))
    masks = np.random.default_rng(seed).random((2, height, width)) < density
    for connectivity in (4, 8):
        found = vision.connected_components(torch.from_numpy(masks), connectivity)
        labels, areas = reference.connected_components(SimpleNamespace(connectivity=connectivity), masks)
        np.testing.assert_array_equal(found.labels, labels)
        np.testing.assert_array_equal(found.areas, areas)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (1, 200), (200, 1), (33, 130)])
def test_combs_spirals_and_boards_are_labeled(height: int, width: int) -> None:
    """Shapes whose pieces meet late, and the most pieces that there can be, fit the room that there is."""
    rows, columns = np.mgrid[:height, :width]
    spiral = np.minimum.reduce([rows, columns, height - 1 - rows, width - 1 - columns]) % 2 == 0
    spiral[1:, 0], spiral[0, :1] = False, True
    combs = (columns % 2 == 0) | (rows == height - 1)
    for mask in (spiral, combs, combs[::-1], (rows + columns) % 2 == 0, (rows % 2 == 0) & (columns % 2 == 0)):
        for connectivity in (4, 8):
            found = vision.connected_components(torch.from_numpy(mask.copy()), connectivity)
            labels, areas = reference.connected_components(SimpleNamespace(connectivity=connectivity), mask[None])
            np.testing.assert_array_equal(found.labels, labels[0])
            np.testing.assert_array_equal(found.areas, areas[0])


def test_diagonal_pixels_touch_by_corners_alone() -> None:
    """Four neighbors make two pieces of what eight make one."""
    mask = draw("#..", ".#.", "..#")
    assert vision.connected_components(mask, 4).labels.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    assert vision.connected_components(mask, 8).areas.tolist() == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]


def choose(mask: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, ...]:
    """Return the largest piece, the one at a point, and those of two pixels or more."""
    kept = vision.keep_largest(mask), vision.keep_touched(mask, row, column, 4), vision.remove_small(mask, 2)
    return (*kept, *vision.connected_components(mask))


def test_a_mask_keeps_its_largest_piece_the_one_under_a_tap_or_those_of_some_size() -> None:
    """Of equal pieces the first; a tap beside a piece, or outside the picture, keeps none."""
    mask = draw("##..#", "##...", "....#", ".#.##", "....#")
    assert show(vision.keep_largest(mask)) == ["##...", "##...", ".....", ".....", "....."]
    assert show(vision.remove_small(mask, 2)) == ["##...", "##...", "....#", "...##", "....#"]
    place = torch.tensor(3)
    assert show(vision.keep_touched(mask, place, place)) == [".....", ".....", "....#", "...##", "....#"]
    for row, column in ((3, 0), (-1, 0), (0, -1), (5, 4), (4, 5)):
        assert not vision.keep_touched(mask, torch.tensor(row), torch.tensor(column)).any()
    assert not vision.keep_largest(torch.zeros(2, 3, 4, dtype=torch.bool)).any()


def test_a_program_chooses_the_pieces_that_eager_mode_chooses() -> None:
    """A batch of pictures with two dimensions in front; pictures whose height varies."""
    torch.manual_seed(1)
    mask, points = torch.rand(2, 1, 19, 23) > 0.45, torch.randint(0, 19, (2, 2, 1))
    inputs = (mask, *points)
    found = load(bytes(export(Run(choose), inputs)))(*[each.numpy() for each in inputs])
    for ours, wanted in zip(found, choose(*inputs), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    dynamic = [{1: torch.export.Dim("height", min=2, max=40)}]
    module = Run(lambda x: tuple(vision.connected_components(x, 4)))
    model = load(bytes(export(module, (mask[:, 0],), dynamic_shapes=dynamic)))
    for height in (2, 19, 40):
        taller = torch.rand(2, height, 23) > 0.5
        for ours, wanted in zip(model(taller.numpy()), module(taller), strict=True):
            np.testing.assert_array_equal(ours, wanted)


def place_boxes(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return boxes at whole places, many of them overlapping, some without an area."""
    corners = rng.integers(0, 12, (*shape, 2))
    return np.concatenate([corners, corners + rng.integers(-1, 8, (*shape, 2))], -1).astype(np.float32)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_kept_boxes_are_those_of_the_definition(data: st.DataObject) -> None:
    """Equal scores, boxes without an area, thresholds that overlaps equal, more boxes than are compared together."""
    count, most = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 5, 16, 17, 70]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    boxes, scores = place_boxes(rng, 2, count), rng.integers(0, 9, (2, count)).astype(np.float32) / 8
    classes = data.draw(st.sampled_from([None, rng.integers(0, 3, (2, count)) << 32, rng.integers(0, 2, (2, count))]))
    iou, score = data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])), data.draw(st.sampled_from([-math.inf, 0.0, 0.5]))
    found = vision.non_maximum_suppression(
        torch.from_numpy(boxes),
        torch.from_numpy(scores),
        iou_threshold=iou,
        max_output=most,
        score_threshold=score,
        classes=None if classes is None else torch.from_numpy(classes),
    )
    attributes = SimpleNamespace(iou_threshold=iou, score_threshold=score)
    indices, counts = reference.non_maximum_suppression(attributes, boxes, scores, classes, shape=(2, most))
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.counts, counts)


def test_boxes_and_scores_of_any_bits_have_a_defined_answer() -> None:
    """NaN is no score; a box with a NaN, turned around or endless drops none and is dropped by none; -0 equals 0."""
    whole, nan, inf = [0.0, 0.0, 4.0, 4.0], math.nan, math.inf
    boxes = torch.tensor([[whole, [nan, 0, 4, 4], [4, 4, 0, 0], whole, [-inf, -inf, inf, inf], whole, [1, 1, 1, 9]]])
    scores = torch.tensor([[0.0, 0.5, 0.4, -0.0, inf, nan, -inf]])
    kept = vision.non_maximum_suppression(boxes, scores, iou_threshold=0.0, max_output=6)
    assert kept.indices.tolist() == [[4, 1, 2, 0, -1, -1]]
    assert kept.counts.tolist() == [4]


def test_an_overlap_equal_to_the_threshold_keeps_both_boxes() -> None:
    """Also where the threshold has no float32: an overlap above it drops the box, one below does not."""
    boxes = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 3]]])
    overlap = float(torch.tensor(30.0) / torch.tensor(100.0))  # the float32 above 0.3
    for threshold, count in ((0.3, 1), (overlap, 2), (0.2999999, 1), (0.31, 2)):
        kept = vision.non_maximum_suppression(boxes, torch.ones(1, 2), iou_threshold=threshold, max_output=2)
        assert kept.counts.tolist() == [count]


def choose_boxes(boxes: Tensor, scores: Tensor, classes: Tensor) -> tuple[Tensor, ...]:
    """Return what is kept with classes, and without."""
    first = vision.non_maximum_suppression(boxes, scores, iou_threshold=0.3, max_output=20, classes=classes)
    return (*first, *vision.non_maximum_suppression(boxes, scores, iou_threshold=0.3, max_output=4, score_threshold=0))


def test_a_program_keeps_the_boxes_that_eager_mode_keeps() -> None:
    """With classes and without; boxes whose number varies."""
    rng = np.random.default_rng(5)

    def make(count: int) -> tuple[Tensor, ...]:
        boxes, scores = place_boxes(rng, 2, count), rng.standard_normal((2, count), np.float32)
        return tuple(torch.from_numpy(each) for each in (boxes, scores, rng.integers(0, 2, (2, count))))

    count = torch.export.Dim("count", min=2, max=90)
    model = load(bytes(export(Run(choose_boxes), make(30), dynamic_shapes=[{1: count}] * 3)))
    for number in (2, 30, 90):
        inputs = make(number)
        for ours, wanted in zip(model(*[each.numpy() for each in inputs]), choose_boxes(*inputs), strict=True):
            np.testing.assert_array_equal(ours, wanted)


def test_regions_that_cannot_be_are_refused() -> None:
    """By the functions with ValueError, by the operators with InputError; each names the bound and the value."""
    mask, boxes, scores = torch.zeros(1, 4, 4, dtype=torch.bool), torch.zeros(1, 3, 4), torch.zeros(1, 3)
    with pytest.raises(ValueError, match="4 or 8, not 6"):
        vision.connected_components(mask, 6)
    with pytest.raises(ValueError, match=r"must be bool \[..., height, width\], not torch.float32"):
        vision.connected_components(mask.float())
    with pytest.raises(ValueError, match="1 pixel or more, not 0"):
        vision.remove_small(mask, 0)
    with pytest.raises(InputError, match="0 x 4 with connectivity 8"):
        vision.connected_components(mask[:, :0])
    with pytest.raises(InputError, match="connectivity 5; allowed"):
        _native.connected_components(mask.numpy(), 5)
    plain: dict[str, Any] = {"iou_threshold": 0.5, "max_output": 2}
    for change, match in (
        ({"iou_threshold": 1.5}, r"in \[0, 1\], not 1.5"),
        ({"iou_threshold": math.nan}, r"in \[0, 1\], not nan"),
        ({"score_threshold": math.nan}, "not nan"),
        ({"max_output": 0}, "1 box or more, not 0"),
        ({"classes": torch.zeros(1, 2, dtype=torch.int64)}, r"\[1, 3\], not \[1, 2\]"),
    ):
        with pytest.raises(ValueError, match=match):
            vision.non_maximum_suppression(boxes, scores, **plain | change)
    with pytest.raises(ValueError, match=r"not \[1, 3, 3\] and \[1, 3\]"):
        vision.non_maximum_suppression(boxes[..., :3], scores, **plain)
    with pytest.raises(InputError, match="thresholds 2 and 0; allowed"):
        _native.non_maximum_suppression(boxes.numpy(), scores.numpy(), None, 2.0, 0.0, 1)
    with pytest.raises(InputError, match="1 x 0 boxes"):
        vision.non_maximum_suppression(boxes[:, :0], scores[:, :0], **plain)


MASK, SAME = (BOOL, (2, 3, 5)), (I32, (2, 3, 5))
ROOM = (U8, (_native.scratch_bytes("connected_components", height=3, width=5),))
BOXES, SCORES, CLASSES = (F32, (2, 7, 4)), (F32, (2, 7)), (I64, (2, 7))
KEPT, COUNT = (I64, (2, 3)), (I64, (2,))
PLACE = (U8, (_native.scratch_bytes("non_maximum_suppression", count=7, most=3),))


def open_program(op: str, inputs: list[Any], outputs: list[Any], attributes: tuple[float, ...]) -> None:
    """Verify a program of one operator."""
    build = Assembly()
    tensors = [build.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(inputs)]
    for i, result in enumerate(build.op(op, tensors, *outputs, attributes=attributes)):
        build.output(f"y{i}", result)
    load(build.program())


def shrink(room: Any) -> Any:
    """Return scratch of a byte less."""
    return (U8, (room[1][0] - 1,))


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "connectivity"),
    [
        ("op_attribute", [MASK], [SAME, SAME, ROOM], 3),
        ("op_attribute", [MASK], [SAME, SAME, ROOM], 6),
        ("op_attribute", [MASK], [SAME, SAME, ROOM], 9),
        ("op_attribute", [MASK], [SAME, SAME, ROOM], -(2**63)),
        ("op_type", [(F32, (2, 3, 5))], [SAME, SAME, ROOM], 8),
        ("op_type", [MASK], [(I64, (2, 3, 5)), SAME, ROOM], 8),
        ("op_type", [MASK], [SAME, (F32, (2, 3, 5)), ROOM], 8),
        ("op_shape", [(BOOL, (3, 5))], [SAME, SAME, ROOM], 8),
        ("op_shape", [MASK], [(I32, (2, 3, 4)), SAME, ROOM], 8),
        ("op_shape", [MASK], [SAME, (I32, (1, 3, 5)), ROOM], 8),
        ("op_shape", [MASK], [SAME, SAME, shrink(ROOM)], 8),
    ],
)
def test_hostile_programs_of_components_are_refused(code: str, inputs: Any, outputs: Any, connectivity: int) -> None:
    """Each rule is broken alone; the plain program opens."""
    open_program("connected_components", [MASK], [SAME, SAME, ROOM], (4,))
    with pytest.raises(ProgramError) as refused:
        open_program("connected_components", inputs, outputs, (connectivity,))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "thresholds"),
    [
        ("op_attribute", [BOXES, SCORES], [KEPT, COUNT, PLACE], (-0.1, 0.0)),
        ("op_attribute", [BOXES, SCORES], [KEPT, COUNT, PLACE], (1.1, 0.0)),
        ("op_attribute", [BOXES, SCORES], [KEPT, COUNT, PLACE], (math.nan, 0.0)),
        ("op_attribute", [BOXES, SCORES], [KEPT, COUNT, PLACE], (0.5, math.nan)),
        ("op_type", [(I32, (2, 7, 4)), SCORES], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_type", [BOXES, CLASSES], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_type", [BOXES, SCORES, SCORES], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_type", [BOXES, SCORES], [(I32, (2, 3)), COUNT, PLACE], (0.5, 0.0)),
        ("op_type", [BOXES, SCORES], [KEPT, (I32, (2,)), PLACE], (0.5, 0.0)),
        ("op_shape", [(F32, (2, 7, 5)), SCORES], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [SCORES, SCORES], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, (F32, (2, 6))], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES, (I64, (2, 6))], [KEPT, COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES], [(I64, (1, 3)), COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES], [(I64, (6,)), COUNT, PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES], [KEPT, (I64, (3,)), PLACE], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES], [KEPT, COUNT, shrink(PLACE)], (0.5, 0.0)),
        ("op_shape", [BOXES, SCORES], [(I64, (2, 17)), COUNT, PLACE], (0.5, 0.0)),  # a block more of kept boxes
    ],
)
def test_hostile_programs_of_boxes_are_refused(code: str, inputs: Any, outputs: Any, thresholds: Any) -> None:
    """Each rule is broken alone; the plain programs open, with classes and without."""
    open_program("non_maximum_suppression", [BOXES, SCORES], [KEPT, COUNT, PLACE], (0.5, -math.inf))
    open_program("non_maximum_suppression", [BOXES, SCORES, CLASSES], [KEPT, COUNT, PLACE], (0.0, 0.0))
    with pytest.raises(ProgramError) as refused:
        open_program("non_maximum_suppression", inputs, outputs, thresholds)
    assert refused.value.code == code
