"""Builds language models from `transformers` configurations, two layers each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers as t
from torch import nn

from benchmarks.architectures.registry import Architecture, Call, Picked, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 120
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
LLAMA: dict[str, Any] = {**SMALL, "num_key_value_heads": 2}


def model_of(model: str, config: str, **settings: Any) -> nn.Module:
    """Return a model of `transformers`, whose modules for it are loaded now: those of all take seconds."""
    built: nn.Module = getattr(t, model)(getattr(t, config)(**settings))
    return built


def encoder(model: str, config: str, **more: Any) -> Callable[[], nn.Module]:
    """Return a builder of an encoder that takes ids and a mask."""
    names = ("input_ids", "attention_mask")
    return lambda: Picked(model_of(model, config, **{**SMALL, **more}), "last_hidden_state", names)


def causal(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    """Return a builder of a decoder that takes ids and gives scores, without a cache."""
    return lambda: Picked(model_of(model, config, **settings), "logits", ("input_ids",), use_cache=False)


def masked_calls() -> list[Call]:
    """Return ids of two texts of nine and five tokens, and their mask."""
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 5:] = 0
    return [(torch.randint(3, VOCABULARY, (2, 9)), mask)]


def t5() -> nn.Module:
    """T5, encoder and decoder in one pass."""
    config = t.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return Picked(t.T5ForConditionalGeneration(config), "logits", ("input_ids", "decoder_input_ids"), use_cache=False)


def bert_tokens_types() -> nn.Module:
    """BERT that answers questions: two kinds of tokens, starts of answers."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    return Picked(t.BertForQuestionAnswering(t.BertConfig(**SMALL)), "start_logits", names)


def with_types() -> list[Call]:
    """Return ids, mask and kinds."""
    (ids, mask) = masked_calls()[0]
    return [(ids, mask, (torch.arange(9) > 4).long().expand(2, 9).contiguous())]


def source_and_target() -> list[Call]:
    """Return ids of a source and of a target."""
    return [(torch.randint(3, VOCABULARY, (1, 9)), torch.randint(3, VOCABULARY, (1, 5)))]


MOBILEBERT: dict[str, Any] = {
    "embedding_size": 16, "intra_bottleneck_size": 16, "hidden_size": 32, "num_feedforward_networks": 2
}  # fmt: skip
GPT2: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

SENTENCE = tokens(VOCABULARY, 1, 8)

ARCHITECTURES = (
    Architecture("bert", "text", encoder("BertModel", "BertConfig"), masked_calls),
    Architecture("bert-answers", "question answering", bert_tokens_types, with_types),
    Architecture("mobilebert", "text", encoder("MobileBertModel", "MobileBertConfig", **MOBILEBERT), masked_calls),
    Architecture("albert", "text", encoder("AlbertModel", "AlbertConfig", embedding_size=16), masked_calls),
    Architecture("roberta", "text", encoder("RobertaModel", "RobertaConfig"), masked_calls),
    Architecture("squeezebert", "text", encoder(
        "SqueezeBertModel", "SqueezeBertConfig", embedding_size=32
    ), masked_calls, is_small=False),
    Architecture("mpnet", "text", encoder("MPNetModel", "MPNetConfig"), masked_calls, is_small=False),
    Architecture("deberta-v2", "text", encoder(
        "DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8
    ), masked_calls, is_small=False),
    Architecture("modernbert", "text", encoder(
        "ModernBertModel", "ModernBertConfig", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1,
        eos_token_id=2, local_attention=4,
    ), masked_calls, is_small=False),
    Architecture("t5", "translation", t5, source_and_target, is_small=False),
    Architecture("gpt2", "language model", causal("GPT2LMHeadModel", "GPT2Config", **GPT2), SENTENCE),
    Architecture("llama", "language model", causal("LlamaForCausalLM", "LlamaConfig", **LLAMA), SENTENCE),
    Architecture("qwen2", "language model", causal(
        "Qwen2ForCausalLM", "Qwen2Config", **LLAMA
    ), SENTENCE, is_small=False),
    Architecture("gemma", "language model", causal(
        "GemmaForCausalLM", "GemmaConfig", **LLAMA, head_dim=8
    ), SENTENCE, is_small=False),
    Architecture("opt", "language model", causal(
        "OPTForCausalLM", "OPTConfig", vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64,
    ), SENTENCE),
    Architecture("gpt-neox", "language model", causal(
        "GPTNeoXForCausalLM", "GPTNeoXConfig", **SMALL
    ), SENTENCE, is_small=False),
    Architecture("mixtral", "language model", causal(
        "MixtralForCausalLM", "MixtralConfig", **LLAMA, num_local_experts=4
    ), SENTENCE, is_small=False),
    Architecture("gemma3", "language model", causal(
        "Gemma3ForCausalLM", "Gemma3TextConfig", **LLAMA, head_dim=8, sliding_window=4
    ), SENTENCE, is_small=False),
)  # fmt: skip
