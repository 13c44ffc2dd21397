# SPDX-License-Identifier: Apache-2.0
"""Tiny models with the loss and the LoRA gradients that transformers and PEFT compute for them.

    python tests/reference/make_model.py        # writes tests/golden/model/

Needs numpy, torch, transformers, peft, safetensors, bitsandbytes (for its dynamic map only). Each case
holds a Hugging Face checkpoint (bf16) that the C test quantises with our own code; here the linear layers
are replaced by what make_nf4.py, the independent statement of the format, decodes for the same weights.
The oracle then runs in fp32, one sequence at a time, without dropout.
"""
import json
import math
import os
import shutil
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(__file__))
import make_nf4

OUT = os.path.join(os.path.dirname(__file__), "..", "golden", "model")
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SHAPE = dict(hidden_size=64, num_hidden_layers=2, intermediate_size=88, vocab_size=131,
             max_position_embeddings=256, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)

# name: architecture, configuration, LoRA options, lengths of the sequences, share of trained tokens
CASES = {
    "gqa": ("Llama", dict(num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=False),
            dict(r=4, lora_alpha=8, target_modules=SEVEN), [70], 1.0),
    "tied-packed": ("Llama", dict(num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=True,
                                  rope_parameters=LLAMA3, rms_norm_eps=1e-5),
                    dict(r=8, lora_alpha=4, target_modules=SEVEN, use_rslora=True), [17, 1, 90, 3], 0.5),
    "bias": ("Llama", dict(num_attention_heads=8, num_key_value_heads=4, attention_bias=True, mlp_bias=True,
                           tie_word_embeddings=False),
             dict(r=4, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"]), [33, 20], 0.7),
    "qwen2": ("Qwen2", dict(num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True),
              dict(r=4, lora_alpha=16, target_modules=["gate_proj", "o_proj"]), [65, 12], 0.8),
}


def random_weights(model, rng):
    """Gains near one, everything else normal with a spread that keeps activations of order one."""
    for name, p in model.named_parameters():
        x = torch.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32))
        if "norm" in name:
            x = 1 + 0.2 * x
        elif "embed" in name or "lm_head" in name or name.endswith("bias"):
            x = 0.3 * x
        else:
            x = x / math.sqrt(p.shape[1])
        p.data = x.to(torch.bfloat16).to(torch.float32)


def through_nf4(x):
    flat = x.numpy().reshape(-1)
    codes, absmax = make_nf4.first_level(flat)
    q, absmax2, offset = make_nf4.second_level(absmax)
    return torch.from_numpy(make_nf4.decode(codes, q, absmax2, offset, len(flat)).reshape(x.shape))


def quantize_linears(model):
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and not name.endswith("lm_head"):
            module.weight.data = through_nf4(module.weight.data)


def exact_inv_freq(config):
    """Evaluated in double and rounded once, as ours; PyTorch's own is an ulp off in places."""
    rope, dim = config.rope_parameters, config.hidden_size // config.num_attention_heads
    f = [rope["rope_theta"] ** (-2 * i / dim) for i in range(dim // 2)]
    if rope["rope_type"] == "llama3":
        context, low, high = (rope["original_max_position_embeddings"], rope["low_freq_factor"],
                              rope["high_freq_factor"])
        for i, v in enumerate(f):
            smooth = (context * v / (2 * math.pi) - low) / (high - low)
            smooth = min(max(smooth, 0.0), 1.0)
            f[i] = (1 - smooth) * v / rope["factor"] + smooth * v
    return torch.tensor(f, dtype=torch.float64).to(torch.float32)


def random_batch(lengths, share, vocab, rng):
    n = sum(lengths)
    starts = [0] + np.cumsum(lengths).tolist()
    trained = [int(u < share) for u in rng.random(n)]
    return dict(tokens=rng.integers(0, vocab, n).tolist(), trained=trained, starts=starts)


def loss_sum(model, batch):
    total = torch.zeros((), dtype=torch.float64)
    for a, b in zip(batch["starts"], batch["starts"][1:]):
        tokens = torch.tensor([batch["tokens"][a:b]])
        keep = torch.tensor(batch["trained"][a + 1:b], dtype=torch.bool)
        if not keep.any():
            continue
        logits = model(tokens, use_cache=False).logits[0, :-1][keep]
        losses = torch.nn.functional.cross_entropy(logits, tokens[0, 1:][keep], reduction="none")
        total = total + losses.double().sum()
    return total


def write_case(name, architecture, shape, lora, lengths, share):
    rng = np.random.default_rng(sum(map(ord, name)))
    directory = os.path.join(OUT, name)
    shutil.rmtree(directory, ignore_errors=True)
    config = getattr(transformers, architecture + "Config")(**SHAPE, **shape)
    config._attn_implementation = "eager"
    model = getattr(transformers, architecture + "ForCausalLM")(config).to(torch.float32)
    random_weights(model, rng)
    model.to(torch.bfloat16).save_pretrained(directory)
    model.to(torch.float32)
    os.remove(os.path.join(directory, "generation_config.json"))
    quantize_linears(model)
    model.model.rotary_emb.inv_freq = exact_inv_freq(config)

    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
    for p_name, p in model.named_parameters():
        if "lora_" in p_name:
            p.data = torch.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32)) * 0.1
    adapter = os.path.join(directory, "adapter")
    model.save_pretrained(adapter)
    os.remove(os.path.join(adapter, "README.md"))

    batch = random_batch(lengths, share, config.vocab_size, rng)
    loss = loss_sum(model, batch)
    loss.backward()
    gradients = {n.replace(".default", ""): p.grad for n, p in model.named_parameters() if "lora_" in n}
    expected = os.path.join(directory, "gradients")
    os.makedirs(expected)
    shutil.copy(os.path.join(adapter, "adapter_config.json"), expected)
    save_file(gradients, os.path.join(expected, "adapter_model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(directory, "batch.json"), "w") as f:
        json.dump(batch, f)
    with open(os.path.join(directory, "expected.json"), "w") as f:
        json.dump(dict(loss_sum=loss.item(), torch=torch.__version__, transformers=transformers.__version__,
                       peft=peft.__version__), f, indent=2)
    print(name, loss.item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case, arguments in CASES.items():
        write_case(case, *arguments)
