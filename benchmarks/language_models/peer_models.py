"""Writes a model of random weights for a peer: `python -m benchmarks.language_models.peer_models PEER SIZES FILE`.

Runs in the peers' own environment. SIZES are those of `models.Shape` as JSON, with "is_rotary". Weights have 4 bits in
groups of 32 with a scale of 16 bits: Q4_0 of llama.cpp, MatMulNBits with int8 activations of ONNX Runtime.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language_models.limits import load_module


def _write_sizes(writer: Any, sizes: dict[str, Any]) -> None:
    writer.add_block_count(sizes["layers"])
    writer.add_context_length(sizes["positions"])
    writer.add_embedding_length(sizes["width"])
    writer.add_feed_forward_length(sizes["inner"])
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["kv_heads"])
    writer.add_vocab_size(sizes["vocabulary"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(2)
    if sizes["is_rotary"]:
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(sizes["width"] // sizes["heads"])
        writer.add_rope_freq_base(10_000.0)
    else:
        writer.add_layer_norm_eps(1e-5)


def write_gguf(sizes: dict[str, Any], path: Path) -> None:
    """Write a file for llama.cpp: a Llama, or a GPT-2."""
    gguf, quantize = load_module("gguf"), load_module("gguf.quants").quantize
    writer = gguf.GGUFWriter(str(path), "llama" if sizes["is_rotary"] else "gpt2")
    _write_sizes(writer, sizes)
    is_llama, width, inner = bool(sizes["is_rotary"]), int(sizes["width"]), int(sizes["inner"])
    narrow = width // int(sizes["heads"]) * int(sizes["kv_heads"])
    random = np.random.default_rng(0)

    def add_product(name: str, outputs: int, inputs: int) -> None:
        kind = gguf.GGMLQuantizationType.Q4_0
        weights = random.standard_normal((outputs, inputs), np.float32) * np.float32(0.02)
        writer.add_tensor(f"{name}.weight", quantize(weights, kind), raw_dtype=kind)
        if not is_llama and name != "token_embd":
            writer.add_tensor(f"{name}.bias", np.zeros(outputs, np.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        if not is_llama:
            writer.add_tensor(f"{name}.bias", np.zeros(width, np.float32))

    add_product("token_embd", sizes["vocabulary"], width)
    add_norm("output_norm")
    if not is_llama:
        places = random.standard_normal((sizes["positions"], width), np.float32)
        writer.add_tensor("position_embd.weight", places)
    for layer in range(sizes["layers"]):
        block = f"blk.{layer}"
        add_norm(f"{block}.attn_norm")
        add_norm(f"{block}.ffn_norm")
        if is_llama:
            add_product(f"{block}.attn_q", width, width)
            add_product(f"{block}.attn_k", narrow, width)
            add_product(f"{block}.attn_v", narrow, width)
            add_product(f"{block}.ffn_gate", inner, width)
        else:
            add_product(f"{block}.attn_qkv", 3 * width, width)
        add_product(f"{block}.attn_output", width, width)
        add_product(f"{block}.ffn_up", inner, width)
        add_product(f"{block}.ffn_down", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_onnx(sizes: dict[str, Any], path: Path) -> None:
    """Write a folder for ONNX Runtime by its own model builder, which has Llamas and no GPT-2."""
    if not sizes["is_rotary"]:
        raise SystemExit("the model builder of ONNX Runtime has no GPT-2")
    tokenizers, transformers = load_module("tokenizers"), load_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        intermediate_size=sizes["inner"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["positions"],
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="a", eos_token="b").save_pretrained(
            folder
        )
        options = ["int4_accuracy_level=4", "int4_block_size=32", "prune_lm_head=1"]
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder, "-c", f"{folder}/cache"]
        command = [*builder, "-o", str(path), "-p", "int4", "-e", "cpu", "--extra_options", *options]
        subprocess.run(command, check=True, capture_output=True)


def main() -> int:
    """Write what the command line says."""
    peer, sizes, path = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
    {"llama.cpp": write_gguf, "ONNX Runtime": write_onnx}[peer](sizes, path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
