#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GGUF LoRA adapter of ftprep in llama.cpp itself, against PEFT on the same base.

    python tests/reference/check_llama_cpp.py BUILD MODEL.gguf [--work DIR]

The base is decoded to an F32 GGUF first, so that llama.cpp does not quantise activations and both sides
compute in fp32. Compared: log-probabilities of the 40 likeliest next tokens after several prompts, with and
without the adapter; limit 2e-2 (llama.cpp's server samples from fp32 logits of an fp16 key/value cache).
Needs torch, transformers, peft, gguf and xllamacpp (llama.cpp with prebuilt wheels).
"""
import argparse
import os
import subprocess
import sys

import gguf
import torch
import transformers
import xllamacpp
from peft import LoraConfig, PeftModel, get_peft_model

from make_adapter import SEVEN

PROMPTS = ["The capital of France is", "def fibonacci(n):\n    ", "Water boils at a temperature of",
           "Once upon a time there was a little"]
N_PROBS, LIMIT = 40, 2e-2


def to_f32(source, out):
    """Every tensor decoded, every key copied."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        data = gguf.quants.dequantize(t.data, t.tensor_type)
        writer.add_tensor(t.name, data.reshape(tuple(int(n) for n in t.shape[::-1])).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ask_llama_cpp(model, lora):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 256
    params.cpuparams.n_threads = os.cpu_count()
    if lora is not None:
        info = xllamacpp.CommonAdapterLoraInfo(lora, 1.0)
        params.lora_adapters = [info]
    server = xllamacpp.Server(params)
    answers = []
    for prompt in PROMPTS:
        r = server.handle_completions({"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": N_PROBS,
                                       "n_probs": N_PROBS, "cache_prompt": False})
        top = r["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        answers.append({t["id"]: t["logprob"] for t in top})
    return answers


def ask_torch(model, tok):
    answers = []
    with torch.no_grad():
        for prompt in PROMPTS:
            ids = tok(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
            answers.append(torch.log_softmax(model(ids).logits[0, -1].double(), -1))
    return answers


def compare(name, theirs, expected):
    worst = max(abs(p - expected[i][token].item()) for i, top in enumerate(theirs) for token, p in top.items())
    best = sum(max(top, key=top.get) == expected[i].argmax().item() for i, top in enumerate(theirs))
    ok = worst <= LIMIT and best == len(theirs)
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {len(theirs)} prompts, {N_PROBS} log-probabilities each, largest "
          f"difference {worst:.1e} (limit {LIMIT:.0e}), same first choice in {best}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("model")
    parser.add_argument("--work", default="build/check-llama-cpp")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    os.makedirs(options.work, exist_ok=True)
    base, adapter, lora = (os.path.join(options.work, n) for n in ("base-f32.gguf", "adapter", "lora.gguf"))
    to_f32(options.model, base)
    folder, name = os.path.split(os.path.abspath(options.model))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    tok = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    plain = ask_torch(model, tok)
    torch.manual_seed(5)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=SEVEN, use_rslora=True,
                                             task_type="CAUSAL_LM"))
    for key, p in model.named_parameters():
        if ".lora_B" in key:
            torch.nn.init.normal_(p, std=0.02)
    model.save_pretrained(adapter)
    adapted = ask_torch(model.eval(), tok)
    moved = max((a - b).abs().max().item() for a, b in zip(plain, adapted))
    print(f"     the adapter moves a log-probability by up to {moved:.1f}")
    subprocess.run([os.path.join(options.build, "ftprep"), "export", "--format", "gguf-lora", "--adapter", adapter,
                    "--base", options.model, "--out", lora, "--force"], check=True)
    ok = compare("base in llama.cpp", ask_llama_cpp(base, None), plain)
    ok &= compare("base and GGUF adapter in llama.cpp", ask_llama_cpp(base, lora), adapted)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
