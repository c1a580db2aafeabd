"""Builds speech models from `transformers` configurations, two layers each."""

from __future__ import annotations

from typing import Any

import torch
import transformers as t
from torch import nn

from benchmarks.architectures.registry import Architecture, Picked, image

WAVE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "conv_dim": [16, 16, 16], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2], "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip


def wav2vec2() -> nn.Module:
    """wav2vec 2.0 with its head for CTC; positions by a convolution with normalised weights."""
    return Picked(t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**WAVE)), "logits", ("input_values",))


def sew() -> nn.Module:
    """SEW: a squeezed sequence inside the encoder."""
    config = t.SEWConfig(**WAVE, squeeze_factor=2)
    return Picked(t.SEWModel(config), "last_hidden_state", ("input_values",))


def whisper_encoder() -> nn.Module:
    """Whisper's encoder on 20 positions."""
    config = t.WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=20,
        max_source_positions=20, vocab_size=60, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    encoder = t.WhisperModel(config).get_encoder()
    return Picked(encoder, "last_hidden_state", ("input_features",))


def audio_spectrogram_transformer() -> nn.Module:
    """AST: overlapping patches of a spectrogram."""
    config = t.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=8, max_length=40,
        num_mel_bins=24, frequency_stride=6, time_stride=6,
    )  # fmt: skip
    return Picked(t.ASTForAudioClassification(config), "logits", ("input_values",))


ARCHITECTURES = (
    Architecture("wav2vec2", "speech recognition", wav2vec2, image(1, 600)),
    Architecture("sew", "speech recognition", sew, image(1, 600)),
    Architecture("whisper-encoder", "speech recognition", whisper_encoder, image(1, 20, 40)),
    Architecture("ast", "audio classification", audio_spectrogram_transformer, lambda: [(torch.randn(1, 40, 24),)]),
)
