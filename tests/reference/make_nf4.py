# SPDX-License-Identifier: Apache-2.0
"""NF4 goldens from bitsandbytes, and the check of a whole .nf4 file against it.

    python tests/reference/make_nf4.py                              # writes tests/golden/nf4/
    python tests/reference/make_nf4.py --check MODEL.nf4 SOURCE     # SOURCE: .gguf or HF directory

Needs numpy, torch, transformers, bitsandbytes, gguf. What bitsandbytes' CPU code does differently
from its CUDA kernels (docs/formats/nf4.md) is computed here in numpy instead, and the two are
asserted to agree everywhere else: four thresholds, all-zero blocks, a short last block, and the
table look-up of the second level.
"""
import argparse
import os
import struct
import sys

import numpy as np
import torch
import bitsandbytes as bnb
from bitsandbytes import functional as F

sys.path.insert(0, os.path.dirname(__file__))
OUT = os.path.join(os.path.dirname(__file__), "..", "golden", "nf4")
VALUES = np.array([0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871,
                   0x00000000, 0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab,
                   0x3f3913b3, 0x3f800000], np.uint32).view(np.float32)
THRESHOLDS = np.array([0xbf591cd9, 0xbf1c5270, 0xbeeb8480, 0xbeadea76, 0xbe703cec, 0xbe0d38bc,
                       0xbd3a7871, 0x3d22faff, 0x3df64863, 0x3e5067e0, 0x3e9582d4, 0x3ec753f9,
                       0x3f006d03, 0x3f248daf, 0x3f5c89d9], np.uint32).view(np.float32)


# The only values that bitsandbytes' CPU thresholds (midpoints of the table) put on the other side.
DISPUTED = np.array([0xbf591cd8, 0x3df64863, 0x3f006d04, 0x3f5c89da], np.uint32)


def unpack(codes):
    out = np.empty(len(codes) * 2, np.uint8)
    out[0::2], out[1::2] = codes >> 4, codes & 15
    return out


def nested_map():
    return F.create_dynamic_map().numpy().astype(np.float32)


def first_level(x):
    """Codes and absmax as the CUDA kernel defines them."""
    n = len(x)
    blocks = -(-n // 64)
    padded = np.zeros(blocks * 64, np.float32)
    padded[:n] = x
    absmax = np.abs(padded).reshape(blocks, 64).max(1)
    with np.errstate(all="ignore"):
        v = padded.reshape(blocks, 64) * (np.float32(1) / absmax)[:, None]
    codes = (v[..., None] > THRESHOLDS).sum(-1).astype(np.uint8).reshape(-1)
    codes[n:] = 0
    codes = codes[:n + n % 2]
    return (codes[::2] << 4 | codes[1::2]).astype(np.uint8), absmax


def second_level(absmax):
    table = nested_map()
    middle = ((table[:-1] + table[1:]) / np.float32(2)).astype(np.float32)
    total = 0.0
    for a in absmax.tolist():
        total += a
    offset = np.float32(total / len(absmax))
    d = absmax - offset
    q, absmax2 = np.zeros(len(d), np.uint8), []
    for i in range(0, len(d), 256):
        block = d[i:i + 256]
        top = np.abs(block).max()
        with np.errstate(all="ignore"):
            v = block * (np.float32(1) / top)
        q[i:i + 256] = (v[:, None] > middle).sum(1)
        absmax2.append(top)
    return q, np.array(absmax2, np.float32), offset


def decode(codes, q, absmax2, offset, n):
    scale = nested_map()[q] * np.repeat(absmax2, 256)[:len(q)]
    scale = scale + offset
    w = VALUES[unpack(codes)]
    return (w[:n] * np.repeat(scale, 64)[:n]).astype(np.float32)


def bitsandbytes_first_level(x):
    q, state = F.quantize_4bit(torch.from_numpy(x.copy()), blocksize=64, quant_type="nf4",
                               compress_statistics=False)
    return q.numpy().reshape(-1), state.absmax.numpy()


def bitsandbytes_decode(codes, q, absmax2, offset, n):
    """As one long row: its CPU code takes the wrong scales when a block crosses rows, CUDA does not."""
    inner = F.QuantState(absmax=torch.from_numpy(absmax2), blocksize=256, dtype=torch.float32,
                         code=torch.from_numpy(nested_map()))
    state = F.QuantState(absmax=torch.from_numpy(q), shape=torch.Size((1, n)), blocksize=64,
                         code=torch.from_numpy(VALUES), quant_type="nf4", dtype=torch.float32,
                         offset=torch.tensor(offset), state2=inner)
    return F.dequantize_4bit(torch.from_numpy(codes.reshape(-1, 1)), state).numpy().reshape(-1)


def cases():
    g = np.random.default_rng(20240607)
    normal = lambda *shape: (g.standard_normal(shape) * 0.05).astype(np.float32)
    yield "gaussian", normal(4, 64), True
    yield "crossing-rows", normal(2, 96), True
    zero = normal(4, 64)
    zero[2] = 0
    yield "zero-block", zero, False
    yield "short-block", normal(3, 40), False
    yield "odd-short-block", normal(3, 33), False
    edges = np.ones((1, 64), np.float32)
    around = [int(t) for t in THRESHOLDS.view(np.uint32)]
    edges[0, :45] = np.array([b + d for b in around for d in (-1, 0, 1)], np.uint32).view(np.float32)
    yield "thresholds", edges, False
    yield "many-blocks", normal(130, 128), True
    tiny = normal(4, 64)
    tiny[1] *= np.float32(1e-36)  # the reciprocal is still finite
    tiny[2] *= np.float32(1e-43)  # infinite reciprocal
    yield "tiny", tiny, False


def write_goldens():
    os.makedirs(OUT, exist_ok=True)
    for name, x, same in cases():
        flat = x.reshape(-1)
        codes, absmax = first_level(flat)
        q, absmax2, offset = second_level(absmax)
        w = decode(codes, q, absmax2, offset, len(flat))
        if same:
            theirs, their_absmax = bitsandbytes_first_level(flat)
            assert np.array_equal(codes, theirs) and np.array_equal(absmax, their_absmax), name
            again = bitsandbytes_decode(codes, q, absmax2, offset, len(flat))
            assert np.array_equal(w.view(np.uint32), again.view(np.uint32)), name
        with open(os.path.join(OUT, name + ".bin"), "wb") as f:
            f.write(struct.pack("<QQ", *x.shape))
            for part in (flat, codes, absmax, q, absmax2, np.float32(offset), w):
                f.write(part.tobytes())
    print(f"bitsandbytes {bnb.__version__}, torch {torch.__version__}, numpy {np.__version__}")


def load_source(path):
    from transformers import AutoModelForCausalLM
    if path.endswith(".gguf"):
        folder, name = os.path.split(os.path.abspath(path))
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    else:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.state_dict()


def check(path, source):
    from nf4_reader import NF4File
    file, weights = NF4File(path), load_source(source)
    round_to = {"checkpoint": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    dtype = round_to[file.header["quant_from"]]
    assert np.array_equal(file.map.view(np.uint32), nested_map().view(np.uint32)), "map"
    names = [t["name"] for t in file.header["tensors"] if t["dtype"] == "nf4"]
    n = codes_off = disputed = scales = scales_off = scales_exact = offset_ulp = decode_off = 0
    for name in names:
        codes, q, absmax2, offset, _ = file.matrix(name)
        w = weights[name].to(dtype).float()
        theirs, state = F.quantize_4bit(w, blocksize=64, quant_type="nf4", compress_statistics=True)
        n += w.numel()
        flat = w.numpy().reshape(-1)
        for i in np.nonzero(unpack(codes) != unpack(theirs.numpy().reshape(-1)))[0]:
            block = flat[i // 64 * 64:i // 64 * 64 + 64]
            v = flat[i] * (np.float32(1) / np.abs(block).max())
            disputed += bool(v.view(np.uint32) in DISPUTED)
            codes_off += bool(v.view(np.uint32) not in DISPUTED)
        scales += len(q)
        scales_off += int((q != state.absmax.numpy()).sum())
        exact_q, exact_absmax2, exact_offset = second_level(first_level(flat)[1])
        scales_exact += int((q != exact_q).sum() + (absmax2 != exact_absmax2).sum()
                            + (offset != exact_offset))
        ulp = abs(int(offset.view(np.int32)) - int(state.offset.float().numpy().view(np.int32)))
        offset_ulp = max(offset_ulp, ulp)
        ours = decode(codes, q, absmax2, offset, w.numel())
        again = bitsandbytes_decode(codes, q, absmax2, offset, w.numel())
        decode_off += int((ours.view(np.uint32) != again.view(np.uint32)).sum())
    print(f"{len(names)} linear layers, {n} weights, quantised from {file.header['quant_from']}")
    print(f"codes that differ from bitsandbytes:            {codes_off}")
    print(f"codes at a value that only its CPU code rounds differently: {disputed}")
    print(f"8-bit scales that differ from its CPU table:    {scales_off} of {scales}")
    print(f"scales that differ from the exact nearest:      {scales_exact}")
    print(f"largest difference of an offset:                {offset_ulp} ulp")
    print(f"decoded weights that differ from bitsandbytes:  {decode_off}")
    return 1 if codes_off or scales_exact or decode_off or offset_ulp > 4 else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", nargs=2, metavar=("MODEL.nf4", "SOURCE"))
    options = parser.parse_args()
    sys.exit(check(*options.check) if options.check else write_goldens())
