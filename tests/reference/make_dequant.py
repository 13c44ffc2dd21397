# SPDX-License-Identifier: Apache-2.0
"""Goldens of GGUF block decoding: python tests/reference/make_dequant.py

Writes tests/golden/dequant/TYPE.bin: {u64 elements, stored bytes, fp32 values of the gguf package}.
The blocks are random bytes, so the scales take every class of half: normal, subnormal, zero,
infinity, NaN; then blocks of all zero and of all one bits. Needs numpy and gguf.
"""
import os
import struct

import numpy as np
import gguf
from gguf.quants import dequantize
from importlib.metadata import version

OUT = os.path.join(os.path.dirname(__file__), "..", "golden", "dequant")
TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "q4_0": "Q4_0", "q4_1": "Q4_1", "q5_0": "Q5_0",
         "q5_1": "Q5_1", "q8_0": "Q8_0", "q4_k": "Q4_K", "q6_k": "Q6_K"}
HALVES = [0x0001, 0x8001, 0x03ff, 0x0400, 0x0000, 0x8000, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00,
          0xfc00, 0x7e00]
SCALE_AT = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q4_k": [0, 2],
            "q6_k": [208]}


def blocks(g, name, block_bytes):
    n = 64 if block_bytes < 100 else 24
    raw = g.integers(0, 256, (n, block_bytes), dtype=np.uint8)
    for i, half in enumerate(HALVES):
        for at in SCALE_AT.get(name, []):
            raw[i, at:at + 2] = np.array([half], "<u2").view(np.uint8)
    raw[-2], raw[-1] = 0, 255
    return raw


def main():
    os.makedirs(OUT, exist_ok=True)
    g = np.random.default_rng(20240607)
    for name, key in TYPES.items():
        kind = gguf.GGMLQuantizationType[key]
        elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if elements == 1:
            raw = g.integers(0, 256, (2048, block_bytes), dtype=np.uint8)
            special = np.array(HALVES, "<u2").view(np.uint8).reshape(-1, 2)
            raw[:len(special), block_bytes - 2:] = special
        else:
            raw = blocks(g, name, block_bytes)
        flat = raw.reshape(-1)
        with np.errstate(all="ignore"):
            stored = flat.view(np.float32) if key == "F32" else \
                flat.view(np.float16) if key == "F16" else flat
            values = dequantize(stored, kind).astype(np.float32)
        with open(os.path.join(OUT, name + ".bin"), "wb") as f:
            f.write(struct.pack("<Q", values.size) + flat.tobytes() + values.tobytes())
    print(f"gguf {version('gguf')}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
