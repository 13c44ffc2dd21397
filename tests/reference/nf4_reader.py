# SPDX-License-Identifier: Apache-2.0
"""A reader of .nf4 files written from docs/formats/nf4.md alone, for the reference scripts."""
import json

import numpy as np


class NF4File:
    def __init__(self, path):
        self.raw = np.memmap(path, dtype=np.uint8, mode="r")
        assert bytes(self.raw[:8]) == b"FTNF4\r\n\x1a", "not an .nf4 file"
        assert self.u32(8) == 1, "unknown version"
        n = self.u64(16)
        assert self.u64(24) == len(self.raw), "truncated"
        self.header = json.loads(bytes(self.raw[64:64 + n]))
        self.start = (64 + n + 4095) // 4096 * 4096
        self.map = self.part(self.header["map"], 1024).view(np.float32)
        self.tensors = {t["name"]: t for t in self.header["tensors"]}

    def u32(self, at):
        return int(self.raw[at:at + 4].view(np.uint32)[0])

    def u64(self, at):
        return int(self.raw[at:at + 8].view(np.uint64)[0])

    def part(self, offset, n):
        return np.array(self.raw[self.start + offset:self.start + offset + n])

    def matrix(self, name):
        """codes (packed), absmax (uint8), absmax2 (fp32), offset (fp32) and shape of a tensor."""
        t = self.tensors[name]
        numel = int(np.prod(t["shape"]))
        blocks = -(-numel // 64)
        return (self.part(t["codes"], (numel + 1) // 2), self.part(t["absmax"], blocks),
                self.part(t["absmax2"], -(-blocks // 256) * 4).view(np.float32),
                np.array([int(t["mean_bits"], 16)], np.uint32).view(np.float32)[0], t["shape"])
