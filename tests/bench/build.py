#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of `ftprep build` on a generated file, for 1, 2, ... threads up to the number of
processors, and of packing. One JSON line per run, the best of three.

usage: python3 tests/bench/build.py [--bin build/release] [--tokenizer PATH] [--rows 200000]
Standard library only. The rows are 60 to 4000 characters of words drawn with Zipf's frequencies from a
vocabulary of 50,000, so that the encoder's caches are used as in text and not more.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time


def make_words(rng):
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing", "tion")]
    return ["".join(rng.choice(syllables) for _ in range(rng.choice((1, 2, 2, 3)))) for _ in range(50000)]


def make_rows(path, n):
    rng = random.Random(1)
    words = make_words(rng)
    weights = [1 / (i + 10) for i in range(len(words))]
    pool = rng.choices(words, weights, k=1 << 20)
    with open(path, "w") as f:
        for _ in range(n):
            def text(low, high):
                k = int(min(high, low * rng.paretovariate(1.2)))
                at = rng.randrange(len(pool) - k)
                return " ".join(pool[at:at + k]) + "."
            f.write(json.dumps({"messages": [{"role": "user", "content": text(6, 200)},
                                             {"role": "assistant", "content": text(20, 500)}]}) + "\n")


def run(command):
    """Wall seconds, CPU seconds and peak MiB of the child, and its JSON."""
    start = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0, command
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/release")
    parser.add_argument("--tokenizer", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--rows", type=int, default=200000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "rows.jsonl")
        make_rows(path, args.rows)
        size = os.path.getsize(path)
        threads = 1
        while threads <= os.cpu_count():
            command = [args.bin + "/ftprep", "build", "--tokenizer", args.tokenizer, "--template", "smollm2",
                       "--max-length", "2048", "--threads", str(threads), "--json",
                       "--parts", "drop", "--out", os.path.join(tmp, "data"), path]
            runs = []
            for _ in range(3):
                runs.append(run(command))
                shutil.rmtree(os.path.join(tmp, "data"))
            seconds, cpu, peak, report = min(runs, key=lambda r: r[0])
            print(json.dumps({"bench": "build", "rows": args.rows, "mb": round(size / 1e6, 1), "threads": threads,
                              "seconds": round(seconds, 3), "cpu_s": round(cpu, 3), "rows_per_s": round(args.rows / seconds),
                              "mb_per_s": round(size / 1e6 / seconds, 1),
                              "tokens_per_s": round(report["tokens"] / seconds), "peak_mib": round(peak, 1)}))
            threads *= 2
    subprocess.run([args.bin + "/tests/tools/bench_pack"], check=True)


if __name__ == "__main__":
    main()
