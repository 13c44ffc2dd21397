#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters made by PEFT itself, for the tests.

  make_adapter.py golden DIR
      The directories under tests/golden/adapter: a tiny Llama (2 layers, hidden 32, 4 heads, 2 key/value
      heads, intermediate 48), every LoRA value an exact small fraction that the C test recomputes.
  make_adapter.py random BASE.nf4 DIR [--rank N] [--alpha X] [--targets q_proj,...] [--seed N] [--rslora]
      A random adapter (A and B both non-zero) for a quantised base, saved with save_pretrained.
"""
import argparse
import os
import sys

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def tiny_llama():
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, vocab_size=64, max_position_embeddings=128)
    return transformers.LlamaForCausalLM(config)


def fill(model):
    """Element i of a tensor in file order becomes ((7 i) mod 31 - 15) / 16, plus layer for lora_B."""
    for name, p in model.named_parameters():
        if ".lora_" not in name:
            continue
        layer = int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
        i = torch.arange(p.numel())
        value = ((7 * i) % 31 - 15) / 16 + (layer if ".lora_B" in name else 0)
        p.data = value.to(p.dtype).reshape(p.shape)


def golden(out):
    cases = {
        "plain": (dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), torch.float32),
        "rslora-bf16": (dict(r=3, lora_alpha=6, target_modules=SEVEN, use_rslora=True, lora_dropout=0.05),
                        torch.bfloat16),
        "all-linear-f16": (dict(r=2, lora_alpha=4, target_modules="all-linear"), torch.float16),
        "dora": (dict(r=2, lora_alpha=4, target_modules=["q_proj"], use_dora=True), torch.float32),
        "rank-pattern": (dict(r=2, lora_alpha=4, target_modules=["q_proj", "k_proj"],
                              rank_pattern={"k_proj": 4}), torch.float32),
        "modules-to-save": (dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["lm_head"]),
                            torch.float32),
        "lm-head": (dict(r=2, lora_alpha=4, target_modules=["q_proj", "lm_head"]), torch.float32),
    }
    for name, (options, dtype) in cases.items():
        torch.manual_seed(1)
        model = get_peft_model(tiny_llama(), LoraConfig(task_type="CAUSAL_LM", **options))
        fill(model)
        for p_name, p in model.named_parameters():
            if ".lora_" in p_name:
                p.data = p.data.to(dtype)
        path = os.path.join(out, name)
        model.save_pretrained(path)
        os.remove(os.path.join(path, "README.md"))
        print(path)


def random_adapter(options):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import nf4_model
    torch.manual_seed(options.seed)
    model = get_peft_model(nf4_model.load_model(options.base), LoraConfig(
        task_type="CAUSAL_LM", r=options.rank, lora_alpha=options.alpha, use_rslora=options.rslora,
        target_modules=options.targets.split(",")))
    for name, p in model.named_parameters():
        if ".lora_B" in name:
            torch.nn.init.normal_(p, std=0.02)
    model.save_pretrained(options.out)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("golden")
    p.add_argument("out")
    p = commands.add_parser("random")
    p.add_argument("base")
    p.add_argument("out")
    p.add_argument("--rank", type=int, default=8)
    p.add_argument("--alpha", type=float, default=16)
    p.add_argument("--targets", default=",".join(SEVEN))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rslora", action="store_true")
    options = parser.parse_args()
    print(f"peft {peft.__version__}, torch {torch.__version__}, transformers {transformers.__version__}")
    if options.command == "golden":
        golden(options.out)
    else:
        random_adapter(options)


if __name__ == "__main__":
    main()
