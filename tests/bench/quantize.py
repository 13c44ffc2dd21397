# SPDX-License-Identifier: Apache-2.0
"""NF4 quantisation of one model: ftprep against bitsandbytes on the CPU, in one run.

    python tests/bench/quantize.py build/release/ftprep MODEL.gguf [--threads 2] [--repeat 3]

bitsandbytes quantises the linear weights from fp32 tensors in memory; ftprep's time is its whole run:
reading and decoding the GGUF file, quantising, hashing, writing a new .nf4 file and making it durable.
The two alternate, the best of each counts. Prints one JSON line. Needs numpy, torch, bitsandbytes, gguf.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import torch
import gguf
from bitsandbytes import functional as F
from gguf.quants import dequantize

LINEAR = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def load(path):
    return [torch.from_numpy(dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist()))))
            for t in gguf.GGUFReader(path).tensors
            if t.name.endswith(".weight") and t.name.split(".")[-2] in LINEAR]


def peer(weights):
    start = time.perf_counter()
    for w in weights:
        F.quantize_4bit(w, blocksize=64, quant_type="nf4", compress_statistics=True)
    return time.perf_counter() - start


def ours(ftprep, model, threads, out):
    if os.path.exists(out):
        os.remove(out)
    start = time.perf_counter()
    run = subprocess.run([ftprep, "quantize", model, "--out", out, "--threads", str(threads), "--json"],
                         check=True, capture_output=True, text=True)
    return time.perf_counter() - start, json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ftprep")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    weights = load(o.model)
    elements = sum(w.numel() for w in weights)
    peer(weights[:7])  # first calls load libraries
    theirs, mine, summary = [], [], {}
    with tempfile.TemporaryDirectory() as tmp:
        for _ in range(o.repeat):
            theirs.append(peer(weights))
            seconds, summary = ours(o.ftprep, o.model, o.threads, os.path.join(tmp, "m.nf4"))
            mine.append(seconds)
    assert summary["nf4_elements"] == elements
    print(json.dumps({
        "bench": "quantize", "elements": elements, "threads": o.threads,
        "bitsandbytes_elements_per_second": round(elements / min(theirs)),
        "ftprep_elements_per_second": round(elements / min(mine)),
        "ratio": round(min(theirs) / min(mine), 1),
        "ftprep_peak_rss_mib": round(summary["peak_rss_bytes"] / 2**20, 1),
    }))


if __name__ == "__main__":
    main()
