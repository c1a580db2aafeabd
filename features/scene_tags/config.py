"""Defines the shape of each version of the model; needs no torch."""

from typing import Final

DEFAULT_VERSION: Final = "2.1.0"
SIZE: Final = 352
"""Width and height of the picture that a program takes, in pixels, after `picture.fit`; what the detector sees."""
WHOLE: Final = 192
"""Width and height of what MobileNetV2 sees."""
FACES: Final = 128
"""Width and height of what BlazeFace sees."""
MAP: Final = 11
"""Rows and columns of the map of saliency."""
EMBEDDING: Final = 128
"""Numbers in an embedding; its length is 1."""
KNOWN: Final = 96
"""Directions that pictures usually have."""
VARIANTS: Final = ("full", "small")
"""Programs of a version: the second for devices with little memory or storage."""

SCENES: Final = ("building", "forest", "glacier", "landscape", "mountain", "sea", "street")
"""Tags that are read off the whole picture's features, in the order of their layer."""

# fmt: off
CATEGORIES: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)
# fmt: on
"""Of COCO, in the order of the detector's outputs."""

LEFT_OUT: Final = tuple(range(5, 200, 10))
"""Labels of Tiny ImageNet on which new tags are tried: every tenth."""
