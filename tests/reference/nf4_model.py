# SPDX-License-Identifier: Apache-2.0
"""A transformers model that holds exactly the dequantised weights of an .nf4 file, so that an oracle and
fttrain compute on the same base."""
import gguf
import numpy as np
import torch
import transformers

from nf4_reader import NF4File

CODES = np.array([0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0,
                  0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3,
                  0x3f800000], np.uint32).view(np.float32)


def dequantise(f, name):
    codes, absmax, absmax2, offset, shape = f.matrix(name)
    numel = int(np.prod(shape))
    scale = f.map[absmax] * np.repeat(absmax2, 256)[:len(absmax)] + offset  # two roundings
    nibbles = np.stack([codes >> 4, codes & 15], axis=1).reshape(-1)[:numel]
    return (CODES[nibbles] * np.repeat(scale, 64)[:numel]).reshape(shape)


def plain(f, t):
    shape, dtype = t["shape"], t["dtype"]
    kind = gguf.GGMLQuantizationType[dtype.upper()]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    numel = int(np.prod(shape))
    raw = f.part(t["data"], numel // block * size)
    return gguf.quants.dequantize(raw.reshape(shape[0], -1), kind).reshape(shape).astype(np.float32)


def load_model(path):
    """AutoModelForCausalLM in fp32. RoPE frequencies are evaluated in double and rounded once, as
    docs/numerics.md says; transformers evaluates them in fp32."""
    f = NF4File(path)
    config = f.header["config"]
    config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    state = {name: torch.from_numpy(dequantise(f, name) if t["dtype"] == "nf4" else plain(f, t))
             for name, t in f.tensors.items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not missing and not unexpected, (missing, unexpected)
    model.tie_weights()
    assert not getattr(config, "rope_scaling", None) or config.rope_scaling.get("rope_type") == "default"
    theta = getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]
    head = config.head_dim
    rotary = type(model.model.rotary_emb)(config)
    rotary.inv_freq = torch.from_numpy((float(theta) ** (-np.arange(0, head, 2) / head)).astype(np.float32))
    model.model.rotary_emb = rotary
    return model.eval()
