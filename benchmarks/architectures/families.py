"""Families that differ in kind from those of the other modules, from `transformers` configurations."""

from __future__ import annotations

from typing import Any

import transformers as t
from torch import Tensor, nn

from benchmarks.architectures.registry import Architecture, Picked, image, tokens


class Codec(nn.Module):
    """A neural audio codec: the codes of a sound, and the sound that they stand for."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        for name, buffer in model.named_buffers():
            if name.endswith(("codebook.embed", "codebook.embed_sum")):
                nn.init.normal_(buffer, std=0.1)  # zeros, until it is trained

    def forward(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """Return int64 codes, and f32 [1, 1, samples]."""
        result = self.model(sound)
        return result.audio_codes, result.audio_values


def encodec() -> nn.Module:
    """EnCodec: convolutions whose numbers are buffers, an LSTM, residual vector quantization."""
    config = t.EncodecConfig(
        hidden_size=16, num_filters=4, upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_size=16, codebook_dim=16,
        target_bandwidths=[6.0], sampling_rate=800,
    )  # fmt: skip
    return Codec(t.EncodecModel(config))


def mimi() -> nn.Module:
    """Mimi: causal convolutions, transformers between them, split quantization."""
    config = t.MimiConfig(
        hidden_size=32, num_filters=4, upsampling_ratios=[4, 2], codebook_size=16, codebook_dim=16,
        vector_quantization_hidden_dimension=16, num_quantizers=4, num_semantic_quantizers=1, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=4, head_dim=8, intermediate_size=32, sampling_rate=800,
        frame_rate=50, upsample_groups=32, sliding_window=20, use_cache=False,
    )  # fmt: skip
    return Codec(t.MimiModel(config))


def mamba() -> nn.Module:
    """Mamba: a selective scan, step by step."""
    config = t.MambaConfig(
        vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=2, intermediate_size=64, time_step_rank=4
    )
    return Picked(t.MambaModel(config), "last_hidden_state", ("input_ids",), use_cache=False)


def rt_detr() -> nn.Module:
    """RT-DETR: the best places of three maps are queries that sample the maps where they point."""
    backbone = t.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = t.RTDetrConfig(
        backbone_config=backbone, encoder_in_channels=[16, 16, 32], encoder_hidden_dim=32, encoder_ffn_dim=32,
        encoder_attention_heads=4, d_model=32, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=32, decoder_layers=2,
        decoder_attention_heads=4, decoder_n_points=2, num_queries=5, num_labels=3, anchor_image_size=None,
    )  # fmt: skip
    return Picked(t.RTDetrForObjectDetection(config), "pred_boxes", ("pixel_values",))


def videomae() -> nn.Module:
    """VideoMAE: tubes of two frames are the patches."""
    config = t.VideoMAEConfig(
        image_size=32, patch_size=8, num_frames=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64,
    )  # fmt: skip
    return Picked(t.VideoMAEForVideoClassification(config), "logits", ("pixel_values",))


def patchtsmixer() -> nn.Module:
    """PatchTSMixer: gated mixing of the patches and channels of a series."""
    config = t.PatchTSMixerConfig(
        context_length=32, patch_length=4, patch_stride=4, num_input_channels=2, prediction_length=8, d_model=16,
        num_layers=2, mode="mix_channel", self_attn=True, self_attn_heads=2, gated_attn=True, scaling="std",
    )  # fmt: skip
    return Picked(t.PatchTSMixerForPrediction(config), "prediction_outputs", ("past_values",))


ARCHITECTURES = (
    Architecture("encodec", "audio codec", encodec, image(1, 1, 320), is_small=False),
    Architecture("mimi", "audio codec", mimi, image(1, 1, 320), is_small=False),
    Architecture("mamba", "language model", mamba, tokens(99, 1, 8)),
    Architecture("rt-detr", "detection", rt_detr, image(1, 3, 64, 64), is_small=False),
    Architecture("videomae", "video classification", videomae, image(1, 4, 3, 32, 32)),
    Architecture("patchtsmixer", "time series", patchtsmixer, image(2, 32, 2)),
)
