#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports against their readers: PEFT, transformers, gguf and, when xllamacpp is installed, llama.cpp.

    python tests/reference/check_export.py BUILD [MODEL.gguf|MODEL_DIR] [--work DIR]

Without MODEL it runs on tiny random Llama, Mistral and Qwen2 models (the last with biases and a separate
head). BUILD holds ftprep and tests/tools/train_step. The oracle base holds our dequantised NF4 weights
(nf4_model.py). Logits are compared as max |a - b| / max |b|; the limit is 1e-4. Needs torch, transformers,
peft, gguf. Prints one line per check and exits 1 when one fails.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads starve each other on a busy machine
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file

import nf4_model
from make_adapter import SEVEN

LIMIT = 1e-4
failed = []


def report(name, ok, detail):
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {detail}", flush=True)
    if not ok:
        failed.append(name)


def compare(name, ours, oracle, limit=LIMIT):
    error = (ours - oracle).abs().max().item() / oracle.abs().max().item()
    report(name, error <= limit, f"max difference {error:.2e} of the largest logit (limit {limit:.0e})")


class Check:
    def __init__(self, build, model, work):
        self.build, self.model, self.work = build, model, work
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        self.nf4 = self.path("base.nf4")
        self.ftprep("quantize", model, "--out", self.nf4)
        self.base = nf4_model.load_model(self.nf4)
        torch.manual_seed(3)
        self.ids = torch.randint(0, self.base.config.vocab_size, (1, 48))
        self.gguf_architecture = {"mistral": "llama"}.get(self.base.config.model_type, self.base.config.model_type)

    def path(self, name):
        return os.path.join(self.work, name)

    def ftprep(self, *args):
        subprocess.run([os.path.join(self.build, "ftprep"), *args], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def export(self, form, adapter, out, *args):
        self.ftprep("export", "--format", form, "--adapter", adapter, "--out", out, *args)
        return out

    def logits(self, model):
        with torch.no_grad():
            return model(self.ids).logits[0]

    def our_logits(self, adapter):
        batch = self.path("batch.json")
        tokens = self.ids[0].tolist()
        with open(batch, "w") as f:
            json.dump({"tokens": tokens, "trained": [0] + [1] * (len(tokens) - 1), "starts": [0]}, f)
        tool = os.path.join(self.build, "tests/tools/train_step")
        raw = subprocess.run([tool, "logits", self.nf4, adapter, batch], check=True, stdout=subprocess.PIPE).stdout
        return torch.from_numpy(np.frombuffer(raw, np.float32).reshape(len(tokens), -1).copy())

    def with_adapter(self, adapter):
        return PeftModel.from_pretrained(nf4_model.load_model(self.nf4), adapter).eval()

    def make_adapter(self, name, **options):
        torch.manual_seed(7)
        model = get_peft_model(nf4_model.load_model(self.nf4), LoraConfig(task_type="CAUSAL_LM", **options))
        for key, p in model.named_parameters():
            if ".lora_B" in key:
                torch.nn.init.normal_(p, std=0.05)
        model.save_pretrained(self.path(name))
        return self.path(name)

    # --- adapters ------------------------------------------------------------------------------

    def adapters(self):
        compare("base alone", self.our_logits("-"), self.logits(self.base))
        for name, options in {
            "seven": dict(r=8, lora_alpha=16, target_modules=SEVEN),
            "rslora on q and v": dict(r=4, lora_alpha=3, target_modules=["q_proj", "v_proj"], use_rslora=True),
        }.items():
            theirs = self.make_adapter(name.split()[0], **options)
            oracle = self.logits(self.with_adapter(theirs))
            report(f"{name}: the adapter matters", not torch.allclose(oracle, self.logits(self.base), atol=0.1),
                   f"moves a logit by {(oracle - self.logits(self.base)).abs().max():.2f}")
            compare(f"{name}: PEFT's adapter in fttrain", self.our_logits(theirs), oracle)
            ours = self.export("peft", theirs, self.path(name.split()[0] + "-ours"))
            a, b = load_file(f"{theirs}/adapter_model.safetensors"), load_file(f"{ours}/adapter_model.safetensors")
            report(f"{name}: our file", a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a),
                   f"{len(b)} tensors, names and bits as PEFT's")
            compare(f"{name}: our adapter in PEFT", self.our_logits(ours), self.logits(self.with_adapter(ours)))
            half = self.export("peft", theirs, self.path(name.split()[0] + "-bf16"), "--dtype", "bf16")
            compare(f"{name}: bf16 in both", self.our_logits(half), self.logits(self.with_adapter(half)))

    # --- merged --------------------------------------------------------------------------------

    def merged(self):
        adapter = self.path("seven")
        oracle = self.logits(self.with_adapter(adapter))
        inv_freq = self.base.model.rotary_emb.inv_freq
        for dtype, limit in (("f32", LIMIT), ("bf16", 3e-2)):
            out = self.export("merged", adapter, self.path("merged-" + dtype), "--base", self.nf4, "--dtype", dtype,
                              "--shard-size", "100")
            model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
            model.model.rotary_emb.inv_freq = inv_freq
            compare(f"merged {dtype} into NF4, in transformers", self.logits(model), oracle, limit)
        peft_merged = self.with_adapter(adapter).merge_and_unload().state_dict()
        ours = model_state(self.path("merged-f32"))
        worst = max(((ours[k] - peft_merged[k]).abs().max() / peft_merged[k].abs().max()).item() for k in ours)
        report("merged f32 against merge_and_unload", worst < 1e-6,
               f"{len(ours)} tensors, largest difference {worst:.1e}")
        shards = len([n for n in os.listdir(self.path("merged-f32")) if n.endswith(".safetensors")])
        print(f"     (merged-f32 is {shards} file{'s' if shards > 1 else ''})")

        out = self.export("merged", adapter, self.path("merged-original"), "--base", self.model, "--dtype", "f32")
        original = self.original()
        oracle = self.logits(PeftModel.from_pretrained(original, adapter).eval())
        model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
        compare("merged f32 into the original", self.logits(model), oracle)

    def original(self):
        if os.path.isdir(self.model):
            return transformers.AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        folder, name = os.path.split(os.path.abspath(self.model))
        return transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)

    def tokenizer(self):
        tok = transformers.AutoTokenizer.from_pretrained(self.path("merged-f32"))
        if os.path.isdir(self.model):
            reference = transformers.AutoTokenizer.from_pretrained(self.model)
        else:
            folder, name = os.path.split(os.path.abspath(self.model))
            reference = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
        texts = [open(f, encoding="utf-8").read() for f in ("README.md", "data-samples/chat-edge-cases.jsonl",
                                                            "data-samples/chat.jsonl")]
        texts += ["  a\n\n\tb 12345 don't", "\u00e9\u4f60\u597d \U0001f642", "<|im_start|>user\nhi<|im_end|>\n", ""]
        same = [tok(t)["input_ids"] == reference(t, add_special_tokens=False)["input_ids"] for t in texts]
        report("tokenizer of the merged model", all(same), f"{sum(same)} of {len(same)} texts give the same ids")
        chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
        if reference.chat_template:
            report("chat template of the merged model",
                   tok.apply_chat_template(chat, tokenize=False) == reference.apply_chat_template(chat, tokenize=False),
                   "renders the same text")

    # --- GGUF ----------------------------------------------------------------------------------

    def gguf_lora(self):
        for name in ("seven", "rslora"):
            adapter = self.path(name)
            out = self.export("gguf-lora", adapter, self.path(name + ".gguf"), "--base", self.nf4)
            config = json.load(open(f"{adapter}/adapter_config.json"))
            reader = gguf.GGUFReader(out)
            field = {k: v.contents() for k, v in reader.fields.items() if not k.startswith("GGUF.")}
            scaling = config["lora_alpha"] / (config["r"] ** 0.5 if config["use_rslora"] else config["r"])
            ok = (field["general.type"], field["adapter.type"], field["general.architecture"]) == (
                "adapter", "lora", self.gguf_architecture) and abs(field["adapter.lora.alpha"] / config["r"] - scaling) < 1e-6
            report(f"{name}.gguf metadata", ok, str(field))
            wrong = self.wrong_tensors(load_file(f"{adapter}/adapter_model.safetensors"), reader)
            report(f"{name}.gguf tensors", not wrong, f"{len(reader.tensors)} tensors, {len(wrong)} wrong {wrong[:3]}")

    def wrong_tensors(self, peft, reader):
        """Names, shapes and values, the permutation done as llama.cpp's converter does it."""
        parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                 "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                 "mlp.down_proj": "ffn_down"}
        heads = {}
        if self.gguf_architecture == "llama":
            heads = {"attn_q": self.base.config.num_attention_heads, "attn_k": self.base.config.num_key_value_heads}
        expected = {}
        for key, value in peft.items():
            layer, module = key.split(".layers.")[1].split(".lora_")[0].split(".", 1)
            part, kind = parts[module], key.split(".lora_")[1][0].lower()
            x = value.numpy()
            if kind == "b" and part in heads:
                n = heads[part]
                x = x.reshape(n, 2, x.shape[0] // n // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
            expected[f"blk.{layer}.{part}.weight.lora_{kind}"] = x
        found = {t.name: t for t in reader.tensors}
        return sorted(set(expected) ^ set(found)) + [
            n for n, x in expected.items()
            if n in found and (list(found[n].shape) != list(x.shape[::-1]) or not np.array_equal(found[n].data, x))]


def make_random(kind, path):
    """A tiny BF16 model directory with random weights under the tokenizer of data-samples/."""
    shutil.rmtree(path, ignore_errors=True)
    torch.manual_seed(2)
    config = transformers.AutoConfig.for_model(
        kind, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        vocab_size=515, max_position_embeddings=512, rope_theta=1e6, tie_word_embeddings=kind == "llama",
        initializer_range=0.2, sliding_window=None)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(p, std=0.3)
    model.save_pretrained(path)
    shutil.copy("data-samples/tokenizer-tiny.json", os.path.join(path, "tokenizer.json"))
    return path


def model_state(path):
    state = {}
    for name in os.listdir(path):
        if name.endswith(".safetensors"):
            state.update(load_file(os.path.join(path, name)))
    return state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--work", default="build/check-export")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(os.cpu_count())
    models = [options.model] if options.model else [
        make_random(kind, os.path.join(options.work, kind)) for kind in ("llama", "mistral", "qwen2")]
    for model in models:
        print(f"{model}:")
        check = Check(options.build, model, os.path.join(options.work, "work"))
        check.adapters()
        check.merged()
        check.tokenizer()
        check.gguf_lora()
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
