"""Builds vision models from `transformers` configurations, a few layers each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers as t
from torch import Tensor, nn

from benchmarks.architectures.registry import Architecture, Call, Picked, image

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64
}  # fmt: skip


def vit() -> nn.Module:
    """ViT with a class token."""
    return Picked(
        t.ViTForImageClassification(t.ViTConfig(image_size=32, patch_size=8, **SMALL)), "logits", ("pixel_values",)
    )


def swin() -> nn.Module:
    """Swin: shifted windows with relative position biases."""
    config = t.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return Picked(t.SwinForImageClassification(config), "logits", ("pixel_values",))


def mobilevit() -> nn.Module:
    """MobileViT: convolutions, and attention over unfolded patches."""
    config = t.MobileViTConfig(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 48], num_attention_heads=2
    )
    return Picked(t.MobileViTForImageClassification(config), "logits", ("pixel_values",))


def mobilevit_v2() -> nn.Module:
    """MobileViTV2: separable self-attention."""
    config = t.MobileViTV2Config(image_size=64, width_multiplier=0.25, n_attn_blocks=[1, 1, 1])
    return Picked(t.MobileViTV2ForImageClassification(config), "logits", ("pixel_values",))


def segformer() -> nn.Module:
    """SegFormer: attention over a reduced map, an all-linear head."""
    config = t.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16
    )
    return Picked(t.SegformerForSemanticSegmentation(config), "logits", ("pixel_values",))


def levit() -> nn.Module:
    """LeViT: attention with biases and batch norm instead of layer norm."""
    config = t.LevitConfig(
        image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8],
        patch_size=16,
    )  # fmt: skip
    return Picked(t.LevitForImageClassification(config), "logits", ("pixel_values",))


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 with paddings as in TensorFlow."""
    config = t.MobileNetV2Config(depth_multiplier=0.25, image_size=64, tf_padding=True)
    return Picked(t.MobileNetV2ForImageClassification(config), "logits", ("pixel_values",))


def classifier(name: str, **settings: Any) -> Callable[[], nn.Module]:
    """Return a builder of `transformers`' classifier of a name, from a configuration."""

    def build() -> nn.Module:
        model, config = getattr(t, f"{name}ForImageClassification"), getattr(t, f"{name}Config")
        return Picked(model(config(num_labels=10, **settings)), "logits", ("pixel_values",))

    return build


STAGES: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 128]}
DEEP: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [64, 128, 256, 512], "depths": [1, 1, 2, 1]}
WIDTHS: dict[str, Any] = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
GROUPED: dict[str, Any] = {**STAGES, "depths": [1, 1, 2, 1], "groups_width": 8}
CONVOLUTIONS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": classifier("ResNet", **STAGES, depths=[2, 2, 2, 2], layer_type="basic"),
    "resnet50": classifier("ResNet", **DEEP),
    "regnet-y": classifier("RegNet", **GROUPED, layer_type="y"),
    "mobilenet-v1": classifier("MobileNetV1", depth_multiplier=0.25),
    "efficientnet-b0": classifier("EfficientNet", width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640),
    "convnext-v2": classifier("ConvNextV2", **WIDTHS),
    "poolformer": classifier("PoolFormer", **WIDTHS),
}


def dpt() -> nn.Module:
    """DPT: depth from tokens that are made maps again and fused."""
    config = t.DPTConfig(
        image_size=32, patch_size=8, **{**SMALL, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 16, 16], fusion_hidden_size=16, is_hybrid=False, use_auxiliary_head=False,
    )  # fmt: skip
    return Picked(t.DPTForDepthEstimation(config), "predicted_depth", ("pixel_values",))


def detr() -> nn.Module:
    """DETR: learned queries look at a convolution's map."""
    backbone = t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )
    config = t.DetrConfig(
        backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_attention_heads=4,
        decoder_attention_heads=4, num_queries=5, num_labels=3,
    )  # fmt: skip
    return Picked(t.DetrForObjectDetection(config), "pred_boxes", ("pixel_values",))


class Clip(nn.Module):
    """Both encoders of CLIP, and the logits between images and texts."""

    def __init__(self) -> None:
        super().__init__()
        text = {**SMALL, "vocab_size": 99, "max_position_embeddings": 12, "eos_token_id": 98}
        config = t.CLIPConfig(
            text_config=text, vision_config={"image_size": 32, "patch_size": 8, **SMALL}, projection_dim=16
        )
        self.model = t.CLIPModel(config)

    def forward(self, ids: Tensor, pixels: Tensor) -> Tensor:
        """Return [images, texts]."""
        logits: Tensor = self.model(input_ids=ids, pixel_values=pixels).logits_per_image
        return logits


def siglip() -> nn.Module:
    """SigLIP's image encoder: pooling by an attention with one learned query."""
    config = t.SiglipVisionConfig(image_size=32, patch_size=8, **SMALL)
    return Picked(t.SiglipVisionModel(config), "pooler_output", ("pixel_values",))


def pvt() -> nn.Module:
    """PVT: a pyramid of attention over reduced maps."""
    config = t.PvtConfig(
        image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4]
    )
    return Picked(t.PvtForImageClassification(config), "logits", ("pixel_values",))


def clip_inputs() -> list[Call]:
    """Return two texts, each with its end token, and two images."""
    ids = torch.randint(1, 98, (2, 12))
    ids[0, 5], ids[1, 11] = 98, 98
    return [(ids, torch.randn(2, 3, 32, 32))]


ARCHITECTURES = (
    *(Architecture(name, "image classification", build, image(1, 3, 64, 64)) for name, build in CONVOLUTIONS.items()),
    Architecture("vit", "image classification", vit, image(1, 3, 32, 32)),
    Architecture("swin", "image classification", swin, image(1, 3, 32, 32)),
    Architecture("levit", "image classification", levit, image(2, 3, 64, 64), is_small=False),
    Architecture("pvt", "image classification", pvt, image(1, 3, 64, 64), is_small=False),
    Architecture("mobilevit", "image classification", mobilevit, image(1, 3, 64, 64)),
    Architecture("mobilevit-v2", "image classification", mobilevit_v2, image(1, 3, 64, 64), is_small=False),
    Architecture("mobilenet-v2-hf", "image classification", mobilenet_v2, image(1, 3, 64, 64), is_small=False),
    Architecture("segformer", "segmentation", segformer, image(1, 3, 64, 64)),
    Architecture("dpt", "depth", dpt, image(1, 3, 32, 32), is_small=False),
    Architecture("detr", "detection", detr, image(1, 3, 64, 64), is_small=False),
    Architecture("siglip-image", "image embedding", siglip, image(1, 3, 32, 32)),
    Architecture("clip", "image and text", Clip, clip_inputs),
)
