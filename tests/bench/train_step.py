# SPDX-License-Identifier: Apache-2.0
"""One training step on SmolLM2, ours against torch and PEFT: LoRA of rank 16 on the seven linear layers,
all tokens trained, fp32, two threads. Every measurement is a process of its own and the two alternate, so
that both see the same machine; the best of the repeats counts. CPU seconds are shown beside the wall clock
because they still compare on a machine that is shared.

    python tests/bench/train_step.py BASE.nf4 [--repeat 3] [--tool build/release/tests/tools/train_step]

One JSON line per shape and program. Needs numpy, torch, transformers, peft, gguf, safetensors.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SHAPES = {"2x256": (2, 256), "1x1024": (1, 1024)}


def adapted(base):
    import peft
    import torch
    from nf4_model import load_model
    torch.manual_seed(1)
    model = peft.get_peft_model(load_model(base), peft.LoraConfig(
        task_type="CAUSAL_LM", r=16, lora_alpha=16, target_modules=SEVEN))
    for name, p in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.02)
    return model


def peer(base, batch, steps):
    """As a training loop does it: forward with labels, backward, gradients cleared. In this process."""
    import torch
    torch.set_num_threads(2)
    model = adapted(base).train()
    with open(batch) as f:
        tokens = json.load(f)
    tokens = torch.tensor(tokens["tokens"]).reshape(len(tokens["starts"]) - 1, -1)
    best, cpu = 1e30, 1e30
    for _ in range(steps):
        wall, used = time.perf_counter(), time.process_time()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        model.zero_grad(set_to_none=True)
        best, cpu = min(best, time.perf_counter() - wall), min(cpu, time.process_time() - used)
    targets = tokens.numel() - len(tokens)
    print(json.dumps(dict(loss_sum=loss.item() * targets, tokens=tokens.numel(), seconds=best,
                          cpu_seconds=cpu, tokens_per_second=tokens.numel() / best,
                          peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)))


def run(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(out.splitlines()[-1])


def best_of(results):
    best = min(results, key=lambda r: r["seconds"])
    best["cpu_seconds"] = min(r["cpu_seconds"] for r in results)
    return best


def write_inputs(base, directory):
    import numpy as np
    rng = np.random.default_rng(1)
    adapted(base).save_pretrained(directory + "/adapter")
    for name, (rows, length) in SHAPES.items():
        n = rows * length
        with open(f"{directory}/{name}.json", "w") as f:
            json.dump(dict(tokens=rng.integers(0, 49152, n).tolist(), trained=[1] * n,
                           starts=list(range(0, n + 1, length))), f)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tool", default="build/release/tests/tools/train_step")
    parser.add_argument("--peer", help=argparse.SUPPRESS)  # a batch: measure the peer on it
    options = parser.parse_args()
    if options.peer:
        peer(options.base, options.peer, 2)
        return
    with tempfile.TemporaryDirectory() as directory:
        write_inputs(options.base, directory)
        for shape in SHAPES:
            batch = f"{directory}/{shape}.json"
            commands = {
                "torch+peft": [sys.executable, __file__, options.base, "--peer", batch],
                "fttrain": [options.tool, "step", options.base, directory + "/adapter", batch, "--steps", "2"],
            }
            results = {name: [] for name in commands}
            for _ in range(options.repeat):
                for name, command in commands.items():
                    results[name].append(run(command))
            best = {name: best_of(r) for name, r in results.items()}
            for name, r in best.items():
                print(json.dumps(dict(program=name, shape=shape, **r)), flush=True)
            a, b = best["torch+peft"], best["fttrain"]
            print(json.dumps(dict(shape=shape, faster=round(a["seconds"] / b["seconds"], 2),
                                  less_cpu=round(a["cpu_seconds"] / b["cpu_seconds"], 2),
                                  memory_share=round(b["peak_rss"] / a["peak_rss"], 3))), flush=True)


if __name__ == "__main__":
    main()
