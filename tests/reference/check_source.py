# SPDX-License-Identifier: Apache-2.0
"""Compares every tensor that model_dump reads from a model, bit for bit, with transformers.

    python tests/reference/check_source.py build/release/tests/tools/model_dump MODEL

MODEL is a GGUF file (loaded by transformers' own GGUF loader) or a Hugging Face directory.
Needs torch, transformers, gguf. Exits 1 on any difference.
"""
import os
import struct
import subprocess
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM


def load(path):
    if path.endswith(".gguf"):
        folder, name = os.path.split(os.path.abspath(path))
        return AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def read(stream):
    while head := stream.read(8):
        name = stream.read(struct.unpack("<Q", head)[0]).decode()
        n = struct.unpack("<Q", stream.read(8))[0]
        yield name, np.frombuffer(stream.read(4 * n), np.uint32)


def main():
    dump, path = sys.argv[1:]
    expected = {k: v.contiguous().numpy().reshape(-1).view(np.uint32)
                for k, v in load(path).state_dict().items()}
    process = subprocess.Popen([dump, path], stdout=subprocess.PIPE)
    seen, wrong, elements = set(), 0, 0
    for name, bits in read(process.stdout):
        seen.add(name)
        elements += len(bits)
        if name not in expected or not np.array_equal(bits, expected[name]):
            wrong += 1
            print(f"{name}: differs")
    missing = set(expected) - seen - {"lm_head.weight"}
    print(f"{len(seen)} tensors, {elements} elements, {wrong} differ, {len(missing)} missing")
    return 1 if wrong or missing or process.wait() else 0


if __name__ == "__main__":
    sys.exit(main())
