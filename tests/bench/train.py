#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed and memory of fttrain against torch and PEFT, whole programs on the same rows.

    python tests/bench/train.py BUILD MODEL.gguf [--repeat 3] [--steps 4] [--case NAME] [--work DIR]

Both train a LoRA of rank 16 on the seven linear layers with AdamW, fp32, two threads, on a base with the
same dequantised NF4 weights. Cases:

  2x256   two rows of 256 tokens a step, all but the template's tokens trained
  1x1024  one row of 1024 tokens a step
  chat    data-samples/chat.jsonl. fttrain packs whole rows into bins of 1024 tokens; the peer takes as many
          rows a step and pads them to the longest

Every run is a process of its own and the two alternate, so both see the same machine; the first step of a
run is not counted. Speed is real tokens (no padding) per second of the best counted step, the one that other
programs disturbed least; the median is shown too, and tokens per CPU second, which still compare when the
machine is shared. Memory is the peak resident set of the process. One JSON line per case. Needs torch, transformers, peft, gguf.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
RANK, ALPHA, LR, THREADS = 16, 32, 1e-4, 2
TARGETS = {"2x256": 1.5, "1x1024": 2.0, "chat": 2.5}
MEMORY_TARGET = 0.25


# --- the peer, in a process of its own -------------------------------------------------------------


def pad(rows):
    import torch
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([i + [0] * (longest - len(i)) for i, _ in rows])
    labels = torch.tensor([l + [-100] * (longest - len(l)) for _, l in rows])
    mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i, _ in rows])
    return ids, labels, mask


def peer(base, steps_file):
    # Idle threads sleep: on a shared machine spinning ones starve the others, to the peer's loss.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch
    from peft import LoraConfig, get_peft_model
    from make_adapter import SEVEN
    from nf4_model import load_model
    torch.set_num_threads(THREADS)
    model = get_peft_model(load_model(base), LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA,
                                                        target_modules=SEVEN)).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, weight_decay=0)
    report = []
    for rows in json.load(open(steps_file)):
        wall, cpu = time.perf_counter(), time.process_time()
        ids, labels, mask = pad(rows)
        loss = model(input_ids=ids, labels=labels, attention_mask=mask, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        report.append({"loss": loss.item(), "tokens": int(mask.sum()), "padded": ids.numel(),
                       "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu})
    print(json.dumps(report))


# --- measuring -------------------------------------------------------------------------------------


def measured(command):
    """Standard output, peak resident bytes and CPU seconds of a process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    assert status == 0, f"{command} failed"
    return out, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def run_peer(case):
    out, rss, _ = measured([sys.executable, __file__, case.base, case.peer_steps, "--peer"])
    return json.loads(out)[1:], rss


def run_ours(case):
    shutil.rmtree(case.path("run"), ignore_errors=True)
    _, rss, cpu = measured([os.path.join(case.build, "fttrain"), "train", case.path("run.json")])
    steps = [json.loads(line) for line in open(case.path("run/metrics.jsonl"))]
    steps = [s for s in steps if "grad_norm" in s]
    for s in steps:
        s["cpu"] = cpu / sum(t["tokens"] for t in steps) * s["tokens"]
    return steps[1:], rss


def speeds(steps):
    return [s["tokens"] / s["seconds"] for s in steps]


def cpu_speed(steps):
    return sum(s["tokens"] for s in steps) / sum(s["cpu"] for s in steps)


# --- cases -----------------------------------------------------------------------------------------


class Case:
    def __init__(self, name, options):
        self.name, self.build, self.work = name, options.build, os.path.join(options.work, name)
        self.base, self.model, self.n = os.path.join(options.work, "base.nf4"), options.model, options.steps + 1
        os.makedirs(self.work, exist_ok=True)
        self.peer_steps = self.path("peer.json")
        if name == "chat":
            self.prepare_chat()
        else:
            count, length = map(int, name.split("x"))
            self.prepare_fixed(count, length)

    def path(self, name):
        return os.path.join(self.work, name)

    def ftprep(self, *args):
        return subprocess.run([os.path.join(self.build, "ftprep"), *args], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout.decode()

    def build_data(self, rows, max_length):
        shutil.rmtree(self.path("data"), ignore_errors=True)
        self.ftprep("build", "--tokenizer", self.model, "--template", "smollm2", "--max-length", str(max_length),
                    "--eval-fraction", "0", "--out", self.path("data"), rows)
        lines = self.ftprep("inspect", self.path("data"), "--json", "--split", "train").splitlines()
        return [(row["input_ids"], row["labels"]) for row in map(json.loads, lines)]

    def write_run(self, batch):
        with open(self.path("run.json"), "w") as f:
            json.dump({"run": {"dir": "run", "threads": THREADS}, "base": {"path": os.path.abspath(self.base)},
                       "data": {"path": "data"}, "lora": {"rank": RANK, "alpha": ALPHA}, "batch": batch,
                       "optimizer": {"lr": LR}, "schedule": {"kind": "constant", "warmup_steps": 0},
                       "train": {"max_steps": self.n}, "checkpoint": {"every": 0}}, f)

    def write_peer(self, rows, per_step):
        steps = [rows[i * per_step:(i + 1) * per_step] for i in range(self.n)]
        assert all(len(s) == per_step for s in steps), "too few rows"
        with open(self.peer_steps, "w") as f:
            json.dump(steps, f)

    def prepare_fixed(self, count, length):
        """Rows of exactly `length` tokens: common words, one token each, in one trained message."""
        words = " time people year way day man thing woman life child world school state family student group".split()
        rng = random.Random(1)
        probe, rows = self.path("probe.jsonl"), self.path("rows.jsonl")
        write_rows(probe, [words * 2])
        (ids, _), = self.build_data(probe, 1 << 12)
        overhead = len(ids) - 2 * len(words)
        write_rows(rows, [rng.choices(words, k=length - overhead) for _ in range(self.n * count)])
        samples = self.build_data(rows, 1 << 12)
        assert all(len(ids) == length for ids, _ in samples)
        self.write_run({"mode": "sequential", "micro": count, "accumulate": 1})
        self.write_peer(samples, count)

    def prepare_chat(self):
        samples = self.build_data("data-samples/chat.jsonl", 1024)
        bins = -(-sum(len(ids) for ids, _ in samples) // 1024)
        random.Random(1).shuffle(samples)
        self.write_run({"mode": "packed", "micro": 1, "accumulate": 1})
        self.write_peer(samples, len(samples) // bins)


def write_rows(path, rows):
    with open(path, "w") as f:
        for words in rows:
            message = {"role": "user", "content": " " + " ".join(words), "loss": True}
            f.write(json.dumps({"messages": [message, {"role": "assistant", "content": "ok"}]}) + "\n")


def bench(case, repeat):
    ours, theirs, our_rss, their_rss = [], [], [], []
    for _ in range(repeat):
        steps, rss = run_ours(case)
        ours += steps
        our_rss.append(rss)
        steps, rss = run_peer(case)
        theirs += steps
        their_rss.append(rss)
    a, b = speeds(ours), speeds(theirs)
    faster, memory = max(a) / max(b), max(our_rss) / max(their_rss)
    print(json.dumps({
        "case": case.name, "tokens_per_second": round(max(a), 1), "peer_tokens_per_second": round(max(b), 1),
        "faster": round(faster, 2), "target": TARGETS[case.name],
        "faster_median": round(statistics.median(a) / statistics.median(b), 2),
        "less_cpu": round(cpu_speed(ours) / cpu_speed(theirs), 2),
        "peak_rss_mib": max(our_rss) >> 20, "peer_peak_rss_mib": max(their_rss) >> 20,
        "memory_share": round(memory, 3), "memory_target": MEMORY_TARGET,
        "peer_padding": round(1 - sum(s["tokens"] for s in theirs) / sum(s["padded"] for s in theirs), 3),
        "loss": round(ours[0]["loss"], 4), "met": faster >= TARGETS[case.name] and memory <= MEMORY_TARGET}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("model")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="counted steps of a run")
    parser.add_argument("--case", choices=list(TARGETS), action="append")
    parser.add_argument("--work", default="build/bench/train")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)  # BASE STEPS.json
    options = parser.parse_args()
    if options.peer:
        peer(options.build, options.model)
        return
    os.makedirs(options.work, exist_ok=True)
    subprocess.run([os.path.join(options.build, "ftprep"), "quantize", options.model, "--out",
                    os.path.join(options.work, "base.nf4"), "--force"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    for name in options.case or TARGETS:
        bench(Case(name, options), options.repeat)


if __name__ == "__main__":
    main()
