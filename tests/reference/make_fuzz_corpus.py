# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz targets gguf, safetensors, model_config and nf4_file; Python alone is enough.

    python tests/reference/make_fuzz_corpus.py build/release/ftprep

Small valid files, and one file for each way of being wrong that the readers have a message for.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

OUT = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus")
CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 6, "vocab_size": 3,
          "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": True}
SHAPES = {"token_embd.weight": (3, 4), "output_norm.weight": (4,), "blk.0.attn_norm.weight": (4,),
          "blk.0.ffn_norm.weight": (4,), "blk.0.attn_q.weight": (4, 4), "blk.0.attn_k.weight": (2, 4),
          "blk.0.attn_v.weight": (2, 4), "blk.0.attn_output.weight": (4, 4),
          "blk.0.ffn_gate.weight": (6, 4), "blk.0.ffn_up.weight": (6, 4), "blk.0.ffn_down.weight": (4, 6)}


def save(area, name, data):
    os.makedirs(os.path.join(OUT, area), exist_ok=True)
    with open(os.path.join(OUT, area, name), "wb") as f:
        f.write(data)


def floats(n, seed):
    return struct.pack(f"<{n}f", *[((seed * 37 + i * 101) % 64 - 31) / 50 for i in range(n)])


# --- GGUF --------------------------------------------------------------------------------------

def gguf_str(s):
    return struct.pack("<Q", len(s)) + s.encode()


def kv(key, kind, value):
    return gguf_str(key) + struct.pack("<I", kind) + value


def u32(key, v):
    return kv(key, 4, struct.pack("<I", v))


def numel(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def gguf(arch="llama", version=3, more=b"", n_more=0, kind=0, edit=None):
    keys = [kv("general.architecture", 8, gguf_str(arch)), u32(f"{arch}.embedding_length", 4),
            u32(f"{arch}.block_count", 1), u32(f"{arch}.attention.head_count", 2),
            u32(f"{arch}.attention.head_count_kv", 1), u32(f"{arch}.feed_forward_length", 6),
            u32(f"{arch}.context_length", 16),
            kv(f"{arch}.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5))]
    table, data = b"", b""
    for i, (name, shape) in enumerate(SHAPES.items()):
        table += gguf_str(name) + struct.pack("<I", len(shape))
        table += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        table += struct.pack("<IQ", kind, len(data))
        data += floats(numel(shape), i)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(SHAPES), len(keys) + n_more)
    head += b"".join(keys) + more + table
    whole = head + bytes(-len(head) % 32) + data
    return edit(whole) if edit else whole


def patch(at, fmt, value):
    return lambda b: b[:at] + struct.pack(fmt, value) + b[at + struct.calcsize(fmt):]


def patch_after(text, skip, fmt, value):
    return lambda b: patch(b.index(text) + len(text) + skip, fmt, value)(b)


def gguf_corpus():
    array = kv("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + b"".join(map(gguf_str, ["a", "", "bc"])))
    numbers = kv("numbers", 9, struct.pack("<IQ", 5, 2) + struct.pack("<ii", 7, -8))
    name = b"blk.0.attn_q.weight"
    cases = {
        "valid": gguf(), "valid-v2": gguf(version=2), "valid-arrays": gguf(more=array + numbers, n_more=2),
        "valid-alignment": gguf(more=u32("general.alignment", 32), n_more=1), "qwen2": gguf("qwen2"),
        "empty": b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "no-magic": b"GGML" + bytes(20),
        "version-1": gguf(version=1), "big-endian": gguf(version=0x03000000),
        "many-tensors": gguf(edit=patch(8, "<Q", 2**64 - 1)), "more-tensors": gguf(edit=patch(8, "<Q", 12)),
        "many-keys": gguf(edit=patch(16, "<Q", 2**63)), "long-key": gguf(edit=patch(24, "<Q", 2**64 - 1)),
        "bad-kind": gguf(edit=patch_after(b"general.architecture", 0, "<I", 13)),
        "long-string": gguf(edit=patch_after(b"general.architecture", 4, "<Q", 2**63)),
        "nested-array": gguf(more=kv("x", 9, struct.pack("<IQ", 9, 1)), n_more=1),
        "long-array": gguf(more=kv("x", 9, struct.pack("<IQ", 10, 2**61 + 1)), n_more=1),
        "long-strings": gguf(more=kv("x", 9, struct.pack("<IQ", 8, 2**64 - 1)), n_more=1),
        "same-key": gguf(more=u32("llama.block_count", 1), n_more=1),
        "bad-alignment": gguf(more=u32("general.alignment", 24), n_more=1),
        "zero-alignment": gguf(more=u32("general.alignment", 0), n_more=1),
        "five-dims": gguf(edit=patch_after(name, 0, "<I", 5)),
        "zero-dim": gguf(edit=patch_after(name, 4, "<Q", 0)),
        "huge-dim": gguf(edit=patch_after(name, 4, "<Q", 2**63 - 1)),
        "overflow": gguf(edit=patch_after(name, 4, "<Q", 2**61)),
        "unknown-type": gguf(edit=patch_after(name, 20, "<I", 99)),
        "block-type": gguf(edit=patch_after(name, 20, "<I", 12)),
        "offset-odd": gguf(edit=patch_after(name, 24, "<Q", 33)),
        "offset-far": gguf(edit=patch_after(name, 24, "<Q", 2**64 - 32)),
        "overlap": gguf(edit=patch_after(name, 24, "<Q", 0)),
        "cut-data": gguf()[:-1], "cut-header": gguf()[:300],
        "experts": gguf(more=u32("llama.expert_count", 8), n_more=1),
        "string-for-int": gguf(more=kv("llama.vocab_size", 8, gguf_str("3")), n_more=1),
    }
    for n, data in cases.items():
        save("gguf", n, data)


# --- safetensors -------------------------------------------------------------------------------

def st(header, data=bytes(8), length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def safetensors_corpus():
    cases = {
        "valid": st({"a": entry(), "__metadata__": {"format": "pt"}}), "empty": st({}, b""),
        "two": st({"b": entry("BF16", (2,), (4, 8)), "a": entry("F16", (1, 2), (0, 4))}),
        "scalar": st({"a": entry("F64", (), (0, 8))}), "none": st({"a": entry(), "z": entry("U8", (0,), (8, 8))}),
        "short": b"\x00" * 7, "lying-length": st({}, b"", 2**64 - 1), "cut": st({"a": entry()})[:-1],
        "not-json": st(b"{\"a\""), "list": st(b"[]"), "unknown-dtype": st({"a": entry("F31")}),
        "negative": st({"a": entry(shape=(-2,))}), "fraction": st({"a": entry(shape=(1.5,))}),
        "overflow": st({"a": entry(shape=(2**32, 2**32))}), "nine-dims": st({"a": entry(shape=(1,) * 9)}),
        "hole": st({"a": entry(shape=(1,), offsets=(4, 8))}),
        "overlap": st({"a": entry(), "b": entry()}), "backwards": st({"a": entry(offsets=(8, 0))}),
        "beyond": st({"a": entry(shape=(4,), offsets=(0, 16))}), "rest": st({"a": entry(shape=(1,), offsets=(0, 4))}),
        "wrong-size": st({"a": entry(shape=(3,))}), "metadata-number": st({"__metadata__": {"a": 1}, "a": entry()}),
        "twice": st(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{}}'),
    }
    for n, data in cases.items():
        save("safetensors", n, data)


# --- config.json -------------------------------------------------------------------------------

def config_corpus():
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}
    cases = {
        "llama": {}, "mistral": {"model_type": "mistral", "sliding_window": 8},
        "qwen2": {"model_type": "qwen2", "use_sliding_window": True}, "llama3": {"rope_scaling": llama3},
        "linear": {"rope_scaling": {"type": "linear", "factor": 2}},
        "rope-parameters": {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
        "biases": {"attention_bias": True, "mlp_bias": True}, "eos-list": {"eos_token_id": [1, 2]},
        "head-dim": {"head_dim": 8}, "gelu": {"hidden_act": "gelu"}, "yarn": {"rope_scaling": {"type": "yarn"}},
        "quantised": {"quantization_config": {"bits": 4}}, "gemma": {"model_type": "gemma"},
        "zero": {"hidden_size": 0}, "negative": {"num_hidden_layers": -1}, "huge": {"hidden_size": 1e300},
        "odd-head": {"head_dim": 3}, "no-groups": {"num_attention_heads": 3, "num_key_value_heads": 2},
        "eps": {"rms_norm_eps": 0}, "theta": {"rope_theta": -1}, "type": {"vocab_size": "3"},
        "layers": {"num_hidden_layers": 4096},
    }
    for n, change in cases.items():
        save("model_config", n, json.dumps(CONFIG | change).encode())


# --- .nf4 --------------------------------------------------------------------------------------

def nf4_corpus(ftprep):
    with tempfile.TemporaryDirectory() as tmp:
        source, target = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "m.nf4")
        with open(source, "wb") as f:
            f.write(gguf())
        subprocess.run([ftprep, "quantize", source, "--out", target], check=True, capture_output=True)
        with open(target, "rb") as f:
            good = f.read()
    swap = lambda a, b: good.replace(a, b, 1)
    cases = {
        "valid": good, "no-magic": b"X" + good[1:], "version": patch(8, "<I", 2)(good),
        "long-header": patch(16, "<Q", 2**63)(good), "short-header": patch(16, "<Q", 100)(good),
        "cut": good[:-1], "cut-header": good[:200], "preamble": good[:64], "longer": good + b"\0",
        "layers": swap(b'"num_hidden_layers": 1', b'"num_hidden_layers": 2'),
        "vocab": swap(b'"vocab_size": 3', b'"vocab_size": 9'), "type": swap(b"nf4\"", b"f32\""),
        "plain-type": swap(b'"f32"', b'"q8_"'), "place": swap(b'"data":1024', b'"data":1088'),
        "map": swap(b'"map":0', b'"map":1'), "name": swap(b"embed_tokens", b"embed_tokenz"),
        "mean": swap(b'"mean_bits":"', b'"mean_bits":"z'), "tokenizer": swap(b'"tokenizer":null', b'"tokenizer":{}  '),
        "gemma": swap(b'"llama"', b'"gemma"'),
    }
    for n, data in cases.items():
        save("nf4_file", n, data)


if __name__ == "__main__":
    gguf_corpus()
    safetensors_corpus()
    config_corpus()
    nf4_corpus(sys.argv[1])
