#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fifty AdamW steps of fttrain against torch and PEFT: same base, same adapter to start from, same samples.

    python tests/reference/check_train_50.py BUILD [MODEL.gguf] [--steps 50] [--work DIR]

Runs on the tiny model of tests/tools/make_tiny and, when given, on MODEL. Both sides start from one adapter
(B random too, so that every matrix has a gradient from the first step), read the rows of
data-samples/chat.jsonl in the order of the data set, and use AdamW with clipping and weight decay. Every
step's loss must agree within 1e-3, the gradient norm within 1e-2. Needs torch, transformers, peft.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads starve each other on a busy machine
import torch
from peft import LoraConfig, get_peft_model

import nf4_model
from make_adapter import SEVEN

LR, DECAY, CLIP, RANK, ALPHA = 1e-3, 0.01, 1.0, 8, 16
LOSS_LIMIT, NORM_LIMIT = 1e-3, 1e-2


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def read_samples(ftprep, data):
    """(ids, labels) of the train split, in the order of the data set."""
    lines = run(ftprep, "inspect", data, "--json", "--split", "train").decode().splitlines()
    return [(row["input_ids"], row["labels"]) for row in map(json.loads, lines)]


def make_start(model, path):
    torch.manual_seed(11)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, target_modules=SEVEN))
    for name, p in model.named_parameters():
        if ".lora_B" in name:
            torch.nn.init.normal_(p, std=0.01)
    model.save_pretrained(path)
    return model


def train_torch(model, samples, steps, per_step):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=DECAY)
    history = []
    for step in range(steps):
        batch = samples[step * per_step:(step + 1) * per_step]
        n = sum(label != -100 for _, labels in batch for label in labels[1:])
        total = 0.0
        for ids, labels in batch:
            logits = model(torch.tensor([ids])).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction="sum") / n
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP).item()
        optimizer.step()
        optimizer.zero_grad()
        history.append((total, norm))
        if (step + 1) % 10 == 0:
            print(f"torch: step {step + 1} of {steps}, loss {total:.4f}", file=sys.stderr, flush=True)
    return history


def train_ours(fttrain, work, start, micro, accumulate, steps):
    config = os.path.join(work, "run.json")
    with open(config, "w") as f:
        json.dump({"run": {"dir": "run"}, "base": {"path": "base.nf4"}, "data": {"path": "data"},
                   "lora": {"rank": RANK, "alpha": ALPHA, "init": os.path.basename(start)},
                   "batch": {"mode": "sequential", "micro": micro, "accumulate": accumulate},
                   "optimizer": {"lr": LR, "weight_decay": DECAY, "clip": CLIP},
                   "schedule": {"kind": "constant", "warmup_steps": 0},
                   "train": {"max_steps": steps}, "checkpoint": {"every": 0}}, f)
    run(fttrain, "train", config)
    lines = [json.loads(line) for line in open(os.path.join(work, "run/metrics.jsonl"))]
    return [(line["loss"], line["grad_norm"]) for line in lines if "grad_norm" in line]


def check(name, build, model, tokenizer, work, micro, accumulate, steps):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    path = lambda f: os.path.join(work, f)
    ftprep = os.path.join(build, "ftprep")
    run(ftprep, "quantize", model, "--out", path("base.nf4"))
    run(ftprep, "build", "--tokenizer", tokenizer, "--template", "smollm2", "--max-length", "512",
        "--eval-fraction", "0", "--out", path("data"), "data-samples/chat.jsonl")
    samples = read_samples(ftprep, path("data"))
    per_step = micro * accumulate
    assert len(samples) >= steps * per_step, "the comparison would run into a second epoch"
    peft = make_start(nf4_model.load_model(path("base.nf4")), path("start"))
    begun = time.time()
    ours = train_ours(os.path.join(build, "fttrain"), work, path("start"), micro, accumulate, steps)
    our_seconds, begun = time.time() - begun, time.time()
    theirs = train_torch(peft, samples, steps, per_step)
    their_seconds = time.time() - begun
    loss = [abs(a[0] - b[0]) / b[0] for a, b in zip(ours, theirs)]
    norm = [abs(a[1] - b[1]) / b[1] for a, b in zip(ours, theirs)]
    ok = len(ours) == steps and max(loss) <= LOSS_LIMIT and max(norm) <= NORM_LIMIT
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {len(ours)} steps of {per_step} samples, loss {ours[0][0]:.4f} -> "
          f"{ours[-1][0]:.4f} (torch {theirs[0][0]:.4f} -> {theirs[-1][0]:.4f}); largest relative difference: loss "
          f"{max(loss):.1e} (limit {LOSS_LIMIT:.0e}), gradient norm {max(norm):.1e} (limit {NORM_LIMIT:.0e}); "
          f"{our_seconds:.0f} s, torch {their_seconds:.0f} s", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--work", default="build/check-train-50")
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    tiny = os.path.join(options.work, "tiny-model")
    run(os.path.join(options.build, "tests/tools/make_tiny"), tiny)
    ok = check("tiny model", options.build, tiny, tiny, os.path.join(options.work, "tiny"), 1, 3, options.steps)
    if options.model:
        ok &= check(os.path.basename(options.model), options.build, options.model, options.model,
                    os.path.join(options.work, "model"), 3, 1, options.steps)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
